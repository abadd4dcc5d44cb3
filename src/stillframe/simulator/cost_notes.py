"""Why counts differ from the closed forms: sentences about what was counted, with its numbers.

A sentence is said only where the counts bear it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from stillframe.simulator import paper_relations as relations
from stillframe.simulator.cost_curves import Counts, Series, Study
from stillframe.simulator.costs import Schedule
from stillframe.simulator.formulas import Number, cost, cost_in_turn, crossover, pairs, pairs_in_turn

Note = tuple[str, str]  # figure, sentence
BEST_RV: Series = ("rv", "best")
WORST_RV: Series = ("rv", "worst")
BEST_ECA: Series = ("eca", "best")
WORST_ECA: Series = ("eca", "worst")


def notes(study: Study) -> list[dict[str, str]]:
    told: tuple[Callable[[Study], Iterator[Note]], ...] = (
        _small_relations,
        _pairs,
        _always,
        _not_exact,
        _chance,
        _growth,
        _rare_meetings,
        _cancelled,
        _blocks,
        _scenario_2,
        _others,
    )
    return [{"figure": figure, "text": text} for tell in told for figure, text in tell(study)]


def _last(counts: Counts) -> int | None:
    return max(counts, default=None)


def _small_relations(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    low, high = _crossings(study, "6.2")
    yield (
        "6.2",
        f"The formulas cross at C = {low} and {high}, the text reads about 5 off its plot. Below C = {p.J} no"
        f" row can have J = {p.J} partners, so there the formulas speak of no relations at all.",
    )
    small = [c for c in study.over_c["degenerate", BEST_ECA] if c < 3 * p.J]
    if small:
        yield (
            "6.2",
            f"Degenerate relations need C = {3 * p.J} to keep three updates out of each other's way; below"
            " that, ECA's best case meets one row less than J somewhere.",
        )


def _pairs(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    k = _last(study.over_k["degenerate", WORST_ECA])
    if k is None:
        return
    yield (
        "6.3",
        "The text has two forms of ECA's worst case. For three updates, one of each relation, it compensates"
        f" 3 pairs ({_text(cost_in_turn('bytes', 'eca', 'worst', 3, p))} bytes); for k updates of random"
        f" relations it expects k(k-1)/3 pairs, 2 for k = 3 ({_text(cost('bytes', 'eca', 'worst', 3, p))}"
        f" bytes). Updates here take the relations in turn: {pairs_in_turn(k)} pairs for k = {k}, where"
        f" {_text(pairs(k))} are expected.",
    )


def _always(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    first = crossover(
        lambda k: cost("bytes", "eca", "worst", k, p), lambda k: cost("bytes", "rv", "worst", k, p)
    ).first
    yield (
        "6.3",
        "The text has RV's worst case always far above ECA's. What compensation adds is quadratic in k: from"
        f" k = {first} on ECA's worst case is the dearer one.",
    )


def _not_exact(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    worst = study.over_k["degenerate", WORST_RV]
    k = _last(worst)
    if k is not None:
        less = _whole(cost("bytes", "rv", "worst", k, p)) - worst[k].term_bytes
        yield (
            "6.3",
            "Degenerate, RV worst: no update leaves C as it is. Up to three rows are missing when the view is"
            f" recomputed, each worth sigma J² rows of it: {less} bytes less than the formula for k = {k}.",
        )
    off = {
        k: made.term_bytes - _whole(cost_in_turn("bytes", "eca", "worst", k, p))
        for k, made in study.over_k["degenerate", WORST_ECA].items()
    }
    odd = sorted(k for k, difference in off.items() if difference)
    if odd:
        yield (
            "6.2",
            f"Degenerate, ECA worst: {off[odd[0]]} bytes more than the formula. Where t1 and t3 meet they"
            f" join with {p.J} equal rows of r2, and the condition passes all or none of them, never half.",
        )
        yield (
            "6.3",
            f"Degenerate, ECA worst: exact for updates in turn, but for those {off[odd[0]]} bytes where the"
            f" number of pairs t1, t3 is odd (k = {_listed(odd)}).",
        )


def _chance(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    drawn = relations.random(p, 0, study.scope.seed, steady=False)
    joined, passing = relations.joined_and_passing(drawn)
    fewest, most = relations.partners(drawn)
    yield (
        "6.3",
        f"Random: the relations of seed {study.scope.seed} join to {joined} rows at first, where C J² ="
        f" {p.C * p.J**2} are expected; {100 * passing / max(joined, 1):.0f} % of them pass. A row of r2 has"
        f" {fewest} to {most} partners in r3, not {p.J}.",
    )


def _growth(study: Study) -> Iterator[Note]:
    rv, eca = study.over_k["random", BEST_RV], study.over_k["random", BEST_ECA]
    left = {rv[k].term_bytes - eca[k].term_bytes for k in rv}
    if len(left) == 1:
        yield (
            "6.3",
            "Random, inserts only: ECA's best case sends exactly the rows by which the view grows. RV's best"
            f" case costs {left.pop()} bytes more for every k, the size of the first view: these curves never"
            " cross. The formulas cross only because they hold C still, as inserts and deletes in turn do"
            " (steady).",
        )


def _rare_meetings(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    best, worst = study.over_k["steady", BEST_ECA], study.over_k["steady", WORST_ECA]
    k = _last(worst)
    if k is None:
        return
    extra = worst[k].term_bytes - best[k].term_bytes
    assumed = pairs_in_turn(k) * p.S * p.sigma * p.J
    if extra >= assumed:
        return
    yield (
        "6.3",
        f"Random and steady, ECA worst: {pairs_in_turn(k)} compensating terms for k = {k} add {extra} bytes"
        f" where the formula adds {_text(assumed)}. It takes every two updates to join;"
        f" random ones do so once in C/J = {p.C // p.J} times.",
    )


def _cancelled(study: Study) -> Iterator[Note]:
    best, worst = study.over_k["random", BEST_ECA], study.over_k["random", WORST_ECA]
    k = _last(worst)
    if k is None or worst[k].bytes == worst[k].term_bytes:
        return
    yield (
        "6.3n",
        f"In an answer whose rows have cancelled, each pair of updates that meet counts once, for the one or"
        f" for the other: random, k = {k}, {worst[k].bytes} bytes together, {best[k].bytes} apart. What"
        " compensation costs in bytes, it costs at sources that do not add up their terms.",
    )


def _blocks(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    grown = replace(p, C=p.C + 1)
    if grown.blocks > p.blocks:
        yield (
            "6.4",
            f"Random: {p.C} rows fill {p.blocks} blocks, {grown.C} rows need {grown.blocks}. One insert into"
            f" each relation takes RV from {3 * p.blocks} to {3 * grown.blocks} reads with indexes, from"
            f" {p.blocks**3} to {grown.blocks**3} without.",
        )
    worst = study.over_k["random", WORST_ECA]
    k = _last(worst)
    if k is not None and worst[k].io1 < cost("io1", "eca", "worst", k, p):
        yield (
            "6.4",
            "Random, ECA worst: a compensating term whose rows do not join reads nothing:"
            f" {worst[k].io1} reads for k = {k} where the formula has"
            f" {_text(cost('io1', 'eca', 'worst', k, p))}.",
        )


def _scenario_2(study: Study) -> Iterator[Note]:
    p = study.scope.parameters
    best, worst = _crossings(study, "6.5")
    yield (
        "6.5",
        f"The text says 5 < k < 8. Its formulas cross at {worst} in the worst case and at {best} in the best:"
        f" with 8 updates apart, ECA has {_text(cost('io2', 'eca', 'best', 8, p))} reads to RV's"
        f" {_text(cost('io2', 'rv', 'best', 8, p))}.",
    )


def _others(study: Study) -> Iterator[Note]:
    for alike in (("strobe", "t-strobe", "g-strobe"), ("c-strobe", "c-t-strobe")):
        same = [study.others[n, name, s] for n in (1, 3) for s in Schedule for name in alike]
        if all(
            same[at : at + len(alike)].count(same[at]) == len(alike) for at in range(0, len(same), len(alike))
        ):
            yield "others", f"{_listed(alike)} do the same where every transaction is a single update."
    yield (
        "others",
        "Relations with a key column each, a view that also shows the keys, and updates that all meet:"
        " inserts and deletes in turn, of one group of rows. Bytes are what answers carry. rv recomputes"
        " after every update; c-strobe and c-t-strobe ask for every column; tid asks each source where it"
        " stands before it asks for rows; sc asks nothing and keeps copies of the relations.",
    )
    yield (
        "c-strobe",
        "The text bounds C-Strobe's compensating queries for one update by (n-1)!, which counts the"
        " last level only. They come in levels of (n-1), (n-1)(n-2), … and the last, with no relation left to"
        " ask about, needs no query: what is left is the sum, and a run reaches it.",
    )


def _crossings(study: Study, figure: str) -> tuple[str, str]:
    """Of the best case and of the worst."""
    best, worst = (f"{e['formula']:.2f}" for e in study.crossovers() if e["figure"] == figure)
    return best.removesuffix(".00"), worst.removesuffix(".00")


def _whole(value: Number) -> int:
    return int(value)


def _text(value: Number) -> str:
    return str(int(value)) if value == int(value) else f"{float(value):.1f}"


def _listed(items: Iterable[object]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
