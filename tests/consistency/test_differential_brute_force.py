"""The checker against a reading of the definitions that enumerates everything, on random small histories."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator

from levels_by_definition import (
    Cut,
    History,
    World,
    ascends,
    holds,
    holds_with_vectors,
    is_below,
    level,
    random_history,
    random_world,
    without_repeats,
)

from stillframe.consistency import Course, Judge, explain

SEED = int(os.environ.get("STILLFRAME_SEED", "20"))
WORLDS = 1000
HISTORIES = 10  # of each world


def judge_of(world: World) -> Judge:
    groups = tuple(frozenset(group) for group in world.groups)
    course = Course(world.lengths, groups, frozenset(world.depends))
    return Judge(course, world.content.__getitem__)


def cases(kind: str) -> Iterator[tuple[World, Judge, History, list[Cut]]]:
    print(f"seed {SEED}")
    rng = random.Random(f"{kind} {SEED}")
    for _ in range(WORLDS):
        world = random_world(rng)
        judge = judge_of(world)
        for _ in range(HISTORIES):
            yield world, judge, *random_history(rng, world)


def said(case: int, world: World, *more: object) -> str:
    return (
        f"seed {SEED}, case {case}: {world.lengths=} {world.groups=} {world.depends=} {world.content=} {more}"
    )


def test_judge_on_ten_thousand_histories() -> None:
    levels: Counter[str] = Counter()
    combinations: Counter[str] = Counter()
    for case, (world, judge, states, _) in enumerate(cases("judge")):
        expected = holds(world, states)
        verdict = judge.judge(states)
        assert tuple(verdict.holds.values()) == expected, said(case, world, states)
        assert verdict.level == level(expected), said(case, world, states)
        levels[verdict.level.value] += 1
        combinations["".join("01"[held] for held in expected)] += 1
    print(dict(levels), dict(combinations))
    assert sum(levels.values()) == 10_000
    # convergence, weak, pairwise, consistency, completeness: every combination that the implications leave
    assert set(combinations) == {
        *("00000", "01000", "01100", "01110"),
        *("10000", "11000", "11100", "11110", "11111"),
    }
    assert min(levels[each] for each in ("none", "convergent", "weak", "strong", "complete")) >= 300
    assert min(combinations.values()) >= 20


def test_verify_on_ten_thousand_histories() -> None:
    levels: Counter[str] = Counter()
    found_by_search: Counter[str] = Counter()
    for case, (world, judge, states, vectors) in enumerate(cases("verify")):
        expected = holds_with_vectors(world, states, vectors)
        verdict = judge.verify(states, vectors)
        assert tuple(verdict.holds.values()) == expected, said(case, world, states, vectors)
        searched = judge.judge(states)
        assert verdict & searched == verdict, said(case, world, states, vectors)
        levels[verdict.level.value] += 1
        found_by_search[searched.level.value] += searched != verdict
    print(dict(levels), dict(found_by_search))
    assert min(levels[each] for each in ("none", "convergent", "weak", "strong", "complete")) >= 300
    assert min(found_by_search[each] for each in ("weak", "strong", "complete")) >= 100


def test_witnesses_prove_what_holds_and_failures_name_the_state() -> None:
    for case, (world, judge, states, vectors) in enumerate(cases("explain")):
        if case % 5:
            continue
        for given in (None, vectors):
            explanation = explain(judge, states, given)
            about = said(case, world, states, given, explanation)
            verdict = judge.judge(states) if given is None else judge.verify(states, given)
            assert explanation.verdict == verdict, about
            assert list(explanation.witnesses) == [each for each, held in verdict.holds.items() if held], (
                about
            )
            for held, chains in explanation.witnesses.items():
                assert proves(world, states, held, chains), f"{held}: {about}"
            assert (explanation.failure and explanation.failure.property) == verdict.breaks, about
            for broken in (each for each, held in verdict.holds.items() if not held):
                failure = explain(judge, states, given, breaks=broken).failure
                assert failure is not None and failure.property == broken, about
                if given is None:
                    assert breaks_at(world, states, broken, failure.state), f"{failure}: {about}"
                elif broken not in ("convergence", "completeness"):
                    assert failure.state == first_wrong(world, states, vectors, broken), f"{failure}: {about}"


def proves(world: World, states: History, held: str, chains: tuple[tuple[Cut, ...], ...]) -> bool:
    shown = [[world.content[cut] for cut in chain] for chain in chains]
    closed = all(world.is_closed(cut) for chain in chains for cut in chain)
    if not all(map(ascends, chains)):
        return False
    match held:
        case "convergence":
            return chains == ((world.lengths,),) and shown[0][0] == states[-1]
        case "weak":
            return shown == [[state] for state in states]
        case "pairwise":
            pairs = [[a, b] for at, a in enumerate(states) for b in states[at + 1 :]]
            return closed and shown == pairs
        case "consistency":
            return closed and shown == [states]
        case _:
            return list(chains[0]) in world.orders and without_repeats(shown[0]) == without_repeats(states)


def breaks_at(world: World, states: History, broken: str, at: int) -> bool:
    """The states before hold, those up to this one do not."""
    if broken == "convergence":
        return at == len(states) - 1
    if broken == "completeness":
        shown = [without_repeats([world.content[cut] for cut in order]) for order in world.orders]
        before, upto = without_repeats(states[:at]), without_repeats(states[: at + 1])
        whole = at == len(states) - 1 and without_repeats(states) not in shown
        goes_on = any(each[: len(upto)] == upto for each in shown)
        return any(each[: len(before)] == before for each in shown) and (whole or not goes_on)
    which = ["convergence", "weak", "pairwise", "consistency"].index(broken)
    return (at == 0 or holds(world, states[:at])[which]) and not holds(world, states[: at + 1])[which]


def first_wrong(world: World, states: History, vectors: list[Cut], broken: str) -> int:
    """The first vector of another content; if all are right, the first that is not closed or goes back."""
    wrong = [at for at, cut in enumerate(vectors) if world.content[cut] != states[at]]
    if broken == "weak" or wrong:
        return wrong[0]
    return next(
        at
        for at, cut in enumerate(vectors)
        if not world.is_closed(cut) or (at > 0 and not is_below(vectors[at - 1], cut))
    )
