"""Which level each class of view reaches, by exploring every schedule of many small worlds of records.

A world is a few rows, a few changes, and managers: one for each base record, or two for all of them, one of
which is thought dead; one of them may die and be driven again. Worlds are drawn by a seed, so a finding comes
again with its seed; the worst schedule found is a shortest of its world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from stillframe.consistency import Level, Verdict
from stillframe.records.classes import served
from stillframe.records.view import Served
from stillframe.simulator.explore import TOO_MANY, Graph, TooManyWorlds, explore
from stillframe.simulator.printed_records import (
    PrintedCount,
    PrintedDistinct,
    PrintedJoin,
    PrintedKeyed,
    PrintedMin,
    PrintedSum,
)
from stillframe.simulator.record_cases import COUNT, JOIN, MAX, MIN, SETS, SUM, case
from stillframe.simulator.record_sessions import SessionSimulation
from stillframe.simulator.record_world import Managing, RecordSimulation
from stillframe.simulator.scenario import ONLY_VIEW, Relation, Scenario, Transaction, Update, numbered

KEYS = (1, 2)
VALUES = (0, 1, 2)


@dataclass(frozen=True)
class Judged:
    """The verdict of all schedules together, and a shortest schedule of the lowest level."""

    verdict: Verdict
    worlds: int
    schedule: tuple[str, ...]
    shown: tuple[Any, ...]

    @property
    def level(self) -> Level:
        return self.verdict.level


def judged(simulation: RecordSimulation | SessionSimulation, most: int = TOO_MANY) -> Judged:
    graph: Graph = explore(simulation, most)  # type: ignore[arg-type]
    verdict, worst = Verdict(True, True, True, True, True), 0
    lowest: Level | None = None
    for end in graph.ends():
        found = simulation.verdict(graph.worlds[end])  # type: ignore[arg-type]
        verdict &= found
        if lowest is None or found.level < lowest:
            lowest, worst = found.level, end
    world: Any = graph.worlds[worst]
    return Judged(verdict, len(graph.worlds), tuple(graph.schedule(worst)), world.shown)


@dataclass(frozen=True)
class Variant:
    """A class of view and one way to keep it. `paper` is what the paper says it reaches, and where."""

    view: str
    variant: str
    text: str
    level: str = "strong"
    printed: Any = None
    key: tuple[int, ...] = ()
    paper: str = ""
    cases: tuple[str, ...] = ()  # worlds that are looked at in any case

    def served(self, scenario: Scenario) -> Served:
        found = served(scenario.plan(), self.level, self.key)
        return found if self.printed is None else replace(found, view=self.printed)

    @property
    def relations(self) -> int:
        return 2 if " s" in self.text else 1


_GROUP = "SELECT X, {} FROM r GROUP BY X"
_SELECTION = "SELECT K, X, Y FROM r WHERE Y < 2"
_DISTINCT = "SELECT DISTINCT X FROM r"
_COMES_AND_GOES = ("a row that comes and goes",)
_VANISHES = (*_COMES_AND_GOES, "a group that vanishes")
_LEAST, _MOST = ("section 2.1.3",), ("section 2.1.3, greatest",)

_AS_PRINTED: tuple[tuple[str, str, Any, str, tuple[str, ...]], ...] = (
    ("selection", _SELECTION, PrintedKeyed(), "strong (2.3)", _COMES_AND_GOES),
    ("projection, key dropped", _DISTINCT, PrintedDistinct(), "strong (2.3)", _VANISHES),
    ("COUNT", COUNT, PrintedCount(), "strong (theorem 3)", _VANISHES),
    ("SUM", SUM, PrintedSum(), "strong (theorems 1, 2)", ("a group with a zero",)),
    ("MIN", MIN, PrintedMin(), "weak (theorem 5)", _COMES_AND_GOES),
    ("join", JOIN, PrintedJoin(), "weak (theorems 6, 7)", ("section 2.2",)),
)
_SET_OPERATIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("union", "UNION", ("section 2.4",)),
    ("intersection", "INTERSECT", ("section 2.4", "looked at twice, INTERSECT")),
    ("difference", "EXCEPT", ("looked at twice, EXCEPT",)),
)

VARIANTS = (
    Variant("selection", "ours", _SELECTION, paper="strong (2.3)", cases=_COMES_AND_GOES),
    Variant("projection, key kept", "ours", "SELECT K, X FROM r WHERE Y < 2", paper="strong (2.3)"),
    Variant(
        "projection, key part of its own", "ours", "SELECT X, K FROM r", key=(0, 1), paper="strong (2.3)"
    ),
    Variant("projection, key dropped", "ours", _DISTINCT, paper="strong (2.3)", cases=_VANISHES),
    Variant("COUNT", "ours", COUNT, paper="strong (theorem 3)", cases=_VANISHES),
    Variant("SUM", "ours", SUM, paper="strong (theorems 1, 2)", cases=("a group with a zero",)),
    Variant("AVG", "ours", _GROUP.format("AVG(Y) AS A"), paper="strong (theorem 4)", cases=_VANISHES),
    Variant("MIN", "ours, local", MIN, "weak", paper="weak (theorem 5)", cases=_LEAST),
    Variant("MIN", "ours, scanning", MIN, paper="strong (2.1.3)", cases=_LEAST),
    Variant("MAX", "ours, local", MAX, "weak", paper="weak (theorem 5)", cases=_MOST),
    Variant("MAX", "ours, scanning", MAX, paper="strong (2.1.3)", cases=_MOST),
    Variant("several with MIN or MAX", "ours, scanning", _GROUP.format("MIN(Y) AS M, SUM(Y) AS S")),
    Variant("join", "ours, partners kept", JOIN, paper="weak (theorems 6, 7)", cases=("section 2.2",)),
    *(
        Variant(name, f"ours, {how}", SETS.format(word), level, paper=f"{level} (2.4)", cases=cases)
        for name, word, cases in _SET_OPERATIONS
        for how, level in (("base access", "weak"), ("auxiliary data", "strong"))
    ),
    *(
        Variant(name, "as printed", text, printed=printed, paper=paper, cases=cases)
        for name, text, printed, paper, cases in _AS_PRINTED
    ),
    Variant("SUM", "as printed, no signatures", SUM, printed=PrintedSum(signed=False), cases=("example 2",)),
)


def worlds(variant: Variant, seed: int, number: int) -> Iterator[RecordSimulation]:
    """Those with a point, and so many that are drawn."""
    for name in variant.cases:
        scenario = replace(case(name), views=((ONLY_VIEW, variant.text),))
        for crashes in (0, 1):
            way = variant.served(scenario)
            yield RecordSimulation(scenario, scenario.plan(), way, Managing(crashes=crashes))
    random = Random(f"{variant.view}/{variant.variant}/{seed}")
    while number:
        drawn = drawn_scenario(variant, random)
        if drawn is None:
            continue
        number -= 1
        plan, way = drawn.plan(), variant.served(drawn)
        for managing in _managings(drawn, variant):
            yield RecordSimulation(drawn, plan, way, managing)


def _managings(scenario: Scenario, variant: Variant) -> Iterator[Managing]:
    yield Managing(crashes=1)
    records = len({(u.relation, u.row[0]) for t in scenario.transactions for u in t.updates})
    one = tuple(range(records))
    yield Managing(
        streams=(one,), managers=((0,), (0,)), combine=variant.printed is None and variant.relations == 1
    )


def drawn_scenario(variant: Variant, random: Random) -> Scenario | None:
    """One or two relations of two records at most, and up to three changes; rows refer to partners that are
    there for as long as they do."""
    names = ("r", "s")[: variant.relations]
    columns = dict.fromkeys(names, ("K", "X", "Y"))
    state: dict[str, dict[int, tuple[int, ...]]] = {name: {} for name in names}
    joined = "JOIN" in variant.text

    def row(name: str, key: int) -> tuple[int, ...]:
        if joined and name == "r":
            return (key, random.choice(list(state["s"])), 0)
        return (key, random.choice(KEYS), random.choice(VALUES))

    for name in reversed(names):
        for key in KEYS[: 2 if not joined else 1 if name == "r" else 2]:
            if (joined and name == "s") or random.random() < 0.5:
                state[name][key] = row(name, key)
    relations = tuple(
        Relation(name, "x", columns[name], ("K",), tuple(state[name].values())) for name in names
    )
    changes: list[tuple[Update, ...]] = []
    for _ in range(random.randint(2, 3)):
        name = random.choice(names)
        key = random.choice(KEYS[:1] if joined and name == "r" else KEYS)
        before = state[name].get(key)
        keeps = joined and name == "s"  # a partner stays while rows may refer to it
        after = None if before is not None and not keeps and random.random() < 0.4 else row(name, key)
        if before == after:
            continue
        left = () if before is None else (Update(name, False, before),)
        came = () if after is None else (Update(name, True, after),)
        changes.append((*left, *came))
        if after is None:
            del state[name][key]
        else:
            state[name][key] = after
    if not changes:
        return None
    transactions = numbered(
        Transaction(f"T{i}" if len(c) > 1 else f"U{i}", c) for i, c in enumerate(changes, 1)
    )
    return Scenario("drawn", relations, ((ONLY_VIEW, variant.text),), tuple(transactions))


@dataclass(frozen=True)
class Finding:
    variant: Variant
    level: Level
    worlds: int
    worst: Judged | None
    scenario: Scenario | None


def level_of(variant: Variant, seed: int, number: int, watch: Callable[[int], None] | None = None) -> Finding:
    """The lowest level that so many worlds of a variant show."""
    return lowest(variant, worlds(variant, seed, number), watch)


def lowest(
    variant: Variant,
    simulations: Iterable[RecordSimulation | SessionSimulation],
    watch: Callable[[int], None] | None = None,
    most: int = TOO_MANY,
) -> Finding:
    """Of simulations with at most so many worlds; larger ones are left out."""
    verdict = Verdict(True, True, True, True, True)
    worst: tuple[Judged, Scenario] | None = None
    count = 0
    for simulation in simulations:
        try:
            found = judged(simulation, most)
        except TooManyWorlds:
            continue
        count += found.worlds
        verdict &= found.verdict
        if worst is None or found.level < worst[0].level:
            worst = found, simulation.scenario
        if watch is not None:
            watch(count)
    level = min(verdict.level, Level.STRONG)
    return Finding(variant, level, count, *(worst or (None, None)))


def table(seed: int, number: int) -> str:
    """What every variant reaches, as a page shows it."""
    lines = ["| view | kept | the paper says | explored |", "| --- | --- | --- | --- |"]
    for variant in VARIANTS:
        found = level_of(variant, seed, number)
        lines.append(f"| {variant.view} | {variant.variant} | {variant.paper or '-'} | {found.level} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(seed=1, number=3))
