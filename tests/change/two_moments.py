"""Relations before and after a session, and plans over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from random_plans import World, crowded_cases, plans, values, worlds

from stillframe.algebra import Bag, Column, EvaluationError, Moment, Plan, Ref, Scan, Schema, call, evaluate
from stillframe.algebra.types import INT

NOTHING = Bag()
NODES = "scan scan scan values filter columns project negate union union union join join join join join"


@dataclass(frozen=True)
class TwoMoments:
    """What each relation held before, and what it holds after."""

    before: dict[str, Bag]
    after: dict[str, Bag]

    def __call__(self, scan: Scan) -> Bag:
        match scan.at:
            case Moment.BEFORE:
                return self.before[scan.relation]
            case Moment.AFTER:
                return self.after[scan.relation]
        return self.change(scan.relation)

    def change(self, relation: str) -> Bag:
        return self.after[relation] - self.before[relation]

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(name for name in self.after if self.before[name] != self.after[name])

    def old(self, scan: Scan) -> Bag:
        return self.before[scan.relation]

    def new(self, scan: Scan) -> Bag:
        return self.after[scan.relation]

    def map(self, mapping: Callable[[str, Bag], Bag]) -> TwoMoments:
        return TwoMoments(
            {name: mapping(name, bag) for name, bag in self.before.items()},
            {name: mapping(name, bag) for name, bag in self.after.items()},
        )


def value(plan: Plan | None, contents: Callable[[Scan], Bag]) -> Bag:
    """Laws are about values: cases in which the evaluator raises are left aside."""
    if plan is None:
        return NOTHING
    try:
        return evaluate(plan, contents)
    except EvaluationError:
        assume(False)
        raise


def growth(plan: Plan, moments: TwoMoments) -> Bag:
    """By definition: the value after less the value before."""
    return value(plan, moments.new) - value(plan, moments.old)


@st.composite
def relations(draw: st.DrawFn) -> tuple[tuple[Scan, ...], TwoMoments]:
    """Relations of columns of every type."""
    world = draw(worlds())
    return world.scans, draw(_moved(world, values))


def plans_over(scans: tuple[Scan, ...], moments: TwoMoments, depth: int = 3) -> st.SearchStrategy[Plan]:
    """Plans of every node, small enough at both moments."""
    both = {name: moments.before[name] + moments.after[name] for name in moments.before}
    return plans(World(scans, both), depth, NODES)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Plan, TwoMoments]:
    scans, moments = draw(relations())
    return draw(plans_over(scans, moments)), moments


@st.composite
def crowded(draw: st.DrawFn) -> tuple[Plan, TwoMoments]:
    """Joins, self-joins among them, of which most find partners, and of which none raises."""
    plan, world = draw(crowded_cases())
    return plan, draw(_moved(world, lambda _, nullable: _small(nullable)))


@st.composite
def joins_of_scans(draw: st.DrawFn, most: int = 4) -> tuple[tuple[Scan, ...], TwoMoments, tuple[Any, ...]]:
    """Up to `most` inputs, some of them the same relation, with random equalities between them."""
    scans, before, after = [], {}, {}
    for i in range(draw(st.integers(1, 3))):
        schema = Schema(tuple(Column(f"c{k}", INT) for k in range(draw(st.integers(1, 2)))))
        rows = st.lists(st.tuples(*(_small(True) for _ in schema)), max_size=4)
        scans.append(Scan(f"r{i}", schema))
        before[f"r{i}"], after[f"r{i}"] = Bag.of(draw(rows)), Bag.of(draw(rows))
        if draw(st.integers(0, 3)) == 3:
            after[f"r{i}"] = before[f"r{i}"]
    inputs = tuple(draw(st.lists(st.sampled_from(scans), min_size=2, max_size=most)))
    column = st.integers(0, sum(len(scan.schema) for scan in inputs) - 1).map(lambda i: Ref(i, INT))
    compared = st.builds(call, st.sampled_from(["=", "=", "=", "=", "<=>", "<"]), column, column)
    return inputs, TwoMoments(before, after), tuple(draw(st.lists(compared, max_size=4)))


def _small(nullable: bool) -> st.SearchStrategy[Any]:
    return st.integers(0, 2) | st.none() if nullable else st.integers(0, 2)


@st.composite
def _moved(draw: st.DrawFn, world: World, values_of: Callable[[Any, bool], Any]) -> TwoMoments:
    """The world, and the world after some rows left and some came; now and then a relation stays."""
    after = {}
    for scan in world.scans:
        bag = world.contents[scan.relation]
        if draw(st.integers(0, 5)) < 5:
            leaving = [row for row in bag if draw(st.booleans())]
            row = st.tuples(*(values_of(c.type, c.nullable) for c in scan.schema))
            coming = draw(st.lists(row, min_size=1, max_size=3))
            bag = bag - Bag.of(leaving) + Bag.of(coming)
        after[scan.relation] = bag
    return TwoMoments(dict(world.contents), after)
