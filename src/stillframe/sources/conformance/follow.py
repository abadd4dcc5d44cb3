"""Follows tables through a source, and holds everything it says against the truth."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from stillframe.algebra.arrow import COUNT, TAG, staged_schema, tagged_schema
from stillframe.algebra.bag import Bag
from stillframe.errors import GAPS, CaptureGap, SourceError, StillframeError
from stillframe.sources.base import Position, Source
from stillframe.sources.conformance.world import Table, World

ME = "warehouse"
PAIRS = 2


def bag(batches: Iterable[pa.RecordBatch]) -> Bag:
    """Signed rows, summed."""
    return Bag((row, count) for row, count, _ in _rows(batches))


def bags_by_tag(batches: Iterable[pa.RecordBatch]) -> dict[int, Bag]:
    """Signed rows of each transaction, summed; one whose rows cancel is there with none."""
    found: dict[int, list[tuple[tuple[object, ...], int]]] = {}
    for row, count, tag in _rows(batches):
        found.setdefault(tag, []).append((row, count))
    return {tag: Bag(rows) for tag, rows in found.items()}


def counts_by_tag(batches: Iterable[pa.RecordBatch]) -> dict[int, int]:
    found: dict[int, int] = {}
    for _, count, tag in _rows(batches):
        found[tag] = found.get(tag, 0) + abs(count)
    return found


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[object, ...], int, int]]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        tags = columns.pop() if batch.schema.names[-1] == TAG else [0] * batch.num_rows
        assert batch.schema.names[len(columns) - 1] == COUNT, f"no signed count in {batch.schema.names}"
        counts = columns.pop()
        rows = zip(*columns, strict=True) if columns else [()] * len(counts)
        yield from zip(rows, counts, tags, strict=True)


def same(found: Bag, expected: Bag, what: str) -> None:
    if found != expected:
        missing, extra = expected - found, found - expected
        raise AssertionError(
            f"{what}: {_some(extra, True)} too many, {_some(missing, True)} missing"
            f" (found {found.size} rows, the truth has {expected.size})"
        )


def _some(difference: Bag, positive: bool) -> str:
    rows = [(row, count) for row, count in difference.items() if (count > 0) is positive]
    shown = ", ".join(f"{count}×{_short(row)}" for row, count in rows[:3])
    return f"[{shown}{', …' if len(rows) > 3 else ''}]"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:299] + "…"


def raises(what: str, act: Callable[[], object], code: str = "") -> SourceError:
    """The error that a source has to answer with, its parts in order."""
    try:
        result = act()
        if isinstance(result, Iterator):
            for _ in result:
                pass
    except SourceError as error:
        assert error.message, f"{what}: the error says nothing"
        assert not code or error.code == code, f"{what}: the error is {error}, not a {code}"
        return error
    except StillframeError as error:
        raise AssertionError(f"{what}: the error is no SourceError: {error!r}") from error
    except Exception as error:
        raise AssertionError(f"{what}: ends in a bare {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what}: nothing was said")


def gap(what: str, act: Callable[[], object]) -> CaptureGap:
    error = raises(what, act)
    assert isinstance(error, CaptureGap), f"{what}: the error is {error!r}, not a CaptureGap"
    assert error.code in GAPS, f"{what}: the code {error.code} is not one of {', '.join(GAPS)}"
    assert error.hint, f"{what}: no hint of what to do about {error}"
    return error


class Follow:
    """Attached to some tables, it fixes one position after the other. At each of them, while nobody writes:

    state(position) = truth,   changes(before, position) = truth − truth before
    """

    def __init__(self, world: World, *tables: Table, source: Source | None = None, name: str = ME) -> None:
        self.world = world
        self.source = source or world.source()
        self.consumer = name
        self.tables = tables
        self.names = [table.name for table in tables]
        described = self.source.describe()
        self.types = {}
        for table in tables:
            assert table.name in described, f"describe() lacks {table.name!r}: it has {sorted(described)}"
            schema = described[table.name].schema
            lacking = [n for n in table.names if n not in schema.names]
            assert not lacking, f"describe() lacks columns {lacking} of {table.name!r}"
            self.types[table.name] = {column.name: column.type for column in schema}
        self.position = self.source.attach(name, self.names)
        self.history: list[tuple[Position, dict[str, Bag]]] = []
        self._note("after attach")

    def truth(self) -> dict[str, Bag]:
        return {table.name: self.world.truth(table) for table in self.tables}

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)

    def changes(self, name: str, after: Position, upto: Position) -> Bag:
        batches = self.source.changes(name, self.table(name).names, after, upto)
        return bag(self._typed(name, batches))

    def tagged(self, name: str, after: Position, upto: Position) -> list[pa.RecordBatch]:
        batches = self.source.changes(name, self.table(name).names, after, upto, tagged=True)
        return list(self._typed(name, batches, tagged=True))

    def state(self, name: str, at: Position) -> Bag:
        return bag(self._typed(name, self.source.state(name, self.table(name).names, at)))

    def _typed(
        self, name: str, batches: Iterable[pa.RecordBatch], tagged: bool = False
    ) -> Iterator[pa.RecordBatch]:
        types = [self.types[name][column] for column in self.table(name).names]
        schema = tagged_schema(types) if tagged else staged_schema(types)
        for batch in batches:
            assert batch.schema.equals(schema), f"{name}: the schema is {batch.schema}, not {schema}"
            yield batch

    def step(self, what: str) -> dict[str, Bag]:
        """What changed since the step before; `what` is what the writers did meanwhile."""
        return self._note(what)

    def _note(self, what: str) -> dict[str, Bag]:
        truth = self.truth()
        upto = self.source.position(self.consumer, self.names)
        before, then = self.history[-1] if self.history else (self.position, truth)
        made = {}
        for name in self.names:
            made[name] = self.changes(name, before, upto) if before != upto else Bag()
            same(made[name], truth[name] - then[name], f"changes of {name!r} by {what}")
            if truth[name] != then[name]:
                same(self.state(name, before), then[name], f"state of {name!r} before {what}, read after it")
            if truth[name] != then[name] or not self.history:
                same(self.state(name, upto), truth[name], f"state of {name!r} after {what}")
        assert upto.source == before.source, f"{what}: the identity of the source changed"
        assert upto.sequence >= before.sequence, f"{what}: {upto} is below {before}"
        self.history.append((upto, truth))
        self.position = upto
        return made

    def finish(self) -> None:
        """Every state is still what it was, and changes over any two positions add up."""
        last = len(self.history) - 1
        chance = random.Random(last)
        for i, j in {(0, last), *(_two(chance, last) for _ in range(PAIRS))}:
            (after, then), (upto, now) = self.history[i], self.history[j]
            for name in self.names:
                same(
                    self.changes(name, after, upto),
                    now[name] - then[name],
                    f"changes of {name!r} from step {i} to step {j}",
                )
        for i in {0, *chance.choices(range(last + 1), k=PAIRS)}:
            at, then = self.history[i]
            for name in self.names:
                same(self.state(name, at), then[name], f"state of {name!r} at step {i}, read at the end")


def _two(chance: random.Random, last: int) -> tuple[int, int]:
    one, other = chance.randint(0, last), chance.randint(0, last)
    return min(one, other), max(one, other)


def follow(world: World, *tables: Table) -> Follow:
    """Create the tables and attach to them."""
    world.create(*tables)
    return Follow(world, *tables)


def state_of(source: Source, table: Table, at: Position, columns: Sequence[str] | None = None) -> Bag:
    return bag(source.state(table.name, columns if columns is not None else table.names, at))


def changes_of(
    source: Source, table: Table, after: Position, upto: Position, columns: Sequence[str] | None = None
) -> Bag:
    return bag(source.changes(table.name, columns if columns is not None else table.names, after, upto))
