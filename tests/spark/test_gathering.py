"""Joins that Sail is given are the joins that were written, with small relations gathered first."""

from __future__ import annotations

from random import Random

import pytest

from shops import Shop
from stillframe.algebra import (
    Bag,
    Cast,
    Column,
    Filter,
    Join,
    Literal,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    call,
    evaluate,
)
from stillframe.algebra.plan import walk
from stillframe.algebra.types import BIGINT, INT
from stillframe.engine import Engine
from stillframe.engine.gathering import _Shape, gathered
from stillframe.engine.plan_sql import select_sql
from stillframe.engine.scalar_sql import ScalarWriter
from stillframe.runtime import work

SEED, CASES = 20_261, 300


def scan(name: str, *columns: str, keyed: bool = True) -> Scan:
    keys = frozenset({frozenset({0})}) if keyed else frozenset()
    return Scan(name, Schema(tuple(Column(column, BIGINT) for column in columns), keys))


def equal(left: int, right: int) -> Scalar:
    return call("=", Ref(left, BIGINT), Ref(right, BIGINT))


LINES = scan("lines", "order", "supplier", keyed=False)
ORDERS, CUSTOMERS = scan("orders", "key", "customer"), scan("customers", "key", "name")
SUPPLIERS, NATIONS, REGIONS = (
    scan("suppliers", "key", "nation"),
    scan("nations", "key", "region"),
    scan("r", "key"),
)
SIX = (LINES, ORDERS, CUSTOMERS, SUPPLIERS, NATIONS, REGIONS)
CONDITIONS = (equal(0, 2), equal(3, 4), equal(1, 6), equal(7, 8), equal(9, 10))
ROWS = {"lines": 6e6, "orders": 1.5e6, "customers": 1.5e5, "suppliers": 1e4, "nations": 25.0, "r": 5.0}


def shape(plan: Plan) -> str:
    """Relations, those that are joined first in brackets."""
    while isinstance(plan, Project):
        plan = plan.input
    if isinstance(plan, Join):
        return f"({' '.join(map(shape, plan.inputs))})"
    return next(node.relation for node in walk(plan) if isinstance(node, Scan))


def test_what_a_relation_refers_to_is_joined_to_it_first() -> None:
    found = gathered(Join(SIX, CONDITIONS), ROWS)
    assert shape(found) == "(lines (orders customers) (suppliers (nations r)))"
    assert found.schema.types == Join(SIX, CONDITIONS).schema.types
    assert all(len(join.conditions) == len(join.inputs) - 1 for join in walk(found) if isinstance(join, Join))


def test_the_order_in_which_it_was_written_does_not_matter() -> None:
    order = (5, 2, 0, 4, 1, 3)
    inputs = tuple(SIX[place] for place in order)
    starts = {place: sum(len(SIX[p].schema) for p in order[:now]) for now, place in enumerate(order)}
    first = Join(SIX)

    def moved(position: int) -> int:
        place = first.input_of(position)
        return starts[place] + position - first.offsets[place]

    conditions = tuple(equal(moved(a), moved(b)) for a, b in ((0, 2), (3, 4), (1, 6), (7, 8), (9, 10)))
    found = shape(gathered(Join(inputs, conditions), ROWS))
    assert sorted(found) == sorted("(lines (orders customers) (suppliers (nations r)))")
    assert "(orders customers)" in found and "(nations r)" in found


FEW = call("<", Ref(0, BIGINT), Literal(5, BIGINT))  # of the first input


@pytest.mark.parametrize(
    "join",
    [
        Join(SIX[:2], CONDITIONS[:1]),
        Join((Filter(LINES, FEW), *SIX[1:3]), CONDITIONS[:2]),
        Join(SIX[:3], (*CONDITIONS[:2], FEW)),
        Join((*SIX[:3], Filter(SUPPLIERS, FEW)), CONDITIONS[:3]),
        Join(SIX[:3], (*CONDITIONS[:2], call("<", Ref(0, BIGINT), Ref(4, BIGINT)))),
        Join(SIX[:3]),
        Join((LINES, ORDERS, scan("customers", "key", "name", keyed=False)), CONDITIONS[:2]),
        Join((LINES, scan("orders", "key", "customer", keyed=False), CUSTOMERS), CONDITIONS[:2]),
    ],
    ids=["two", "filtered", "asked", "met by few", "compared", "product", "no key below", "no key"],
)
def test_where_nothing_is_known_to_be_gained_the_join_stays(join: Join) -> None:
    assert gathered(join, ROWS) is join


def test_conditions_of_what_is_gathered_keep_nothing_from_being_gathered() -> None:
    few = call("<", Ref(5, BIGINT), Literal(5, BIGINT))
    assert shape(gathered(Join(SIX[:3], (*CONDITIONS[:2], few)), ROWS)) == "(lines (orders customers))"


def test_of_more_inputs_than_people_write_the_join_stays() -> None:
    names = [f"t{i}" for i in range(40)]
    chain = Join(
        tuple(scan(name, "key", "next") for name in names),
        tuple(equal(2 * i + 1, 2 * i + 2) for i in range(39)),
    )
    assert gathered(chain, {name: 100.0 - i for i, name in enumerate(names)}) is chain


def test_a_larger_relation_is_not_joined_first() -> None:
    join = Join(SIX[:3], CONDITIONS[:2])
    assert gathered(join, {**ROWS, "orders": 7e6}) is join
    assert shape(gathered(join, ROWS)) == "(lines (orders customers))"


def test_the_joins_of_a_snowflake_are_not_gathered_again() -> None:
    found = gathered(Join(SIX, CONDITIONS), ROWS)
    for join in walk(found):
        if isinstance(join, Join):
            assert gathered(join, ROWS) is join


def test_of_relations_that_refer_to_each_other_none_is_lost() -> None:
    """Suppliers and nations are found by each other's keys, beside what is gathered."""
    circle = (equal(0, 2), equal(3, 4), equal(6, 8))
    found = shape(gathered(Join(SIX[:5], circle), ROWS))
    assert "(orders customers)" in found
    assert sorted(found.replace("(", "").replace(")", "").split()) == sorted(
        each.relation for each in SIX[:5]
    )


RISKY = call("=", call("/", Cast(Ref(3, BIGINT), INT), Ref(5, BIGINT)), Ref(2, BIGINT))


def test_what_may_fail_is_asked_at_last() -> None:
    """One that fails on a row that no line has would fail the view: equalities of columns come first, and
    guard it, wherever it was written."""
    order = Output("order", Ref(0, BIGINT))
    join = Join(SIX[:3], (CONDITIONS[1], RISKY, CONDITIONS[0]))
    shape_ = _Shape(join, ROWS)
    assert shape_.remaining((0, (1, 2))) == [CONDITIONS[0], RISKY]
    text = select_sql(Project(join, (order,)), lambda each: each.relation, ScalarWriter(sail=True, rows=ROWS))
    assert "(t0.c0 = t1.c0) AND CAST(CASE WHEN NOT (t0.c0 = t1.c0)" in text


def test_oracle_the_rows_stay_the_same() -> None:
    gathers = 0
    for seed in range(SEED, SEED + CASES):
        random = Random(seed)
        join, contents, rows = _world(random)
        found = gathered(join, rows)
        gathers += found is not join
        assert evaluate(found, contents.__getitem__) == evaluate(join, contents.__getitem__), f"seed {seed}"
    assert gathers > CASES / 4


def _world(random: Random) -> tuple[Join, dict[Scan, Bag], dict[str, float]]:
    count = random.randint(2, 6)
    inputs = tuple(
        scan(f"r{i}", *(f"c{j}" for j in range(random.randint(2, 3))), keyed=random.random() < 0.9)
        for i in range(count)
    )
    contents, rows = dict[Scan, Bag](), dict[str, float]()
    for place, each in enumerate(inputs):
        size = random.randint(1, 5)
        firsts = random.sample(range(6), size) if each.schema.keys else random.choices(range(6), k=size)
        others = len(each.schema) - 1
        found = [(first, *(random.choice([None, *range(5)]) for _ in range(others))) for first in firsts]
        contents[each] = Bag.of(found)
        rows[each.relation] = random.uniform(1, 50) + 100 / (place + 1)
    whole = Join(inputs)

    def column(place: int, first: bool) -> int:
        return whole.offsets[place] + (0 if first else random.randrange(1, len(inputs[place].schema)))

    conditions = []
    for place in range(1, count):
        other = random.randrange(place)
        here, there = (place, other) if random.random() < 0.8 else (other, place)
        conditions.append(equal(column(there, False), column(here, True)))
    for _ in range(random.choice([0, 0, 0, 1, 2])):
        a, b = random.randrange(len(whole.schema)), random.randrange(len(whole.schema))
        conditions.append(call(random.choice(["=", "<", "<>"]), Ref(a, BIGINT), Ref(b, BIGINT)))
    random.shuffle(conditions)
    return Join(inputs, tuple(conditions)), contents, rows


def test_text_is_written_so_only_where_rows_are_told() -> None:
    join = Join(SIX, CONDITIONS)
    plain = select_sql(join, lambda each: each.relation, ScalarWriter(sail=True))
    told = select_sql(join, lambda each: each.relation, ScalarWriter(sail=True, rows=ROWS))
    assert plain.count("SELECT") == 1 and told.count("SELECT") == 5


@pytest.mark.engine
def test_a_view_that_is_computed_anew_gathers_on_sail(
    shop: Shop, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.source(
        "a",
        "CREATE TABLE lines (id INTEGER PRIMARY KEY, parent INTEGER);"
        "CREATE TABLE parents (id INTEGER PRIMARY KEY, grand INTEGER, name TEXT);"
        "CREATE TABLE grands (id INTEGER PRIMARY KEY, name TEXT);"
        "INSERT INTO grands VALUES (1, 'x'), (2, 'y'); INSERT INTO parents VALUES (1, 1, 'p'), (2, 2, 'q');"
        "INSERT INTO lines VALUES (1, 1), (2, 1), (3, 2), (4, 3), (5, NULL);",
    )
    shop.views(
        "CREATE MATERIALIZED VIEW family AS SELECT l.id, p.name, g.name AS grand FROM a.lines l"
        " JOIN a.parents p ON p.id = l.parent JOIN a.grands g ON g.id = p.grand;"
    )
    texts, real = list[str](), work.write_query

    def seen(engine: Engine, sql: str, folder: object) -> None:
        texts.append(sql)
        real(engine, sql, folder)

    monkeypatch.setattr(work, "write_query", seen)
    with shop.open() as warehouse:
        warehouse.refresh()
        assert warehouse.arrow("family").sort_by("id").to_pydict() == {
            "id": [1, 2, 3],
            "name": ["p", "p", "q"],
            "grand": ["x", "x", "y"],
        }
        assert warehouse.verify("family").ok
    (text,) = texts
    assert ("JOIN (SELECT t0.c0" in text) is (engine.kind == "sail"), "two are joined before the third"
