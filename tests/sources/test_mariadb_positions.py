"""What a position is: an exact set of transactions, whatever was in flight when it was fixed."""

from __future__ import annotations

import json
import pickle
import random
from itertools import pairwise
from typing import Any

import pymysql
import pytest
from mariadb_world import ME, World, bag, rows, run

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap
from stillframe.sources.mariadb import trim as mariadb_trim
from stillframe.sources.mariadb.connect import Connection, begin_snapshot, server_of
from stillframe.sources.mariadb.position import (
    _common,
    _strike,
    _without_numbers,
    fix,
    merged,
    missing,
)

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, n INT)"


@pytest.fixture
def world(mariadb_server: servers.MariadbServer) -> World:
    return World(mariadb_server, "t", TABLE, "INSERT INTO t VALUES (1, 1)")


def in_flight(world: World, *statements: str) -> pymysql.Connection[Any]:
    con = world.connect()
    run(con, "BEGIN", *statements)
    return con


def out(world: World) -> list[int]:
    return [trx for trx, _ in json.loads(world.position.mark)[2]]


def test_one_that_commits_late_is_taken_once(world: World) -> None:
    slow = in_flight(world, "INSERT INTO t VALUES (10, 0)")
    world.run("INSERT INTO t VALUES (11, 0)")
    before = world.position
    assert world.follow() == Bag({(11, 0): 1})
    first = world.position
    assert len(out(world)) == 1
    run(slow, "INSERT INTO t VALUES (12, 0)")
    world.run("INSERT INTO t VALUES (13, 0)")
    assert world.follow() == Bag({(13, 0): 1})
    second = world.position
    slow.commit()
    assert world.follow() == Bag({(10, 0): 1, (12, 0): 1})
    assert out(world) == [] and world.position.sequence >= second.sequence >= first.sequence
    assert world.follow() == Bag()
    assert world.change(before, second) == Bag({(11, 0): 1, (13, 0): 1})
    assert world.change(first, world.position) == Bag({(10, 0): 1, (12, 0): 1, (13, 0): 1})
    assert [t.rows for t in world.source.transactions(["t"], second, world.position)] == [{"t": 2}]


def test_one_that_commits_late_with_nothing_after_it(world: World) -> None:
    """Its numbers are below the highest of the position before: the sequence may stay, the mark may not."""
    slow = in_flight(world, "INSERT INTO t VALUES (10, 0)")
    world.run("INSERT INTO t VALUES (11, 0)")
    world.follow()
    before = world.position
    slow.commit()
    assert world.follow() == Bag({(10, 0): 1})
    assert world.position.sequence >= before.sequence and world.position != before


def test_transactions_stand_after_those_they_conflict_with(world: World) -> None:
    """The one that began first wrote the row last."""
    early = in_flight(world, "INSERT INTO t VALUES (10, 0)")
    world.run("UPDATE t SET n = 2 WHERE id = 1")
    run(early, "UPDATE t SET n = 3 WHERE id = 1", "COMMIT")
    upto = world.source.position(ME, ["t"])
    told = world.source.transactions(["t"], world.position, upto)
    assert [t.rows for t in told] == [{"t": 2}, {"t": 3}]
    assert told[0].number > told[1].number
    without_last = world.source.without(world.position, upto, [told[1].number])
    assert world.state(without_last) == Bag({(1, 2): 1})


def test_nothing_new_is_the_same_position(world: World) -> None:
    slow = in_flight(world, "INSERT INTO t VALUES (10, 0)")
    world.run("INSERT INTO t VALUES (11, 0)")
    world.follow()
    assert world.source.position(ME, ["t"]) == world.source.position(ME, ["t"]) == world.position
    slow.rollback()
    world.follow()
    assert out(world) == []
    size = rows(world.con, "SELECT count(*) FROM _stillframe_log")
    assert world.source.position(ME, ["t"]) == world.position
    assert rows(world.con, "SELECT count(*) FROM _stillframe_log") == size


def test_rolled_back_numbers_do_not_pile_up(world: World) -> None:
    for i in range(30):
        in_flight(world, f"INSERT INTO t VALUES ({i + 50}, 0)").rollback()
        world.run(f"INSERT INTO t VALUES ({i + 100}, 0)")
        world.follow()
        assert out(world) == [], "a transaction that is over is still in the position"
    assert len(world.position.mark) < 120


def test_savepoints_of_one_in_flight(world: World) -> None:
    slow = in_flight(world, "INSERT INTO t VALUES (10, 0)", "SAVEPOINT x", "INSERT INTO t VALUES (11, 0)")
    world.run("INSERT INTO t VALUES (20, 0)")
    world.follow()
    run(slow, "ROLLBACK TO x", "INSERT INTO t VALUES (12, 0)")
    world.run("INSERT INTO t VALUES (21, 0)")
    world.follow()
    slow.commit()
    assert world.follow() == Bag({(10, 0): 1, (12, 0): 1})


def test_all_of_one_in_flight_rolled_back_to_a_savepoint(world: World) -> None:
    slow = in_flight(world, "SAVEPOINT x", "INSERT INTO t VALUES (10, 0)")
    world.run("INSERT INTO t VALUES (20, 0)")
    world.follow()
    run(slow, "ROLLBACK TO x")
    world.run("INSERT INTO t VALUES (21, 0)")
    world.follow()
    run(slow, "INSERT INTO t VALUES (11, 0)")
    world.run("INSERT INTO t VALUES (22, 0)")
    world.follow()
    slow.commit()
    assert world.follow() == Bag({(11, 0): 1})


def test_a_long_one_in_flight_keeps_the_mark_short(world: World) -> None:
    slow = in_flight(world)
    for i in range(300):
        run(slow, f"INSERT INTO t VALUES ({1000 + i}, 0)")
        world.run(f"INSERT INTO t VALUES ({5000 + i}, 0)")
    world.follow()
    assert len(out(world)) == 1 and len(world.position.mark) < 120
    before = world.position
    slow.commit()
    assert len(list(world.follow().items())) == 300
    assert bag(world.source.state("t", ["id"], before))[(1000,)] == 0


def test_the_numbers_of_in_flight_rows_can_be_lost_before_they_are_written(world: World) -> None:
    """A number is taken, and not written yet, when a position is fixed: the writer takes another one, which
    is above the position."""
    world.run("INSERT INTO t VALUES (10, 0)")
    ((taken,),) = rows(world.con, "SELECT NEXTVAL(_stillframe_sequence)")
    world.run("INSERT INTO t VALUES (11, 0)")
    world.follow()
    assert rows(world.con, f"SELECT relation FROM _stillframe_log WHERE seq = {taken}") == [(0,)]
    world.run(f"ALTER SEQUENCE _stillframe_sequence RESTART {taken}", "INSERT INTO t VALUES (12, 0)")
    assert rows(world.con, "SELECT max(seq) > %s FROM _stillframe_log WHERE relation = 1", (taken + 1,)) == [
        (1,)
    ]
    assert world.follow() == Bag({(12, 0): 1})


def test_striking_waits_for_nobody(world: World) -> None:
    """A number whose row was written after it was found missing: it belongs to its writer."""
    con = Connection(server_of("s", world.source.url))
    snap = Connection(server_of("s", world.source.url))
    begin_snapshot(snap)
    ((high,),) = rows(world.con, "SELECT max(seq) FROM _stillframe_log")
    slow = in_flight(world, "INSERT INTO t VALUES (10, 0)")
    world.run("INSERT INTO t VALUES (11, 0)")
    assert missing(snap, high + 1, high + 3) == [(high + 1, high + 3)]
    _strike(con, [(high + 1, high + 3)])
    written = "SELECT seq - %s, relation FROM _stillframe_log WHERE seq > %s ORDER BY seq"
    assert rows(world.con, written, (high, high)) == [(2, 1), (3, 0)]
    slow.commit()
    assert rows(world.con, written, (high, high)) == [(1, 1), (2, 1), (3, 0)]
    mark = fix("s", snap, con)
    assert mark.high <= high
    world.follow()
    con.close()
    snap.close()


def test_a_copy_that_lacks_only_one_that_committed_late(mariadb_server: servers.MariadbServer) -> None:
    """The copy is of a moment when the highest number was there and a lower one was not: all numbers of the
    position are above or at those of the copy, and yet a transaction is missing."""
    world = World(mariadb_server, "t", TABLE)
    slow = in_flight(world, "INSERT INTO t VALUES (10, 0)")
    world.run("INSERT INTO t VALUES (11, 0)")
    state = {
        table: rows(world.con, f"SELECT *{', trx' if table == '_stillframe_log' else ''} FROM {table}")
        for table in ("_stillframe_log", "_stillframe_rows_1", "t")
    }
    slow.commit()
    world.follow()
    assert out(world) == []
    # What the copy does not have goes, as if the copy were in the place of the database.
    known = ", ".join(str(row[0]) for row in state["_stillframe_log"])
    world.run(
        f"DELETE FROM _stillframe_log WHERE seq NOT IN ({known})",
        "DELETE HISTORY FROM _stillframe_log",
        "DROP TRIGGER _stillframe_1_delete",
        "DELETE FROM t WHERE id = 10",
    )
    with pytest.raises(CaptureGap, match="restored from an older copy"):
        world.source.check(world.position, [])


@pytest.fixture
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mariadb_trim, "SEGMENT_ROWS", 20)


def segments(world: World) -> list[str]:
    names = rows(world.con, "SHOW TABLES LIKE '\\_stillframe\\_log%'")
    return [name for (name,) in names]


def test_the_log_goes_on_in_new_segments(world: World, short_segments: None) -> None:
    seen = set()
    for i in range(60):
        world.run(f"INSERT INTO t VALUES ({i + 10}, 0)", f"UPDATE t SET n = 1 WHERE id = {i + 8}")
        if i % 5 == 0:
            in_flight(world, f"INSERT INTO t VALUES ({i + 500}, 0)").rollback()
        world.follow()
        if i % 3 == 0:
            world.source.acknowledge(ME, world.position)
        seen |= set(segments(world))
        assert len(segments(world)) <= 2
    assert len(seen) > 3
    assert len(rows(world.con, f"SELECT seq FROM {segments(world)[-1]}")) < 80


def test_segments_beside_a_slow_consumer_and_one_in_flight(world: World, short_segments: None) -> None:
    """Whoever still needs an older segment has it, and all of it."""
    start = world.source.attach("slow", ["t"])
    states = [(start, world.rows)]
    flying = in_flight(world, "INSERT INTO t VALUES (1000, 0)")
    for i in range(40):
        world.run(f"INSERT INTO t VALUES ({i + 10}, 0)")
        if i == 20:
            flying.commit()
            flying = in_flight(world, "INSERT INTO t VALUES (1001, 0)")
        world.follow()
        world.source.acknowledge(ME, world.position)
        states.append((world.position, world.rows))
        if i in (15, 30):
            world.source.acknowledge("slow", states[i - 10][0])
            states = states[i - 10 :] if i == 15 else states
    flying.commit()
    world.follow()
    for (before, old), (after, new) in pairwise(states[-8:]):
        assert world.state(before) == old and old + world.change(before, after) == new
    world.source.acknowledge("slow", world.position)
    world.source.acknowledge(ME, world.position)
    world.run("INSERT INTO t VALUES (2000, 0)")
    world.follow()
    world.source.acknowledge(ME, world.position)
    world.source.acknowledge("slow", world.position)
    assert len(segments(world)) == 1


def test_a_segment_begun_and_not_yet_written_to(world: World, short_segments: None) -> None:
    """As after a kill between the two steps."""
    world.run("CREATE TABLE _stillframe_log_2 LIKE _stillframe_log")
    world.run("INSERT INTO t VALUES (10, 0)")
    in_flight(world, "INSERT INTO t VALUES (11, 0)").rollback()
    world.run("INSERT INTO t VALUES (12, 0)")
    assert world.follow() == Bag({(10, 0): 1, (12, 0): 1})
    world.source.acknowledge(ME, world.position)
    world.run("INSERT INTO t VALUES (13, 0)")
    assert rows(world.con, "SELECT count(*) FROM _stillframe_log_2 WHERE relation = 1") == [(1,)]
    world.follow()
    world.source.acknowledge(ME, world.position)
    world.run("INSERT INTO t VALUES (14, 0)")
    world.follow()
    world.source.acknowledge(ME, world.position)
    assert segments(world) == ["_stillframe_log_2"]


@pytest.mark.parametrize("kill", [False, True])
def test_a_server_that_was_restarted(kill: bool) -> None:
    """Numbers that the server had in store are lost with it, and struck out."""
    with servers.mariadb("--innodb-flush-log-at-trx-commit=1") as server:
        world = World(server, "t", TABLE)
        in_flight(world, "INSERT INTO t VALUES (1, 1)")
        world.run("INSERT INTO t VALUES (2, 2)")
        world.follow()
        world.run("INSERT INTO t VALUES (3, 3)")
        server.stop(kill=kill)
        server.start()
        world.con = world.connect()
        assert world.follow() == Bag({(3, 3): 1})
        world.run("INSERT INTO t VALUES (4, 4)")
        assert world.follow() == Bag({(4, 4): 1})
        assert out(world) == []
        world.source.check(world.position, ["t"])
        world.source.acknowledge(ME, world.position)


def test_a_source_is_a_value(world: World) -> None:
    assert pickle.loads(pickle.dumps(world.source)) == world.source
    assert "s3cret" not in repr(world.source) + str(world.source) + repr(world.source.server)
    assert world.source.address == f"mariadb:127.0.0.1:{world.server.port}/w"


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_sets_of_numbers(seed: int) -> None:
    chance = random.Random(seed)

    def numbers_of(spans: list[tuple[int, int]]) -> set[int]:
        return {n for low, high in spans for n in range(low, high + 1)}

    def some() -> list[tuple[int, int]]:
        lows = [chance.randrange(60) for _ in range(chance.randrange(6))]
        return merged((low, low + chance.randrange(8)) for low in lows)

    left, right = some(), some()
    assert numbers_of(merged([*left, *right])) == numbers_of(left) | numbers_of(right), f"seed {seed}"
    assert numbers_of(_common(left, right)) == numbers_of(left) & numbers_of(right), f"seed {seed}"
    taken = sorted(n for n in numbers_of(left) if chance.random() < 0.4)
    assert numbers_of(_without_numbers(left, taken)) == numbers_of(left) - set(taken), f"seed {seed}"
