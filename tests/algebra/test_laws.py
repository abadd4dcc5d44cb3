"""Laws the rest stands on: bags are a commutative group, nodes are linear, normal forms mean the same."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_plans import TYPES, World, conditions, crowded_cases, plans, schemas, signed_bags, worlds

from stillframe.algebra import (
    Bag,
    Call,
    Column,
    EvaluationError,
    Filter,
    Join,
    Literal,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    UnionAll,
    call,
    evaluate,
    normalize,
)
from stillframe.algebra.plan import walk
from stillframe.algebra.schema import parse_type
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
    SMALLINT,
    TIMESTAMP,
    TINYINT,
    decimal,
)

NOTHING = Bag()


@given(st.data())
def test_bags_are_a_commutative_group(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    a, b, c = (data.draw(signed_bags(schema)) for _ in range(3))
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + NOTHING == a
    assert a + -a == NOTHING
    assert a - b == a + -b
    inverse = -a
    assert -inverse == a
    assert hash(a + b) == hash(b + a)
    assert pickle.loads(pickle.dumps(a)) == a
    assert all((a + b)[row] == a[row] + b[row] for row in {*a, *b})


@given(st.data())
def test_a_bag_counts_rows(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["a", None]))))
    bag = Bag.of(rows)
    assert dict(bag) == dict(Counter(rows))
    assert bag.size == len(rows) and (-bag).size == len(rows)
    assert bag.is_state
    assert Counter(bag.rows()) == Counter(rows)


def test_a_change_that_lacks_rows_is_no_state() -> None:
    change = -Bag.of([(1,)])
    assert not change.is_state
    with pytest.raises(ValueError, match="lack"):
        list(change.rows())


@pytest.mark.parametrize(
    ("one", "other"), [(float("nan"), float("inf") - float("inf")), (0.0, -0.0), (None, None)]
)
def test_identity_of_values(one: object, other: object) -> None:
    assert Bag.of([(one,)]) == Bag.of([(other,)])
    assert Bag.of([(one,)]) - Bag.of([(other,)]) == NOTHING
    assert Bag.of([(one,), (other,)])[(other,)] == 2
    assert (other,) in Bag.of([(one,)])
    assert len(Bag([((one,), 1), ((other,), 1)])) == 1
    assert pickle.loads(pickle.dumps(Bag.of([(one,)]))) == Bag.of([(other,)])


def test_null_is_no_value() -> None:
    assert Bag.of([(None,)]) != Bag.of([(0,)]) != Bag.of([("",)])
    assert Bag.of([(None, 1)]) != Bag.of([(1, None)])


def _sum(left: World, right: World) -> World:
    return World(left.scans, {name: left.contents[name] + right.contents[name] for name in left.contents})


def _signed(data: st.DataObject, world: World) -> World:
    return World(world.scans, {s.relation: data.draw(signed_bags(s.schema)) for s in world.scans})


def _value(plan: Plan, world: World) -> Bag:
    """Laws are about values: cases in which the evaluator raises are left aside."""
    try:
        return evaluate(plan, world)
    except EvaluationError:
        assume(False)
        raise


@given(st.data())
def test_nodes_of_one_input_are_linear(data: st.DataObject) -> None:
    world = data.draw(worlds())
    a, b = _signed(data, world), _signed(data, world)
    plan = data.draw(plans(world, 2, "scan select project union negate"))
    assert _value(plan, _sum(a, b)) == _value(plan, a) + _value(plan, b)
    assert _value(Join((plan,)), a) == _value(plan, a)


@given(st.data())
def test_a_join_is_linear_in_each_input(data: st.DataObject) -> None:
    """With the other inputs fixed: J(…, a + b, …) = J(…, a, …) + J(…, b, …)."""
    shapes = data.draw(st.lists(schemas, min_size=1, max_size=3))
    inputs = tuple(Scan(f"r{i}", schema) for i, schema in enumerate(shapes))
    join = Join(inputs, conditions(data.draw, Join(inputs).schema))
    fixed = _signed(data, World(inputs, {}))
    varied = data.draw(st.sampled_from(inputs))
    a, b = data.draw(signed_bags(varied.schema)), data.draw(signed_bags(varied.schema))

    def at(bag: Bag) -> Bag:
        return _value(join, World(inputs, {**fixed.contents, varied.relation: bag}))

    assert at(a + b) == at(a) + at(b)
    assert at(-a) == -at(a)
    assert at(NOTHING) == NOTHING


@given(st.data())
def test_a_self_join_of_a_sum_has_four_terms(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    a, b = data.draw(signed_bags(schema)), data.draw(signed_bags(schema))
    position = data.draw(st.integers(0, len(schema) - 1))
    type_ = schema[position].type
    condition = call("=", Ref(position, type_), Ref(position + len(schema), type_))

    def joined(left: str, right: str) -> Bag:
        return evaluate(
            Join((Scan(left, schema), Scan(right, schema)), (condition,)),
            lambda scan: {"a": a, "b": b, "both": a + b}[scan.relation],
        )

    terms = [joined(left, right) for left in "ab" for right in "ab"]
    assert joined("both", "both") == sum(terms, NOTHING)


@given(st.data())
def test_normal_form_means_the_same(data: st.DataObject) -> None:
    world = data.draw(worlds())
    plan = data.draw(plans(world, 3, "scan values filter select project columns join join union negate"))
    normal = normalize(plan)
    assert normal.schema.columns == plan.schema.columns
    assert _value(normal, world) == _value(plan, world)
    assert normalize(normal) == normal


@given(crowded_cases())
def test_normal_form_of_nested_joins_means_the_same(case: tuple[Plan, World]) -> None:
    plan, world = case
    assert evaluate(normalize(plan), world) == evaluate(plan, world)


@given(st.data())
def test_normal_form_has_one_shape(data: st.DataObject) -> None:
    """Under a join or a filter there is no projection and no join; every condition is one conjunct."""
    world = data.draw(worlds())
    normal = normalize(data.draw(plans(world, 3, "scan filter project columns join join union")))
    for node in walk(normal):
        match node:
            case Project(source):
                assert not isinstance(source, Project)
            case Filter(source, predicate):
                assert not isinstance(source, Project | Join)
                assert not (isinstance(predicate, Call) and predicate.function == "and")
            case Join(sources, conditions):
                assert not any(isinstance(source, Project | Filter | Join) for source in sources)
                assert not any(isinstance(c, Call) and c.function == "and" for c in conditions)


@given(st.data())
def test_columns_said_to_hold_no_null_hold_none(data: st.DataObject) -> None:
    world = data.draw(worlds(keyed=True))
    plan = data.draw(plans(world, 3, "scan filter project columns join union"))
    rows = list(_value(plan, world))
    for i, column in enumerate(plan.schema):
        assert column.nullable or all(row[i] is not None for row in rows)


ALL_TYPES = (*TYPES, TINYINT, SMALLINT, BINARY, TIMESTAMP, decimal(1, 0), decimal(38, 38), decimal(38, 0))


@pytest.mark.parametrize("type_", ALL_TYPES, ids=str)
def test_a_type_is_read_back_from_its_text(type_) -> None:  # type: ignore[no-untyped-def]
    assert parse_type(str(type_)) == type_


@given(st.data())
def test_a_schema_is_read_back_from_json(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.text(), max_size=5, unique=True))
    columns = tuple(
        Column(name, data.draw(st.sampled_from(ALL_TYPES)), data.draw(st.booleans())) for name in names
    )
    positions = st.integers(0, len(names) - 1) if names else st.nothing()
    keys = data.draw(st.frozensets(st.frozensets(positions, max_size=len(names)), max_size=3))
    schema = Schema(columns, keys)
    assert Schema.from_json(schema.to_json()) == schema


def test_a_union_may_hold_null_where_one_part_may() -> None:
    sure, unsure = (Scan("r", Schema((Column("a", INT, nullable),))) for nullable in (False, True))
    assert UnionAll((sure, unsure)).schema[0].nullable and UnionAll((unsure, sure)).schema[0].nullable
    assert not UnionAll((sure, sure)).schema[0].nullable


def test_nodes_refuse_nonsense() -> None:
    scan = Scan("r", Schema((Column("a", INT), Column("b", BOOLEAN))))
    with pytest.raises(ValueError, match="BOOLEAN"):
        Filter(scan, Ref(0, INT))
    with pytest.raises(ValueError, match="no column 2"):
        Filter(scan, Ref(2, BOOLEAN))
    with pytest.raises(ValueError, match="needs an input"):
        Join(())
    with pytest.raises(ValueError, match="key"):
        Schema((Column("a", INT),), frozenset({frozenset({1})}))
    with pytest.raises(KeyError, match="there are: a, b"):
        scan.schema.position("c")
    assert scan.schema.position("B") == 1
    assert Literal(1, BIGINT).type == BIGINT != DOUBLE
