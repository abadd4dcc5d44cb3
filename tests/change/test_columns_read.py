"""Columns that a plan does not read may hold anything: neither the plan's value nor its change tells."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st
from two_moments import TwoMoments, cases, crowded, growth, value

from stillframe.algebra import (
    Bag,
    Column,
    Filter,
    Join,
    Literal,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    UnionAll,
    Values,
    call,
    normalize,
)
from stillframe.algebra.types import INT
from stillframe.change import change_of, columns_read, merged

WIDE = Schema(tuple(Column(name, INT) for name in "abcd"))
R, S = Scan("r", WIDE), Scan("s", WIDE)


def blanked(moments: TwoMoments, kept: dict[str, frozenset[int]]) -> TwoMoments:
    """As a source answers that is asked for these columns only; the others come as NULL."""

    def blank(relation: str, bag: Bag) -> Bag:
        wanted = kept.get(relation, frozenset())
        return Bag(
            (tuple(v if i in wanted else None for i, v in enumerate(row)), n) for row, n in bag.items()
        )

    return moments.map(blank)


@given(st.one_of(cases(), crowded()))
def test_columns_that_are_not_read_do_not_matter(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    for form in (plan, normalize(plan)):
        partial = blanked(moments, columns_read(form))
        event("some columns blank" if partial != moments else "no column blank")
        assert value(form, partial.new) == value(form, moments.new)
        assert value(change_of(form, moments.changed), partial) == growth(form, moments)


@given(st.one_of(cases(), crowded()))
def test_a_change_reads_no_column_that_its_plan_does_not(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    change = change_of(plan, moments.changed)
    whole = columns_read(plan)
    for relation, positions in columns_read(change).items() if change else ():
        assert positions <= whole[relation]


def test_what_is_shown_filtered_or_joined_on_is_read_and_nothing_else() -> None:
    join = Join((R, S), (call("=", Ref(1, INT), Ref(6, INT)),))
    kept = Filter(join, call("<", Ref(3, INT), Literal(1, INT)))
    plan = Project(kept, (Output("x", call("+", Ref(4, INT), Literal(1, INT))),))
    assert columns_read(plan) == {"r": frozenset({1, 3}), "s": frozenset({0, 2})}


def test_an_output_that_nobody_shows_reads_nothing() -> None:
    inner = Project(R, (Output("x", Ref(0, INT)), Output("y", Ref(2, INT))))
    assert columns_read(Project(inner, (Output("y", Ref(1, INT)),))) == {"r": frozenset({2})}


def test_occurrences_of_a_relation_share_its_columns() -> None:
    shown = Project(Join((R, R)), (Output("x", Ref(0, INT)), Output("y", Ref(5, INT))))
    assert columns_read(shown) == {"r": frozenset({0, 1})}
    union = UnionAll((Project(R, (Output("x", Ref(3, INT)),)), Project(S, (Output("x", Ref(1, INT)),))))
    assert columns_read(union) == {"r": frozenset({3}), "s": frozenset({1})}
    assert merged([columns_read(shown), columns_read(union)]) == {
        "r": frozenset({0, 1, 3}),
        "s": frozenset({1}),
    }


def test_a_relation_that_only_counts_is_read_without_columns() -> None:
    constant = Project(R, (Output("one", Literal(1, INT)),))
    assert columns_read(constant) == {"r": frozenset()}
    assert columns_read(Join((Values(WIDE, ()), R)))["r"] == frozenset(range(4))
