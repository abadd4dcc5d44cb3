"""Derived keys identify: on contents that satisfy the keys of the relations, no two rows of a result agree
on a key, no row of a keyed result repeats, and no key column is NULL. Wrong derivations are planted to
show that this would be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, assume, event, find, given, settings
from random_plans import World, crowded_cases

from stillframe.algebra import (
    Bag,
    Column,
    Filter,
    Join,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    UnionAll,
    call,
    evaluate,
    keys,
    normalize,
)
from stillframe.algebra import plan as plan_module
from stillframe.algebra.types import BIGINT, INT


def broken_keys(plan: Plan, world: World) -> list[frozenset[int]]:
    rows = list(evaluate(plan, world).rows())
    return [key for key in plan.schema.keys if _repeats(rows, sorted(key))]


def _repeats(rows: list[tuple[Any, ...]], key: list[int]) -> bool:
    counts = Counter(tuple(row[i] for i in key) for row in rows)
    return any(count > 1 or None in values for values, count in counts.items())


@given(crowded_cases())
def test_derived_keys_identify(case: tuple[Plan, World]) -> None:
    plan, world = case
    event(f"{min(len(plan.schema.keys), 3)} keys, {min(len(evaluate(plan, world)), 2)} rows")
    assert not broken_keys(plan, world)
    assert not broken_keys(normalize(plan), world)


@given(crowded_cases())
def test_normal_form_keeps_keys(case: tuple[Plan, World]) -> None:
    """Every key of a plan contains a key of its normal form, which may know more. Of very many keys only some
    are kept, which need not be the same."""
    plan, _ = case
    normal = normalize(plan)
    assume(len(normal.schema.keys) < keys.MOST_KEYS)
    for key in plan.schema.keys:
        assert any(known <= key for known in normal.schema.keys)


@given(crowded_cases())
def test_keys_are_minimal(case: tuple[Plan, World]) -> None:
    plan, _ = case
    if isinstance(plan, Join):
        assert not any(a < b for a in plan.schema.keys for b in plan.schema.keys)


def _too_eager(columns: frozenset[int], everything: frozenset[int], dependencies: object) -> frozenset[int]:
    return frozenset(sorted(columns)[:1])


def _first_input_only(join: Join) -> keys.Keys:
    return join.inputs[0].schema.keys


def _all_that_survives(plan: Plan, kept: Any) -> keys.Keys:
    return frozenset(
        frozenset(kept[p][0] for p in key if p in kept) for key in plan.schema.keys if key & kept.keys()
    )


def _comparisons_as_equalities(conditions: Any) -> list[keys.Determines]:
    found: list[keys.Determines] = []
    for condition in conditions:
        positions = [arg.position for arg in getattr(condition, "args", ()) if isinstance(arg, Ref)]
        if len(positions) == 2:
            a, b = (frozenset({p}) for p in positions)
            found += [(a, b), (b, a)]
    return found


@pytest.mark.parametrize(
    ("module", "name", "planted"),
    [
        (keys, "_minimal", _too_eager),
        (plan_module, "keys_of_join", _first_input_only),
        (plan_module, "keys_of_projection", _all_that_survives),
        (keys, "_equalities", _comparisons_as_equalities),
    ],
    ids=["too few columns", "one input's key for all", "part of a key", "any comparison equates"],
)
def test_wrong_derivations_are_caught(
    module: Any, name: str, planted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, planted)
    find(
        crowded_cases(),
        lambda case: bool(broken_keys(*case)),
        settings=settings(max_examples=20_000, phases=[Phase.generate], database=None),
    )


def _relation(name: str, columns: str, *identifying: str) -> Scan:
    found = tuple(Column(c, INT, nullable=not any(c in key for key in identifying)) for c in columns)
    return Scan(name, Schema(found, frozenset(frozenset(map(columns.index, key)) for key in identifying)))


def _equal(a: int, b: int) -> Any:
    return call("=", Ref(a, INT), Ref(b, INT))


ORDERS = _relation("orders", "icv", "i")
CUSTOMERS = _relation("customers", "in", "i")
LINES = _relation("lines", "onp", "on")
TWICE = _relation("twice", "abc", "a", "b")
KEYLESS = _relation("keyless", "xy")


def _pick(plan: Plan, *positions: int) -> Project:
    return Project(plan, tuple(Output(f"c{p}", Ref(p, plan.schema[p].type)) for p in positions))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (ORDERS, [{0}]),
        (Filter(ORDERS, _equal(0, 1)), [{0}]),
        (_pick(ORDERS, 1, 0), [{1}]),
        (_pick(ORDERS, 0, 0), [{0}, {1}]),
        (_pick(ORDERS, 1, 2), []),
        (_pick(Filter(ORDERS, _equal(0, 1)), 1), [{0}]),
        (Join((ORDERS, CUSTOMERS)), [{0, 3}]),
        (Join((ORDERS, CUSTOMERS), (_equal(1, 3),)), [{0}]),
        (Join((ORDERS, LINES), (_equal(0, 3),)), [{0, 4}, {3, 4}]),
        (Join((ORDERS, ORDERS), (_equal(0, 3),)), [{0}, {3}]),
        (Join((ORDERS, ORDERS), (_equal(1, 4),)), [{0, 3}]),
        (Join((ORDERS, KEYLESS), (_equal(0, 3),)), []),
        (Filter(TWICE, _equal(0, 2)), [{0}, {1}]),
        (_pick(TWICE, 2, 1), [{1}]),
        (Join((TWICE,)), [{0}, {1}]),
        (UnionAll((ORDERS, ORDERS)), []),
        (Project(ORDERS, (Output("s", call("+", Ref(0, INT), Ref(1, INT))),)), []),
        (Join((ORDERS, CUSTOMERS), (call("=", Ref(1, BIGINT), Ref(3, BIGINT)),)), [{0}]),
        (Join((ORDERS, CUSTOMERS), (call("<=", Ref(1, INT), Ref(3, INT)),)), [{0, 3}]),
    ],
)
def test_keys_of(plan: Plan, expected: list[set[int]]) -> None:
    assert plan.schema.keys == frozenset(map(frozenset, expected))


def test_no_rows_satisfy_any_key() -> None:
    nothing = World((ORDERS, CUSTOMERS), {"orders": Bag(), "customers": Bag()})
    assert not broken_keys(Join((ORDERS, CUSTOMERS)), nothing)
