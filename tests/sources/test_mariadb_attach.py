"""Attaching and detaching: beside open transactions, killed at any statement, and without a trace."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from mariadb_world import ME, World, account, rows, run

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.mariadb import connect as mariadb_connect
from stillframe.sources.mariadb import install as mariadb_install
from stillframe.sources.mariadb.triggers import MariadbSource

TABLES = (
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(20) UNIQUE) AUTO_INCREMENT=7",
    "CREATE TABLE w (a INT, b TEXT, c DECIMAL(9,2))",
    "CREATE VIEW v AS SELECT a FROM w",
    "CREATE TRIGGER mine AFTER INSERT ON t FOR EACH ROW INSERT INTO w VALUES (NEW.id, 1, 2)",
    "CREATE PROCEDURE mine () SELECT 1",
    "INSERT INTO t (a) VALUES ('x')",
    "DELETE FROM w",
)
CHANGING = ("CREATE", "INSERT", "UPDATE", "ALTER", "DROP", "DELETE")


class Killed(BaseException):
    pass


def dump(world: World) -> str:
    """Schema and rows, as MariaDB's own tool has them."""
    command = [servers.program("mariadb-dump", "mariadb-client"), "--no-defaults", "--host=127.0.0.1"]
    command += [f"--port={world.server.port}", "--user=root", "--protocol=tcp", "--routines", "--events"]
    command += ["--triggers", "--skip-dump-date", "--skip-comments", world.database]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def world(mariadb_server: servers.MariadbServer) -> World:
    made = World(mariadb_server, "t", *TABLES)
    made.source.detach(ME)
    return made


@contextmanager
def killed_at(statement: int) -> Iterator[list[str]]:
    """The program is killed before it sends its nth statement: its connections end there."""
    original = mariadb_connect.Connection.run
    sent: list[str] = []

    def run_or_die(self: mariadb_connect.Connection, sql: str, parameters: object = ()) -> int:
        if len(sent) == statement:
            self.raw._force_close()  # type: ignore[attr-defined]
            raise Killed
        sent.append(sql)
        return original(self, sql, parameters)  # type: ignore[arg-type]

    mariadb_connect.Connection.run = run_or_die  # type: ignore[assignment,method-assign]
    try:
        yield sent
    finally:
        mariadb_connect.Connection.run = original  # type: ignore[method-assign]


def test_last_detach_leaves_no_trace(world: World) -> None:
    before = dump(world)
    world.source.attach("one", ["t"])
    assert dump(world) != before
    world.source.attach("two", ["t", "w"])
    world.source.attach("one", ["t", "w"])
    world.run("BEGIN", "REPLACE INTO t VALUES (1, 'y')", "ROLLBACK")
    world.source.detach("one")
    assert [c.name for c in world.source.log_status().consumers] == ["two"]
    world.source.detach("two")
    assert dump(world) == before
    world.source.detach("two")
    assert world.source.log_status().rows == 0


def test_attach_and_detach_killed_at_any_statement(world: World) -> None:
    before = dump(world)
    attach = lambda: world.source.attach(ME, ["t", "w"])  # noqa: E731
    with killed_at(-1) as sent:
        attach()
    world.source.detach(ME)
    for n in [i for i, sql in enumerate(sent) if sql.startswith(CHANGING)]:
        with pytest.raises(Killed), killed_at(n):
            attach()
        world.run("INSERT INTO t (a) VALUES (NULL)", "DELETE FROM t WHERE a IS NULL", "DELETE FROM w")
        if n % 2:
            position = attach()
            world.run("INSERT INTO w VALUES (1, 'x', 2)")
            upto = world.source.position(ME, ["t", "w"])
            assert sum(t.rows.get("w", 0) for t in world.source.transactions(["w"], position, upto)) == 1
            world.run("DELETE FROM w")
        world.source.detach(ME)
        assert without_counters(dump(world)) == without_counters(before), f"after statement {n}"


def test_detach_killed_at_any_statement(world: World) -> None:
    before = dump(world)
    world.source.attach(ME, ["t", "w"])
    with killed_at(-1) as sent:
        world.source.detach(ME)
    for n in [i for i, sql in enumerate(sent) if sql.startswith(CHANGING)]:
        world.source.attach(ME, ["t", "w"])
        with pytest.raises(Killed), killed_at(n):
            world.source.detach(ME)
        world.run("INSERT INTO t (a) VALUES (NULL)", "DELETE FROM t WHERE a IS NULL", "DELETE FROM w")
        if n % 2:
            position = world.source.attach(ME, ["t"])
            world.run("INSERT INTO t (a) VALUES ('q')")
            assert world.source.behind(["t"], position) == 1
            world.run("DELETE FROM t WHERE a = 'q'", "DELETE FROM w")
        world.source.detach(ME)
        assert without_counters(dump(world)) == without_counters(before), f"after statement {n}"


def without_counters(text: str) -> str:
    return "\n".join(line.partition("AUTO_INCREMENT=")[0] for line in text.splitlines())


def test_a_transaction_older_than_the_triggers_is_not_lost(world: World) -> None:
    """CREATE TRIGGER waits for those who wrote to the table: what they commit later is in the first state."""
    slow = world.connect()
    run(slow, "BEGIN", "INSERT INTO t VALUES (50, 'slow')")
    done: list[object] = []
    attaching = threading.Thread(target=lambda: done.append(world.source.attach(ME, ["t"])))
    attaching.start()
    attaching.join(1.5)
    assert attaching.is_alive(), "triggers were made beside a transaction that had written without them"
    run(slow, "INSERT INTO t VALUES (51, 'slow too')", "COMMIT")
    attaching.join(30)
    world.position = done[0]  # type: ignore[assignment]
    world.rows = world.present()
    assert world.state(world.position) == world.rows
    world.run("INSERT INTO t VALUES (52, 'later')")
    assert world.follow() == Bag({(52, "later"): 1})


def test_others_write_while_attach_waits(world: World) -> None:
    slow = world.connect()
    run(slow, "BEGIN", "INSERT INTO t VALUES (50, 'slow')")
    attaching = threading.Thread(target=lambda: world.source.attach(ME, ["t"]))
    attaching.start()
    for i in range(5):
        world.run(f"INSERT INTO t VALUES ({100 + i}, NULL)")
    assert attaching.is_alive()
    run(slow, "COMMIT")
    attaching.join(30)
    assert not attaching.is_alive()


def test_a_table_that_stays_locked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mariadb_install.define, "__defaults__", (1.5,))
    slow = world.connect()
    run(slow, "BEGIN", "INSERT INTO t VALUES (50, 'slow')")
    with pytest.raises(SourceError) as locked:
        world.source.attach(ME, ["t"])
    assert locked.value.code == "LOCKED" and "end the transaction" in locked.value.hint
    run(slow, "COMMIT")
    world.source.attach(ME, ["t"])


def test_a_table_attached_with_readers_on_it(world: World) -> None:
    reader = world.connect()
    run(reader, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
    world.source.attach(ME, ["t", "w"])
    run(reader, "COMMIT")


def test_two_consumers_at_different_speeds(mariadb_server: servers.MariadbServer) -> None:
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    slow_start = world.source.attach("slow", ["t"])
    total = Bag()
    for i in range(10, 15):
        world.run(f"INSERT INTO t VALUES ({i})")
        total += world.follow()
        world.source.acknowledge(ME, world.position)
    status = world.source.log_status()
    assert status.rows == 5 and status.position == world.position.sequence and status.bytes > 0
    assert {c.name: c.behind for c in status.consumers} == {ME: 0, "slow": 5}
    assert world.change(slow_start, world.position) == total
    world.source.acknowledge("slow", world.position)
    assert world.source.log_status().rows == 0
    with pytest.raises(CaptureGap, match="trimmed too far"):
        world.change(slow_start, world.position)
    world.run("DELETE FROM t")
    world.follow()


def test_a_transaction_in_flight_keeps_the_log_until_it_is_over(
    mariadb_server: servers.MariadbServer,
) -> None:
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    slow = world.connect()
    world.run("INSERT INTO t VALUES (1)")
    run(slow, "BEGIN", "INSERT INTO t VALUES (2)")
    world.run("INSERT INTO t VALUES (3)")
    world.follow()
    world.source.acknowledge(ME, world.position)
    assert world.source.log_status().rows == 1
    slow.commit()
    assert world.follow() == Bag({(2,): 1})
    world.source.acknowledge(ME, world.position)
    assert world.source.log_status().rows == 0


def test_capture_limit_drops_those_left_behind(mariadb_server: servers.MariadbServer) -> None:
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    source = MariadbSource("s", world.source.url, capture_limit=4)
    dead = source.attach("dead", ["t"])
    for i in range(4):
        world.run(f"INSERT INTO t VALUES ({i})")
    world.follow()
    source.acknowledge(ME, world.position)
    source.position("dead", ["t"])
    world.run("INSERT INTO t VALUES (9)")
    world.follow()
    world.source.acknowledge(ME, world.position)
    source.position("dead", ["t"])
    source.acknowledge(ME, world.position)
    with pytest.raises(CaptureGap, match=r"'dead' was dropped.*capture limit"):
        source.position("dead", ["t"])
    with pytest.raises(CaptureGap, match="trimmed too far"):
        source.check(dead, ["t"])
    back = source.attach("dead", ["t"])
    source.check(back, ["t"])
    source.position("dead", ["t"])


def test_rights(mariadb_server: servers.MariadbServer) -> None:
    """Each right that is named as missing is missed, and all that are not suffice."""
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    world.source.detach(ME)

    def methods(rights: str) -> dict[str, tuple[str, ...]]:
        account(mariadb_server, world.database, rights)
        return {str(m.capture): m.missing for m in world.source.methods()}

    assert methods("ALL")["triggers"] == () and methods("ALL")["snapshot"] == ()
    only_select = methods("SELECT")
    assert only_select["snapshot"] == () and "CREATE, DROP" in only_select["triggers"][0]
    assert "GRANT INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, TRIGGER" in only_select["triggers"][0]
    assert "`w`.*" in only_select["triggers"][0]
    with pytest.raises(SourceError) as denied:
        world.source.attach(ME, ["t"])
    assert denied.value.code == "ACCESS_DENIED" and "stillframe check" in denied.value.hint
    needed = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, TRIGGER, CREATE ROUTINE, ALTER ROUTINE,"
    needed += " EXECUTE"
    assert methods(needed)["triggers"] == ()
    position = world.source.attach(ME, ["t"])
    world.run("INSERT INTO t SELECT seq FROM seq_1_to_50")
    upto = world.source.position(ME, ["t"])
    assert world.source.behind(["t"], position) == 50
    world.source.acknowledge(ME, upto)
    world.source.detach(ME)
    with mariadb_server.connect() as con:
        run(con, "SET GLOBAL log_bin_trust_function_creators = 0")
        try:
            triggers = next(m for m in world.source.methods() if m.capture == "triggers")
            assert "log_bin_trust_function_creators = 1" in triggers.missing[0]
            with pytest.raises(SourceError) as denied:
                world.source.attach(ME, ["t"])
            assert denied.value.code == "ACCESS_DENIED"
        finally:
            run(con, "SET GLOBAL log_bin_trust_function_creators = 1")
    log = next(m for m in world.source.methods() if m.capture == "log")
    assert "REPLICATION SLAVE, BINLOG MONITOR ON *.*" in log.missing[0]
    assert rows(world.con, "SHOW TABLES") == [("t",)]


@pytest.mark.parametrize(
    "pattern, covered", [("w", True), ("%", True), ("w\\_x", False), ("_", True), ("x", False)]
)
def test_grants_name_databases_by_patterns(
    mariadb_server: servers.MariadbServer, pattern: str, covered: bool
) -> None:
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    account(mariadb_server, "nowhere")
    with mariadb_server.connect() as con:
        run(con, f"GRANT ALL ON `{pattern}`.* TO app@'127.0.0.1'", "GRANT SELECT ON w.t TO app@'127.0.0.1'")
    triggers = next(m for m in world.source.methods() if m.capture == "triggers")
    assert (triggers.missing == ()) == covered
