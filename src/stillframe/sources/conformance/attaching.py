"""Attaching can be repeated, can break off, and goes on beside writers; detaching leaves no trace."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from stillframe.algebra.bag import Bag
from stillframe.sources.conformance.child import Apart
from stillframe.sources.conformance.concurrent import Fixed, fix, seed_of, verify
from stillframe.sources.conformance.consumers import OTHER
from stillframe.sources.conformance.follow import ME, Follow, changes_of, follow, gap, raises, same, state_of
from stillframe.sources.conformance.statements import ENTRIES, ITEMS, tables_of
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.traffic import TABLES, Journal, Traffic
from stillframe.sources.conformance.world import Feature, Table, World

KILLS = 5


@promise()
def check_attach_is_repeatable(world: World) -> None:
    at = follow(world, ITEMS)
    old = at.position
    for i in range(3):
        world.run(world.insert(ITEMS, (i, i, "a")))
        at.source.attach(ME, ["items"])
        at.source.attach(ME, [])
        at.step("an insert, and attaching again")
    at.source.check(old, ["items"])
    at.finish()


@promise(Feature.SEVERAL_RELATIONS)
def check_relations_attached_later(world: World) -> None:
    """What stands goes on. What is new is captured from a position that nobody held before."""
    world.create(ENTRIES)
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a")), world.insert(ENTRIES, (1, 1, "before")))
    at.step("an insert")
    old = at.position
    both = at.source.attach(ME, ["items", "entries"])
    same(state_of(at.source, ENTRIES, both), world.truth(ENTRIES), "a relation that is new")
    same(state_of(at.source, ITEMS, both), world.truth(ITEMS), "one that is not, at the same position")
    at.source.check(old, ["items"])
    gap("a position from before a relation was attached", lambda: at.source.check(old, ["entries"]))
    gap("its state there", lambda: at.source.state("entries", ["n"], old))
    gap("its changes from there", lambda: at.source.changes("entries", ["n"], old, both))
    world.run("UPDATE entries SET n = 7", "DELETE FROM items")
    upto = at.source.position(ME, ["items", "entries"])
    expected = Bag({(1, 1, "before"): -1, (1, 7, "before"): 1})
    same(changes_of(at.source, ENTRIES, both, upto), expected, "changes of a relation that is new")
    at.step("a delete")
    at.finish()


@promise()
def check_attach_is_refused_as_a_whole(world: World) -> None:
    """One relation that is not there: the others are not attached either."""
    world.create(ITEMS)
    source = world.source()
    said = raises("attaching what is not there", lambda: source.attach(ME, ["items", "nowhere"]))
    assert "nowhere" in str(said), f"the error does not name the relation: {said}"
    gap("a consumer whose attach was refused", lambda: source.position(ME, ["items"]))
    Follow(world, ITEMS).step("attaching what is there")


@promise()
def check_attach_while_others_write(world: World) -> None:
    """No change is lost, however attach and the writers interleave. Prints how long a writer waited."""
    seed = seed_of()
    traffic = Traffic(world, seed)
    traffic.prepare()
    source = world.source()
    initial = {table.name: world.truth(table) for table in TABLES}
    tables = traffic.relations
    names = [table.name for table in tables]
    fixed: list[Fixed] = []
    with traffic:
        traffic.wait_for(10)
        before, calm = time.monotonic(), traffic.longest
        source.attach(OTHER, names[:1])
        asked = time.monotonic()
        position = source.attach(ME, names)
        took = time.monotonic() - before
        fixed.append(Fixed(position, asked, time.monotonic(), {}))
        traffic.wait_for(10)
        fixed.append(fix(source, tables, tables[:2]))
        source.attach(OTHER, names)
        source.release(OTHER, names[:2])
        traffic.wait_for(10)
        fixed.append(fix(source, tables))
    fixed.append(fix(source, tables, tables))
    print(
        f"attaching took {took:.3f} s; the longest statement of a writer {traffic.longest:.3f} s,"
        f" before it {calm:.3f} s; {len(traffic.commits)} commits, {traffic.conflicts} conflicts"
    )
    try:
        verify(world, source, traffic, Journal.read(world, initial), fixed)
    except AssertionError as broken:
        raise AssertionError(f"seed {seed}: {broken}") from broken


@promise()
def check_detach_while_others_write(world: World) -> None:
    """Writers meet no error but conflicts they would meet anyway."""
    traffic = Traffic(world, seed_of())
    traffic.prepare()
    source, names = world.source(), [table.name for table in traffic.relations]
    with traffic:
        for _ in range(3):
            source.attach(ME, names)
            traffic.wait_for(5)
            source.detach(ME)
            traffic.wait_for(5)
    assert source.log_status().consumers == ()


@promise()
def check_attach_beside_an_open_transaction(world: World) -> None:
    """It may have to wait for it, and has its rows in the first state or in the changes, never in neither."""
    tables = tables_of(world)
    names = [table.name for table in tables]
    world.create(*tables)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 2, "b")))
    writer, source = world.writer(), world.source()
    writer.begin()
    writer.execute("UPDATE items SET n = 10 WHERE id = 1")
    with ThreadPoolExecutor(1) as pool:
        attached = pool.submit(source.attach, ME, names)
        time.sleep(0.3)
        writer.execute(world.insert(ITEMS, (3, 3, "open")))
        writer.commit()
        start = attached.result(timeout=60)
    at_start = {t.name: state_of(source, t, start) for t in tables}
    writer.execute("DELETE FROM items WHERE id = 2")
    upto = source.position(ME, names)
    for table in tables:
        now = world.truth(table)
        same(
            at_start[table.name] + changes_of(source, table, start, upto), now, f"{table.name} from attach on"
        )
        same(state_of(source, table, upto), now, f"{table.name} now")
    writer.close()


@promise()
def check_several_attach_at_once(world: World) -> None:
    tables = tables_of(world)
    world.create(*tables)
    barrier = threading.Barrier(4)

    def wanted(number: int) -> tuple[Table, ...]:
        return tables if number % 2 else tables[:1]

    def attach(number: int) -> None:
        barrier.wait()
        world.source().attach(f"warehouse {number}", [table.name for table in wanted(number)])

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(attach, i) for i in range(4)]:
            done.result(timeout=120)
    followers = [Follow(world, *wanted(i), name=f"warehouse {i}") for i in range(4)]
    world.run(*(world.insert(table, (1, 1, "a")) for table in tables))
    for each in followers:
        each.step("inserts")


@promise()
def check_attach_killed_half_way(world: World) -> None:
    """At any moment: writers go on, attaching again works, and then capture is exact."""
    seed = seed_of()
    chance = random.Random(seed)
    tables = tables_of(world)
    names = [table.name for table in tables]
    world.create(*tables)
    source = world.source()
    killed = 0
    with Apart(source) as apart:
        apart.attach(ME, names)
        source.detach(ME)
        whole = apart.attach(ME, names)
        assert whole.well, "attaching in a process of its own failed"
        source.detach(ME)
        for i in range(KILLS):
            what = f"seed {seed}: attaching again after kill {i}"
            standing = Follow(world, ITEMS) if i % 3 == 1 else None
            moment = whole.seconds * (i + chance.random()) / KILLS
            killed += not apart.attach(ME, names, moment).well
            world.run(world.insert(ITEMS, (i, i, "after the kill")))
            if standing:
                standing.step(f"{what}, where one relation stood")
            again = Follow(world, *tables)
            world.run(f"UPDATE items SET n = -1 WHERE id = {i}")
            world.run(*(world.insert(table, (100 + i, i, "a")) for table in tables))
            again.step(what)
            source.detach(ME)
    print(f"{killed} of {KILLS} were killed before they ended, which takes {whole.seconds:.3f} s")
    assert killed, "no process was killed half-way"
    assert source.log_status().consumers == ()


@promise(Feature.SCHEMA_DUMP)
def check_detach_leaves_no_trace(world: World) -> None:
    """The schema is what it was, to the letter, also after capture was used, widened and broken off."""
    tables = tables_of(world)
    world.create(*tables)
    world.run(world.insert(ITEMS, (1, 1, "a")))
    before = world.schema_dump()
    assert "items" in before.lower(), f"the dump shows no tables: {before[:300]}"
    source = world.source()
    source.attach(ME, ["items"])
    assert world.schema_dump() != before, "the dump does not show what was installed"
    source.attach(OTHER, [table.name for table in tables])
    world.run(world.insert(ITEMS, (2, 2, "b")), "DELETE FROM items WHERE id = 1")
    source.acknowledge(ME, source.position(ME, ["items"]))
    source.release(OTHER, [tables[-1].name])
    source.detach(ME)
    source.detach(OTHER)
    assert world.schema_dump() == before, _difference(before, world.schema_dump())
    source.detach(OTHER)
    assert world.schema_dump() == before, _difference(before, world.schema_dump())
    Follow(world, ITEMS).step("attaching once more")
    source.detach(ME)
    assert world.schema_dump() == before, _difference(before, world.schema_dump())


def _difference(before: str, after: str) -> str:
    there, now = before.splitlines(), after.splitlines()
    left = [line for line in now if line not in there]
    gone = [line for line in there if line not in now]
    return f"left behind: {left[:5]}; gone: {gone[:5]}"


CHECKS: tuple[Check, ...] = (
    check_attach_is_repeatable,
    check_relations_attached_later,
    check_attach_is_refused_as_a_whole,
    check_attach_while_others_write,
    check_detach_while_others_write,
    check_attach_beside_an_open_transaction,
    check_several_attach_at_once,
    check_attach_killed_half_way,
    check_detach_leaves_no_trace,
)
