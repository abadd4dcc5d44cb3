"""Joins computed by the driver in columns, without a job of the engine.

Law: the rows are those the engine would give. Values are moved as they are, compared, or made by arithmetic
whose result is exact in its type, so no two engines could differ in them; floats, of which equal ones have
two spellings, are left to the engine, and so is what fails.
Assumption: what is read fits the driver. Invariant: about how much a join makes is known before it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stillframe.algebra import (
    Call,
    Cast,
    EvaluationError,
    Filter,
    Join,
    Negate,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    UnionAll,
)
from stillframe.algebra.arrow import COUNT, DENSE, MOST_PLACES, arrow_type, one_array, staged_schema
from stillframe.algebra.evaluate import evaluate_scalar
from stillframe.algebra.plan import walk
from stillframe.algebra.scalar import refs
from stillframe.algebra.side_by_side import side_by_side
from stillframe.algebra.types import BOOLEAN, MAX_PRECISION, VOID, Type, as_decimal
from stillframe.change import column_of, join_order
from stillframe.engine import Room
from stillframe.runtime.evaluating import is_exact_scalar

Numbers = NDArray[np.int64]
Contents = Callable[[Scan, Collection[int]], "Columns"]
_COMPARED: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


_CALCULATED: dict[str, Callable[..., Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


class TooMany(Exception):
    """More rows than the driver should make."""


class Budget:
    """What all joins of a plan may make together. Terms are joined side by side."""

    def __init__(self, room: Room) -> None:
        self.rows = room.made  # of one join
        self._bytes = float(room.bytes_made)
        self._lock = Lock()

    def make(self, rows: int) -> None:
        if rows > self.rows:
            raise TooMany

    def take(self, size: float) -> None:
        with self._lock:
            self._bytes -= size
            if self._bytes < 0:
                raise TooMany


FAILURES = (TooMany, EvaluationError, pa.ArrowException)  # after which the engine has to compute it


@dataclass(frozen=True)
class Columns:
    """Signed rows: those columns that somebody looks at, by position, and the count of each row."""

    columns: Mapping[int, pa.Array]
    counts: Numbers

    def __len__(self) -> int:
        return len(self.counts)

    def at(self, rows: Numbers) -> Columns:
        taken = pa.array(rows)
        return Columns(_each(lambda i: self.columns[i].take(taken), self.columns), self.counts[rows])


def is_columnar(plan: Plan) -> bool:
    """Whether a plan does nothing but move, compare and exactly calculate values."""
    return bool(plan.schema) and all(map(_is_columnar, walk(plan)))


def _is_columnar(node: Plan) -> bool:
    if any(column.type.name == "DOUBLE" for column in node.schema):
        return False
    match node:
        case Scan() | UnionAll() | Negate():
            return True
        case Project(_, outputs):
            return all(_is_value(output.scalar) for output in outputs)
        case Filter(_, predicate):
            return _is_condition(predicate)
        case Join(_, conditions):
            return all(map(_is_condition, conditions))
    return False


def _is_condition(scalar: Scalar) -> bool:
    match scalar:
        case Call("and" | "or", (left, right)):
            return _is_condition(left) and _is_condition(right)
        case Call("not", (arg,)):
            return _is_condition(arg)
        case Call("isnull" | "isnotnull", (arg,)):
            return _is_value(arg)
        case Ref():
            return scalar.type == BOOLEAN
        case Call(name, (left, right)) if name in _COMPARED:
            values = _is_value(left) and _is_value(right)
            return values and (name in ("=", "<>") or left.type.name not in ("BOOLEAN", "BINARY"))
    return False


def _is_value(scalar: Scalar) -> bool:
    if not refs(scalar):
        return is_exact_scalar(scalar) and scalar.type != VOID
    match scalar:
        case Ref():
            return True
        case Cast(arg, target):
            return _holds(target, arg.type) and _is_value(arg)
        case Call("+" | "-" | "*", (left, right)):
            whole = scalar.type.is_integer or scalar.type.precision < MAX_PRECISION  # then no digit gives way
            return whole and _is_value(left) and _is_value(right)
    return False


def _holds(type_: Type, other: Type) -> bool:
    """Whether a type has every value of another; only of numbers."""
    if type_.is_integer and other.is_integer:
        return type_.bits >= other.bits
    if not type_.is_decimal or not (other.is_integer or other.is_decimal):
        return False
    other = as_decimal(other)
    return type_.scale >= other.scale and type_.precision - type_.scale >= other.precision - other.scale


def _equated(condition: Scalar) -> tuple[int, int] | None:
    """The columns a condition says are equal, of one type or two of integers."""
    match condition:
        case Call("=", (left, right)):
            here, there = column_of(left), column_of(right)
            return None if here is None or there is None else (here, there)
    return None


def net_rows(plan: Plan, contents: Contents, room: Room) -> pa.Table:
    """The rows of a columnar plan under staged names, each once with its count; `contents` gives a scan's
    columns."""
    width = len(plan.schema)
    terms, budget = plan.inputs if isinstance(plan, UnionAll) else (plan,), Budget(room)
    made = side_by_side(lambda term: _rows(term, frozenset(range(width)), contents, budget), terms)
    columns = [pa.chunked_array([part.columns[i] for part in made]) for i in range(width)]
    counts = pa.chunked_array([pa.array(part.counts) for part in made])
    return pa.table([*columns, counts], schema=staged_schema(plan.schema.types))


def _rows(plan: Plan, wanted: frozenset[int], contents: Contents, budget: Budget) -> Columns:
    match plan:
        case Scan():
            return contents(plan, wanted)
        case Negate(source):
            rows = _rows(source, wanted, contents, budget)
            return Columns(rows.columns, -rows.counts)
        case UnionAll(parts):
            return _sum(side_by_side(lambda part: _rows(part, wanted, contents, budget), parts), wanted)
        case Project(source, outputs):
            scalars = {i: outputs[i].scalar for i in wanted}
            rows = _rows(source, frozenset[int]().union(*map(refs, scalars.values())), contents, budget)
            return Columns({i: _value(s, rows.columns, len(rows)) for i, s in scalars.items()}, rows.counts)
        case Filter(source, predicate):
            rows = _rows(source, wanted | refs(predicate), contents, budget)
            kept = _met([predicate], rows.columns, len(rows))
            return Columns({i: rows.columns[i] for i in wanted}, rows.counts).at(kept)
        case Join():
            return _join(plan, wanted, contents, budget)
    raise AssertionError(f"not columnar: {type(plan).__name__}")


def _each(column: Callable[[int], pa.Array], positions: Collection[int]) -> dict[int, pa.Array]:
    return dict(zip(positions, side_by_side(column, tuple(positions)), strict=True))


def _sum(parts: Sequence[Columns], wanted: Collection[int]) -> Columns:
    columns = _each(lambda i: pa.concat_arrays([part.columns[i] for part in parts]), wanted)
    return Columns(columns, np.concatenate([part.counts for part in parts]))


def _value(scalar: Scalar, columns: Mapping[int, pa.Array], rows: int) -> pa.Array:
    wanted = arrow_type(scalar.type)
    if not refs(scalar):
        return pa.repeat(pa.scalar(evaluate_scalar(scalar, ()), wanted), rows)
    match scalar:
        case Ref(position):
            return columns[position]
        case Cast(arg):
            return _value(arg, columns, rows).cast(wanted)
        case Call(name, (left, right)):
            found = _CALCULATED[name](_value(left, columns, rows), _value(right, columns, rows))
            if found.type != wanted:
                raise pa.ArrowInvalid(f"{found.type} for {wanted}")
            return found
    raise AssertionError(f"no value: {scalar}")


# -- conditions


def met(table: pa.Table, conditions: Sequence[Scalar]) -> pa.Array | None:
    """Which rows of a table meet conditions over its columns; None where it takes more than columns."""
    needed = frozenset[int]().union(*map(refs, conditions))
    if any(pa.types.is_floating(table.column(i).type) for i in needed):
        return None
    if not all(map(_is_condition, conditions)):
        return None
    found = np.zeros(table.num_rows, dtype=bool)
    try:
        found[_met(conditions, {i: one_array(table.column(i)) for i in needed}, table.num_rows)] = True
    except FAILURES:
        return None
    return pa.array(found)


def _met(conditions: Sequence[Scalar], columns: Mapping[int, pa.Array], rows: int) -> Numbers:
    """The rows for which every condition is true."""
    met = np.ones(rows, dtype=bool)
    for condition in conditions:
        met &= pc.fill_null(_truth(condition, columns, rows), False).to_numpy(zero_copy_only=False)
    return np.flatnonzero(met)


def _truth(scalar: Scalar, columns: Mapping[int, pa.Array], rows: int) -> pa.Array:
    match scalar:
        case Call("and", (left, right)):
            return pc.and_kleene(_truth(left, columns, rows), _truth(right, columns, rows))
        case Call("or", (left, right)):
            return pc.or_kleene(_truth(left, columns, rows), _truth(right, columns, rows))
        case Call("not", (arg,)):
            return pc.invert(_truth(arg, columns, rows))
        case Ref(position):
            return columns[position]
        case Call("isnull", (arg,)):
            return pc.is_null(_value(arg, columns, rows))
        case Call("isnotnull", (arg,)):
            return pc.is_valid(_value(arg, columns, rows))
        case Call(name, (left, right)):
            return _COMPARED[name](_value(left, columns, rows), _value(right, columns, rows))
    raise AssertionError(f"no condition: {scalar}")


# -- joins


def _join(join: Join, wanted: frozenset[int], contents: Contents, budget: Budget) -> Columns:
    """From the change outward. Until the end a row of the join is a number of a row in each input."""
    looked_at = wanted.union(*map(refs, join.conditions))
    places: dict[int, Columns] = {}
    for place, plan in enumerate(join.inputs):
        offset = join.offsets[place]
        mine = frozenset(p - offset for p in looked_at if offset <= p < offset + len(plan.schema))
        places[place] = _rows(plan, mine, contents, budget)
    first, *others = join_order(join)
    made = {first: np.arange(len(places[first]), dtype=np.int64)}
    counts, pending = places[first].counts, list(join.conditions)

    def column(position: int) -> pa.Array:
        place = join.input_of(position)
        return places[place].columns[position - join.offsets[place]].take(pa.array(made[place]))

    def width(position: int) -> float:
        place = join.input_of(position)
        return float(places[place].columns[position - join.offsets[place]].nbytes) / max(
            1, len(places[place])
        )

    for place in (first, *others):
        if place != first:
            links = [
                (old, new) for condition in pending for old, new in _linking(condition, join, place, made)
            ]
            new_columns = [places[place].columns[new - join.offsets[place]] for _, new in links]
            rows, partners = _pairs(
                [column(old) for old, _ in links], new_columns, len(counts), len(places[place]), budget
            )
            counts = counts[rows] * places[place].counts[partners]
            made = {p: taken[rows] for p, taken in made.items()} | {place: partners}
            pending = [c for c in pending if not any(True for _ in _linking(c, join, place, made))]
        ready = [c for c in pending if all(join.input_of(p) in made for p in refs(c))]
        if ready:
            pending = [c for c in pending if c not in ready]
            kept = _met(ready, {p: column(p) for c in ready for p in refs(c)}, len(counts))
            counts, made = counts[kept], {p: taken[kept] for p, taken in made.items()}
    budget.take(sum(map(width, wanted)) * len(counts))
    return Columns(_each(column, wanted), counts)


def _linking(condition: Scalar, join: Join, place: int, made: Collection[int]) -> Sequence[tuple[int, int]]:
    """The columns, one of what is made and one of the input at `place`, that a condition equates."""
    pair = _equated(condition)
    if pair is None:
        return ()
    known, new = sorted(pair, key=lambda p: join.input_of(p) == place)
    fits = join.input_of(new) == place and join.input_of(known) != place and join.input_of(known) in made
    return ((known, new),) if fits else ()


def _pairs(
    here: Sequence[pa.Array], there: Sequence[pa.Array], rows_here: int, rows_there: int, budget: Budget
) -> tuple[Numbers, Numbers]:
    """The numbers of the rows, here and there, that agree in all columns; NULL agrees with nothing."""
    if not here:
        budget.make(rows_here * rows_there)
        return (
            np.repeat(np.arange(rows_here), rows_there),
            np.tile(np.arange(rows_there), rows_here),
        )
    marks_here, marks_there, known_here, known_there = _marks(here, there)
    places = _places(marks_there[known_there], marks_here[known_here])
    if places is not None:
        met = places >= 0
        budget.make(int(np.count_nonzero(met)))
        return known_here[met], known_there[places[met]]
    order = known_there[np.argsort(marks_there[known_there], kind="stable")]
    in_order = marks_there[order]
    looked_for = marks_here[known_here]
    begin = np.searchsorted(in_order, looked_for, "left")
    times = np.searchsorted(in_order, looked_for, "right") - begin
    made = int(times.sum())
    budget.make(made)
    shift = begin - (np.cumsum(times) - times)
    partners = order[np.arange(made) + np.repeat(shift, times)]
    return np.repeat(known_here, times), partners


def _places(keys: Numbers, looked_for: Numbers) -> Numbers | None:
    """Where each value is among the keys, or -1; None where a key is there twice, or keys lie so far apart
    that a place for each value between them would be too many."""
    if not len(keys):
        return np.full(len(looked_for), -1)
    least, most = int(keys.min()), int(keys.max())
    if most - least >= min(DENSE * len(keys), MOST_PLACES):
        return None
    places = np.full(most - least + 1, -1, dtype=np.int32)
    places[keys - least] = np.arange(len(keys))
    if np.count_nonzero(places >= 0) < len(keys):
        return None
    among = (looked_for >= least) & (looked_for <= most)
    return np.where(among, places[np.where(among, looked_for, least) - least], -1)


def _marks(here: Sequence[pa.Array], there: Sequence[pa.Array]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """A number for each row, the same for rows that agree; and which rows have no NULL."""
    width = len(here[0])
    marks: Numbers | None = None
    known = np.ones(width + len(there[0]), dtype=bool)
    for left, right in zip(here, there, strict=True):
        if pa.types.is_integer(left.type):
            left, right = left.cast(pa.int64()), right.cast(pa.int64())
        both = pa.concat_arrays([left, right])
        if both.null_count:
            known &= pc.is_valid(both).to_numpy(zero_copy_only=False)
        if pa.types.is_integer(both.type):
            numbers = pc.fill_null(both, 0).to_numpy()
        else:
            numbers = pc.fill_null(both.dictionary_encode().indices, 0).to_numpy().astype(np.int64)
        if marks is None:
            marks = numbers
        else:
            _, one = np.unique(marks, return_inverse=True)
            values, other = np.unique(numbers, return_inverse=True)
            marks = one.astype(np.int64) * len(values) + other
    assert marks is not None
    return marks[:width], marks[width:], np.flatnonzero(known[:width]), np.flatnonzero(known[width:])


def columns_in(tables: Sequence[tuple[pa.Table, int]], wanted: Sequence[int]) -> Columns:
    """Tables whose first columns are those wanted, in order, with the counts last; each with a sign."""
    parts = [
        Columns(
            {position: one_array(table.column(i)) for i, position in enumerate(wanted)},
            one_array(table.column(COUNT)).to_numpy() * sign,
        )
        for table, sign in tables
    ]
    return parts[0] if len(parts) == 1 else _sum(parts, wanted)
