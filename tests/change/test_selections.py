"""Changed rows that no place of a plan asks for may be left out, and what is asked for is told."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from two_moments import TwoMoments, cases, crowded, growth, joins_of_scans, value

from stillframe.algebra import (
    Bag,
    Column,
    Filter,
    Join,
    Literal,
    Plan,
    Ref,
    Scalar,
    Scan,
    Schema,
    UnionAll,
    call,
    normalize,
    scans,
)
from stillframe.algebra.selection import Compared, Every, Selection, Some, every, meets, said, some
from stillframe.algebra.types import BOOLEAN, DATE, INT, STRING, decimal
from stillframe.change import change_of, selections

SCHEMA = Schema(
    (
        Column("i", INT),
        Column("t", STRING),
        Column("d", DATE),
        Column("m", decimal(15, 2)),
        Column("b", BOOLEAN),
        Column("j", INT),
    )
)
R = Scan("s.r", SCHEMA)


def ref(name: str) -> Ref:
    position = SCHEMA.position(name)
    return Ref(position, SCHEMA[position].type)


def number(value: int) -> Literal:
    return Literal(value, INT)


def asked(*conditions: Scalar) -> Selection | None:
    plan: Plan = R
    for condition in conditions:
        plan = Filter(plan, condition)
    return selections([plan]).get("s.r")


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        (call("=", ref("i"), number(3)), "i = 3"),
        (call("<", number(3), ref("i")), "i > 3"),
        (call("<>", ref("t"), Literal("x'y", STRING)), "t <> 'x''y'"),
        (call(">=", ref("d"), Literal(date(2020, 2, 1), DATE)), "d >= DATE '2020-02-01'"),
        (call(">", ref("m"), number(10)), "m > 10.00"),
        (call("isnull", ref("t")), "t IS NULL"),
        (call("isnotnull", ref("t")), "t IS NOT NULL"),
        (ref("b"), "b = TRUE"),
        (call("not", ref("b")), None),
        (call("=", ref("i"), ref("j")), None),
        (call("=", call("+", ref("i"), number(1)), number(3)), None),
        (call("=", ref("i"), Literal(None, INT)), None),
        (call("and", call("=", ref("i"), number(3)), call("=", ref("i"), ref("j"))), "i = 3"),
        (call("or", call("=", ref("i"), number(3)), call("=", ref("i"), ref("j"))), None),
        (
            call("or", call("=", ref("i"), number(3)), call("and", ref("b"), call("<", ref("j"), number(1)))),
            "i = 3 OR (b = TRUE AND j < 1)",
        ),
    ],
)
def test_what_a_condition_asks_of_a_row(condition: Scalar, told: str | None) -> None:
    found = asked(condition)
    assert (None if found is None else str(found)) == told


def test_a_row_that_one_place_wants_is_wanted() -> None:
    few, more = Filter(R, call("=", ref("i"), number(1))), Filter(R, call("=", ref("i"), number(2)))
    assert str(selections([UnionAll((few, more))])["s.r"]) == "i = 1 OR i = 2"
    assert str(selections([few, more])["s.r"]) == "i = 1 OR i = 2"
    assert selections([few, R]) == {}
    assert selections([UnionAll((few, R))]) == {}
    other = Scan("s.q", SCHEMA)
    joined = Join((R, other), (call("=", ref("i"), Ref(6, INT)), call("=", ref("j"), number(4))))
    assert {name: str(each) for name, each in selections([joined]).items()} == {"s.r": "j = 4"}


def test_a_list_that_is_too_long_is_not_told() -> None:
    condition = call("=", ref("i"), number(0))
    for i in range(1, 200):
        condition = call("or", condition, call("=", ref("i"), number(i)))
    assert asked(condition) is None


def test_what_cannot_be_said_leaves_more_rows() -> None:
    number_only = lambda one: (f"{one.column} {one.word} ?", (one.value,)) if one.column == "i" else None  # noqa: E731
    i, t = Compared("i", "=", 1), Compared("t", "=", "x")
    assert said(Every((i, t)), number_only) == ("(i = ?)", (1,))
    assert said(Some((i, t)), number_only) is None
    assert said(Every((Some((i, t)), Some((i, Compared("i", ">", 7))))), number_only) == (
        "((i = ? OR i > ?))",
        (1, 7),
    )
    assert every([None, None]) is None and every([None, i]) == i
    assert some([i, None]) is None and some([i, i]) == i and some([]) is None


def left(moments: TwoMoments, wanted: dict[str, Selection], schemas: dict[str, Schema]) -> TwoMoments:
    """As a source answers that leaves out all it may; the state before is reckoned from that."""
    before = {}
    for relation, after in moments.after.items():
        change = moments.change(relation)
        if relation in wanted:
            names = schemas[relation].names
            rows = [(dict(zip(names, row, strict=True)), row, n) for row, n in change.items()]
            change = Bag({row: n for named, row, n in rows if meets(wanted[relation], named)})
        before[relation] = after - change
    return TwoMoments(before, moments.after)


@st.composite
def selected(draw: st.DrawFn) -> tuple[Plan, TwoMoments]:
    """Joins of relations of small numbers under conditions over single ones, many of which can be told."""
    inputs, moments, conditions = draw(joins_of_scans())
    width = sum(len(scan.schema) for scan in inputs)
    column = st.integers(0, width - 1).map(lambda i: Ref(i, INT))
    one = st.builds(call, st.sampled_from(["=", "<", ">=", "<>"]), column, st.integers(0, 2).map(number))
    own = st.recursive(
        one | column.map(lambda ref: call("isnull", ref)),
        lambda inner: st.builds(call, st.sampled_from(["and", "or"]), inner, inner),
        max_leaves=3,
    )
    return Join(inputs, (*conditions, *draw(st.lists(own, min_size=1, max_size=3)))), moments


@given(st.one_of(selected(), cases(), crowded()))
def test_rows_that_nobody_asks_for_do_not_matter(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    for form in (plan, normalize(plan)):
        wanted = selections([form])
        schemas = {scan.relation: scan.schema for scan in scans(form)}
        fewer = left(moments, wanted, schemas)
        event("rows left out" if fewer != moments else "every row came")
        assert value(change_of(form, moments.changed), fewer) == growth(form, moments)
