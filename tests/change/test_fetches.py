"""What a term reads: a driver first, then states asked only for the rows that can join what is known."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from two_moments import TwoMoments, cases, crowded, joins_of_scans, value

from stillframe.algebra import (
    Bag,
    Call,
    Column,
    Filter,
    Join,
    Literal,
    Moment,
    Output,
    Plan,
    Project,
    Ref,
    Row,
    Scan,
    Schema,
    UnionAll,
    Values,
    call,
    cast,
    normalize,
    scans,
)
from stillframe.algebra.plan import map_scans
from stillframe.algebra.types import BIGINT, INT, SMALLINT, STRING
from stillframe.change import Fetch, Link, body, change_of, driver, fetches, join_order, terms

PAIR = Schema((Column("a", INT), Column("b", INT)))
R, S, T = (Scan(name, PAIR) for name in "rst")
CHANGE_OF_S = Scan("s", PAIR, Moment.CHANGE)


def equal(left: int, right: int) -> Any:
    return call("=", Ref(left, INT), Ref(right, INT))


@dataclass
class Source:
    """Answers a term's fetches as a source would: a state is its present rows that match the keys asked
    for; what it was before is that, less the whole change."""

    moments: TwoMoments
    data: st.DataObject
    rows_read: int = 0
    rows_held: int = 0

    def value(self, term: Plan) -> Bag:
        """What a term gives over what its fetches brought."""
        join = body(term)
        bags: dict[int, Bag] = {}
        if isinstance(join, Join):
            seen: dict[int, set[Row]] = {}
            links = {driver(join): (), **{fetch.place: fetch.links for fetch in fetches(term)}}
            for place, offered in links.items():
                scan = join.inputs[place]
                if isinstance(scan, Scan):
                    usable = [link for link in offered if link.known in seen]
                    link = self.data.draw(st.sampled_from(usable)) if usable else None
                    bags[place], seen[place] = self.fetched(scan, link, seen)

        def rename(scan: Scan, place: int | None) -> Scan:
            return replace(scan, relation=f"#{place}") if place in bags else scan

        def contents(scan: Scan) -> Bag:
            return bags[int(scan.relation[1:])] if scan.relation[0] == "#" else self.moments(scan)

        return value(map_scans(term, rename), contents)

    def fetched(self, scan: Scan, link: Link | None, seen: dict[int, set[Row]]) -> tuple[Bag, set[Row]]:
        """The bag, and all that may be seen of it: rows that leave as well as rows that stay."""
        change = self.moments.change(scan.relation)
        if scan.at is Moment.CHANGE:
            return change, set(change)
        whole = self.moments.after[scan.relation]
        state = Bag({row: n for row, n in whole.items() if matches(row, link, seen)})
        self.rows_read += len(state)
        self.rows_held += len(whole)
        if scan.at is Moment.AFTER:
            return state, set(state)
        return state - change, {*state, *change}


def matches(row: Row, link: Link | None, seen: dict[int, set[Row]]) -> bool:
    if link is None:
        return True
    return row[link.column] in {known[link.known_column] for known in seen[link.known]} - {None}


def terms_and_plan(plan: Plan, moments: TwoMoments) -> tuple[Plan, ...]:
    """The terms of the change, and the plan itself, which is read the same way when it is recomputed."""
    return (*terms(change_of(plan, moments.changed)), plan)


@given(joins_of_scans(), st.data())
def test_rows_that_the_keys_leave_out_would_have_joined_nothing(case, data) -> None:  # type: ignore[no-untyped-def]
    inputs, moments, conditions = case
    source = Source(moments, data)
    for term in terms_and_plan(Join(inputs, conditions), moments):
        assert source.value(term) == value(term, moments)
    event("some rows were left out" if source.rows_read < source.rows_held else "all rows were read")


@given(st.one_of(cases(), crowded()), st.data())
def test_keys_leave_out_nothing_that_any_plan_needs(case: tuple[Plan, TwoMoments], data: Any) -> None:
    plan, moments = case
    for term in terms_and_plan(normalize(plan), moments):
        assert Source(moments, data).value(term) == value(term, moments)


@given(st.one_of(cases(), crowded()))
def test_every_state_of_a_term_is_fetched_once(case: tuple[Plan, TwoMoments]) -> None:
    plan, moments = case
    for term in (t for p in (plan, normalize(plan)) for t in terms_and_plan(p, moments)):
        fetched = Counter(fetch.scan for fetch in fetches(term))
        assert fetched == Counter(scan for scan in scans(term) if scan.at is not Moment.CHANGE)
        join = body(term)
        if isinstance(join, Join):
            assert all(fetch.scan in scans(join.inputs[fetch.place]) for fetch in fetches(term))


@given(joins_of_scans(most=5))
def test_joins_go_from_the_change_to_what_an_equality_connects(case) -> None:  # type: ignore[no-untyped-def]
    inputs, moments, conditions = case
    for term in terms_and_plan(Join(inputs, conditions), moments):
        assert isinstance(term, Join)
        order = join_order(term)
        assert sorted(order) == list(range(len(inputs)))
        changes = [i for i, scan in enumerate(scans(term)) if scan.at is Moment.CHANGE]
        assert [order[0]] == [driver(term)] == (changes or [0])
        for n in range(1, len(order)):
            reachable = [place for place in order[n:] if connected(term, place, order[:n])]
            assert order[n] in reachable or not reachable


@given(joins_of_scans(most=5))
def test_links_are_the_equalities_with_what_was_read_before(case) -> None:  # type: ignore[no-untyped-def]
    inputs, moments, conditions = case
    for term in terms_and_plan(Join(inputs, conditions), moments):
        assert isinstance(term, Join)
        order = join_order(term)
        for fetch in fetches(term):
            before = order[: order.index(fetch.place)]
            assert bool(fetch.links) == connected(term, fetch.place, before)
            for link in fetch.links:
                assert link.known in before
                here = term.offsets[fetch.place] + link.column
                there = term.offsets[link.known] + link.known_column
                assert {here, there} in [{*refs} for refs in equalities(term)]


def equalities(join: Join) -> list[tuple[int, int]]:
    return [
        (condition.args[0].position, condition.args[1].position)
        for condition in join.conditions
        if isinstance(condition, Call) and condition.function == "="
    ]


def connected(join: Join, place: int, known: tuple[int, ...]) -> bool:
    ends = [(join.input_of(a), join.input_of(b)) for a, b in equalities(join)]
    return any((a == place and b in known) or (b == place and a in known) for a, b in ends)


def test_a_chain_is_followed_from_the_change_outwards() -> None:
    """r.b = s.a and s.b = t.a, where s changed: r and t are both asked by key."""
    join = Join((R, CHANGE_OF_S, T), (equal(1, 2), equal(3, 4)))
    assert join_order(join) == (1, 0, 2)
    assert fetches(join) == (Fetch(R, 0, (Link(1, 1, 0),)), Fetch(T, 2, (Link(0, 1, 1),)))


def test_a_far_end_waits_until_the_middle_is_known() -> None:
    join = Join((T, R, CHANGE_OF_S), (equal(1, 2), equal(3, 4)))
    assert join_order(join) == (2, 1, 0)
    assert fetches(join) == (Fetch(R, 1, (Link(1, 2, 0),)), Fetch(T, 0, (Link(1, 1, 0),)))


def test_what_no_plain_equality_connects_is_read_whole() -> None:
    for condition in (
        call("<", Ref(1, INT), Ref(2, INT)),
        call("<=>", Ref(1, INT), Ref(2, INT)),  # NULL meets NULL here, and no key is NULL
        call("=", cast(Ref(1, INT), SMALLINT), cast(Ref(2, INT), SMALLINT)),  # fails on values too wide
        call("=", cast(Ref(1, INT), STRING), cast(Ref(2, INT), STRING)),
        call("=", Ref(1, INT), Literal(3, INT)),
        equal(0, 1),
    ):
        assert fetches(Join((R, CHANGE_OF_S), (condition,))) == (Fetch(R, 0, ()),)


def test_a_wider_integer_is_the_same_value() -> None:
    condition = call("=", cast(Ref(1, INT), BIGINT), Ref(2, BIGINT))
    wide = Scan("s", Schema((Column("a", BIGINT), Column("b", INT))), Moment.CHANGE)
    assert fetches(Join((R, wide), (condition,))) == (Fetch(R, 0, (Link(1, 1, 0),)),)


def test_all_equalities_are_offered_as_links() -> None:
    join = Join((CHANGE_OF_S, R), (equal(0, 2), equal(3, 1)))
    assert fetches(join) == (Fetch(R, 1, (Link(0, 0, 0), Link(1, 0, 1))),)


def test_the_join_is_found_below_projections_and_filters() -> None:
    join = Join((CHANGE_OF_S, R), (equal(0, 2),))
    term = Project(Filter(join, call("<", Ref(1, INT), Ref(3, INT))), (Output("x", Ref(0, INT)),))
    assert body(term) == join
    assert fetches(term) == fetches(join) == (Fetch(R, 1, (Link(0, 0, 0),)),)


def test_a_term_without_a_join_reads_no_state() -> None:
    assert fetches(CHANGE_OF_S) == ()
    assert fetches(Filter(CHANGE_OF_S, equal(0, 1))) == ()
    assert fetches(R) == (Fetch(R, 0, ()),)


def test_inputs_that_are_no_relations_are_read_whole_and_give_no_keys() -> None:
    both = UnionAll((R, T))
    join = Join((CHANGE_OF_S, both, Values(PAIR, ((1, 1),)), R), (equal(0, 2), equal(3, 4), equal(5, 6)))
    read = fetches(join)
    assert [(fetch.scan.relation, fetch.place) for fetch in read] == [("r", 1), ("t", 1), ("r", 3)]
    assert read[0].links == read[1].links == read[2].links == ()


def test_keys_spare_most_of_a_large_relation() -> None:
    """One changed row asks for the rows of one key, whatever the relation holds."""
    many = Bag.of((i % 100, i) for i in range(1000))
    moments = TwoMoments({"r": many, "s": Bag()}, {"r": many, "s": Bag.of([(7, 0)])})
    (term,) = terms(change_of(Join((R, S), (equal(0, 2),)), moments.changed))
    ((link,),) = (fetch.links for fetch in fetches(term))
    kept = [row for row in many if matches(row, link, {1: set(moments.change("s"))})]
    assert len(kept) == 10 == len(value(term, moments))
