"""The performance study as one document: curves from the closed forms and from counts, and where they cross.

Kinds of curves: `formula`, as printed; `degenerate`, counted where the formulas' assumptions hold; `random`,
counted on random relations into which rows are inserted; `steady`, counted on random relations where inserts
and deletes take turns, so that their size stays. Bytes are those of single terms, as the formulas count them,
except in figure 6.3n, which shows what answers carry once equal rows of opposite sign have cancelled.

The figures after those of the text compare all algorithms on relations with keys, at one source or at three,
with updates apart (each query answered before the next update) or together (all updates first); bytes there
are what answers carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import factorial
from operator import mul
from typing import Any, NamedTuple

from stillframe.protocol import ALGORITHMS, NotApplicable
from stillframe.simulator import paper_relations as relations
from stillframe.simulator.costs import Cost, Schedule, count, prefixes
from stillframe.simulator.formulas import (
    Algorithm,
    Case,
    Number,
    Parameters,
    Quantity,
    cost,
    cost_of_three,
    crossover,
    restorations_of,
)
from stillframe.simulator.scenario import Scenario

Points = tuple[tuple[float, float], ...]
Series = tuple[Algorithm, Case]
Counts = Mapping[int, Cost]

SERIES: tuple[Series, ...] = (("rv", "best"), ("rv", "worst"), ("eca", "best"), ("eca", "worst"))
KINDS = ("formula", "degenerate", "random", "steady")
STRICTEST = 5  # relations of the largest C-Strobe case
_CHEAP = 12
TABLE_1 = Parameters()


class Figure(NamedTuple):
    name: str
    x: str
    y: str
    quantity: Quantity
    counted: str
    title: str


FIGURES = (
    Figure("6.1", "k", "messages", "messages", "messages", "messages over k updates"),
    Figure("6.2", "C", "bytes", "bytes", "term_bytes", "bytes over the rows of a relation, three updates"),
    Figure("6.3", "k", "bytes", "bytes", "term_bytes", "bytes over k updates"),
    Figure("6.3n", "k", "bytes as sent", "bytes", "bytes", "bytes over k updates, rows cancelled in answers"),
    Figure("6.4", "k", "reads", "io1", "io1", "reads over k updates, with indexes"),
    Figure("6.5", "k", "reads", "io2", "io2", "reads over k updates, without indexes"),
)


_CROSSINGS: tuple[tuple[Figure, Case, str], ...] = (
    (FIGURES[1], "best", "about 5"),
    (FIGURES[1], "worst", "about 5"),
    (FIGURES[2], "best", "100"),
    (FIGURES[2], "worst", "30"),
    (FIGURES[4], "best", "3"),
    (FIGURES[4], "worst", "3"),
    (FIGURES[5], "best", "below 8"),
    (FIGURES[5], "worst", "above 5"),
)  # with what the text says of each


@dataclass(frozen=True)
class Scope:
    """What to count: for which k and C. The worst cases, which take time, are counted for k up to `worst`;
    all algorithms are compared for k in `compared`."""

    ks: tuple[int, ...] = (3, 6, 12, 30, 60, 100)
    cs: tuple[int, ...] = (4, 12, 20, 40, 60, 100)
    seed: int = 0
    parameters: Parameters = TABLE_1
    worst: int = 30
    compared: tuple[int, ...] = (3, 6, 12)


@dataclass(frozen=True)
class Curve:
    figure: str
    x: str
    y: str
    algorithm: str
    case: str
    kind: str
    points: Points


@dataclass
class Study:
    """Everything counted, kept so that curves, crossovers and notes speak of the same runs."""

    scope: Scope
    report: Callable[[str], None] = lambda _: None
    over_k: dict[tuple[str, Series], Counts] = field(default_factory=dict)
    over_c: dict[tuple[str, Series], Counts] = field(default_factory=dict)
    others: dict[tuple[int, str, Schedule], Counts] = field(default_factory=dict)
    c_strobe: dict[int, int] = field(default_factory=dict)

    def run(self) -> Study:
        for kind in KINDS[1:]:
            self._count_over_k(kind)
            if kind != "steady":  # its first three updates are inserts, as those of `random` are
                self._count_over_c(kind)
        for sources in (1, 3):
            for name in ALGORITHMS:
                self._count_other(sources, name)
        for n in range(2, STRICTEST + 1):
            made = count(relations.rounds_of_deletes(n), "c-strobe", Schedule.TOGETHER)
            self.c_strobe[n] = made.queries - 1
        return self

    # Counting.

    def _scenarios(self, kind: str, p: Parameters) -> tuple[Callable[[int], Scenario], ...]:
        """For k updates: what shows a best case of ECA, and what shows a worst."""
        if kind == "degenerate":
            return (lambda k: relations.apart(p, k)), (lambda k: relations.meeting(p, k))
        made = lambda k: relations.random(p, k, self.scope.seed, steady=kind == "steady")  # noqa: E731
        return made, made

    def _count_over_k(self, kind: str) -> None:
        ks = self._ks(kind)
        found = self._counts(kind, self.scope.parameters, ks, [k for k in ks if k <= self.scope.worst])
        self.over_k |= {(kind, series): counts for series, counts in found.items()}

    def _ks(self, kind: str) -> list[int]:
        """Also those on either side of where the formulas cross; on random relations, the cheap ones."""
        first = [entry["first"] for entry in self._crossings() if entry["x"] == "k"]
        sides = {k for each in first for k in (each - 1, each) if 0 < k <= max(self.scope.ks)}
        return sorted({k for k in sides if kind == "degenerate" or k <= _CHEAP} | set(self.scope.ks))

    def _counts(
        self, kind: str, p: Parameters, ks: Sequence[int], worst: Sequence[int]
    ) -> dict[Series, Counts]:
        apart, meeting = self._scenarios(kind, p)
        self.report(f"{kind} relations, C = {p.C}")
        found: dict[Series, Counts] = {
            ("rv", "best"): {k: count(meeting(k), "rv", Schedule.APART, p.K) for k in ks}
        }
        every_time = relations.recomputing_every_time(apart(max(worst, default=0)))
        found["rv", "worst"] = _at(worst, prefixes(every_time, "rv", p.K))
        found["eca", "best"] = _at(ks, prefixes(apart(max(ks)), "eca", p.K))
        worst_case = dict[int, Cost]()
        for k in worst:
            self.report(f"{kind} relations, C = {p.C}, {k} updates together")
            worst_case[k] = count(meeting(k), "eca", Schedule.TOGETHER, p.K)
        found["eca", "worst"] = worst_case
        return found

    def _count_over_c(self, kind: str) -> None:
        for c in self.scope.cs:
            p = replace(self.scope.parameters, C=c)
            for series, counts in self._counts(kind, p, (3,), (3,)).items():
                before = self.over_c.get((kind, series), {})
                self.over_c[kind, series] = {**before, c: counts[3]}

    def _count_other(self, sources: int, algorithm: str) -> None:
        p, ks = self.scope.parameters, self.scope.compared
        self.report(f"{algorithm}, {sources} source{'s' if sources > 1 else ''}")
        every = {k: relations.keyed(p, k, sources=sources) for k in ks}
        try:
            apart = prefixes(every[max(ks)], algorithm)
            together = {k: count(every[k], algorithm, Schedule.TOGETHER) for k in ks}
        except NotApplicable:
            return
        self.others[sources, algorithm, Schedule.APART] = dict(enumerate(apart))
        self.others[sources, algorithm, Schedule.TOGETHER] = together

    # The document.

    def curves(self) -> Iterator[Curve]:
        for figure in FIGURES:
            if figure.name != "6.3n":
                yield from self._formula_curves(figure)
            counted = self.over_c if figure.x == "C" else self.over_k
            for (kind, (algorithm, case)), counts in counted.items():
                points = _points(counts, figure.counted)
                yield Curve(figure.name, figure.x, figure.y, algorithm, case, kind, points)
        for (sources, name, schedule), counts in self.others.items():
            for y in ("messages", "bytes", "queries"):
                place = f"{_number(sources)}-{schedule}-{y}"
                yield Curve(place, "k", y, name, schedule, "degenerate", _points(counts, y))

    def _formula_curves(self, figure: Figure) -> Iterator[Curve]:
        p = self.scope.parameters
        for algorithm, case in SERIES:
            if figure.x == "C":
                xs: Sequence[int] = range(1, max(self.scope.cs) + 1)
                ys = [cost_of_three(figure.quantity, algorithm, case, replace(p, C=c)) for c in xs]
            else:
                xs = range(1, max(self.scope.ks) + 1)
                ys = [cost(figure.quantity, algorithm, case, k, p) for k in xs]
            points = tuple((x, _plain(y)) for x, y in zip(xs, ys, strict=True))
            yield Curve(figure.name, figure.x, figure.y, algorithm, case, "formula", points)

    def crossovers(self) -> list[dict[str, Any]]:
        """Where RV's best case and a case of ECA meet: in the formulas, in the text's words, and between
        which counted values of k or C."""
        found = list[dict[str, Any]]()
        for entry in self._crossings():
            figure = next(f for f in FIGURES if f.name == entry["figure"])
            counted = self.over_c if figure.x == "C" else self.over_k
            case = entry["case"]
            for kind in KINDS[1:]:
                rv, eca = counted.get((kind, ("rv", "best"))), counted.get((kind, ("eca", case)))
                if rv is not None and eca is not None:
                    low, high = (rv, eca) if figure.x == "C" else (eca, rv)
                    entry = {**entry, kind: _bracket(low, high, figure.counted)}
            found.append(entry)
        return found

    def _crossings(self) -> Iterator[dict[str, Any]]:
        p = self.scope.parameters
        for figure, case, said in _CROSSINGS:
            if figure.x == "C":
                per_row = cost_of_three("bytes", "rv", "best", p) / p.C
                level = cost_of_three("bytes", "eca", case, p)
                at = crossover(partial(mul, per_row), partial(_constant, level))
            else:
                at = crossover(
                    partial(_over_k, figure.quantity, "eca", case, p),
                    partial(_over_k, figure.quantity, "rv", "best", p),
                )
            yield {
                "figure": figure.name,
                "x": figure.x,
                "algorithm": "eca",
                "case": case,
                "against": "rv best",
                "formula": at.at,
                "first": at.first,
                "text": said,
            }

    def document(self) -> dict[str, Any]:
        p = self.scope.parameters
        return {
            "parameters": {"C": p.C, "S": p.S, "sigma": float(p.sigma), "J": p.J, "K": p.K},
            "seed": self.scope.seed,
            "k": list(self.scope.ks),
            "c": list(self.scope.cs),
            "compared": list(self.scope.compared),
            "titles": titles(),
            "curves": [
                {**asdict(curve), "points": [list(point) for point in curve.points]}
                for curve in self.curves()
            ],
            "crossovers": self.crossovers(),
            "c_strobe": [
                {"relations": n, "factorial": factorial(n - 1), "sum": restorations_of(n), "counted": counted}
                for n, counted in self.c_strobe.items()
            ],
        }


def titles() -> dict[str, str]:
    """Of every figure, in the order they are shown."""
    found = {figure.name: figure.title for figure in FIGURES}
    for sources in (1, 3):
        for schedule in Schedule:
            for y in ("messages", "bytes", "queries"):
                place = f"{_number(sources)} source{'s' if sources > 1 else ''}"
                found[f"{_number(sources)}-{schedule}-{y}"] = f"{y} over k updates {schedule}, {place}"
    return found


def _over_k(quantity: Quantity, algorithm: Algorithm, case: Case, p: Parameters, k: Number) -> Number:
    return cost(quantity, algorithm, case, k, p)


def _constant(value: Number, _: Number) -> Number:
    return value


def _number(sources: int) -> str:
    return {1: "one", 3: "three"}[sources]


def _at(ks: Sequence[int], costs: Sequence[Cost]) -> Counts:
    return {k: costs[k] for k in ks}


def _points(counts: Counts, attribute: str) -> Points:
    return tuple((x, getattr(each, attribute)) for x, each in sorted(counts.items()))


def _plain(value: Any) -> float:
    return int(value) if value == int(value) else round(float(value), 4)


def _bracket(lower: Counts, upper: Counts, attribute: str) -> list[int | None]:
    """The last x at which the first curve is below the second, and the first at which it is not."""
    xs = sorted(set(lower) & set(upper))
    reached = [x for x in xs if getattr(lower[x], attribute) >= getattr(upper[x], attribute)]
    below = [x for x in xs if not reached or x < reached[0]]
    return [below[-1] if below else None, reached[0] if reached else None]
