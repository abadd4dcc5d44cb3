"""View managers as tasks of the engine: the changes of a relation become entries, dealt out by stream; each
task takes the streams of its partition in order and brings the records they touch forward.

The engine computes the images (what the view makes of a row) and puts the rows of a stream in the order of
their base records; a task sees for each base record at most the row it was and the row it is. A task that is
retried, or runs twice, begins with the first entry again: numbers are places in that order, so they are the
same each time, and the records' signatures tell what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.scalar import Ref, Scalar, refs
from stillframe.engine.files import engine_errors, read_files, staged_struct
from stillframe.engine.session import Engine, is_connect
from stillframe.engine.shipping import ship
from stillframe.records.entry import STREAMS, Entry, Image, Position, Row
from stillframe.records.manager import Answers, Manager, Tally
from stillframe.records.store import RecordStore
from stillframe.records.view import Served, Side, aggregated_images
from stillframe.sources.base import Keys, Source
from stillframe.sources.base import Position as At

UNTOLD_CORES = 4  # of an engine behind Spark Connect, which does not say
_TURN_BITS = 40  # numbers of the side that comes second follow those of the first


@dataclass(frozen=True)
class Work:
    """One side of a view in one session; sides take turns. `columns` are the relation's columns that were
    read, by position."""

    served: Served
    side: int
    turn: int
    session: int
    since: int
    columns: tuple[int, ...]
    open_store: Callable[[], RecordStore]
    base: tuple[tuple[Source, str, At], ...]  # for each side: where to ask, and as of when

    @property
    def of(self) -> Side:
        return self.served.sides[self.side]

    @property
    def loads(self) -> bool:
        """Whether every row of the relation is an entry. A load is dealt out by record, not by stream: each
        is written once, whole, unless it is very large. Places are then within a record."""
        return self.session == self.since

    @property
    def order(self) -> list[str]:
        """The columns by which rows are dealt out, and those by which they are put in order then."""
        base = [f"k{i}" for i in range(len(self.of.identity))]
        return [*self.dealt, *base]

    @property
    def dealt(self) -> list[str]:
        return [f"g{i}" for i in range(len(self.of.key))] if self.loads else ["stream"]


def columns_needed(side: Side) -> tuple[int, ...]:
    """What of a relation a view reads, and the key that tells its records apart."""
    scalars = (*side.conditions, *side.key, *side.values, *(side.link or ()))
    return tuple(sorted({*side.identity, *(i for scalar in scalars for i in refs(scalar))}))


def manage(engine: Engine, files: Sequence[Path], work: Work) -> Tally:
    """Bring the records that these changes touch forward, by as many managers as the engine has cores."""
    if not files:
        return Tally()
    types = [work.of.schema[i].type for i in work.columns]
    with engine_errors():
        ship(engine)
        changes = read_files(engine.maintenance, files, staged_struct(types))
        rows = engine.maintenance.sql(_images(engine, work), changes=changes)
        dealt = rows.repartition(_cores(engine), *work.dealt) if work.dealt else rows.coalesce(1)
        told = dealt.sortWithinPartitions(*work.order).mapInArrow(_task(work), _TALLY).collect()
    return sum((Tally(*row) for row in told), Tally())


_TALLY = ", ".join(f"{field.name} LONG" for field in fields(Tally))


def _cores(engine: Engine) -> int:
    session: Any = engine.maintenance
    if is_connect(session):
        return UNTOLD_CORES
    return int(session.sparkContext.defaultParallelism)


def _images(engine: Engine, work: Work) -> str:
    """SQL over {changes}: the stream, the base record's key, the image, and the count."""
    side, writer = work.of, engine.writer

    def column(position: int) -> str:
        return f"`{internal_name(work.columns.index(position))}`"

    def text(scalar: Scalar) -> str:
        return writer.text(scalar, column)

    key = [text(Ref(i, side.schema[i].type)) for i in side.identity]
    spelled = ", ".join(f"CAST({one} AS STRING)" for one in key)
    shown = [f"pmod(crc32(concat_ws(':', {spelled})), {STREAMS}) AS stream"]
    shown += [f"{one} AS k{i}" for i, one in enumerate(key)]
    for name, scalars in (("g", side.key), ("v", side.values), ("l", side.link or ())):
        shown += [f"{text(scalar)} AS {name}{i}" for i, scalar in enumerate(scalars)]
    where = f" WHERE {writer.conjunction(side.conditions, column)}" if side.conditions else ""
    return f"SELECT {', '.join(shown)}, `{COUNT}` AS n FROM {{changes}}{where}"


def _task(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = work.open_store()
        try:
            manager = Manager(work.served, store, _answers(work), since=work.since)
            tally = manager.take(entries(batches, work))
        finally:
            store.close()
        names = [field.name for field in fields(Tally)]
        yield pa.RecordBatch.from_pydict(
            {name: pa.array([value], pa.int64()) for name, value in zip(names, astuple(tally), strict=True)}
        )

    return task


def entries(batches: Iterable[pa.RecordBatch], work: Work) -> Iterator[Entry]:
    """Of rows in the order of streams, or records, and base records. What a base record was and is, is what
    is left of its rows when those that cancel are gone."""
    wide, keys = 1 + len(work.of.identity), len(work.of.key)
    group: Row | None = None
    number, at = 0, None
    net: dict[Row, int] = {}
    for row in _rows(batches):
        here = row[: wide + keys] if work.loads else row[:wide]
        if here != at:
            if at is not None and (entry := _entry(net, at[0], number, work)):
                yield entry
            last = group
            group = row[wide : wide + keys] if work.loads else row[:1]
            number = number + 1 if group == last else 0
            at, net = here, {}
        image = row[wide:-1]
        net[image] = net.get(image, 0) + row[-1]
    if at is not None and (entry := _entry(net, at[0], number, work)):
        yield entry


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _entry(net: dict[Row, int], stream: int, number: int, work: Work) -> Entry | None:
    side = work.of
    before = after = None
    for flat, count in net.items():
        if count:
            image = _image(flat, side)
            before, after = (image, after) if count < 0 else (before, image)
    if before is None and after is None:
        return None
    place = Position(work.session, (work.turn << _TURN_BITS) | number)
    return Entry(0 if work.loads else stream, place, before, after, work.side)


def _image(flat: Row, side: Side) -> Image:
    keys, values = len(side.key), len(side.values)
    link = None if side.link is None else flat[keys + values :]
    return Image(flat[:keys], flat[keys : keys + values], None if link is None or None in link else link)


def _answers(work: Work) -> Answers:
    """The base relations, as of the end of the session's piece of their logs."""

    def ask(questions: Sequence[Any]) -> list[Any]:
        found = [_found(side, at, questions) for side, at in zip(work.served.sides, work.base, strict=True)]
        if work.served.measures:
            (groups,) = found
            measures, always = work.served.measures, work.served.is_one
            return [aggregated_images(measures, groups.get(one, []), always=always) for one in questions]
        return [tuple(len(images.get(one, ())) for images in found) for one in questions]

    return ask


def _found(side: Side, base: tuple[Source, str, At], questions: Sequence[Row]) -> dict[Row, list[Image]]:
    """The images of the relation's rows that have one of these keys."""
    source, table, at = base
    columns = columns_needed(side)
    names = [side.schema[i].name for i in columns]
    keys = None
    for place, scalar in enumerate(side.key):
        wanted = [question[place] for question in questions]
        if isinstance(scalar, Ref) and None not in wanted:
            name = side.schema[scalar.position].name
            if source.pushable(table, name):
                keys = Keys(name, pa.array(list(dict.fromkeys(wanted))))
                break
    net: dict[Row, int] = {}
    for row in _rows(source.state(table, names, at, keys)):
        net[row[:-1]] = net.get(row[:-1], 0) + row[-1]
    asked, found = set(questions), dict[Row, list[Image]]()
    for read, count in net.items():
        whole: list[Any] = [None] * len(side.schema)
        for position, value in zip(columns, read, strict=True):
            whole[position] = value
        image = side.image(tuple(whole))
        if image is not None and image.key in asked:
            found.setdefault(image.key, []).extend([image] * count)
    return found
