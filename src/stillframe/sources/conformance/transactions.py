"""Transactions as the source tells them: whole, named for good, left out on demand, marked as parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from stillframe.algebra.bag import Bag
from stillframe.sources.base import Committed, Position
from stillframe.sources.conformance.follow import (
    Follow,
    bag,
    bags_by_tag,
    changes_of,
    counts_by_tag,
    follow,
    same,
    state_of,
)
from stillframe.sources.conformance.statements import ENTRIES, ITEMS, tables_of
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import Feature, World


@promise()
def check_what_the_source_says_of_itself(world: World) -> None:
    world.create(ITEMS)
    source = world.source()
    assert source.transactional is (Feature.TRANSACTIONS in world.offers), f"{source.transactional=}"
    assert source.commit_order is (Feature.COMMIT_ORDER in world.offers), f"{source.commit_order=}"
    assert source.transactional or not source.commit_order, "an order of what is not told apart"
    methods = source.methods()
    assert [m.capture for m in methods if not m.missing], f"no way to capture is usable: {methods}"
    there = [m.capture for m in methods if not m.missing]
    assert source.capture in there, f"the source captures by {source.capture}, and offers {there}"
    assert len({m.capture for m in methods}) == len(methods), f"a method is told twice: {methods}"
    assert all(m.gains for m in methods), f"a method gains nothing: {methods}"


def _three(world: World) -> tuple[Follow, Position, list[dict[str, Bag]]]:
    """Where three transactions begin, and what each changes in each table."""
    at = follow(world, *tables_of(world))
    several = world.has(Feature.SEVERAL_RELATIONS)
    world.run(world.insert(ITEMS, *((i, 0, "a") for i in range(1, 10))))
    at.step("inserts")
    start = at.position
    changed = []
    for of_items, of_entries in (
        (["UPDATE items SET n = 1 WHERE id <= 2"], [world.insert(ENTRIES, (1, 1, "x"), (1, 1, "x"))]),
        (["DELETE FROM items WHERE id = 3"], []),
        (
            [
                "UPDATE items SET n = 5 WHERE id = 5",
                "UPDATE items SET n = 6 WHERE id = 5",
                "DELETE FROM items WHERE id IN (7, 8)",
            ],
            [world.insert(ENTRIES, (2, 2, "y"))],
        ),
    ):
        before = at.truth()
        world.transact(*of_items, *(of_entries if several else []))
        after = at.truth()
        changed.append({name: after[name] - before[name] for name in at.names})
    return at, start, changed


def _tags_agree(at: Follow, told: Sequence[Committed], after: Position, upto: Position) -> None:
    """Tagged rows are the changes, each with the number of a transaction that counts it."""
    numbers = [each.number for each in told]
    assert len(set(numbers)) == len(numbers), f"a number comes twice: {numbers}"
    for name in at.names:
        tagged = at.tagged(name, after, upto)
        same(sum(bags_by_tag(tagged).values(), Bag()), at.changes(name, after, upto), f"tagged {name}")
        counts = {each.number: each.rows[name] for each in told if each.rows.get(name)}
        assert counts_by_tag(tagged) == counts, (
            f"{name}: rows by tag {counts_by_tag(tagged)}, by transactions() {counts}"
        )
    for each in told:
        assert set(each.rows) <= set(at.names), f"{each} counts rows of relations not asked for"


@promise(Feature.TRANSACTIONS)
def check_transactions_are_told_apart(world: World) -> None:
    at, start, changed = _three(world)
    upto = at.source.position(at.consumer, at.names)
    told = at.source.transactions(at.names, start, upto)
    _tags_agree(at, told, start, upto)
    assert len(told) == 3, f"three transactions became {len(told)}: {told}"
    tags = {name: bags_by_tag(at.tagged(name, start, upto)) for name in at.names}
    for each, made in zip(told, changed, strict=True):
        for name in at.names:
            found = tags[name].get(each.number, Bag())
            same(found, made[name], f"rows of {name} tagged {each.number}")
        assert (each.group, each.parts) == ("", 0), f"{each} was never marked"
    for name in at.names:
        only = [each.number for each in at.source.transactions([name], start, upto)]
        expected = [each.number for each, made in zip(told, changed, strict=True) if made[name]]
        assert only == expected, f"those that changed {name} are {expected}, told are {only}"
    assert at.source.transactions(at.names, upto, upto) == (), "something happened in no time"
    at.step("three transactions")


@promise(unless=[Feature.TRANSACTIONS])
def check_what_lies_between_two_positions_is_one(world: World) -> None:
    """Where transactions are not told apart."""
    at, start, _ = _three(world)
    upto = at.source.position(at.consumer, at.names)
    told = at.source.transactions(at.names, start, upto)
    _tags_agree(at, told, start, upto)
    assert len(told) == 1, f"what lies between two positions became {len(told)}: {told}"
    assert at.source.transactions(at.names, upto, upto) == (), "something happened in no time"
    left_out = at.source.without(start, upto, [told[0].number])
    for table in at.tables:
        before = state_of(at.source, table, start)
        same(state_of(at.source, table, left_out), before, f"{table.name} without all that happened")
    at.step("three transactions")


@promise(Feature.TRANSACTIONS)
def check_numbers_are_names_for_good(world: World) -> None:
    """Asked over any two positions, a transaction has the same number."""
    at = follow(world, ITEMS)
    positions = [at.position]
    for i in range(4):
        world.run(world.insert(ITEMS, (i, 0, "a")), world.insert(ITEMS, (10 + i, 0, "b")))
        positions.append(at.source.position(at.consumer, at.names))
    whole = [t.number for t in at.source.transactions(at.names, positions[0], positions[-1])]
    parts = [
        t.number for after, upto in pairwise(positions) for t in at.source.transactions(at.names, after, upto)
    ]
    assert len(whole) == 8 and sorted(whole) == sorted(parts), f"{parts} together are not {whole}"
    tags = bags_by_tag(at.tagged("items", positions[0], positions[-1]))
    assert set(tags) == set(whole), f"tags {sorted(tags)} are not {whole}"


@promise(Feature.TRANSACTIONS)
def check_states_without_some_transactions(world: World) -> None:
    """They lack exactly those, or all from the first of them on; what was left out is still there for whoever
    goes on from them, also after they were acknowledged."""
    at, start, changed = _three(world)
    upto = at.source.position(at.consumer, at.names)
    numbers = [each.number for each in at.source.transactions(at.names, start, upto)]
    assert at.source.without(start, upto, []) == upto, "without nothing is another position"
    for asked in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]):
        cut = at.source.without(start, upto, [numbers[i] for i in asked])
        left_out = asked if world.has(Feature.ANY_CUT) else [*range(asked[0], 3)]
        cut = Position.from_json(cut.to_json())
        for table in at.tables:
            lacking = sum((changed[i][table.name] for i in left_out), Bag())
            what = f"{table.name} without {left_out}"
            same(state_of(at.source, table, cut), world.truth(table) - lacking, f"state of {what}")
            same(changes_of(at.source, table, cut, upto), lacking, f"what is left from {what}")
            all_of = sum((each[table.name] for each in changed), Bag())
            same(changes_of(at.source, table, start, cut), all_of - lacking, f"changes up to {what}")
        told = [each.number for each in at.source.transactions(at.names, cut, upto)]
        assert told == [numbers[i] for i in left_out], f"left from without {left_out}: {told}"
        at.source.check(cut, at.names)
    cut = at.source.without(start, upto, numbers[:1])
    gone = [0] if world.has(Feature.ANY_CUT) else [0, 1, 2]
    truths = at.truth()
    at.source.acknowledge(at.consumer, cut)
    world.run("UPDATE items SET note = 'later' WHERE id = 9")
    last = at.source.position(at.consumer, at.names)
    at.source.acknowledge(at.consumer, cut)
    for table in at.tables:
        missing, then = sum((changed[i][table.name] for i in gone), Bag()), truths[table.name]
        same(state_of(at.source, table, cut), then - missing, f"{table.name} at an acknowledged cut")
        rest = missing + world.truth(table) - then
        same(changes_of(at.source, table, cut, last), rest, f"{table.name} after an acknowledged cut")
    at.source.acknowledge(at.consumer, last)


@promise(Feature.MARKS, Feature.SEVERAL_RELATIONS)
def check_marked_transactions_come_back(world: World) -> None:
    """With their group and parts, also if they changed nothing here; rolled back, they never were."""
    at = follow(world, ITEMS, ENTRIES)
    start = at.position
    world.transact(world.mark("g-1", 2), world.insert(ITEMS, (1, 1, "a")), world.insert(ENTRIES, (1, 1, "a")))
    world.transact(world.mark("it's ünï 日本", 3), "UPDATE items SET n = 2")
    writer = world.own
    writer.begin()
    writer.execute(world.mark("gone", 2))
    writer.execute(world.insert(ITEMS, (2, 2, "gone")))
    writer.rollback()
    world.transact(world.mark("nothing", 4))
    upto = at.source.position(at.consumer, at.names)
    told = at.source.transactions(at.names, start, upto)
    _tags_agree(at, told, start, upto)
    marked = [(each.group, each.parts) for each in told if each.group]
    expected = [("g-1", 2), ("it's ünï 日本", 3), ("nothing", 4)]
    assert marked == expected, f"marked were {expected}, told were {marked}"
    assert all(each.rows for each in told if each.group != "nothing"), f"no rows: {told}"
    entries = bags_by_tag(at.tagged("entries", start, upto))
    assert entries == {told[0].number: Bag({(1, 1, "a"): 1})}, f"rows of g-1 in entries: {entries}"
    items = bags_by_tag(at.tagged("items", start, upto))
    same(items[told[1].number], Bag({(1, 1, "a"): -1, (1, 2, "a"): 1}), "rows of the second")
    at.step("marked transactions")


@promise(Feature.MARKS)
def check_a_state_without_a_marked_transaction(world: World) -> None:
    """It lacks that transaction; where only the order of marked ones is known, all from it on."""
    at = follow(world, ITEMS)
    at.step("nothing")
    start, truths = at.position, [world.truth(ITEMS)]
    for i in range(4):
        world.transact(world.mark(f"g{i}", 2), world.insert(ITEMS, (i, i, "a")))
        truths.append(world.truth(ITEMS))
    upto = at.source.position(at.consumer, at.names)
    told = {each.group: each.number for each in at.source.transactions(at.names, start, upto)}
    for left_out in ([1], [3], [0], [2, 1], [3, 2, 1, 0]):
        cut = at.source.without(start, upto, [told[f"g{i}"] for i in left_out])
        expected = truths[min(left_out)]
        if world.has(Feature.ANY_CUT):
            expected = truths[4] - sum((truths[i + 1] - truths[i] for i in left_out), Bag())
        same(state_of(at.source, ITEMS, cut), expected, f"the state without {left_out}")
        rest = bag(at.source.changes("items", ITEMS.names, cut, upto))
        same(rest, truths[4] - expected, f"what is left from the state without {left_out}")
    at.step("marked transactions")


CHECKS: tuple[Check, ...] = (
    check_what_the_source_says_of_itself,
    check_transactions_are_told_apart,
    check_what_lies_between_two_positions_is_one,
    check_numbers_are_names_for_good,
    check_states_without_some_transactions,
    check_marked_transactions_come_back,
    check_a_state_without_a_marked_transaction,
)
