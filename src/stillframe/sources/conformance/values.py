"""Every value comes out as it went in: every type at its extremes, texts of any script, bytes, NULLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.bag import Bag
from stillframe.algebra.types import Type
from stillframe.sources.base import Keys, Relation, Source
from stillframe.sources.conformance.follow import ME, bag, changes_of, raises, same, state_of
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import INTEGER, TEXT, Feature, Table, TypeCase, World

TEXTS = (
    "",
    " ",
    "  both ends  ",
    'it\'s "quoted" `so`',
    "back\\slash \\n \\' \\0 %s %d {} :x ?",
    "line\nbreak\r\nand\ttab",
    "NULL",
    "\\N",
    "a,b;c|d",
    "ä ö ü ß é ñ",
    "e\u0301 and \u00e9",
    "Привет, мир",
    "שלום עולם",
    "مرحبا بالعالم",
    "日本語 中文 한국어",
    "हिन्दी ไทย",
    "\U0001f600\U0001f469\u200d\U0001f680\U00020000",
    "\ufeffwith a mark",
    "\u200b\u00a0\u2028",
    "\ufffd\uffff\U0010ffff",
    "long ä日\U0001f600 " * 80_000,
)
WITH_NUL = ("nul\x00inside", "\x00")
BYTES = (b"", b"\x00", b"\x00\xff\xfe\x80", bytes(range(256)), b"'\"\\%s\n", b"ab\x00" * 350_000)

COMMON: tuple[tuple[str, frozenset[str]], ...] = (
    ("integers of 64 bits", frozenset({"BIGINT"})),
    ("decimals", frozenset({"DECIMAL"})),
    ("timestamps", frozenset({"TIMESTAMP"})),
    ("dates", frozenset({"DATE"})),
    ("booleans", frozenset({"BOOLEAN", "TINYINT"})),
    ("floating-point numbers", frozenset({"DOUBLE"})),
    ("text", frozenset({"STRING"})),
    ("bytes", frozenset({"BINARY"})),
)


@promise()
def check_every_common_type_is_listed(world: World) -> None:
    """A world that forgets a type cannot pass by that."""
    there = {case.type.name for case in world.types}
    lacking = [what for what, names in COMMON if not names & there]
    if not world.has(Feature.BYTES):
        lacking.remove("bytes")
    assert not lacking, f"the world lists no {', '.join(lacking)}"
    widest = max((case.type.precision for case in world.types if case.type.is_decimal), default=0)
    assert widest == 38, f"the world lists decimals of {widest} digits, not of 38"


@promise()
def check_types_at_their_extremes(world: World) -> None:
    """The same by state and by changes: inserted, updated from each to the next, and deleted."""
    _values_go_through(world, world.types)


@promise()
def check_texts_of_any_script(world: World) -> None:
    texts = (*TEXTS, *WITH_NUL) if world.nul_in_text else TEXTS
    _values_go_through(
        world, [TypeCase(world.long_text, t.STRING, tuple((world.literal(text), text) for text in texts))]
    )


@promise(Feature.BYTES)
def check_any_bytes(world: World) -> None:
    cases = tuple((world.literal(each), each) for each in BYTES)
    _values_go_through(world, [TypeCase(world.binary, t.BINARY, cases)])


def _values_go_through(world: World, cases: Sequence[TypeCase]) -> None:
    """One column for each type; one row for each of its values, one of NULLs, and NULLs where other types
    have more values."""
    columns = tuple((f"v{i}", case.declared) for i, case in enumerate(cases))
    table = Table("typed", (("id", INTEGER), *columns), key=("id",))
    rows = max(len(case.values) for case in cases) + 1
    world.create(table)
    for i in range(rows):
        world.run(_insert(cases, i, i))
    source = world.source()
    relation = source.describe()["typed"]
    _none(
        f"{case.declared} is described as {found}, not {case.type}"
        for (name, _), case in zip(columns, cases, strict=True)
        if (found := _described(relation, name)) != case.type
    )
    stored = source.attach(ME, ["typed"])
    world.run("DELETE FROM typed")
    empty = source.position(ME, ["typed"])
    for i in range(rows):
        world.run(_insert(cases, i, i))
    inserted = source.position(ME, ["typed"])
    for i in range(rows):
        literals = [_value(case, i + 1, rows)[0] for case in cases]
        changed = ", ".join(f"{name} = {v}" for (name, _), v in zip(columns, literals, strict=True))
        world.run(f"UPDATE typed SET {changed} WHERE id = {i}")
    updated = source.position(ME, ["typed"])
    world.run("DELETE FROM typed")
    deleted = source.position(ME, ["typed"])
    for i in range(rows):
        world.run(_insert(cases, i, i))
    first = Bag.of((i, *(_value(case, i, rows)[1] for case in cases)) for i in range(rows))
    second = Bag.of((i, *(_value(case, i + 1, rows)[1] for case in cases)) for i in range(rows))
    wrong: list[str] = []
    for what, read, expected in (
        ("there before attach", partial(state_of, source, table, stored), first),
        ("deleted", partial(changes_of, source, table, stored, empty), -first),
        ("inserted", partial(changes_of, source, table, empty, inserted), first),
        ("state then", partial(state_of, source, table, inserted), first),
        ("updated", partial(changes_of, source, table, inserted, updated), second - first),
        ("state after updates", partial(state_of, source, table, updated), second),
        ("deleted again", partial(changes_of, source, table, updated, deleted), -second),
    ):
        wrong += _differing(read, expected, cases, what)
    _none([*wrong, *_not_found_by_key(source, table, cases, rows)])


def _differing(
    read: Callable[..., Bag], expected: Bag, cases: Sequence[TypeCase], what: str
) -> Iterator[str]:
    """Where rows differ, the types that do. A value that stops a read stops that of its column only."""
    try:
        if read() == expected:
            return
    except Exception as error:
        yield f"{what}: {error}"
    for place, case in enumerate(cases, 1):
        try:
            wanted = Bag(((row[0], row[place]), count) for row, count in expected.items())
            same(read(["id", f"v{place - 1}"]), wanted, f"{case.declared}, {what}")
        except Exception as error:
            yield str(error)


def _not_found_by_key(source: Source, table: Table, cases: Sequence[TypeCase], rows: int) -> Iterator[str]:
    """Values of each type that can be looked up are found by what they are in Arrow."""
    at = source.position(ME, ["typed"])
    for (name, _), case in zip(table.columns[1:], cases, strict=True):
        wanted = {i: v for i in range(rows) if (v := _value(case, i, rows)[1]) is not None and v == v}
        if not source.pushable("typed", name):
            continue
        for keys in ([*wanted.values()], [*wanted.values()][:1]):
            array = pa.array(keys, arrow_type(case.type))
            found = bag(source.state("typed", ["id", name], at, keys=Keys(name, array)))
            missing = [i for i, v in wanted.items() if v in keys and not found[(i, v)]]
            if missing:
                yield f"{case.declared}: rows {missing} are not found by {len(keys)} keys"


def _value(case: TypeCase, place: int, rows: int) -> tuple[str, object]:
    values = case.values + (("NULL", None),) * (rows - len(case.values))
    return values[place % rows]


def _insert(cases: Sequence[TypeCase], number: int, place: int) -> str:
    rows = max(len(case.values) for case in cases) + 1
    names = "".join(f", v{i}" for i in range(len(cases)))
    literals = "".join(f", {_value(case, place, rows)[0]}" for case in cases)
    return f"INSERT INTO typed (id{names}) VALUES ({number}{literals})"


def _described(relation: Relation, column: str) -> Type | str:
    if column in relation.refused:
        return f"refused, {relation.refused[column]}"
    return relation.schema.types[relation.schema.names.index(column)]


def _none(wrong: Iterable[str]) -> None:
    found = list(wrong)
    assert not found, f"{len(found)} wrong: " + "; ".join(text[:500] for text in found[:12])


@promise(Feature.REFUSED_TYPES)
def check_types_without_counterpart_are_refused_by_name(world: World) -> None:
    """The column is refused with the reason; the others of its table are captured."""
    columns = tuple((f"v{i}", declared) for i, declared in enumerate(world.refused_types))
    table = Table("strange", (("id", INTEGER), ("note", TEXT), *columns), key=("id",))
    world.create(table)
    source = world.source()
    relation = source.describe()["strange"]
    for name, declared in columns:
        assert name in relation.refused, f"a column of type {declared} is not refused: {relation.schema}"
        assert relation.refused[name].strip(), f"no reason is given for refusing {declared}"
        assert name not in relation.schema.names, f"{declared} is refused, and described all the same"
    start = source.attach(ME, ["strange"])
    world.run("INSERT INTO strange (id, note) VALUES (1, 'a')", "UPDATE strange SET note = 'b'")
    upto = source.position(ME, ["strange"])
    kept = Table("strange", table.columns[:2])
    same(changes_of(source, kept, start, upto), Bag({(1, "b"): 1}), "columns beside refused ones")
    for name, declared in columns:
        raises(f"reading a column of type {declared}", partial(source.state, "strange", [name], upto))


CHECKS: tuple[Check, ...] = (
    check_every_common_type_is_listed,
    check_types_at_their_extremes,
    check_texts_of_any_script,
    check_any_bytes,
    check_types_without_counterpart_are_refused_by_name,
)
