"""Reads that are restricted: by keys, by ranges, by columns; at any position, in one snapshot each."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa

from stillframe.algebra.bag import Bag
from stillframe.algebra.selection import (
    COMPARING,
    IS_NOT_NULL,
    IS_NULL,
    Compared,
    Every,
    Selection,
    Some,
    meets,
)
from stillframe.sources.base import Capture, Keys, Position, Range, Source
from stillframe.sources.conformance.follow import ME, bag, changes_of, follow, raises, same, state_of
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import INTEGER, TEXT, Feature, Table, World

STOCK = Table(
    "stock",
    (("id", INTEGER), ("place", INTEGER), ("code", TEXT), ("n", INTEGER)),
    key=("id",),
    indexes=("place", "code"),
)
LOOSE = Table("loose", (("place", INTEGER), ("code", TEXT)))
ROWS = 3_000


def _fill(world: World) -> None:
    world.run(
        "INSERT INTO stock (id, place, code, n)"
        f" SELECT i, i % 500, CASE i % 3 WHEN 0 THEN 'Aa' WHEN 1 THEN 'aA' ELSE 'b' END, 0"
        f" FROM {world.numbers(ROWS)}",
        "UPDATE stock SET place = NULL WHERE id % 97 = 0",
        "UPDATE stock SET code = NULL WHERE id % 89 = 0",
    )


def _move(world: World) -> None:
    """Rows that come, go, and change every column a read may be restricted by."""
    world.run(
        "UPDATE stock SET place = place + 1 WHERE id % 5 = 0",
        "UPDATE stock SET code = 'late' WHERE id % 7 = 0",
        "UPDATE stock SET place = 3 WHERE place IS NULL AND id % 2 = 0",
        f"UPDATE stock SET id = id + {10 * ROWS} WHERE id % 11 = 0",
        "UPDATE stock SET id = -1 WHERE id = 1",
        "DELETE FROM stock WHERE id % 13 = 0",
        "INSERT INTO stock (id, place, code, n)"
        f" SELECT i + {5 * ROWS}, i % 50, 'Aa', 1 FROM {world.numbers(ROWS // 3)}",
    )


def _holds(found: Bag, truth: Bag, position: int, values: Sequence[object], what: str) -> None:
    """Every row that was asked for, as often as it is there; of others none more than there are."""
    wanted = set(values)
    asked = Bag({row: n for row, n in truth.items() if row[position] in wanted})
    same(Bag({row: n for row, n in found.items() if row[position] in wanted}), asked, what)
    more = {row: n for row, n in found.items() if row[position] not in wanted and not 0 < n <= truth[row]}
    assert not more, f"{what}: rows that were not asked for, and are not there so often: {list(more)[:3]}"


def _keyed(source: Source, at: Position, column: str, values: Sequence[object]) -> Bag:
    kind = pa.int64() if column != "code" else pa.string()
    keys = Keys(column, pa.array(values, kind))
    return bag(source.state("stock", STOCK.names, at, keys=keys))


@promise()
def check_keys_find_all_rows_asked_for(world: World) -> None:
    """Ten keys and fifty thousand, of columns with and without an index, at the newest position and at one
    from before rows moved."""
    world.create(STOCK)
    _fill(world)
    source = world.source()
    positions, truths = [source.attach(ME, ["stock"])], [world.truth(STOCK)]
    _move(world)
    positions.append(source.position(ME, ["stock"]))
    truths.append(world.truth(STOCK))
    pushable = [column for column in STOCK.names if source.pushable("stock", column)]
    assert "id" in pushable, "not even an integer key can be looked up"
    sets: dict[str, list[list[object]]] = {
        "id": [[10**12, 1, 5, 11, 22, 33, 13, 10 * ROWS + 11, -5, 2999], list(range(10_000, 1, -2)), []],
        "place": [[7_777, 0, 1, 2, 3, 3, 3, 500, 499], list(range(50_100, 100, -1))],
        "n": [[0], [1]],
        "code": [["Aa"], ["aA", "B"], ["absent", "", "'", "late", "b"], ["aa "]],
    }
    for at, truth, when in zip(positions, truths, ("past", "newest"), strict=True):
        for column in pushable:
            for values in sets[column]:
                what = f"{len(values)} keys of {column} at the {when} position"
                _holds(_keyed(source, at, column, values), truth, STOCK.names.index(column), values, what)


@promise()
def check_keys_read_fewer_rows(world: World) -> None:
    """A source may return more than was asked for, but it does look the rows up."""
    world.create(STOCK)
    _fill(world)
    source = world.source()
    at = source.attach(ME, ["stock"])
    found = _keyed(source, at, "id", [1, 2, 3])
    assert found.size < ROWS, f"{found.size} rows were read for three keys"


@promise()
def check_ranges_cover_the_relation_once(world: World) -> None:
    """Also for a position from before rows moved between ranges, and those that came outside of them all."""
    world.create(STOCK)
    _fill(world)
    source = world.source()
    before, truth_before = source.attach(ME, ["stock"]), world.truth(STOCK)
    early = source.ranges("stock", 400)
    _move(world)
    after, truth_after = source.position(ME, ["stock"]), world.truth(STOCK)
    late = source.ranges("stock", 400)
    for name, ranges in (("early", early), ("late", late)):
        assert len(ranges) > 2, f"{ROWS} rows in ranges of 400 make {len(ranges)} ranges"
        _adjoin(ranges, name)
        for at, truth, when in ((before, truth_before, "past"), (after, truth_after, "newest")):
            parts = [bag(source.state("stock", STOCK.names, at, within=each)) for each in ranges]
            same(sum(parts, Bag()), truth, f"{name} ranges at the {when} position, taken together")
            for part, each in zip(parts, ranges, strict=True):
                _inside(part, truth, each, f"{name} {each} at the {when} position")
    sizes = [bag(source.state("stock", STOCK.names, after, within=each)).size for each in late]
    assert max(sizes) <= 4 * 400, f"ranges of about 400 rows have {sizes}"


def _adjoin(ranges: Sequence[Range], name: str) -> None:
    assert len({each.column for each in ranges}) == 1, f"{name} ranges are of several columns"
    assert ranges[0].above is None and ranges[-1].upto is None, f"the outer {name} ranges have bounds"
    for one, other in pairwise(ranges):
        assert one.upto is not None and one.upto == other.above, f"{one} and {other} do not adjoin"


def _inside(part: Bag, truth: Bag, each: Range, what: str) -> None:
    column = STOCK.names.index(each.column)
    for row, count in part.items():
        assert 0 < count <= truth[row], f"{what}: {count}×{row}, the truth has {truth[row]}"
        value = row[column]
        inside = (each.above is None or value > each.above) and (each.upto is None or value <= each.upto)
        assert inside, f"{what}: {row} is outside"


@promise(Feature.SEVERAL_RELATIONS)
def check_ranges_of_other_tables(world: World) -> None:
    """A table without a key, one with a key of text, and one that is empty: no ranges, or some that cover."""
    named = Table("named", (("name", TEXT), ("n", INTEGER)), key=("name",))
    pairs = Table("pairs", (("a", INTEGER), ("b", INTEGER), ("n", INTEGER)), key=("a", "b"))
    empty = Table("empty", (("id", INTEGER),), key=("id",))
    world.create(LOOSE, named, pairs, empty)
    names = sorted({f"{letter}{i}" for i in range(100) for letter in "aBcŽ日_"})
    world.run(
        world.insert(LOOSE, *((i % 10 or None, "x") for i in range(500))),
        world.insert(named, *((name, 1) for name in names)),
        world.insert(pairs, *((i // 100, i % 100, 0) for i in range(700))),
    )
    tables = (LOOSE, named, pairs, empty)
    source = world.source()
    source.attach(ME, [table.name for table in tables])
    at = source.position(ME, [table.name for table in tables])
    for table in tables:
        ranges = source.ranges(table.name, 50)
        assert not ranges or table is not LOOSE, f"a table without a key has the ranges {ranges}"
        parts = [bag(source.state(table.name, table.names, at, within=each)) for each in ranges or [None]]
        same(sum(parts, Bag()), world.truth(table), f"{len(ranges)} ranges of {table.name}")


@promise()
def check_columns_asked_for(world: World) -> None:
    """Some columns, in any order, or none: then rows are only counted."""
    at = follow(world, STOCK)
    world.run(world.insert(STOCK, (1, 5, "a", 1), (2, 5, "a", 1), (3, None, None, None)))
    at.step("an insert")
    world.run("UPDATE stock SET n = 7 WHERE id = 2", "DELETE FROM stock WHERE id = 3")
    at.step("an update and a delete")
    (_, (p1, then), (p2, now)) = at.history
    for columns in (("n", "place"), ("code",), ("id",), ()):
        where = [STOCK.names.index(c) for c in columns]

        def picked(rows: Bag, where: list[int] = where) -> Bag:
            return Bag((tuple(row[i] for i in where), count) for row, count in rows.items())

        what = f"columns {columns}"
        for at_, truth in ((p1, then["stock"]), (p2, now["stock"])):
            same(state_of(at.source, STOCK, at_, columns), picked(truth), f"state, {what}")
        found = changes_of(at.source, STOCK, p1, p2, columns)
        same(found, picked(now["stock"] - then["stock"]), f"changes, {what}")


@promise()
def check_a_read_is_one_snapshot(world: World) -> None:
    """What is written between its batches is not in it."""
    world.create(STOCK)
    _fill(world)
    source = world.source()
    at, truth = source.attach(ME, ["stock"]), world.truth(STOCK)
    reading = source.state("stock", STOCK.names, at)
    first = next(reading)
    _move(world)
    world.run("DELETE FROM stock WHERE id % 2 = 0")
    same(bag([first, *reading]), truth, "a state that was being read while rows moved")
    upto, then = source.position(ME, ["stock"]), world.truth(STOCK)
    changing = source.changes("stock", STOCK.names, at, upto)
    first = next(changing)
    world.run("DELETE FROM stock")
    same(bag([first, *changing]), then - truth, "changes that were being read while rows went")


@promise()
def check_unknown_names_are_told(world: World) -> None:
    at = follow(world, STOCK)
    raises("attaching to a table that is not there", lambda: at.source.attach(ME, ["nowhere"]))
    raises("the state of a table that is not there", lambda: at.source.state("nowhere", ["id"], at.position))
    raises("a column that is not there", lambda: at.source.state("stock", ["id", "nothing"], at.position))
    at.step("nothing")


@promise()
def check_a_source_is_a_value(world: World) -> None:
    """It and its positions go to other processes and into files, and mean the same there."""
    at = follow(world, STOCK)
    _fill(world)
    at.step("inserts")
    copy: Source = pickle.loads(pickle.dumps(at.source))
    assert (copy.name, copy.address) == (at.source.name, at.source.address)
    position = Position.from_json(json.loads(json.dumps(at.position.to_json())))
    assert position == at.position, f"{at.position} was read back as {position}"
    same(state_of(copy, STOCK, position), world.truth(STOCK), "the state a copy of the source reads")
    count = copy.rows("stock")
    assert ROWS / 10 <= count <= ROWS * 10, f"rows() says {count}, there are {ROWS}"


def _some_of(source: Source, before: Position, upto: Position, where: Selection) -> tuple[Bag, int]:
    batches = list(source.changes("stock", STOCK.names, before, upto, where=where))
    return bag(batches), sum(batch.num_rows for batch in batches)


@promise()
def check_changes_that_are_wanted_all_come(world: World) -> None:
    """Of the others, any or none."""
    at = follow(world, STOCK)
    _fill(world)
    at.step("inserts")
    before = at.position
    _move(world)
    at.step("rows that moved")
    everything = changes_of(at.source, STOCK, before, at.position)
    three, seven = Compared("place", "=", 3), Compared("id", "<=", 700)
    asked: tuple[Selection, ...] = (
        *(Compared(column, word, 300) for column in ("id", "place") for word in sorted(COMPARING)),
        *(Compared("code", word, text) for word in ("=", "<>", "<") for text in ("Aa", "aA ", "late", "")),
        *(Compared("place", word) for word in (IS_NULL, IS_NOT_NULL)),
        *(Compared("n", "=", value) for value in (True, date(2020, 1, 1), Decimal("1.5"), "1")),
        Every((Compared("code", "=", "late"), Some((three, Compared("place", ">", 490))))),
        Some((Every((seven, Compared("code", IS_NULL))), Compared("code", "<", "b"))),
    )
    for where in asked:
        found, _ = _some_of(at.source, before, at.position, where)
        wanted = {row for row in everything if _is_met(where, row)}
        same(
            Bag({row: n for row, n in found.items() if row in wanted}),
            Bag({row: n for row, n in everything.items() if row in wanted}),
            f"changes where {where}",
        )
        more = {row: n for row, n in found.items() if n != everything[row]}
        assert not more, f"changes where {where}: rows that did not change so: {list(more)[:3]}"


def _is_met(where: Selection, row: tuple[object, ...]) -> bool:
    try:
        return meets(where, dict(zip(STOCK.names, row, strict=True)))
    except TypeError:  # values of different kinds: no source is asked for these, and none need answer
        return False


@promise()
def check_changes_that_are_not_wanted_stay(world: World) -> None:
    """Where the log is a table of the database, which can look through it."""
    at = follow(world, STOCK)
    _fill(world)
    before = at.position
    at.step("inserts")
    if at.source.capture is not Capture.TRIGGERS:
        return
    for where, most in (
        (Compared("id", "<=", 100), 100),
        (Every((Compared("id", ">", 100), Compared("id", "<", 200))), 99),
        (Compared("place", IS_NULL), ROWS // 97),
        (Some((Compared("id", "=", 5), Compared("id", "=", 8))), 2),
        (Every((Compared("id", "<", 100), Compared("code", "=", "late"))), 99),
    ):
        found, rows = _some_of(at.source, before, at.position, where)
        assert len(found) <= most, f"changes where {where}: {len(found)} rows, of which {most} were wanted"
        assert rows < ROWS, f"changes where {where}: {rows} rows were sent"


CHECKS: tuple[Check, ...] = (
    check_keys_find_all_rows_asked_for,
    check_keys_read_fewer_rows,
    check_ranges_cover_the_relation_once,
    check_ranges_of_other_tables,
    check_columns_asked_for,
    check_changes_that_are_wanted_all_come,
    check_changes_that_are_not_wanted_stay,
    check_a_read_is_one_snapshot,
    check_unknown_names_are_told,
    check_a_source_is_a_value,
)
