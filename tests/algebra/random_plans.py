"""Random schemas, contents and plans. Values come from small pools, so that rows repeat and joins meet;
the pools hold the awkward ones: NULL, NaN, both zeros, infinities, the ends of each type's range."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from math import prod
from typing import Any

from hypothesis import strategies as st

from stillframe.algebra import (
    Bag,
    Cast,
    Column,
    Filter,
    Join,
    Literal,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    Type,
    UnionAll,
    Values,
    call,
    case,
    cast,
)
from stillframe.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, decimal

MONEY, RATE, COUNT = decimal(9, 2), decimal(12, 4), decimal(5, 0)
NUMBERS = (BIGINT, INT, DOUBLE, MONEY, RATE, COUNT)
TYPES = (*NUMBERS, STRING, BOOLEAN, DATE)

COMMON: dict[Type, list[Any]] = {
    BIGINT: [0, 1, 2, -1, 7],
    INT: [0, 1, 2, -1, 5],
    DOUBLE: [0.0, -0.0, 1.5, -2.0, 0.1],
    MONEY: [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("2.00")],
    RATE: [Decimal("0.0000"), Decimal("1.5000"), Decimal("-0.1250"), Decimal("2.0000")],
    COUNT: [Decimal(0), Decimal(2), Decimal(-3)],
    STRING: ["", "a", "ab", "A", "a%b", " a "],
    BOOLEAN: [True, False],
    DATE: [date(2024, 2, 29), date(2024, 3, 1), date(1999, 12, 31)],
}
RARE: dict[Type, list[Any]] = {
    BIGINT: [2**63 - 1, -(2**63)],
    INT: [2**31 - 1, -(2**31)],
    DOUBLE: [float("nan"), float("inf"), float("-inf"), 1e308, 5e-324],
    MONEY: [Decimal("9999999.99"), Decimal("-9999999.99"), Decimal("0.01")],
    RATE: [Decimal("99999999.9999"), Decimal("-0.0001")],
    COUNT: [Decimal(99999), Decimal(-99999)],
    STRING: ["_", "\\", "a\nb", "é", "日本", "😀", "z" * 20],
    BOOLEAN: [],
    DATE: [date(1, 1, 1), date(9999, 12, 31), date(1582, 10, 10)],
}
PATTERNS = ["%", "_", "a%", "%b", "a\\%b", "a_b", "\\_", "\\\\", "", "__", "%é%", "_%_"]


def values(type_: Type, nullable: bool = True) -> st.SearchStrategy[Any]:
    pools: list[st.SearchStrategy[Any]] = [st.sampled_from(COMMON.get(type_, [Decimal(0)]))] * 4
    if RARE.get(type_):
        pools.append(st.sampled_from(RARE[type_]))
    if nullable:
        pools.append(st.none())
    return st.one_of(pools)


def rows_of(schema: Schema, max_size: int = 6) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(*(values(c.type, c.nullable) for c in schema)), max_size=max_size)


schemas = st.lists(st.sampled_from(TYPES), min_size=1, max_size=4).map(
    lambda types: Schema(tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types)))
)


@st.composite
def signed_bags(draw: st.DrawFn, schema: Schema) -> Bag:
    counts = draw(
        st.lists(st.tuples(st.tuples(*(values(c.type) for c in schema)), st.integers(-2, 2)), max_size=4)
    )
    return Bag(counts)


@dataclass(frozen=True)
class World:
    """Relations by name: their schemas and what they hold."""

    scans: tuple[Scan, ...]
    contents: dict[str, Bag]

    def __call__(self, scan: Scan) -> Bag:
        return self.contents[scan.relation]


@st.composite
def worlds(draw: st.DrawFn, keyed: bool = False) -> World:
    scans, contents = [], {}
    for i in range(draw(st.integers(1, 3))):
        name = f"r{i}"
        schema = draw(keyed_schemas() if keyed else schemas)
        rows = draw(rows_of(schema))
        scans.append(Scan(name, schema))
        contents[name] = Bag.of(satisfying_keys(schema, rows))
    return World(tuple(scans), contents)


@st.composite
def keyed_schemas(draw: st.DrawFn) -> Schema:
    """Few types, so that columns can meet; now and then two keys, or none."""
    types = draw(st.lists(st.sampled_from([INT, INT, BIGINT, STRING, DOUBLE]), min_size=1, max_size=4))
    keys = draw(
        st.lists(
            st.frozensets(st.integers(0, len(types) - 1), min_size=1, max_size=2), min_size=0, max_size=2
        )
    )
    in_a_key = frozenset().union(*keys)
    columns = tuple(Column(f"c{i}", t, nullable=i not in in_a_key) for i, t in enumerate(types))
    return Schema(columns, frozenset(keys))


def satisfying_keys(schema: Schema, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    kept: list[tuple[Any, ...]] = []
    for row in rows:
        if not any(shares_key(key, row, other) for key in schema.keys for other in kept):
            kept.append(row)
    return kept


def shares_key(key: frozenset[int], row: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return Bag.of([[row[i] for i in sorted(key)]]) == Bag.of([[other[i] for i in sorted(key)]])


# Scalars: `scalar_of` makes one of a given type, `scalar` one of whatever type comes out.


def scalar_of(draw: st.DrawFn, schema: Schema, type_: Type, depth: int = 2) -> Scalar:
    here = [Ref(i, column.type, column.name) for i, column in enumerate(schema) if column.type == type_]
    ways = ["literal", *["ref"] * (4 if here else 0)]
    if depth > 0:
        ways += ["case", "coalesce", "function", "function", "function"]
    match draw(st.sampled_from(ways)):
        case "literal":
            return Literal(draw(values(type_)), type_)
        case "ref":
            return draw(st.sampled_from(here))
        case "case":
            condition = scalar_of(draw, schema, BOOLEAN, depth - 1)
            branches = ((condition, scalar_of(draw, schema, type_, depth - 1)),)
            return case(branches, scalar_of(draw, schema, type_, depth - 1))
        case "coalesce":
            parts = [scalar_of(draw, schema, type_, depth - 1) for _ in range(draw(st.integers(1, 3)))]
            return call("coalesce", *parts)
    return _function(draw, schema, type_, depth - 1)


def scalar(draw: st.DrawFn, schema: Schema, depth: int = 2) -> Scalar:
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        return arithmetic(draw, schema, depth - 1)
    return scalar_of(draw, schema, draw(st.sampled_from([*schema.types, *TYPES])), depth)


def arithmetic(draw: st.DrawFn, schema: Schema, depth: int) -> Scalar:
    """A number of the type the operation gives. Divisors are guarded, as only their guard agrees."""
    left, right = (_number(draw, schema, depth) for _ in range(2))
    operator = draw(st.sampled_from(["+", "-", "*", "%", "div", "/", "abs", "negative", "floor", "ceil"]))
    if operator in ("abs", "negative", "floor", "ceil"):
        return call(operator, left)
    if operator == "div":
        left, right = (scalar_of(draw, schema, BIGINT, depth) for _ in range(2))
    if operator == "/":
        left, right = cast(left, DOUBLE), cast(right, DOUBLE)
    result = call(operator, left, right)
    if operator in ("/", "%", "div"):
        assert hasattr(result, "args")
        zero = call("<>", result.args[1], Literal(0, INT))
        return case(((zero, result),), Literal(None, result.type))
    return result


def _number(draw: st.DrawFn, schema: Schema, depth: int) -> Scalar:
    return scalar_of(draw, schema, draw(st.sampled_from(NUMBERS)), depth)


def _function(draw: st.DrawFn, schema: Schema, type_: Type, depth: int) -> Scalar:
    def of(wanted: Type) -> Scalar:
        return scalar_of(draw, schema, wanted, depth)

    if type_ == BOOLEAN:
        return _condition(draw, schema, depth)
    if type_ == STRING:
        match draw(st.sampled_from(["concat", "case of letters", "trim", "substring", "replace", "cast"])):
            case "concat":
                return call("concat", of(STRING), of(STRING))
            case "case of letters":
                return call(draw(st.sampled_from(["upper", "lower"])), of(STRING))
            case "trim":
                return call(draw(st.sampled_from(["trim", "ltrim", "rtrim"])), of(STRING))
            case "substring":
                start, length = (Literal(draw(st.integers(low, 4)), INT) for low in (1, 0))
                return call("substring", of(STRING), start, length)
            case "replace":
                search = Literal(draw(st.sampled_from(["a", "ab", "%", "x"])), STRING)
                return call("replace", of(STRING), search, of(STRING))
        return Cast(of(draw(st.sampled_from([BIGINT, INT, MONEY, RATE, BOOLEAN, DATE]))), STRING)
    if type_ == DATE:
        days = Literal(draw(st.integers(-400, 400)), INT)
        return call(draw(st.sampled_from(["date_add", "date_sub"])), of(DATE), days)
    if type_ == INT and draw(st.booleans()):
        part = draw(st.sampled_from(["length", "year", "quarter", "month", "day", "datediff"]))
        if part == "length":
            return call("length", of(STRING))
        return call(part, *(of(DATE) for _ in range(2 if part == "datediff" else 1)))
    if type_.is_integer:
        operator = draw(st.sampled_from(["+", "-", "*", "abs", "negative", "cast"]))
        if operator == "cast":
            return cast(of(draw(st.sampled_from([INT, BIGINT, BOOLEAN]))), type_)
        return call(operator, *(of(type_) for _ in range(1 if operator in ("abs", "negative") else 2)))
    if type_ == DOUBLE:
        return cast(_number(draw, schema, depth), DOUBLE)
    whole_or_decimal = [t for t in NUMBERS if t != DOUBLE]
    return cast(of(draw(st.sampled_from(whole_or_decimal))), type_)


def _condition(draw: st.DrawFn, schema: Schema, depth: int) -> Scalar:
    match draw(
        st.sampled_from(["compare", "compare", "numbers", "and", "or", "not", "null", "like", "cast"])
    ):
        case "compare":
            type_ = draw(st.sampled_from([*schema.types, *TYPES]))
            sides = [scalar_of(draw, schema, type_, depth) for _ in range(2)]
            return call(draw(comparisons), *sides)
        case "numbers":
            return call(draw(comparisons), *(_number(draw, schema, depth) for _ in range(2)))
        case "and" | "or" as word:
            return call(word, *(scalar_of(draw, schema, BOOLEAN, depth) for _ in range(2)))
        case "not":
            return call("not", scalar_of(draw, schema, BOOLEAN, depth))
        case "null":
            return call(draw(st.sampled_from(["isnull", "isnotnull"])), scalar(draw, schema, depth))
        case "like":
            pattern = Literal(draw(st.sampled_from(PATTERNS)), STRING)
            return call("like", scalar_of(draw, schema, STRING, depth), pattern)
    return cast(scalar_of(draw, schema, draw(st.sampled_from([INT, BIGINT])), depth), BOOLEAN)


comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])


# Plans.


def most_rows(plan: Plan, world: World) -> int:
    """An upper bound, by which joins that would take the evaluator long are avoided."""
    match plan:
        case Scan():
            return world(plan).size
        case Values(_, rows):
            return len(rows)
        case Join(inputs):
            return prod(most_rows(source, world) for source in inputs)
    return sum(most_rows(source, world) for source in plan.inputs)


def equality(draw: st.DrawFn, schema: Schema) -> Scalar | None:
    """Two columns of one type, equal."""
    pairs = [(a, b) for a in range(len(schema)) for b in range(a) if schema[a].type == schema[b].type]
    if not pairs:
        return None
    a, b = draw(st.sampled_from(pairs))
    return call("=", Ref(a, schema[a].type), Ref(b, schema[b].type))


def conditions(draw: st.DrawFn, schema: Schema) -> tuple[Scalar, ...]:
    found = []
    for _ in range(draw(st.integers(0, 2))):
        joined = equality(draw, schema) if draw(st.integers(0, 4)) else None
        found.append(joined or scalar_of(draw, schema, BOOLEAN, 1))
    return tuple(found)


@st.composite
def plans(
    draw: st.DrawFn, world: World, depth: int = 3, nodes: str = "scan values filter project join union"
) -> Plan:
    kinds = [kind for kind in nodes.split() if depth > 0 or kind in ("scan", "values")]

    def child() -> Plan:
        return draw(plans(world, depth - 1, nodes))

    match draw(st.sampled_from(kinds[::-1] if depth > 1 else kinds)):
        case "scan":
            return draw(st.sampled_from(world.scans))
        case "values":
            schema = draw(schemas)
            return Values(schema, tuple(draw(rows_of(schema, 3))))
        case "filter":
            source = child()
            return Filter(source, equality(draw, source.schema) or scalar_of(draw, source.schema, BOOLEAN))
        case "select":
            source = child()
            return Filter(source, scalar_of(draw, source.schema, BOOLEAN))
        case "project":
            source = child()
            scalars = [scalar(draw, source.schema) for _ in range(draw(st.integers(1, 4)))]
            return Project(source, tuple(Output(f"p{i}", s) for i, s in enumerate(scalars)))
        case "columns":
            return draw(projections_of_columns(child()))
        case "join":
            inputs = [child() for _ in range(draw(st.integers(1, 3)))]
            while len(inputs) > 1 and most_rows(Join(tuple(inputs)), world) > 2000:
                inputs.pop()
            return Join(tuple(inputs), conditions(draw, Join(tuple(inputs)).schema))
        case "union":
            first = child()
            return UnionAll(
                (first, *(like_typed(draw, child(), first.schema) for _ in range(draw(st.integers(0, 2)))))
            )
        case "negate":
            return Negate(child())
    raise AssertionError(nodes)


@st.composite
def projections_of_columns(draw: st.DrawFn, source: Plan) -> Plan:
    picked = draw(st.lists(st.integers(0, len(source.schema) - 1), min_size=1, max_size=6))
    return Project(
        source, tuple(Output(f"q{i}", Ref(p, source.schema[p].type)) for i, p in enumerate(picked))
    )


def like_typed(draw: st.DrawFn, plan: Plan, schema: Schema) -> Plan:
    """A projection of `plan` to the types of `schema`, so that the two can be united."""
    scalars = [scalar_of(draw, plan.schema, wanted, 1) for wanted in schema.types]
    return Project(plan, tuple(Output(f"u{i}", scalar) for i, scalar in enumerate(scalars)))


# Plans over crowded relations: keys hold, joins find partners, nothing raises.


@st.composite
def crowded_relations(draw: st.DrawFn, name: str) -> tuple[Scan, Bag]:
    """A few columns of few values: crowded, so that what is no key soon shows a repeated row."""
    width = draw(st.integers(1, 3))
    key = st.frozensets(st.integers(0, width - 1), min_size=1, max_size=2)
    identifying = draw(st.lists(key, min_size=0 if draw(st.integers(0, 7)) == 0 else 1, max_size=2))
    in_a_key = frozenset().union(*identifying)
    columns = tuple(Column(f"c{i}", INT, nullable=i not in in_a_key) for i in range(width))
    schema = Schema(columns, frozenset(identifying))
    values = [st.integers(0, 2) if i in in_a_key else st.none() | st.integers(0, 1) for i in range(width)]
    rows = draw(st.lists(st.tuples(*values), min_size=2, max_size=6))
    return Scan(name, schema), Bag.of(satisfying_keys(schema, rows))


def _comparison(draw: st.DrawFn, schema: Schema) -> Scalar:
    function = draw(st.sampled_from(["=", "=", "=", "<=", "<>", "<=>"]))
    return call(function, *(Ref(draw(st.integers(0, len(schema) - 1)), INT) for _ in range(2)))


def _crowded_plan(draw: st.DrawFn, world: World, depth: int) -> Plan:
    match draw(st.sampled_from(["filter", "columns", "join", "join"] if depth else ["scan"])):
        case "filter":
            source = _crowded_plan(draw, world, depth - 1)
            return Filter(source, _comparison(draw, source.schema))
        case "columns":
            return draw(projections_of_columns(_crowded_plan(draw, world, depth - 1)))
        case "join":
            inputs = [_crowded_plan(draw, world, depth - 1) for _ in range(2)]
            while most_rows(Join(tuple(inputs)), world) > 2000:
                inputs.pop()
            schema = Join(tuple(inputs)).schema
            return Join(
                tuple(inputs), tuple(_comparison(draw, schema) for _ in range(draw(st.integers(0, 2))))
            )
    return draw(st.sampled_from(world.scans))


@st.composite
def crowded_cases(draw: st.DrawFn) -> tuple[Plan, World]:
    found = [draw(crowded_relations(f"r{i}")) for i in range(draw(st.integers(1, 3)))]
    world = World(tuple(scan for scan, _ in found), {scan.relation: bag for scan, bag in found})
    return _crowded_plan(draw, world, draw(st.integers(1, 3))), world
