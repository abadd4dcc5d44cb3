"""Plans computed in columns against the naive evaluator, and what is left to the engine."""

from __future__ import annotations

import os
import random
from collections.abc import Collection
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stillframe.algebra import (
    Aggregate,
    Bag,
    Call,
    Column,
    Filter,
    Join,
    Literal,
    Moment,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    UnionAll,
    call,
    cast,
    evaluate,
)
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.evaluate import evaluate_scalar
from stillframe.algebra.netting import netted
from stillframe.algebra.plan import walk
from stillframe.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, MAX_PRECISION, STRING, Type, decimal
from stillframe.engine import Room
from stillframe.runtime.columnar import FAILURES, Columns, TooMany, columns_in, is_columnar, met, net_rows
from stillframe.runtime.holding import arrow_of, bag_of

SEED = int(os.environ.get("STILLFRAME_SEED", random.randrange(2**32)))
MONEY = decimal(9, 2)
VALUES: dict[Type, list[Any]] = {
    BIGINT: [0, 1, 2, -1, 2**63 - 1, -(2**63), None],
    INT: [0, 1, 2, -1, 2**31 - 1, None],
    STRING: ["", "a", "A", "é", "😀", "\uffff", None],
    DATE: [date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31), None],
    MONEY: [Decimal("0.00"), Decimal("-1.50"), Decimal("9999999.99"), None],
    BOOLEAN: [True, False, None],
}


def values_of(type_: Type) -> list[Any]:
    return VALUES.get(type_) or [Decimal(n).scaleb(-type_.scale) for n in (0, 15, -1)]


class World:
    """Random relations, and plans over them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.contents: dict[str, Bag] = {}

    def scan(self, types: list[Type] | None = None) -> Scan:
        chosen = types or self.random.choices(list(VALUES), k=self.random.randrange(1, 4))
        rows = [
            (tuple(self.random.choice(values_of(t)) for t in chosen), self.random.choice([-2, -1, 1, 1, 2]))
            for _ in range(self.random.randrange(12))
        ]
        name = f"r{len(self.contents)}"
        self.contents[name] = Bag(rows)
        schema = Schema(tuple(Column(f"c{i}", t) for i, t in enumerate(chosen)))
        return Scan(name, schema, self.random.choice(list(Moment)))

    def plan(self, depth: int, types: list[Type] | None = None) -> Plan:
        kind = self.random.choice(["scan", "join", "join", "project", "filter", "negate", "union"])
        if depth == 0 or kind == "scan":
            return self.scan(types)
        if types is not None:
            return UnionAll((self.scan(types), Negate(self.scan(types))))
        if kind == "join":
            return self.join([self.plan(depth - 1) for _ in range(self.random.randrange(2, 4))])
        source = self.plan(depth - 1)
        match kind:
            case "project":
                columns = [self.column(source.schema) for _ in range(self.random.randrange(1, 4))]
                outputs = [self.calculated(c) for c in columns]
                return Project(source, tuple(Output(f"x{i}", scalar) for i, scalar in enumerate(outputs)))
            case "filter":
                return Filter(source, self.condition(source.schema, 2))
            case "negate":
                return Negate(source)
        return UnionAll((source, self.plan(1, list(source.schema.types))))

    def column(self, schema: Schema) -> Ref:
        place = self.random.randrange(len(schema))
        return Ref(place, schema[place].type)

    def calculated(self, column: Ref) -> Scalar:
        chance = self.random.random()
        if chance < 0.1:
            return self.literal(column.type)
        if chance < 0.6 or not column.type.is_numeric:
            return column
        other = self.literal(self.random.choice([column.type, INT, MONEY]))
        pair = (column, other) if self.random.random() < 0.5 else (other, column)
        return call(self.random.choice("+-*"), *pair)

    def literal(self, type_: Type) -> Literal:
        return Literal(self.random.choice(values_of(type_)), type_)

    def condition(self, schema: Schema, depth: int) -> Scalar:
        match self.random.randrange(6) if depth else 3:
            case 0:
                return call("and", self.condition(schema, depth - 1), self.condition(schema, depth - 1))
            case 1:
                return call("or", self.condition(schema, depth - 1), self.condition(schema, depth - 1))
            case 2:
                return call("not", self.condition(schema, depth - 1))
        here = self.column(schema)
        others = [i for i, c in enumerate(schema) if c.type == here.type]
        if here.type == BOOLEAN and self.random.random() < 0.5:
            return here
        if here.type == BOOLEAN or self.random.random() < 0.2:
            return call(self.random.choice(["isnull", "isnotnull"]), here)
        there = Ref(self.random.choice(others), here.type)
        operator = self.random.choice(["=", "<>", "<", "<=", ">", ">="])
        return call(operator, here, self.random.choice([there, self.literal(here.type)]))

    def join(self, inputs: list[Plan]) -> Plan:
        schema = Join(tuple(inputs)).schema
        pairs = [
            (a, b)
            for a in range(len(schema))
            for b in range(a)
            if schema[a].type == schema[b].type or {schema[a].type, schema[b].type} == {INT, BIGINT}
        ]
        chosen = self.random.sample(pairs, min(len(pairs), self.random.randrange(4)))
        conditions = [call("=", Ref(a, schema[a].type), Ref(b, schema[b].type)) for a, b in chosen]
        if self.random.random() < 0.3:
            conditions.append(self.condition(schema, 1))
        return Join(tuple(inputs), tuple(conditions))

    def columns(self, scan: Scan, wanted: Collection[int]) -> Columns:
        """In two tables, one with the other sign, so that parts are added up too."""
        bag = self.contents[scan.relation]
        places, table = sorted(wanted), arrow_of(bag, scan.schema)
        chosen = [*(f"c{i}" for i in places), "__count"]
        half = table.num_rows // 2
        other = arrow_of(-bag, scan.schema)
        parts = [(table.slice(0, half), 1), (other.slice(half), -1)]
        return columns_in([(part.select(chosen), sign) for part, sign in parts], places)


def computed(plan: Plan, world: World) -> Bag:
    table = netted(net_rows(plan, world.columns, Room()))
    assert table.schema.types[:-1] == [arrow_type(t) for t in plan.schema.types]
    return bag_of(table.to_batches(), len(plan.schema), range(len(plan.schema)))


def test_differential_in_columns_and_row_by_row() -> None:
    print(f"STILLFRAME_SEED={SEED}")
    some = joined = failed = calculated = 0
    for number in range(400):
        world = World(SEED + number)
        plan = world.plan(3)
        if any(column.type.precision == MAX_PRECISION for node in walk(plan) for column in node.schema):
            continue  # digits may give way
        assert is_columnar(plan), plan
        try:
            found = computed(plan, world)
            expected = evaluate(plan, lambda scan, world=world: world.contents[scan.relation])
        except FAILURES:  # here rows that cancel may fail; there, columns that nobody looks at
            failed += 1
            continue
        assert found == expected, (SEED + number, plan)
        calculates = any(
            isinstance(node, Project) and any(isinstance(o.scalar, Call) for o in node.outputs)
            for node in walk(plan)
        )
        calculated += bool(expected) and calculates
        some += bool(expected)
        joined += bool(expected) and isinstance(plan, Join)
    assert some > 100
    assert min(joined, calculated) > 5
    assert failed < 100


def test_conditions_on_columns_and_row_by_row() -> None:
    print(f"STILLFRAME_SEED={SEED}")
    judged = 0
    for number in range(400):
        world = World(SEED + number)
        scan = world.scan()
        rows = list(world.contents[scan.relation])
        conditions = [world.condition(scan.schema, 2) for _ in range(world.random.randrange(1, 3))]
        found = met(arrow_of(world.contents[scan.relation], scan.schema), conditions)
        assert found is not None, conditions
        expected = [all(evaluate_scalar(c, row) is True for c in conditions) for row in rows]
        assert found.to_pylist() == expected, (SEED + number, conditions)
        judged += any(expected) and not all(expected)
    assert judged > 50


def test_floats_and_what_fails_are_not_judged_in_columns() -> None:
    floats = pa.table({"c0": [0.0], "c1": [2**63 - 1]})
    assert met(floats, [call("=", Ref(0, DOUBLE), Literal(0.0, DOUBLE))]) is None
    beyond = call(">", call("+", Ref(1, BIGINT), Literal(1, BIGINT)), Literal(0, BIGINT))
    assert met(floats, [beyond]) is None


NUMBERS = Scan("r", Schema((Column("k", BIGINT), Column("v", BIGINT))))
PLANS: dict[str, Plan] = {
    "a float": Scan("r", Schema((Column("k", DOUBLE),))),
    "a sum that loses digits": Project(
        Scan("r", Schema((Column("k", decimal(38, 4)),))),
        (Output("x", call("+", Ref(0, decimal(38, 4)), Ref(0, decimal(38, 4)))),),
    ),
    "a cast that rounds": Project(
        Scan("r", Schema((Column("k", MONEY),))), (Output("x", cast(Ref(0, MONEY), decimal(9, 1))),)
    ),
    "a remainder": Filter(NUMBERS, call("isnull", call("%", Ref(0, BIGINT), Ref(1, BIGINT)))),
    "a condition that calculates": Filter(NUMBERS, call(">", call("abs", Ref(0, BIGINT)), Ref(1, BIGINT))),
    "an aggregate": Aggregate(NUMBERS, (Output("k", Ref(0, BIGINT)),), ()),
    "no columns": Project(NUMBERS, ()),
}


@pytest.mark.parametrize("name", PLANS)
def test_what_is_left_to_others(name: str) -> None:
    assert not is_columnar(PLANS[name])


@pytest.mark.parametrize("conditions", [(), (call("=", Ref(0, BIGINT), Ref(2, BIGINT)),)])
def test_a_join_too_large_is_not_made(
    conditions: tuple[Scalar, ...],
) -> None:
    rows = pa.table({"c0": [7] * 1000, "c1": [1] * 1000, "__count": [1] * 1000})
    plan = Project(Join((NUMBERS, NUMBERS), conditions), (Output("x", Ref(0, BIGINT)),))

    def contents(scan: Scan, wanted: Collection[int]) -> Columns:
        places = sorted(wanted)
        return columns_in([(rows.select([*(f"c{i}" for i in places), "__count"]), 1)], places)

    assert net_rows(plan, contents, Room()).num_rows == Room().made
    with pytest.raises(TooMany):
        net_rows(plan, contents, Room(rows=Room().rows - 1))
    with pytest.raises(TooMany):
        net_rows(plan, contents, Room(bytes=4 * 1000 * 1000 - 1))
    just_enough = Room(bytes=4 * 1000 * 1000)
    assert net_rows(plan, contents, just_enough).num_rows == 1000 * 1000
    with pytest.raises(TooMany):
        net_rows(UnionAll((plan, Negate(plan))), contents, just_enough)
