"""Deleting by key, duplicate elimination and bag difference: what they mean on signed bags, and that what
looks at plans (columns read, moments, scans, normal forms, change rules) sees them as they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from random_plans import signed_bags

from stillframe.algebra import (
    Bag,
    Column,
    Distinct,
    Filter,
    Join,
    KeyDelete,
    Literal,
    Moment,
    Monus,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    UnionAll,
    Values,
    call,
    evaluate,
    normalize,
    scans,
)
from stillframe.algebra.plan import map_scans
from stillframe.algebra.types import DOUBLE, INT, STRING
from stillframe.change import at, change_of, columns_read

TYPES = (INT, DOUBLE, STRING)
WIDE = Schema(tuple(Column(name, type_) for name, type_ in zip("abc", TYPES, strict=True)))
R, S, T = (Scan(name, WIDE) for name in "rst")
pairs = st.lists(st.sampled_from([(i, i) for i in range(3)]), unique=True).map(tuple)
few = st.tuples(
    st.sampled_from((None, 0, 1)), st.sampled_from((None, -0.0, 0.0)), st.sampled_from((None, ""))
)
crowded = st.lists(st.tuples(few, st.integers(-1, 2)), min_size=1, max_size=6).map(Bag)
bags = st.one_of(signed_bags(WIDE), crowded)
NOTHING = Bag()


def value(plan: Plan, r: Bag = NOTHING, s: Bag = NOTHING, t: Bag = NOTHING) -> Bag:
    held = {"r": r, "s": s, "t": t}
    return evaluate(plan, lambda scan: held[scan.relation])


def agree(one: Any, other: Any) -> bool:
    """Bag identity, by its definition."""
    return one is other is None or (
        None not in (one, other) and (one == other or (one != one and other != other))
    )


@given(bags, bags, pairs)
def test_rows_that_agree_with_none_are_kept_as_they_are(
    r: Bag, s: Bag, on: tuple[tuple[int, int], ...]
) -> None:
    found = value(KeyDelete(R, S, on), r, s)
    for row, count in r.items():
        hit = any(all(agree(row[here], other[there]) for here, there in on) for other in s)
        event("a row is deleted" if hit else "a row is kept")
        assert found[row] == (0 if hit else count)
    assert found.keys() <= r.keys()


@given(bags, bags, bags, pairs)
def test_deleting_is_linear_in_what_it_deletes_from(r: Bag, more: Bag, s: Bag, on: Any) -> None:
    plan = KeyDelete(R, S, on)
    assert value(plan, r + more, s) == value(plan, r, s) + value(plan, more, s)
    assert value(KeyDelete(Negate(R), S, on), r, s) == -value(plan, r, s)


@given(bags, bags, bags, pairs)
def test_of_the_rows_that_delete_only_counts_that_they_are_there(r: Bag, s: Bag, t: Bag, on: Any) -> None:
    once = value(KeyDelete(R, S, on), r, s)
    assert once == value(KeyDelete(R, Negate(S), on), r, s) == value(KeyDelete(R, UnionAll((S, S)), on), r, s)
    assert value(KeyDelete(R, UnionAll((S, T, Negate(T))), on), r, s, t) == once
    assert value(KeyDelete(R, UnionAll((T, Negate(T))), on), r, t=t) == r


@given(bags, bags, bags, pairs, pairs)
def test_deletes_come_in_any_order(r: Bag, s: Bag, t: Bag, on: Any, other: Any) -> None:
    one = KeyDelete(KeyDelete(R, S, on), T, other)
    assert value(one, r, s, t) == value(KeyDelete(KeyDelete(R, T, other), S, on), r, s, t)
    assert value(KeyDelete(one, S, on), r, s, t) == value(one, r, s, t)


NULLS = (None, None, None)


@pytest.mark.parametrize(
    ("kept", "row"),
    [
        ((0, None, None), (1, None, None)),
        ((None, 0.0, None), (None, float("nan"), None)),
        ((None, None, ""), NULLS),
    ],
)
def test_null_is_a_value_and_no_other(kept: tuple[Any, ...], row: tuple[Any, ...]) -> None:
    everything = tuple((i, i) for i in range(3))
    plan = KeyDelete(R, S, everything)
    assert value(plan, Bag.of([kept, row]), Bag.of([row])) == Bag.of([kept])


def test_one_spelling_deletes_the_other() -> None:
    nan = float("inf") - float("inf")
    plan = KeyDelete(R, S, ((1, 1),))
    assert (
        value(plan, Bag.of([(1, -0.0, ""), (2, nan, "")]), Bag.of([(3, 0.0, ""), (4, float("nan"), "")]))
        == NOTHING
    )


def test_compared_on_no_column_any_row_deletes_all() -> None:
    plan = KeyDelete(R, S, ())
    r = Bag.of([NULLS, NULLS])
    assert value(plan, r, NOTHING) == r
    assert value(plan, r, Bag({(1, 0.0, ""): -1})) == NOTHING


@given(bags, bags)
def test_distinct_shows_what_is_there_once(r: Bag, s: Bag) -> None:
    found = value(Distinct(R), r)
    assert all(found[row] == (count > 0) for row, count in r.items()) and found.keys() <= r.keys()
    assert value(Distinct(Distinct(R)), r) == found
    assert value(Distinct(UnionAll((R, S, Negate(S)))), r, s) == found
    assert value(Distinct(UnionAll((R, Negate(R)))), r) == NOTHING


@given(bags, bags)
def test_monus_never_goes_below_nothing(r: Bag, s: Bag) -> None:
    found = value(Monus(R, S), r, s)
    assert found.is_state
    assert all(found[row] == max(0, r[row] - s[row]) for row in {*r, *s})
    assert found - value(Monus(S, R), r, s) == r - s


def test_nonsense_is_refused_when_built() -> None:
    for on in (((3, 0),), ((0, 3),)):
        with pytest.raises(ValueError, match="no columns"):
            KeyDelete(R, S, on)
    with pytest.raises(ValueError, match="difference"):
        Monus(R, Project(S, (Output("a", Ref(0, INT)),)))


# What looks at plans.


@st.composite
def nested(draw: st.DrawFn, depth: int = 3) -> Plan:
    """Plans of three columns over r, s and t."""
    if depth == 0 or draw(st.integers(0, 3)) > depth:
        return draw(st.sampled_from((R, S, T, Values(WIDE, (NULLS,)))))
    one, other = draw(nested(depth - 1)), draw(nested(depth - 1))
    columns = tuple(Ref(i, type_, "") for i, type_ in enumerate(TYPES))
    blank = tuple(Output("x", draw(st.sampled_from((ref, Literal(None, ref.type))))) for ref in columns)
    again = tuple(
        Output("x", draw(st.sampled_from((ref, Ref(ref.position + 3, ref.type))))) for ref in columns
    )
    same = draw(st.sampled_from(columns))
    return draw(
        st.sampled_from(
            (
                KeyDelete(one, other, draw(pairs)),
                Distinct(one),
                Monus(one, other),
                UnionAll((one, other)),
                Negate(one),
                Filter(one, call("isnotnull", same)),
                Project(one, blank),
                Project(Join((one, other), (call("<=>", same, Ref(same.position + 3, same.type)),)), again),
            )
        )
    )


@given(nested(), st.sampled_from(range(3)), crowded, crowded, crowded)
def test_columns_that_are_not_read_do_not_matter(plan: Plan, shown: int, r: Bag, s: Bag, t: Bag) -> None:
    plan = Project(plan, (Output("x", Ref(shown, TYPES[shown])),))
    read = columns_read(plan)

    def blanked(name: str, bag: Bag) -> Bag:
        kept = read.get(name, frozenset())
        return Bag((tuple(v if i in kept else None for i, v in enumerate(row)), n) for row, n in bag.items())

    partial = [blanked(name, bag) for name, bag in zip("rst", (r, s, t), strict=True)]
    event("some columns blank" if partial != [r, s, t] else "no column blank")
    assert value(plan, *partial) == value(plan, r, s, t)


def test_whether_a_row_is_there_is_told_by_all_its_columns() -> None:
    first, second = (Output("x", Ref(0, INT)),), frozenset({0, 1, 2})
    assert columns_read(Project(Distinct(R), first)) == {"r": second}
    assert columns_read(Project(Monus(R, S), first)) == {"r": second, "s": second}
    assert columns_read(Project(KeyDelete(R, S, ((1, 1),)), first)) == {"r": frozenset({0, 1}), "s": second}


@given(nested(), crowded, crowded, crowded)
def test_a_normal_form_and_a_plan_of_other_scans_mean_the_same(plan: Plan, r: Bag, s: Bag, t: Bag) -> None:
    assert value(normalize(plan), r, s, t) == value(plan, r, s, t)
    turned = map_scans(plan, lambda scan, place: {"r": S, "s": T, "t": R}[scan.relation])
    assert value(turned, t, r, s) == value(plan, r, s, t)


@given(nested(), st.sampled_from((Moment.BEFORE, Moment.AFTER)))
def test_a_plan_at_a_moment_reads_only_that_moment(plan: Plan, moment: Moment) -> None:
    every = frozenset("rst")
    mixed = map_scans(plan, lambda scan, place: Scan(scan.relation, scan.schema, Moment.CHANGE))
    assert {scan.at for scan in scans(at(mixed, moment, every))} <= {moment}
    assert at(mixed, Moment.AFTER, every) == plan


@pytest.mark.parametrize(
    "plan", [Distinct(R), Monus(R, S), KeyDelete(R, S, ((0, 0),))], ids=lambda p: type(p).__name__
)
def test_what_has_no_change_rule_is_not_passed_over(plan: Plan) -> None:
    for around in (plan, Negate(plan), Join((T, plan)), Join((plan, T))):
        with pytest.raises(AssertionError, match=f"no change rule for {type(plan).__name__}"):
            change_of(around, frozenset("rst"))
