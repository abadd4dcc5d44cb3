"""The law of key-wise operators, on random bags and with the naive evaluator alone: what touched groups are
now, less what was shown of them, is the change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from stillframe.algebra import (
    Aggregate,
    Bag,
    Call,
    Cast,
    Column,
    Filter,
    Join,
    Literal,
    Measure,
    Moment,
    Ordering,
    Output,
    Plan,
    Ref,
    Scalar,
    Scan,
    Schema,
    Semi,
    Times,
    UnionAll,
    Window,
    Windowed,
    evaluate,
    normalize,
)
from stillframe.algebra.types import BIGINT, DOUBLE, INT, decimal
from stillframe.algebra.windows import SO_FAR
from stillframe.change import (
    ARRIVING,
    CHANGED,
    TOUCHED,
    Keyed,
    Keywise,
    arriving_keys,
    at,
    brought_forward,
    change_of,
    first_of_candidates,
    goes_on,
    in_touched,
    keeps_first,
    keyed_inputs,
    over,
    shown_before,
    shown_keys,
    split,
    touched_groups,
    touched_keys,
    unknown_partitions,
    untouched_change,
)
from stillframe.sql.query import set_operation

PAIR = Schema((Column("k", INT), Column("x", INT)))
R, S = Scan("a.r", PAIR), Scan("a.s", PAIR)
K, X = Ref(0, INT, "k"), Ref(1, INT, "x")
INVERTIBLE = tuple(Measure(f, f, X) for f in ("count", "sum", "avg", "min", "max"))
SUMS = (*INVERTIBLE, Measure("d", "count_distinct", X))
MATCH = (Call("=", (K, Ref(2, INT))),)
LESS = (*MATCH, Call("<", (X, Ref(3, INT))))
CENTS = Cast(X, decimal(6, 2))
POSITIVE = Call(">", (X, Literal(0, INT)))
PLANS: dict[str, Plan] = {
    "sums": Aggregate(R, (Output("k", K),), (Measure("n", "count"), *SUMS)),
    "of nothing": Aggregate(R, (), (Measure("n", "count"), *SUMS)),
    "count alone": Aggregate(R, (), (Measure("n", "count"),)),
    "distinct": Aggregate(R, (Output("k", K),)),
    "expression": Aggregate(R, (Output("k", Call("+", (K, X))),), (Measure("n", "count"),)),
    "spread": Aggregate(
        R, (Output("k", K),), (Measure("v", "var_samp", Cast(X, DOUBLE)), Measure("n", "count"))
    ),
    "distinct values": Aggregate(
        R,
        (Output("k", K),),
        (Measure("s", "sum_distinct", X), Measure("a", "avg_distinct", X), Measure("d", "count_distinct", K)),
    ),
    "brought forward": Aggregate(R, (Output("k", K),), INVERTIBLE),
    "brought forward, one group": Aggregate(R, (), INVERTIBLE),
    "truths": Aggregate(
        R, (Output("k", K),), (Measure("a", "bool_and", POSITIVE), Measure("o", "bool_or", POSITIVE))
    ),
    "exact": Aggregate(R, (Output("k", K),), (Measure("s", "sum", CENTS), Measure("a", "avg", CENTS))),
    "brought forward, of a join": Aggregate(Join((R, S), MATCH), (Output("k", Ref(3, INT)),), INVERTIBLE),
    "window": Window(R, (K,), (Ordering(X),), (Windowed("r", "rank"), Windowed("s", "sum", (X,), SO_FAR))),
    "places": Window(
        R, (K,), (Ordering(X, True, True),), (Windowed("r", "row_number"), Windowed("l", "lag", (X,)))
    ),
    "first two": Window(R, (K,), (Ordering(X),), (), 2),
    "first with places": Window(
        R, (K,), (Ordering(X),), (Windowed("n", "row_number"), Windowed("r", "rank")), 2
    ),
    "first three of all": Window(R, (), (Ordering(X), Ordering(K)), (), 3),
    "of a join": Aggregate(Join((R, S), MATCH), (Output("k", Ref(3, INT)),), SUMS),
    "of a union": Aggregate(UnionAll((R, Filter(S, POSITIVE))), (Output("k", K),), SUMS),
    "semi": Semi(R, S, MATCH),
    "anti": Semi(R, S, MATCH, anti=True),
    "anti with more": Semi(R, S, LESS, anti=True),
    "anti without equality": Semi(R, S, LESS[1:], anti=True),
    "except": set_operation(R, S, both=False, once=True),
    "except all": set_operation(R, S, both=False, once=False),
    "intersect": set_operation(R, S, both=True, once=True),
    "intersect all": set_operation(R, S, both=True, once=False),
    "groups of groups": Aggregate(
        Aggregate(R, (Output("k", K),), (Measure("n", "count"),)),
        (Output("n", Ref(1, BIGINT)),),
        (Measure("g", "count"),),
    ),
}


def rows(random: Random, size: int) -> Bag:
    values = [None, 0, 1, 2]
    return Bag.of((random.choice(values), random.choice(values)) for _ in range(size))


def change(random: Random, before: Bag) -> Bag:
    gone = Bag.of(row for row in before.rows() if random.random() < 0.4)
    return rows(random, random.randrange(4)) - gone


Restrict = Callable[[Plan, tuple[Scalar, ...], Scan, set[int]], tuple[Plan, ...]]


@dataclass
class Session:
    """The relations before and after; parts are added as they are brought forward."""

    then: dict[str, Bag]
    now: dict[str, Bag]
    touched: Bag = field(default_factory=Bag)
    changed: Bag = field(default_factory=Bag)
    arriving: Bag = field(default_factory=Bag)
    read_again: int = 0

    def contents(self, scan: Scan) -> Bag:
        own = {TOUCHED: self.touched, CHANGED: self.changed, ARRIVING: self.arriving}
        if scan.relation in own:
            return own[scan.relation]
        if scan.at is Moment.CHANGE:
            return self.now[scan.relation] - self.then[scan.relation]
        return (self.then if scan.at is Moment.BEFORE else self.now)[scan.relation]

    def before(self, scan: Scan) -> Bag:
        return self.then[scan.relation]

    def after(self, scan: Scan) -> Bag:
        return self.now[scan.relation]

    def change(self, plan: Plan, restrict: Restrict) -> Bag:
        """As the runtime has it: part by part, each from its own last state."""
        parts, rest = split(normalize(plan), "v")
        for called, part in {**parts, "v": rest}.items():
            self.then[called] = evaluate(part, self.before)
            keywise = isinstance(part, Keywise)
            moved = self._keywise(called, part, restrict) if keywise else self._moved(part)  # type: ignore[arg-type]
            self.now[called] = self.then[called] + moved
        return self.now["v"] - self.then["v"]

    def _moved(self, plan: Plan) -> Bag:
        change = change_of(plan, frozenset(self.now))
        return evaluate(change, self.contents) if change is not None else Bag()

    def _from_own_state(self, called: str, plan: Aggregate, restrict: Restrict) -> Bag:
        """Without the relations, but for groups of which something is unknown."""
        (looked_at,) = keyed_inputs(plan)
        change = looked_at.change(frozenset(self.now))
        self.changed = evaluate(change, self.contents) if change is not None else Bag()
        if not self.changed:
            return Bag()
        former = Scan(called, plan.schema, Moment.BEFORE)
        groups = evaluate(brought_forward(plan, former), self.contents)
        then = evaluate(touched_groups(plan, former), self.contents)
        known = Bag((row[:-1], n) for row, n in groups.items() if not row[-1])
        self.touched = Bag.of({row[: len(plan.keys)] for row in groups if row[-1]})
        if not self.touched:
            return known - then
        self.read_again += len(self.touched)
        null = {i for i in range(len(plan.keys)) if any(row[i] is None for row in self.touched)}
        source = at(plan.input, Moment.AFTER, frozenset(self.now))
        found = restrict(source, looked_at.keys, touched_keys(plan), null)
        rows = found[0] if len(found) == 1 else UnionAll(found)
        return evaluate(over(plan, (rows,)), self.contents) + known - then

    def _met(self, called: str, plan: Semi, restrict: Restrict) -> Bag:
        """Rows of the left are read for keys that the right touches only."""
        changed, width = frozenset(self.now), len(shown_keys(plan))
        here, there = keyed_inputs(plan)

        def keys(side: Keyed) -> tuple[Bag, set[int]]:
            change = side.change(changed)
            found = {row[:width] for row in (evaluate(change, self.contents) if change is not None else ())}
            return Bag.of(found), {i for i in range(width) if any(row[i] is None for row in found)}

        def within(rows: Plan, on: tuple[Scalar, ...], touched: Scan, null: set[int]) -> Plan:
            branches = restrict(rows, on, touched, null)
            return branches[0] if len(branches) == 1 else UnionAll(branches)

        def now(side: Keyed, touched: Scan, null: set[int]) -> Plan:
            return within(at(side.plan, Moment.AFTER, changed), side.keys, touched, null)

        self.touched, null = keys(there)
        total, scan = Bag(), touched_keys(plan)
        if self.touched:
            new = over(plan, (now(here, scan, null), now(there, scan, null)))
            old = within(Scan(called, plan.schema, Moment.BEFORE), shown_keys(plan), scan, null)
            total = evaluate(new, self.contents) - evaluate(old, self.contents)
        self.arriving, null = keys(here)
        left = change_of(here.plan, changed)
        if left is not None and (width or not self.touched):
            rest = untouched_change(plan, left, scan if self.touched else None)
            total += evaluate(over(plan, (rest, now(there, arriving_keys(plan), null))), self.contents)
        return total

    def _first_rows(self, called: str, plan: Window, restrict: Restrict) -> Bag:
        changed = frozenset(self.now)
        (looked_at,) = keyed_inputs(plan)
        change = looked_at.change(changed)
        self.changed = evaluate(change, self.contents) if change is not None else Bag()
        if not self.changed:
            return Bag()
        former = Scan(called, plan.schema, Moment.BEFORE)
        then = evaluate(shown_before(plan, former), self.contents)
        self.touched = evaluate(unknown_partitions(plan, former), self.contents)
        if not self.touched:
            return evaluate(first_of_candidates(plan, former, None), self.contents) - then
        self.read_again += len(self.touched)
        null = {i for i in range(len(plan.partition)) if any(row[i] is None for row in self.touched)}
        source = at(plan.input, Moment.AFTER, changed)
        branches = restrict(source, plan.partition, touched_keys(plan), null)
        rows = branches[0] if len(branches) == 1 else UnionAll(branches)
        now = evaluate(over(plan, (rows,)), self.contents)
        if not plan.partition:
            return now - then
        known = evaluate(first_of_candidates(plan, former, touched_keys(plan)), self.contents)
        return now + known - then

    def _keywise(self, called: str, plan: Keywise, restrict: Restrict) -> Bag:
        if goes_on(plan):
            assert isinstance(plan, Aggregate)
            return self._from_own_state(called, plan, restrict)
        if isinstance(plan, Window) and keeps_first(plan):
            return self._first_rows(called, plan, restrict)
        if isinstance(plan, Semi):
            return self._met(called, plan, restrict)
        changed, width = frozenset(self.now), len(shown_keys(plan))
        changes = [each.change(changed) for each in keyed_inputs(plan)]
        found = [evaluate(change, self.contents) for change in changes if change is not None]
        self.touched = Bag.of({row[:width] for bag in found for row in bag})
        null = {i for i in range(width) if any(row[i] is None for row in self.touched)}

        def within(rows: Plan, keys: tuple[Scalar, ...]) -> Plan:
            branches = restrict(rows, keys, touched_keys(plan), null)
            return branches[0] if len(branches) == 1 else UnionAll(branches)

        inputs = [within(at(each.plan, Moment.AFTER, changed), each.keys) for each in keyed_inputs(plan)]
        shown = within(Scan(called, plan.schema, Moment.BEFORE), shown_keys(plan))
        if not self.touched:
            return Bag()
        return evaluate(over(plan, tuple(inputs)), self.contents) - evaluate(shown, self.contents)


def check(plan: Plan, restrict: Restrict) -> None:
    met = 0
    for seed in range(150):
        random = Random(seed)
        then = {"a.r": rows(random, random.randrange(7)), "a.s": rows(random, random.randrange(7))}
        now = {relation: bag + change(random, bag) for relation, bag in then.items()}
        session = Session(then, now)
        truth = evaluate(plan, session.after) - evaluate(plan, session.before)
        assert session.change(plan, restrict) == truth, f"seed {seed}"
        met += bool(truth)
    assert met > 20


@pytest.mark.parametrize("name", PLANS)
def test_touched_groups_are_all_that_changes(name: str) -> None:
    check(PLANS[name], in_touched)


def without_null(rows: Plan, keys: tuple[Scalar, ...], touched: Scan, null: set[int]) -> tuple[Plan, ...]:
    return in_touched(rows, keys, touched, ())


def not_at_all(rows: Plan, keys: tuple[Scalar, ...], touched: Scan, null: set[int]) -> tuple[Plan, ...]:
    return (rows,) if rows == R else in_touched(rows, keys, touched, null)


@pytest.mark.parametrize("bug", [without_null, not_at_all])
def test_planted_bugs_are_caught(bug: Restrict) -> None:
    with pytest.raises(AssertionError, match="seed"):
        check(PLANS["spread"], bug)


def test_parts_are_shared_and_joins_read_them_from_the_lake() -> None:
    groups = PLANS["brought forward"]
    both = Join((groups, groups), (Call("=", (Ref(0, INT), Ref(len(groups.schema), INT))),))
    parts, rest = split(normalize(both), "v")
    assert list(parts) == ["v~1"] and not isinstance(rest, Aggregate)
    parts, _ = split(normalize(Join((UnionAll((R, S)), S), MATCH)), "v")
    assert [type(part) for part in parts.values()] == [UnionAll]
    for plan in (UnionAll((R, S)), Times(R, Literal(2, BIGINT))):
        assert not split(normalize(plan), "v")[0]
