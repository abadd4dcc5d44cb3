"""Every expression computes the change: its plans, evaluated step by step over random signed bags, give what
the join is after less what it was before."""

from __future__ import annotations

import os
from functools import partial
from itertools import combinations
from random import Random

import pytest
from propagation_trees import as_tree, every_tree, random_graph
from two_moments import TwoMoments

from stillframe.algebra import (
    Bag,
    Column,
    Filter,
    Join,
    Literal,
    Moment,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    UnionAll,
    call,
    evaluate,
    scans,
)
from stillframe.algebra.plan import Output, walk
from stillframe.algebra.types import INT
from stillframe.change import change_of
from stillframe.change.linear import total
from stillframe.change.propagation import (
    Expression,
    Linear,
    PlannedStep,
    all_terms,
    best_tree,
    join_inputs,
    nested,
    planned,
    propagated,
)

SEED = int(os.environ.get("STILLFRAME_SEED", "20"))
PAIR = Schema((Column("a", INT), Column("b", INT)))


def random_bag(random: Random) -> Bag:
    rows = [(random.randint(0, 2), random.randint(0, 2)) for _ in range(random.randint(2, 5))]
    return Bag((row, random.choice([-1, 1, 1, 1, 2])) for row in rows)


def random_join(random: Random, count: int) -> Join:
    """Scans, now and then of one relation twice; conditions over one input, two, or three; pairs without."""
    names = [f"r{place}" for place in range(count)]
    if count > 1 and random.random() < 0.3:
        names[-1] = names[0]
    inputs: list[Plan] = [Scan(name, PAIR) for name in names]

    def column(place: int) -> Ref:
        return Ref(2 * place + random.randint(0, 1), INT)

    conditions = [
        call(random.choice(["=", "=", "=", "<="]), column(one), column(other))
        for one, other in combinations(range(count), 2)
        if random.random() < 0.5
    ]
    if random.random() < 0.3:
        conditions.append(call("<", column(random.randrange(count)), Literal(2, INT)))
    if count > 2 and random.random() < 0.3:
        one, other, third = random.sample(range(count), 3)
        conditions.append(call("<=", call("+", column(one), column(other)), column(third)))
    return Join(tuple(inputs), tuple(conditions))


def random_moments(random: Random, join: Join, changed: frozenset[str]) -> TwoMoments:
    before = {name: random_bag(random) for name in sorted({scan.relation for scan in scans(join)})}
    after = {name: bag + random_bag(random) if name in changed else bag for name, bag in before.items()}
    return TwoMoments(before, after)


def run(steps: tuple[PlannedStep, ...], moments: TwoMoments) -> Bag:
    """Each step once, in order; what an earlier one made is read by its name."""
    made: dict[str, Bag] = {}

    def contents(scan: Scan) -> Bag:
        if scan.relation.startswith("Δ"):
            assert scan.at is Moment.CHANGE
            return made[scan.relation]
        return moments(scan)

    result = Bag()
    for step in steps:
        plan = total(step.terms)
        assert plan is not None
        assert plan.schema.types == step.schema.types
        assert step.name not in made
        result = made[step.name] = evaluate(plan, contents)
    return result


def run_nested(steps: tuple[PlannedStep, ...], moments: TwoMoments) -> Bag:
    plan = total(nested(steps))
    return Bag() if plan is None else evaluate(plan, moments)


def growth(join: Join, moments: TwoMoments) -> Bag:
    return evaluate(join, moments.new) - evaluate(join, moments.old)


def steps_of(join: Join, expression: Expression, changed: frozenset[str]) -> tuple[PlannedStep, ...]:
    return planned(join, expression, changed, partial(change_of, changed=changed))


def subsets(names: list[str]) -> list[frozenset[str]]:
    return [frozenset(some) for size in range(len(names) + 1) for some in combinations(names, size)]


@pytest.mark.parametrize(("count", "worlds"), [(1, 5), (2, 20), (3, 8), (4, 1)])
def test_every_tree_computes_the_change(count: int, worlds: int) -> None:
    """All trees, for every set of relations that change."""
    telling = 0
    for seed in range(SEED, SEED + worlds):
        random = Random(seed)
        join = random_join(random, count)
        names = sorted({scan.relation for scan in scans(join)})
        for changed in subsets(names):
            moments = random_moments(random, join, changed)
            grown = growth(join, moments)
            telling += bool(grown)
            inputs = join_inputs(join, changed)
            for tree in every_tree(range(count)):
                steps = steps_of(join, propagated(as_tree(tree, inputs)), changed)
                told = f"STILLFRAME_SEED={seed}: {tree}, {sorted(changed)} change, {join}"
                assert run(steps, moments) == grown, told
                if count < 4:
                    assert run_nested(steps, moments) == grown, told
    assert telling >= worlds  # cases in which the join changes


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_all_terms_compute_the_change(count: int) -> None:
    for seed in range(SEED, SEED + 12):
        random = Random(seed)
        join = random_join(random, count)
        changed = frozenset(scan.relation for scan in scans(join) if random.random() < 0.7)
        moments = random_moments(random, join, changed)
        expression = all_terms(join_inputs(join, changed))
        moving = sum(each.changes for each in join_inputs(join, changed))
        assert sum(len(step.terms) for step in expression.steps) == 2**moving - 1
        found = run(steps_of(join, expression, changed), moments)
        assert found == growth(join, moments), f"STILLFRAME_SEED={seed}"


def test_chosen_trees_of_larger_joins_compute_the_change() -> None:
    for seed in range(SEED, SEED + 6):
        random = Random(seed)
        join = random_join(random, 5)
        changed = frozenset(scan.relation for scan in scans(join) if random.random() < 0.8)
        moments = random_moments(random, join, changed)
        graph = random_graph(random, 5)
        chosen = best_tree(graph, Linear(graph))
        inputs = join_inputs(join, changed)
        places = [each.place for each in chosen.inputs]
        assert sorted(places) == list(range(5))
        expression = propagated(as_tree(_nested(chosen), inputs))
        assert run(steps_of(join, expression, changed), moments) == growth(join, moments), (
            f"STILLFRAME_SEED={seed}: {chosen}"
        )


def _nested(tree: object) -> object:
    blocks = getattr(tree, "blocks", None)
    return tree.input.place if blocks is None else tuple(map(_nested, blocks))  # type: ignore[attr-defined]


def test_inputs_that_are_more_than_scans() -> None:
    """An input whose own change is a sum of terms, one that is filtered, one that is computed."""
    r, s, t = (Scan(name, PAIR) for name in "rst")
    changed = frozenset("rst")
    inputs = (
        UnionAll((r, s)),
        Filter(t, call("<", Ref(0, INT), Literal(2, INT))),
        Project(s, (Output("a", Ref(1, INT)), Output("b", call("+", Ref(0, INT), Ref(1, INT))))),
    )
    join = Join(inputs, (call("=", Ref(0, INT), Ref(3, INT)), call("=", Ref(2, INT), Ref(4, INT))))
    for seed in range(SEED, SEED + 5):
        moments = random_moments(Random(seed), join, changed)
        for tree in every_tree(range(3)):
            expression = propagated(as_tree(tree, join_inputs(join, changed)))
            steps = steps_of(join, expression, changed)
            assert run(steps, moments) == growth(join, moments), f"STILLFRAME_SEED={seed}: {tree}"
            assert run_nested(steps, moments) == growth(join, moments), f"STILLFRAME_SEED={seed}: {tree}"


def test_a_block_is_computed_once_and_its_conditions_are_asked_once() -> None:
    r, s, t = (Scan(name, PAIR) for name in "rst")
    equal = call("=", Ref(0, INT), Ref(2, INT))
    join = Join((r, s, t), (equal, call("=", Ref(3, INT), Ref(4, INT))))
    changed = frozenset("rst")
    steps = steps_of(join, propagated(as_tree(((0, 1), 2), join_inputs(join, changed))), changed)
    assert [(step.name, len(step.terms)) for step in steps] == [("Δ(0,1)", 2), ("Δ(0,1,2)", 2)]
    uses = [
        scan for step in steps for plan in step.terms for scan in scans(plan) if scan.relation == "Δ(0,1)"
    ]
    assert len(uses) == 1
    inside, across = (
        [node.conditions for plan in step.terms for node in walk(plan) if isinstance(node, Join)]
        for step in steps
    )
    assert inside == [(equal,), (equal,)]
    assert across == [(join.conditions[1],), join.conditions]


def test_nothing_runs_where_nothing_changes() -> None:
    join = Join((Scan("r", PAIR), Scan("s", PAIR), Scan("t", PAIR)))
    only_t = frozenset("t")
    steps = steps_of(join, propagated(as_tree(((0, 1), 2), join_inputs(join, only_t))), only_t)
    assert [step.name for step in steps] == ["Δ(0,1,2)"]
    assert len(steps[0].terms) == 1
    assert {scan.at for scan in scans(steps[0].terms[0])} == {Moment.AFTER, Moment.CHANGE}
    for tree in every_tree(range(3)):
        assert not propagated(as_tree(tree, join_inputs(join, frozenset()))).steps
    assert not all_terms(join_inputs(join, frozenset())).steps
