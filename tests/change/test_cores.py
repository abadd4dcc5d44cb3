"""Which blocks of joins are known again in other joins, and the law they are read by: whatever the order, the
change of a plan over cores is what the plan is after less what it was before."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from random import Random

import pytest
from two_moments import TwoMoments, growth

from stillframe.algebra import (
    Bag,
    Column,
    Join,
    Literal,
    Moment,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    UnionAll,
    call,
    evaluate,
    relations,
    scans,
)
from stillframe.algebra.types import INT
from stillframe.change import Core, Cores, Use, at, change_of, with_states
from stillframe.change.blocks import connected
from stillframe.change.propagation import Tree, join_inputs, n_term

SEED = int(os.environ.get("STILLFRAME_SEED", "14"))
PAIR = Schema((Column("a", INT), Column("b", INT)))
A, B = 0, 1


def joined(*names: str, where: Sequence[tuple[int, int, int, int]], more: Sequence[Scalar] = ()) -> Join:
    """Of pairs (a, b). A condition equates a column of the input at one place with that of another."""
    inputs = tuple(Scan(name, PAIR) for name in names)
    equal = (call("=", column(i, a), column(j, b)) for i, a, j, b in where)
    return Join(inputs, (*equal, *more))


def column(place: int, which: int) -> Ref:
    return Ref(2 * place + which, INT)


def showing(join: Join, *columns: Ref) -> Plan:
    return Project(join, tuple(Output(f"o{i}", each) for i, each in enumerate(columns)))


def above(place: int, which: int, least: int) -> Scalar:
    return call(">", column(place, which), Literal(least, INT))


LO = joined("l", "o", where=[(0, A, 1, A)])
LOC = joined("o", "c", "l", where=[(2, A, 0, A), (0, B, 1, A)])
LOS = joined("s", "o", "l", where=[(1, A, 2, A), (0, A, 2, B)])
V_LO = showing(LO, column(0, B))
V_LOC = showing(LOC, column(1, B))
V_LOS = showing(LOS, column(0, B))


def read(core: Core) -> tuple[str, ...]:
    return tuple(scan.relation for scan in scans(core.join))


def test_a_join_is_shared_with_a_larger_one() -> None:
    chosen = Cores({"lo": V_LO, "loc": V_LOC}).chosen({"lo", "loc"})
    (core,) = chosen.of(V_LO)
    assert chosen.of(V_LOC) == (core,) and read(core) == ("l", "o")
    assert relations(chosen.over(V_LO, {core: "#x"})) == ("#x",)
    assert sorted(relations(chosen.over(V_LOC, {core: "#x"}))) == ["#x", "c"]


def test_two_joins_share_what_neither_of_them_is() -> None:
    chosen = Cores({"loc": V_LOC, "los": V_LOS}).chosen({"loc", "los"})
    (core,) = chosen.of(V_LOC)
    assert chosen.of(V_LOS) == (core,) and read(core) == ("l", "o")


def test_a_core_has_the_columns_that_are_read_above_it_and_across_it() -> None:
    """LOC asks for o.b across the block, LOS for l.b; LO shows l.b. Nobody needs the block's join columns."""
    plans = {"lo": V_LO, "loc": V_LOC, "los": V_LOS}
    chosen = Cores(plans).chosen(plans)
    (core,) = chosen.of(V_LO)
    assert core.columns == (1, 3)


def test_conditions_that_not_all_ask_for_are_asked_above_the_core() -> None:
    mine = showing(joined("l", "o", where=[(0, A, 1, A)], more=[above(0, A, 1), above(1, A, 0)]))
    yours = showing(joined("o", "l", "c", where=[(0, A, 1, A), (0, B, 2, A)], more=[above(0, A, 0)]))
    chosen = Cores({"mine": mine, "yours": yours}).chosen({"mine", "yours"})
    (core,) = chosen.of(mine)
    assert len(core.inside) == 1 and len(core.join.conditions) == 2
    assert core.columns == (0, 3), "l.a is asked about by one of them, o.b across the block"


def test_the_largest_is_taken_and_what_is_inside_it_is_not() -> None:
    wide = showing(joined("l", "o", "c", "n", where=[(0, A, 1, A), (1, B, 2, A), (2, B, 3, A)]))
    plans = {"loc": V_LOC, "wide": wide, "lo": V_LO}
    chosen = Cores(plans).chosen(plans)
    (largest,) = chosen.of(wide)
    assert read(largest) == ("c", "l", "o") and chosen.of(V_LOC) == (largest,)
    assert chosen.of(V_LO) == (), "nobody is left to share it with"


def test_blocks_of_one_join_do_not_overlap() -> None:
    chain = [(0, A, 1, A), (1, B, 2, A), (2, B, 3, A)]
    wide = showing(joined("l", "o", "c", "n", where=chain))
    plans = {"wide": wide, "lo": V_LO, "oc": showing(joined("o", "c", where=[(0, B, 1, A)]))}
    plans["cn"] = showing(joined("c", "n", where=[(0, B, 1, A)]))
    chosen = Cores(plans).chosen(plans)
    assert sorted(map(read, chosen.of(wide))) == [("c", "n"), ("l", "o")]
    assert chosen.of(plans["oc"]) == ()


@pytest.mark.parametrize(
    "other",
    [
        joined("l", "o", where=[(0, A, 1, B)]),
        joined("l", "o", where=[]),
        joined("l", "o", where=[(0, A, 1, A), (0, B, 1, B)]),
        joined("l", "c", where=[(0, A, 1, A)]),
        joined("l", "l", where=[(0, A, 1, A)]),
    ],
)
def test_blocks_of_other_conditions_or_relations_are_not_shared(other: Join) -> None:
    plans = {"loc": V_LOC, "other": showing(other, column(0, A))}
    assert len(Cores(plans)) == len(Cores(plans).chosen(plans)) == 0


def test_one_plan_alone_shares_nothing() -> None:
    both = UnionAll((V_LO, V_LOC))
    assert len(Cores({"both": both})) == 0
    assert len(Cores({"lo": V_LO, "loc": V_LOC}).chosen({"loc"})) == 0


def test_connected_sets_are_those_that_conditions_hold_together() -> None:
    join = joined("r", "s", "t", "u", where=[(0, A, 1, A), (1, A, 2, A)], more=[above(3, A, 0)])
    found = sorted(sorted(some) for some in connected(join, range(4)))
    assert found == [[0, 1], [0, 1, 2], [1, 2]]


def test_parts_are_shared_where_they_gain_and_whole_joins_anyway() -> None:
    plans = {"lo": V_LO, "again": showing(LO, column(1, B)), "loc": V_LOC, "los": V_LOS}
    asked: list[tuple[list[str], bool]] = []

    def only_los(_core: Core, uses: Sequence[Use], anyway: bool) -> Sequence[Use]:
        asked.append((sorted(use.plan for use in uses), anyway))
        return [use for use in uses if use.plan == "los"]

    chosen = Cores(plans).chosen(plans, only_los)
    assert asked == [(["loc", "los"], True)]
    (core,) = chosen.of(V_LO)
    assert chosen.of(V_LOS) == chosen.of(plans["again"]) == (core,) and chosen.of(V_LOC) == ()
    parts = Cores({"loc": V_LOC, "los": V_LOS})
    assert len(parts.chosen({"loc", "los"}, only_los)) == 0, "one of them is not enough"


# -- the law


def random_plans(random: Random) -> dict[str, Plan]:
    """Joins that grow around one block, in any order of inputs, with conditions of their own; a relation may
    be there twice."""
    names = [random.choice(["l", "o", "o", "c"]) for _ in range(random.randint(2, 3))]
    base = [
        (i, random.randint(0, 1), random.randrange(i), random.randint(0, 1)) for i in range(1, len(names))
    ]
    found: dict[str, Plan] = {}
    for number in range(3):
        inputs, where = list(names), list(base)
        for _ in range(random.randint(0, 2)):
            inputs.append(random.choice(["l", "c", "s"]))
            there = random.randrange(len(inputs) - 1)
            where.append((len(inputs) - 1, random.randint(0, 1), there, random.randint(0, 1)))
        order = random.sample(range(len(inputs)), len(inputs)) if len(set(names)) == len(names) else None
        if order is not None:
            at_ = {old: new for new, old in enumerate(order)}
            inputs = [inputs[old] for old in order]
            where = [(at_[i], a, at_[j], b) for i, a, j, b in where]
        own = [
            above(random.randrange(len(inputs)), random.randint(0, 1), 0) for _ in range(random.randint(0, 2))
        ]
        join = joined(*inputs, where=where, more=own)
        shown = [column(random.randrange(len(inputs)), random.randint(0, 1)) for _ in range(2)]
        found[f"v{number}"] = showing(join, *shown)
    if random.random() < 0.3:
        n = len(names)
        wide = [*base, (n, A, n + 1, B), (n, B, random.randrange(n), A)]
        found["wide"] = showing(joined(*names, "s", "t", where=wide), column(n + 1, A))
        found["beside"] = showing(joined("t", "s", where=[(0, B, 1, A)]), column(0, A), column(1, B))
    if random.random() < 0.3:
        found["both"] = UnionAll((found["v0"], found["v1"]))
    return found


def random_bag(random: Random) -> Bag:
    value = [0, 1, 2, 2, None]
    return Bag.of([(random.choice(value), random.choice(value)) for _ in range(random.randint(0, 5))])


def change_over(plan: Plan, cores: Cores, plans: Collection[str], moments: TwoMoments, random: Random) -> Bag:
    chosen = cores.chosen(plans)
    names = {core: f"#core{i}" for i, core in enumerate(chosen.of(plan))}
    changes = {name: growth(core.plan, moments) for core, name in names.items()}
    changed = moments.changed | {name for name, bag in changes.items() if bag}

    def in_any_order(join: Join, changed: frozenset[str]) -> Tree:
        inputs = join_inputs(join, changed)
        return n_term(random.sample(inputs, len(inputs)))

    def state(name: str, moment: Moment) -> Plan | None:
        return next((at(c.plan, moment, moments.changed) for c, n in names.items() if n == name), None)

    change = change_of(chosen.over(plan, names), frozenset(changed), in_any_order)
    if change is None:
        return Bag()
    return evaluate(
        with_states(change, state), lambda s: changes[s.relation] if s.relation in changes else moments(s)
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + 150))
def test_a_change_over_cores_is_the_change(seed: int) -> None:
    print(f"STILLFRAME_SEED={seed}")
    random = Random(seed)
    plans = random_plans(random)
    before = {name: random_bag(random) for name in ("l", "o", "c", "s", "t")}
    after = {name: bag if random.random() < 0.2 else random_bag(random) for name, bag in before.items()}
    moments, cores = TwoMoments(before, after), Cores(plans)
    for name, plan in plans.items():
        assert change_over(plan, cores, plans, moments, random) == growth(plan, moments), (name, plan)


def test_the_law_is_tried_on_parts_of_joins_self_joins_and_two_blocks() -> None:
    met = {"part": 0, "whole": 0, "twice": 0, "two": 0}
    for seed in range(SEED, SEED + 150):
        plans = random_plans(Random(seed))
        for used in Cores(plans).chosen(plans).taken.values():
            met["two"] += len(used) > 1
            for block, core in used:
                met["whole" if block.is_whole else "part"] += 1
                met["twice"] += len(set(read(core))) < len(read(core))
    assert min(met.values()) > 10, met


def test_states_of_a_block_are_inputs_of_the_term_itself() -> None:
    """So that each of its relations is asked for by the keys that the term's change has."""
    chosen = Cores({"lo": V_LO, "loc": V_LOC}).chosen({"lo", "loc"})
    (core,) = chosen.of(V_LOC)
    change = change_of(chosen.over(V_LOC, {core: "#x"}), frozenset({"c"}))
    assert change is not None
    term = with_states(
        change, lambda name, moment: at(core.plan, moment, frozenset()) if name == "#x" else None
    )
    assert isinstance(term, Project) and isinstance(term.input, Join)
    assert [(s.relation, s.at) for s in term.input.inputs if isinstance(s, Scan)] == [
        ("l", Moment.AFTER),
        ("o", Moment.AFTER),
        ("c", Moment.CHANGE),
    ]
