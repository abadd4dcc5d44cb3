"""Capture is complete and exact while many write: every position is a set of whole transactions."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from stillframe.algebra.bag import Bag
from stillframe.sources.base import Committed, Position, Source
from stillframe.sources.conformance.follow import (
    ME,
    Follow,
    bags_by_tag,
    changes_of,
    counts_by_tag,
    follow,
    same,
    state_of,
)
from stillframe.sources.conformance.statements import ENTRIES, ITEMS
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.traffic import (
    JOURNAL,
    PARTS,
    TABLES,
    Journal,
    Traffic,
    asked_after,
    committed_before,
    group_of,
)
from stillframe.sources.conformance.world import Feature, Table, World

RARE = 0.1  # writers that rest longer than this write but now and then


@dataclass
class Fixed:
    """A position fixed between two moments, and states read at once, while writers went on."""

    position: Position
    asked: float
    told: float
    states: dict[str, Bag]


def fix(source: Source, relations: Sequence[Table], read: Sequence[Table] = ()) -> Fixed:
    asked = time.monotonic()
    position = source.position(ME, [table.name for table in relations])
    told = time.monotonic()
    return Fixed(position, asked, told, {t.name: state_of(source, t, position) for t in read})


def seed_of() -> int:
    seed = random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}")
    return seed


@promise()
def check_positions_fixed_while_others_write(world: World) -> None:
    _campaign(world, seed_of(), positions=6, commits=6 if world.pause < RARE else 2)


@promise(long=True)
def check_many_positions_fixed_while_others_write(world: World) -> None:
    _campaign(world, seed_of(), positions=60, commits=25 if world.pause < RARE else 3)


def _campaign(world: World, seed: int, positions: int, commits: int) -> None:
    traffic = Traffic(world, seed, marking=world.has(Feature.MARKS))
    traffic.prepare()
    source = world.source()
    initial = {table.name: world.truth(table) for table in TABLES}
    tables = traffic.relations
    source.attach(ME, [table.name for table in tables])
    fixed = [fix(source, tables, tables)]
    with traffic:
        for i in range(positions):
            traffic.wait_for(commits)
            fixed.append(fix(source, tables, [tables[i % len(tables)]]))
    fixed.append(fix(source, tables, tables))
    print(
        f"{len(traffic.commits)} commits, {traffic.rollbacks} rollbacks, {traffic.conflicts} conflicts,"
        f" {len(traffic.marked)} marked, longest statement {traffic.longest:.3f} s"
    )
    try:
        verify(world, source, traffic, Journal.read(world, initial), fixed)
    except AssertionError as broken:
        raise AssertionError(f"seed {seed}: {broken}") from broken


def verify(world: World, source: Source, traffic: Traffic, journal: Journal, fixed: Sequence[Fixed]) -> None:
    """Each position against the journal; the last one was fixed when all writers had ended."""
    members = _members(source, traffic, journal, fixed)
    assert members[-1] == frozenset(journal.rows), (
        f"lost in the end: {sorted(frozenset(journal.rows) - members[-1])[:5]}"
    )
    for i, (each, inside) in enumerate(zip(fixed, members, strict=True)):
        for table in traffic.relations:
            expected = journal.state(table.name, inside)
            if table.name in each.states:
                same(each.states[table.name], expected, f"state of {table.name} at position {i}, read then")
            same(state_of(source, table, each.position), expected, f"state of {table.name} at position {i}")
    for table in TABLES:
        same(world.truth(table), journal.state(table.name, members[-1]), f"the journal of {table.name}")
    numbered: dict[int, int] = {}
    for i, ((one, then), (other, now)) in enumerate(pairwise(zip(fixed, members, strict=True))):
        between = (one.position, other.position)
        table = traffic.relations[i % len(traffic.relations)]
        expected = journal.change(table.name, now - then)
        same(changes_of(source, table, *between), expected, f"changes of {table.name} between positions")
        numbered |= _transactions(source, traffic, journal, *between, now - then)
    if source.transactional:
        ends = (fixed[0].position, fixed[-1].position)
        whole = _transactions(source, traffic, journal, *ends, members[-1] - members[0])
        assert whole == numbered, "a transaction has another number when asked for over a longer time"


def _members(
    source: Source, traffic: Traffic, journal: Journal, fixed: Sequence[Fixed]
) -> list[frozenset[int]]:
    """Which transactions each position has: whole ones, all that ended before, none that began after."""
    found: list[frozenset[int]] = []
    for i, each in enumerate(fixed):
        inside = journal.whole(state_of(source, JOURNAL, each.position), f"position {i}")
        lost = committed_before(traffic, each.asked) - inside
        assert not lost, f"position {i} lacks transactions confirmed before it was asked for: {sorted(lost)}"
        early = asked_after(traffic, each.told, inside)
        assert not early, f"position {i} has transactions that were asked for after it: {sorted(early)}"
        if found:
            gone = found[-1] - inside
            assert not gone, f"position {i} lacks transactions that the one before it had: {sorted(gone)}"
            before = fixed[i - 1].position
            assert each.position.sequence >= before.sequence, f"{each.position} is below {before}"
        found.append(inside)
    return found


def _transactions(
    source: Source,
    traffic: Traffic,
    journal: Journal,
    after: Position,
    upto: Position,
    inside: frozenset[int],
) -> dict[int, int]:
    """Which journal transaction each number is, where they are told apart; always: whole, counted, and in an
    order that those who touched the same rows agree with."""
    told = source.transactions([table.name for table in traffic.relations], after, upto)
    tagged = {
        t.name: list(source.changes(t.name, t.names, after, upto, tagged=True)) for t in traffic.relations
    }
    by_tag = {name: bags_by_tag(batches) for name, batches in tagged.items()}
    groups = {
        each.number: journal.whole(by_tag["journal"].get(each.number, Bag()), f"transaction {each.number}")
        for each in told
    }
    listed = [tx for each in told for tx in groups[each.number]]
    assert len(listed) == len(set(listed)), "a transaction has rows under two numbers"
    assert set(listed) == inside, f"transactions() lacks {sorted(inside - set(listed))[:5]}"
    for name, rows in by_tag.items():
        for number, found in rows.items():
            assert number in groups, f"{name}: rows are tagged {number}, which transactions() does not tell"
            same(found, journal.change(name, groups[number]), f"rows of {name} tagged {number}")
        counts = {each.number: each.rows[name] for each in told if each.rows.get(name)}
        assert counts_by_tag(tagged[name]) == counts, f"{name}: transactions() counts other rows than tagged"
    _marks(traffic, told, groups)
    if not source.transactional:
        return {}
    several = [each for each in told if len(groups[each.number]) != 1]
    assert not several, f"{several[0]} is {len(groups[several[0].number])} transactions"
    order = [next(iter(groups[each.number])) for each in told]
    _in_order(traffic, journal, order, source.commit_order)
    return dict(zip((each.number for each in told), order, strict=True))


def _marks(traffic: Traffic, told: Sequence[Committed], groups: dict[int, frozenset[int]]) -> None:
    marked = {tx: group_of(tx) for tx in traffic.marked}
    for each in told:
        expected = {group: tx for tx, group in marked.items() if tx in groups[each.number]}
        assert ([each.group] if each.group else []) == list(expected), (
            f"{each} is of group {each.group!r}, its rows are of {list(expected)}"
        )
        assert each.parts == (PARTS if each.group else 0), f"{each} has {each.parts} parts"


def _in_order(traffic: Traffic, journal: Journal, order: Sequence[int], by_commit: bool) -> None:
    latest: dict[int, tuple[int, int]] = {}
    for tx in order:
        for slot, turn in journal.turns(tx).items():
            before, other = latest.get(slot, (0, 0))
            assert turn > before, f"transaction {tx} is told after {other}, which changed the same rows later"
            latest[slot] = (turn, tx)
    if not by_commit:
        return
    earliest_confirmed = float("inf")
    for tx in reversed(order):
        asked, confirmed = traffic.commits[tx]
        assert asked <= earliest_confirmed, (
            f"transaction {tx} is told before one confirmed before it was asked"
        )
        earliest_confirmed = min(earliest_confirmed, confirmed)


@promise(Feature.OPEN_TOGETHER)
def check_transactions_that_commit_late(world: World) -> None:
    """Begun before positions that were fixed since, with lower numbers than what is in them."""
    at = follow(world, ITEMS, ENTRIES)
    world.run(world.insert(ITEMS, *((i, 0, "a") for i in range(1, 6))))
    at.step("inserts")
    late, later = world.writer(), world.writer()
    late.begin()
    late.execute("UPDATE items SET n = 1 WHERE id = 1")
    late.execute(world.insert(ENTRIES, (1, 1, "late")))
    at.step("a transaction that is still open")
    later.begin()
    later.execute(world.insert(ITEMS, (50, 50, "later")))
    later.execute("DELETE FROM items WHERE id = 5")
    for i in range(3):
        world.run(world.insert(ITEMS, (100 + i, 0, "quick")), f"UPDATE items SET n = {i} WHERE id = 2")
        at.step("quick transactions beside open ones")
    late.execute("UPDATE items SET n = 3 WHERE id = 3")
    late.commit()
    at.step("the commit of the first, late")
    world.run("UPDATE items SET n = 9 WHERE id = 2")
    at.step("a quick one between")
    late.begin()
    late.execute(world.insert(ENTRIES, (2, 2, "gone")))
    at.step("one more open")
    later.commit()
    at.step("the commit of the second, later")
    late.rollback()
    at.step("a late rollback")
    at.finish()
    late.close()
    later.close()


@promise(Feature.OPEN_TOGETHER)
def check_trimming_spares_what_commits_late(world: World) -> None:
    """All that is confirmed is acknowledged, and what is open is not lost by that."""
    at = follow(world, ITEMS)
    other = at.source.attach("another", ["items"])
    at.source.acknowledge("another", other)
    late = world.writer()
    late.begin()
    late.execute(world.insert(ITEMS, (1, 1, "late"), (2, 2, "late")))
    for i in range(3):
        world.run(world.insert(ITEMS, (10 + i, i, "quick")), "UPDATE items SET n = n + 1 WHERE id >= 10")
        at.step("quick transactions beside an open one")
        at.source.acknowledge(ME, at.position)
        at.source.acknowledge("another", at.position)
    late.execute("UPDATE items SET n = 5 WHERE id = 2")
    late.commit()
    at.step("the commit of the open one")
    at.source.acknowledge(ME, at.position)
    world.run("DELETE FROM items")
    at.step("a delete")
    late.close()


@promise()
def check_several_consumers_at_once(world: World) -> None:
    """Each goes its own pace, acknowledges, and adds up all changes; together they trim the log."""
    seed = seed_of()
    traffic = Traffic(world, seed)
    traffic.prepare()
    tables = traffic.relations
    names = [table.name for table in tables]
    consumers = [f"consumer {i}" for i in range(3)]
    source = world.source()
    begun = {consumer: source.attach(consumer, names) for consumer in consumers}
    sums = {c: {t.name: state_of(source, t, begun[c]) for t in tables} for c in consumers}
    ending = threading.Event()

    def consume(consumer: str, pace: float) -> Position:
        own, position = world.source(), begun[consumer]
        while True:
            last = ending.is_set()
            upto = own.position(consumer, names)
            for table in tables:
                sums[consumer][table.name] += changes_of(own, table, position, upto)
            own.acknowledge(consumer, upto)
            position = upto
            if last:
                return position
            ending.wait(pace)

    with ThreadPoolExecutor(len(consumers)) as pool:
        with traffic:
            running = [pool.submit(consume, c, 0.1 + 0.1 * i) for i, c in enumerate(consumers)]
            try:
                traffic.wait_for(30 if world.pause < RARE else 10)
                traffic.finish()
            finally:
                ending.set()
        for done in running:
            done.result(timeout=120)
    for table in tables:
        truth = world.truth(table)
        for consumer in consumers:
            same(sums[consumer][table.name], truth, f"seed {seed}: {table.name} as {consumer} added it up")


@promise(Feature.OPEN_TOGETHER, Feature.TRANSACTIONS)
def check_late_transactions_are_told_once(world: World) -> None:
    at = follow(world, ITEMS)
    at.step("nothing")
    start = at.position
    writers = [world.writer() for _ in range(4)]
    for i, writer in enumerate(writers):
        writer.begin()
        writer.execute(world.insert(ITEMS, (i, i, "x")))
    told: list[int] = []
    position = start
    for i in (2, 0, 3, 1):
        writers[i].commit()
        upto = at.source.position(at.consumer, at.names)
        found = at.source.transactions(at.names, position, upto)
        assert len(found) == 1, f"the commit of writer {i} is told as {found}"
        same(changes_of(at.source, ITEMS, position, upto), Bag({(i, i, "x"): 1}), f"the commit of writer {i}")
        told.append(found[0].number)
        position = upto
    all_of = [each.number for each in at.source.transactions(at.names, start, position)]
    assert sorted(all_of) == sorted(told), f"one by one {told}, all at once {all_of}"
    if at.source.commit_order:
        assert all_of == told, f"committed in the order {told}, told as {all_of}"
    at.step("four commits")
    for writer in writers:
        writer.close()


@promise(Feature.OPEN_TOGETHER, Feature.TRANSACTIONS)
def check_transactions_follow_those_they_build_on(world: World) -> None:
    """Whichever of them began first."""
    at = follow(world, ITEMS, ENTRIES)
    world.run(world.insert(ITEMS, (1, 0, "a"), (2, 0, "b"), (3, 0, "c")))
    at.step("inserts")
    first, second, third = (world.writer() for _ in range(3))
    for n, writer in enumerate((first, second, third)):
        writer.begin()
        writer.execute(world.insert(ENTRIES, (n, n, "begun")))
    third.execute("UPDATE items SET n = n + 1 WHERE id = 1")
    third.execute("DELETE FROM items WHERE id = 3")
    third.commit()
    second.execute("UPDATE items SET n = n + 1 WHERE id IN (1, 2)")
    second.commit()
    first.execute("UPDATE items SET n = n + 1 WHERE id = 2")
    first.execute(world.insert(ITEMS, (3, 9, "again")))
    first.commit()
    upto = at.source.position(at.consumer, at.names)
    told = [each.number for each in at.source.transactions(at.names, at.position, upto)]
    tags = bags_by_tag(at.tagged("entries", at.position, upto))
    order = [next(iter(tags[number]))[0] for number in told]
    assert order == [2, 1, 0], f"the third was built on by the second, that by the first; told is {order}"
    at.step("three that build on each other")
    for writer in (first, second, third):
        writer.close()


@promise(Feature.OPEN_TOGETHER, Feature.ATTACH_BESIDE_OPEN)
def check_one_open_since_before_attach(world: World) -> None:
    """It had not touched the tables, and does so when they are attached."""
    world.create(ITEMS, ENTRIES)
    world.run("CREATE TABLE elsewhere (n INTEGER)")
    early = world.writer()
    early.begin()
    early.execute("INSERT INTO elsewhere (n) VALUES (1)")
    at = Follow(world, ITEMS, ENTRIES)
    world.run(world.insert(ITEMS, (1, 1, "quick")))
    at.step("a quick one")
    early.execute(world.insert(ITEMS, (2, 2, "early")))
    early.execute("UPDATE items SET n = 10 WHERE id = 1")
    at.step("what is not committed")
    early.commit()
    at.step("the commit of one begun before attach")
    at.finish()
    early.close()


CHECKS: tuple[Check, ...] = (
    check_positions_fixed_while_others_write,
    check_transactions_that_commit_late,
    check_late_transactions_are_told_once,
    check_trimming_spares_what_commits_late,
    check_several_consumers_at_once,
    check_transactions_follow_those_they_build_on,
    check_one_open_since_before_attach,
    check_many_positions_fixed_while_others_write,
)
