"""Conditions over a union drop the branches where they are never true; what parts no rows is left out."""

from __future__ import annotations

from random import Random

import pytest

from stillframe.algebra import (
    Bag,
    Column,
    Filter,
    Join,
    KeyDelete,
    Literal,
    Ordering,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    UnionAll,
    Window,
    Windowed,
    call,
    evaluate,
)
from stillframe.algebra.normalize import is_null, never_true, normalize
from stillframe.algebra.plan import scans, walk
from stillframe.algebra.prune import prune
from stillframe.algebra.types import BOOLEAN, INT

LEFT = Scan("s.left", Schema((Column("a", INT), Column("b", INT))))
RIGHT = Scan("s.right", Schema((Column("c", INT), Column("d", INT))))
A, B = Ref(0, INT, "a"), Ref(1, INT, "b")
NULL, ONE, TWO = Literal(None, INT), Literal(1, INT), Literal(2, INT)


def shown(plan: Plan, *scalars: Scalar) -> Project:
    return Project(plan, tuple(Output(f"x{i}", scalar) for i, scalar in enumerate(scalars)))


# As the rows without partner of an outer join: one branch lacks the columns of a side.
UNION = UnionAll((shown(LEFT, A, B), shown(RIGHT, A, NULL)))
CONDITIONS = {
    "a comparison": (call("=", B, ONE), 1),
    "either of two": (call("or", call("=", B, ONE), call("=", B, TWO)), 1),
    "neither of two": (call("not", call("or", call("=", B, ONE), call("=", B, TWO))), 1),
    "not both": (call("not", call("and", call("=", B, ONE), call("=", A, TWO))), 2),
    "one that NULL meets": (call("isnull", B), 2),
    "one of the shared column": (call("=", A, ONE), 2),
}


def world(seed: int) -> dict[str, Bag]:
    random = Random(seed)
    return {
        name: Bag.of(tuple(random.choice((None, 1, 2, 3)) for _ in "ab") for _ in range(8))
        for name in ("s.left", "s.right")
    }


def value(plan: Plan, seed: int) -> Bag:
    contents = world(seed)
    return evaluate(plan, lambda scan: contents[scan.relation])


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_drops_the_branches_it_is_never_true_in(name: str) -> None:
    condition, branches = CONDITIONS[name]
    plan = Filter(UNION, condition)
    assert len(scans(normalize(plan))) == branches
    for seed in range(30):
        assert value(normalize(plan), seed) == value(plan, seed), f"seed {seed}"


def test_what_is_unknown_of_unknowns() -> None:
    unknown, true = Literal(None, BOOLEAN), Literal(True, BOOLEAN)
    assert is_null(call("or", unknown, unknown))
    assert not is_null(call("or", unknown, true))
    assert never_true(call("and", unknown, true))
    assert not never_true(call("not", call("and", unknown, Literal(False, BOOLEAN))))


def test_keys_that_are_the_same_in_all_rows_part_none() -> None:
    joined = Join((shown(LEFT, A, ONE), shown(RIGHT, NULL, B)), ())
    keys = tuple(Ref(i, INT) for i in range(4))
    functions = (Windowed("n", "count", ()), Windowed("k", "row_number"))
    plan = Window(joined, (*keys, call("+", keys[1], keys[2])), (Ordering(keys[0]),), functions)
    pruned = prune(plan, lambda _: False)
    (window,) = (node for node in walk(pruned) if isinstance(node, Window))
    assert window.partition == (keys[0], keys[3])
    for seed in range(10):
        assert value(pruned, seed) == value(plan, seed), f"seed {seed}"


def test_joins_below_a_deletion_by_key_become_one() -> None:
    inner = Project(Join((LEFT, RIGHT)), (Output("b", B), Output("c", Ref(2, INT))))
    outer = Join((inner, LEFT), (call("=", Ref(0, INT), Ref(2, INT)),))
    found = normalize(KeyDelete(shown(outer, Ref(1, INT), Ref(3, INT)), RIGHT, ((0, 0),)))
    assert isinstance(found, KeyDelete) and found.rows == RIGHT
    (join,) = (node for node in walk(found) if isinstance(node, Join))
    assert join.inputs == (LEFT, RIGHT, LEFT)
    rows = {"s.left": Bag.of([(1, 1), (3, 1)]), "s.right": Bag.of([(1, 2), (2, 5)])}
    deleted = (
        KeyDelete(found.input, RIGHT, ((0, 1),)),
        KeyDelete(shown(outer, Ref(1, INT), Ref(3, INT)), RIGHT, ((0, 1),)),
    )
    flat, deep = (evaluate(plan, lambda scan: rows[scan.relation]) for plan in deleted)
    assert flat and flat == deep
