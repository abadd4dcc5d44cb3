"""Several consumers of one source: what one has passed, another may still need."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from stillframe.errors import CaptureGap
from stillframe.sources.base import Consumer, Source
from stillframe.sources.conformance.follow import ME, Follow, changes_of, follow, gap, same, state_of
from stillframe.sources.conformance.statements import ENTRIES, ITEMS, tables_of
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import Feature, World

OTHER = "another warehouse"
LIMIT = 30


def _consumers(source: Source) -> dict[str, Consumer]:
    return {each.name: each for each in source.log_status().consumers}


@promise()
def check_acknowledging_spares_the_slow(world: World) -> None:
    at = follow(world, ITEMS)
    at.step("nothing")
    slow = at.source.attach(OTHER, ["items"])
    before = world.truth(ITEMS)
    for i in range(5):
        world.run(world.insert(ITEMS, (i, i, "a")), f"UPDATE items SET n = n + 1 WHERE id <= {i}")
        at.step("a write")
        at.source.acknowledge(ME, at.position)
    at.source.acknowledge(ME, at.position)
    made = world.truth(ITEMS) - before
    same(changes_of(at.source, ITEMS, slow, at.position), made, "what the slow consumer has not seen")
    same(state_of(at.source, ITEMS, slow), before, "the state the slow consumer is at")
    at.source.check(slow, ["items"])
    at.source.acknowledge(OTHER, at.position)
    world.run("DELETE FROM items WHERE id = 1")
    at.step("a write after both acknowledged")


@promise(Feature.TRIMS)
def check_the_log_is_trimmed_when_all_passed(world: World) -> None:
    at = follow(world, ITEMS)
    slow = at.source.attach(OTHER, ["items"])
    for i in range(20):
        world.run(world.insert(ITEMS, (i, i, "a")), f"UPDATE items SET n = -1 WHERE id = {i}")
        if i % 9 == 0:
            at.step("writes")
    at.step("writes")
    full = at.source.log_status()
    least = 60 if world.has(Feature.LOGGED) else 20
    assert full.rows >= least, f"20 inserts and 20 updates are {full.rows} log rows"
    assert full.bytes > 0, f"{full.rows} log rows take no room"
    at.source.acknowledge(ME, at.position)
    assert at.source.log_status().rows >= least, "trimmed although one consumer has seen nothing"
    at.source.acknowledge(OTHER, at.position)
    left = at.source.log_status()
    assert left.rows < full.rows, f"{full.rows} log rows are all left though everyone passed them"
    assert left.rows < 20 or least == 20, f"{left.rows} of {full.rows} log rows are left though all passed"
    gap("reading from before what was trimmed", lambda: at.source.changes("items", ["id"], slow, at.position))
    gap("the state of before what was trimmed", lambda: at.source.state("items", ["id"], slow))
    world.run("DELETE FROM items")
    at.step("a write after trimming")


@promise(Feature.CAPTURE_LIMIT)
def check_a_dead_consumer_is_given_up(world: World) -> None:
    world.create(ITEMS)
    source = world.source(capture_limit=LIMIT)
    at = Follow(world, ITEMS, source=source)
    dead = source.attach(OTHER, ["items"])
    world.run(world.insert(ITEMS, *((i, i, "a") for i in range(LIMIT // 3))))
    at.step("few changes")
    source.acknowledge(ME, at.position)
    source.position(OTHER, ["items"])
    for i in range(3):
        rows = ((1000 + i * LIMIT + j, 0, "b") for j in range(LIMIT))
        world.run(world.insert(ITEMS, *rows))
        at.step("more changes than the limit")
        source.acknowledge(ME, at.position)
    said = gap("the position of one that was given up", lambda: source.position(OTHER, ["items"]))
    assert OTHER in str(said), f"the error does not name the consumer: {said}"
    gap("the heartbeat of one that was given up", lambda: source.beat(OTHER))
    gap("changes for one that was given up", lambda: source.changes("items", ["id"], dead, at.position))
    assert OTHER not in _consumers(source), "one that was given up is still listed"
    world.run("UPDATE items SET n = 5 WHERE id = 1000")
    at.step("an update")
    back = source.attach(OTHER, ["items"])
    source.check(back, ["items"])
    world.run("DELETE FROM items WHERE id = 1000")
    upto = source.position(OTHER, ["items"])
    assert changes_of(source, ITEMS, back, upto).size == 1, "one that came back does not see what happens"
    at.step("a delete")


@promise(Feature.SEVERAL_RELATIONS)
def check_released_relations(world: World) -> None:
    """Capture of what nobody needs is removed; what others need goes on."""
    at = follow(world, ITEMS, ENTRIES)
    other = Follow(world, ITEMS, name=OTHER)
    at.step("nothing")
    old = at.position
    at.source.release(ME, ["items"])
    world.run(world.insert(ITEMS, (1, 1, "a")), world.insert(ENTRIES, (1, 1, "not seen")))
    gap("the position of a released relation", lambda: at.source.position(ME, ["entries"]))
    other.step("an insert")
    upto = at.source.position(ME, ["items"])
    same(changes_of(at.source, ITEMS, old, upto), world.truth(ITEMS), "a relation that was kept")
    at.source.attach(ME, ["entries"])
    if world.has(Feature.LOGGED):
        gap("a released relation that is attached again", lambda: at.source.check(old, ["entries"]))
    at.source.check(old, ["items"])
    at.source.release(ME, [])
    assert ME not in _consumers(at.source), "one that keeps nothing is still listed"
    world.run("UPDATE items SET n = 2")
    other.step("an update")
    gap("one that was never there", lambda: at.source.release("ghost", ["items"]))


@promise()
def check_one_detaches_the_others_go_on(world: World) -> None:
    at = follow(world, *tables_of(world))
    other = Follow(world, ITEMS, name=OTHER)
    world.run(world.insert(ITEMS, (1, 1, "a")))
    at.step("an insert")
    at.source.detach(ME)
    world.run("UPDATE items SET n = 2")
    made = other.step("an insert and an update")
    assert made["items"].size == 1, f"the other saw {made}"
    gap("the position of one that detached", lambda: at.source.position(ME, ["items"]))
    other.source.detach(OTHER)
    other.source.detach(OTHER)
    status = other.source.log_status()
    assert (status.rows, status.consumers) == (0, ()), f"after the last one detached: {status}"
    gap("a position after the last one detached", lambda: other.source.position(OTHER, ["items"]))
    gap("a state after the last one detached", lambda: other.source.state("items", ["id"], other.position))


@promise()
def check_unknown_consumers_are_told(world: World) -> None:
    at = follow(world, ITEMS)
    for what, act in (
        ("position", lambda: at.source.position("ghost", ["items"])),
        ("acknowledge", lambda: at.source.acknowledge("ghost", at.position)),
        ("beat", lambda: at.source.beat("ghost")),
        ("release", lambda: at.source.release("ghost", ["items"])),
    ):
        said = gap(f"{what} of an unknown consumer", act)
        assert "ghost" in str(said), f"the error of {what} does not name the consumer: {said}"
    gap("a relation that is not captured", lambda: at.source.position(ME, ["entries"]))
    at.source.detach("ghost")
    at.step("nothing")


@promise()
def check_consumers_and_heartbeats(world: World) -> None:
    began = datetime.now(UTC) - timedelta(seconds=2)
    at = follow(world, ITEMS)
    at.source.attach(OTHER, ["items"])
    first = _consumers(at.source)
    assert set(first) == {ME, OTHER}, f"the consumers are {sorted(first)}"
    for each in first.values():
        assert began <= datetime.fromisoformat(each.heartbeat) <= datetime.now(UTC) + timedelta(seconds=2)
    time.sleep(1.1)
    at.source.beat(ME)
    second = _consumers(at.source)
    assert second[ME].heartbeat > first[ME].heartbeat, "a beat does not renew the heartbeat"
    assert second[OTHER] == first[OTHER], "a beat renews that of another"
    assert second[ME].position == first[ME].position, "a beat moves the position"
    time.sleep(1.1)
    world.run(world.insert(ITEMS, (1, 1, "a")))
    at.step("an insert")
    at.source.acknowledge(ME, at.position)
    third = _consumers(at.source)
    assert third[ME].heartbeat > second[ME].heartbeat, "acknowledging does not renew the heartbeat"
    assert third[ME].position == at.position.sequence, f"{third[ME]} acknowledged {at.position}"
    assert third[OTHER].heartbeat == first[OTHER].heartbeat, "acknowledging renews that of another"


@promise(Feature.PENDING)
def check_what_waits_and_since_when(world: World) -> None:
    at = follow(world, *tables_of(world))
    at.step("nothing")
    start = at.position
    source, several = at.source, world.has(Feature.SEVERAL_RELATIONS)
    assert source.behind(at.names, start) == 0, "something waits where nothing happened"
    assert source.waiting_since(at.names, start) is None, "something waits where nothing happened"
    before = datetime.now(UTC).replace(microsecond=0)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 2, "b")))
    after = datetime.now(UTC)
    since = source.waiting_since(["items"], start)
    assert since is not None and before <= since <= after, f"written {before} to {after}, told {since}"
    time.sleep(1.1)
    world.run("UPDATE items SET n = 5 WHERE id = 1", "DELETE FROM items WHERE id = 2")
    waiting = 5 if world.has(Feature.LOGGED) else 1
    told = source.behind(["items"], start)
    assert told == waiting, f"{waiting} signed rows wait, told are {told}"
    assert source.waiting_since(["items"], start) == since, "what waits longest is not what is told"
    if several:
        world.run(world.insert(ENTRIES, (1, 1, "a")))
        assert [source.behind(names, start) for names in (["entries"], at.names)] == [1, waiting + 1]
        newest = source.waiting_since(["entries"], start)
        assert newest is not None and newest > since, f"entries wait since {newest}, items since {since}"
    at.step("writes")
    status = _consumers(source)[ME]
    assert status.behind > 0, f"a consumer that acknowledged nothing is behind by {status.behind}"
    source.acknowledge(ME, at.position)
    assert _consumers(source)[ME].behind == 0, f"all is acknowledged: {_consumers(source)[ME]}"
    assert source.behind(at.names, at.position) == 0
    source.detach(ME)
    for act in (lambda: source.behind(at.names, start), lambda: source.waiting_since(at.names, start)):
        error = gap("what waits where nothing is attached", act)
        assert isinstance(error, CaptureGap)


CHECKS: tuple[Check, ...] = (
    check_acknowledging_spares_the_slow,
    check_the_log_is_trimmed_when_all_passed,
    check_a_dead_consumer_is_given_up,
    check_released_relations,
    check_one_detaches_the_others_go_on,
    check_unknown_consumers_are_told,
    check_consumers_and_heartbeats,
    check_what_waits_and_since_when,
)
