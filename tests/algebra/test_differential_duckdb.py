"""The naive evaluator beside DuckDB, on random schemas, contents and plans, bag for bag.

Where the two mean different things, the random plans keep away, and the tables of `test_functions.py` and
`test_casts.py` stand in. DuckDB 1.5.5 differs from Spark's ANSI mode in these:

- `/`, `%` and `div` by zero: infinity, NaN or NULL instead of an error. Divisors are guarded by a CASE.
- `/` of decimals: a DOUBLE. Decimal results that would need more than 38 digits: an error, not less scale.
- CAST of a DOUBLE or a DECIMAL to an integer rounds, Spark's truncates. CAST of a DOUBLE to a DECIMAL
  goes through binary multiplication, Spark's through the shortest decimal text.
- CAST of text: DuckDB reads '1.5' and '1e3' as integers, other words as BOOLEAN, other forms of dates.
- substring at positions 0 and below; LIKE has no escape unless one is named, and any character may be
  escaped; replace of '' ; upper and lower of letters that change their number (ß).
- floor and ceil of a DOUBLE beyond BIGINT: an error here, the end of the range in Spark.
- Dates before year 1 and after 9999: Python has none, the evaluator raises.
- AND and OR in a select list evaluate both sides, so an error that the left side would have kept from
  happening is raised by DuckDB alone; see `_may_raise_alone`.
- A DECIMAL cast to DOUBLE, beyond 15 digits, is divided in binary and may be off by the last bit.
"""

from __future__ import annotations

from itertools import permutations, product

import duckdb
import pytest
from duckdb_sql import answer, connect, literal_sql, plan_sql, scalar_sql, store, type_sql
from hypothesis import event, given
from hypothesis import strategies as st
from random_plans import COMMON, NUMBERS, RARE, TYPES, World, like_typed, plans, worlds

from stillframe.algebra import (
    Bag,
    Call,
    Column,
    EvaluationError,
    Filter,
    Join,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Schema,
    Type,
    UnionAll,
    Values,
    call,
    evaluate,
    evaluate_scalar,
)
from stillframe.algebra.plan import walk as walk_plan
from stillframe.algebra.scalar import walk as walk_scalar
from stillframe.algebra.types import BOOLEAN, DATE, STRING

DUCK = connect()


def prepare(world: World) -> None:
    for scan in world.scans:
        store(DUCK, scan.relation, scan.schema, world(scan))


def scalars_of(plan: Plan) -> list[Scalar]:
    found: list[Scalar] = []
    for node in walk_plan(plan):
        match node:
            case Filter(_, predicate):
                found.append(predicate)
            case Project(_, outputs):
                found += [output.scalar for output in outputs]
            case Join(_, conditions):
                found += conditions
    return [part for scalar in found for part in walk_scalar(scalar)]


def _may_raise_alone(plan: Plan) -> bool:
    return any(isinstance(s, Call) and s.function in ("and", "or") for s in scalars_of(plan))


def compare(plan: Plan, world: World) -> str:
    """What came of it: an error of one side, which leaves nothing to compare, or equal answers."""
    try:
        ours = evaluate(plan, world)
    except EvaluationError:
        return "the evaluator raised"
    try:
        theirs, types = answer(DUCK, plan)
    except (duckdb.OutOfRangeException, duckdb.ConversionException):
        if not _may_raise_alone(plan):
            raise
        return "DuckDB raised"
    assert types == [type_sql(type_) for type_ in plan.schema.types]
    assert ours == theirs, plan_sql(plan)
    return "equal" if ours else "equally empty"


@given(st.data())
def test_differential_plans(data: st.DataObject) -> None:
    world = data.draw(worlds())
    prepare(world)
    event(compare(data.draw(plans(world)), world))


@given(st.data())
def test_differential_joins(data: st.DataObject) -> None:
    """Joins over scans only, most of them with equalities, self-joins among them."""
    world = data.draw(worlds())
    prepare(world)
    event(compare(data.draw(plans(world, 2, "scan join")), world))


@given(st.data())
def test_differential_expressions(data: st.DataObject) -> None:
    """Projections and filters of one relation: deeper expressions, no joins."""
    world = data.draw(worlds())
    prepare(world)
    event(compare(data.draw(plans(world, 2, "scan select project project")), world))


@given(st.data())
def test_differential_differences(data: st.DataObject) -> None:
    """P ∪ −Q is the signed difference of the two answers."""
    world = data.draw(worlds())
    prepare(world)
    left = data.draw(plans(world, 2, "scan filter join"))
    right = like_typed(data.draw, data.draw(plans(world, 1, "scan filter join")), left.schema)
    try:
        ours = evaluate(UnionAll((left, Negate(right))), world)
    except EvaluationError:
        return
    try:
        theirs = answer(DUCK, left)[0] - answer(DUCK, right)[0]
    except (duckdb.OutOfRangeException, duckdb.ConversionException):
        assert _may_raise_alone(left) or _may_raise_alone(right)
        return
    assert ours == theirs


_MANY = {type_: COMMON[type_] + RARE[type_] for type_ in TYPES}


@pytest.mark.parametrize("function", ["+", "-", "*", "abs", "negative", "=", "<", "<=>"])
@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_differential_extremes(function: str, type_: Type) -> None:
    """One operation on every pair of values, errors included: both raise, or both give the same."""
    arity = 1 if function in ("abs", "negative") else 2
    operation = call(function, *(Ref(i, type_) for i in range(arity)))
    for a in _MANY[type_]:
        for b in _MANY[type_] if arity == 2 else [a]:
            ours = _outcome(lambda row=(a, b): evaluate_scalar(operation, row))
            theirs = _outcome(lambda row=(a, b): _duck_scalar(operation, row))
            assert ours == theirs, (function, a, b)


@pytest.mark.parametrize(
    ("function", "types"),
    [
        *((word, (BOOLEAN, BOOLEAN)) for word in ("and", "or", "coalesce")),
        *((word, (type_,)) for word in ("isnull", "isnotnull") for type_ in TYPES),
        *((word, (type_, type_)) for word in ("=", "<>", "<=", ">", ">=") for type_ in TYPES),
        *((word, (STRING,)) for word in ("upper", "lower", "length", "trim", "ltrim", "rtrim")),
        *((word, (DATE,)) for word in ("year", "quarter", "month", "day")),
        *((word, (type_,)) for word in ("floor", "ceil") for type_ in NUMBERS),
        *(("<", pair) for pair in permutations(NUMBERS, 2)),
        ("not", (BOOLEAN,)),
        ("concat", (STRING, STRING)),
        ("datediff", (DATE, DATE)),
    ],
    ids=lambda part: part if isinstance(part, str) else ",".join(map(str, part)),
)
def test_differential_functions(function: str, types: tuple[Type, ...]) -> None:
    """One function on every combination of values."""
    rows = list(product(*([*_MANY[type_], None] for type_ in types)))
    source = Values(Schema(tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types))), tuple(rows))
    refs = tuple(Ref(i, type_) for i, type_ in enumerate(types))
    outputs = (*refs, call(function, *refs))
    plan = Project(source, tuple(Output(f"p{i}", scalar) for i, scalar in enumerate(outputs)))
    assert compare(plan, World((), {})) == "equal"


def _outcome(run) -> object:  # type: ignore[no-untyped-def]
    try:
        return Bag.of([[run()]])
    except (EvaluationError, duckdb.OutOfRangeException, duckdb.ConversionException):
        return "raised"


def _duck_scalar(scalar: Scalar, row: tuple[object, ...]) -> object:
    refs = {s.position: s.type for s in walk_scalar(scalar) if isinstance(s, Ref)}
    columns = ", ".join(f"{literal_sql(row[p], t)} AS c{p}" for p, t in sorted(refs.items()))
    found = DUCK.execute(f"SELECT {scalar_sql(scalar, lambda p: f'c{p}')} FROM (SELECT {columns})").fetchone()
    assert found is not None
    return found[0]
