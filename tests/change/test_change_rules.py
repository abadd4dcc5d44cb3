"""The law every rule obeys: the change of a plan is its value after the session less its value before."""

from __future__ import annotations

from collections import Counter

from hypothesis import event, given
from hypothesis import strategies as st
from two_moments import (
    NOTHING,
    TwoMoments,
    cases,
    crowded,
    growth,
    joins_of_scans,
    plans_over,
    relations,
    value,
)

from stillframe.algebra import (
    Bag,
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
    Scan,
    Schema,
    UnionAll,
    Values,
    call,
    evaluate,
    normalize,
    scans,
)
from stillframe.algebra import relations as relation_names
from stillframe.algebra.plan import walk
from stillframe.algebra.types import BOOLEAN, INT
from stillframe.change import at, change_of, terms

PAIR = Schema((Column("a", INT), Column("b", INT)))
R, S, T = (Scan(name, PAIR) for name in "rst")


def a_equals(*places: int) -> tuple[object, ...]:
    """Column a of the first place equals column a of each other one, in joins of pairs."""
    first, *others = places
    return tuple(call("=", Ref(2 * first, INT), Ref(2 * other, INT)) for other in others)


@given(cases())
def test_a_change_is_the_value_after_less_the_value_before(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    grown = growth(plan, moments)
    change = change_of(plan, moments.changed)
    event(f"{min(len(terms(change)), 3)} terms, {'some' if grown else 'no'} change")
    assert value(change, moments) == grown


@given(cases())
def test_the_change_of_the_normal_form_is_the_same(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    assert value(change_of(normalize(plan), moments.changed), moments) == growth(plan, moments)


@given(crowded())
def test_joins_and_self_joins_of_crowded_relations(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    grown = growth(plan, moments)
    repeated = max(Counter(scan.relation for scan in scans(plan)).values())
    event(f"{'self-join' if repeated > 1 else 'once each'}, {'some' if grown else 'no'} change")
    assert evaluate_change(plan, moments) == grown
    assert evaluate_change(normalize(plan), moments) == grown


def evaluate_change(plan: Plan, moments: TwoMoments) -> Bag:
    change = change_of(plan, moments.changed)
    return evaluate(change, moments) if change is not None else NOTHING


@given(joins_of_scans())
def test_a_join_of_n_inputs_has_one_term_for_each_that_changed(case) -> None:  # type: ignore[no-untyped-def]
    inputs, moments, conditions = case
    join = Join(inputs, conditions)
    change = change_of(join, moments.changed)
    turned = [place for place, scan in enumerate(inputs) if scan.relation in moments.changed]
    assert len(terms(change)) == len(turned)
    assert value(change, moments) == growth(join, moments)
    for place, term in zip(turned, terms(change), strict=True):
        assert isinstance(term, Join) and term.conditions == conditions
        assert [scan.at for scan in scans(term)] == [
            Moment.CHANGE
            if other == place
            else Moment.BEFORE
            if other > place and inputs[other].relation in moments.changed
            else Moment.AFTER
            for other in range(len(inputs))
        ]


@given(cases())
def test_each_term_reads_one_change_and_only_of_what_changed(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    found = terms(change_of(plan, moments.changed))
    occurrences = [scan for scan in scans(plan) if scan.relation in moments.changed]
    assert len(found) == len(occurrences)
    for term in found:
        assert term.schema.types == plan.schema.types
        driving = [scan for scan in scans(term) if scan.at is Moment.CHANGE]
        assert len(driving) == 1 and driving[0].relation in moments.changed
        earlier = [scan for scan in scans(term) if scan.at is Moment.BEFORE]
        assert all(scan.relation in moments.changed for scan in earlier)


@given(cases())
def test_no_term_is_left_where_nothing_changed(case: tuple[Plan, TwoMoments]) -> None:
    plan, _ = case
    assert change_of(plan, frozenset()) is None
    assert change_of(plan, frozenset({"another"})) is None


@given(cases())
def test_it_does_no_harm_to_take_a_relation_for_changed_that_is_not(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    assert value(change_of(plan, frozenset(moments.after)), moments) == growth(plan, moments)


@given(cases())
def test_a_plan_at_a_moment_is_its_value_then(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    for moment, contents in ((Moment.BEFORE, moments.old), (Moment.AFTER, moments.new)):
        read = at(plan, moment, moments.changed)
        assert value(read, moments) == value(plan, contents)
        assert read.schema.columns == plan.schema.columns
        for scan in scans(read):
            assert scan.at is (moment if scan.relation in moments.changed else Moment.AFTER)


@given(st.data())
def test_a_view_over_views_changes_by_what_the_views_hand_on(data: st.DataObject) -> None:
    """A view hands its readers its content before, its content after and its change; they may read the
    relations it reads as well."""
    scans, moments = data.draw(relations())
    for name in ("below", "above"):
        plan = data.draw(plans_over(scans, moments, 2))
        change = value(change_of(plan, moments.changed), moments)
        before, after = value(plan, moments.old), value(plan, moments.new)
        assert change == after - before
        scans = (Scan(name, plan.schema), *scans)
        moments = TwoMoments({**moments.before, name: before}, {**moments.after, name: before + change})
    top = data.draw(plans_over(scans, moments, 2))
    event("reads a view" if {"below", "above"} & set(relation_names(top)) else "reads none")
    assert value(change_of(top, moments.changed), moments) == growth(top, moments)


ROWS = TwoMoments(
    {"r": Bag.of([(1, 1), (1, 1), (2, 1)]), "s": Bag.of([(1, 5)]), "t": Bag.of([(1, 7), (1, 8)])},
    {"r": Bag.of([(1, 1), (3, 1)]), "s": Bag.of([(1, 5), (1, 6), (3, 5)]), "t": Bag.of([(1, 7), (1, 8)])},
)


def test_both_sides_of_a_self_join_may_be_new_together() -> None:
    """Without the term that meets new rows with new rows, (3, 1, 3, 1) would never come."""
    change = change_of(Join((R, R), a_equals(0, 1)), ROWS.changed)
    assert evaluate_change(Join((R, R), a_equals(0, 1)), ROWS) == Bag(
        {(1, 1, 1, 1): 1 - 4, (2, 1, 2, 1): -1, (3, 1, 3, 1): 1}
    )
    assert [[scan.at for scan in scans(term)] for term in terms(change)] == [
        [Moment.CHANGE, Moment.BEFORE],
        [Moment.AFTER, Moment.CHANGE],
    ]


def test_a_join_of_three_of_which_one_did_not_change_has_two_terms() -> None:
    join = Join((R, T, S), a_equals(0, 1, 2))
    change = change_of(join, ROWS.changed)
    assert [[(scan.relation, str(scan.at)) for scan in scans(term)] for term in terms(change)] == [
        [("r", "change"), ("t", "after"), ("s", "before")],
        [("r", "after"), ("t", "after"), ("s", "change")],
    ]
    assert evaluate_change(join, ROWS) == growth(join, ROWS) != NOTHING


def test_values_do_not_change() -> None:
    constant = Values(PAIR, ((1, 1), (1, 1)))
    assert change_of(constant, frozenset("r")) is None
    assert change_of(UnionAll((constant, constant)), frozenset("r")) is None
    assert terms(change_of(UnionAll((constant, R)), frozenset("r"))) == (Scan("r", PAIR, Moment.CHANGE),)
    (term,) = terms(change_of(Join((constant, R), a_equals(0, 1)), frozenset("r")))
    assert term == Join((constant, Scan("r", PAIR, Moment.CHANGE)), a_equals(0, 1))


def test_a_change_is_a_flat_sum_and_operators_stand_on_each_term() -> None:
    keep = call(">", Ref(1, INT), Literal(0, INT))
    nested = UnionAll((R, Negate(UnionAll((S, T))), R))
    plan = Project(Filter(nested, keep), (Output("b", Ref(1, INT)),))
    change = change_of(plan, frozenset("rt"))
    assert isinstance(change, UnionAll) and len(change.inputs) == 3
    assert not any(isinstance(node, UnionAll) for term in terms(change) for node in walk(term))
    assert all(isinstance(term, Project) and isinstance(term.input, Filter) for term in terms(change))
    assert [[scan.relation for scan in scans(term)] for term in terms(change)] == [["r"], ["t"], ["r"]]


def test_a_row_that_came_and_went_between_two_frames_is_no_change() -> None:
    moments = TwoMoments({"r": Bag.of([(1, 1)])}, {"r": Bag.of([(1, 1)]) + Bag([((2, 2), 1), ((2, 2), -1)])})
    assert moments.changed == frozenset()
    assert evaluate_change(Join((R, R)), moments) == NOTHING


def test_a_predicate_that_is_unknown_keeps_no_row_of_a_change() -> None:
    unknown = Filter(R, Literal(None, BOOLEAN))
    assert evaluate_change(unknown, ROWS) == NOTHING == growth(unknown, ROWS)
