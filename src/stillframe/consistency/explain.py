"""From a verdict to its reasons: chains of cuts for what holds, and for what fails the state that breaks it.

A witness is a tuple of ascending chains: for convergence the full cut; for weak a cut for each state; for
pairwise two closed cuts for each pair of states i < j, in the order of (i, j); for consistency one chain with
a closed cut for each state; for completeness one serial order of the whole course, from the empty cut to the
full one. States are counted as given, equal neighbours included, from 0, the initial one.

Nothing here decides: the verdict is the judge's alone, and a witness can be checked against the definition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from stillframe.consistency.course import Cut, below
from stillframe.consistency.judge import Judge
from stillframe.consistency.levels import PROPERTIES, Property
from stillframe.consistency.verdict import Verdict
from stillframe.consistency.words import Words

Chain = tuple[Cut, ...]
_Reason = tuple[int, Chain, str]
_Place = tuple[int, Cut]


@dataclass(frozen=True)
class Failure:
    """`state` is the first state that cannot be explained; `chain` the cuts found for the states before it,
    for completeness the serial order followed up to there."""

    property: Property
    state: int
    chain: Chain
    reason: str


@dataclass(frozen=True)
class Explanation:
    verdict: Verdict
    failure: Failure | None
    witnesses: dict[Property, tuple[Chain, ...]]

    def __str__(self) -> str:
        if self.failure is None:
            return f"{self.verdict.level}: every property holds."
        return f"{self.verdict.level}; {self.failure.property} fails: {self.failure.reason}"


def explain(
    judge: Judge,
    states: Sequence[Hashable],
    vectors: Sequence[Cut] | None = None,
    *,
    breaks: Property | None = None,
    sources: Sequence[str] = (),
) -> Explanation:
    """Explains the verdict of `judge` or, with vectors, that of `verify`. The failure is that of `breaks` if
    this property fails, else of the lowest that does; `sources` are names to print."""
    words = Words(judge.course, tuple(sources))
    case: _Case
    if vectors is None:
        verdict = judge.judge(states)
        case = _Searched(judge, states, words)
    else:
        verdict = judge.verify(states, vectors)
        case = _Given(judge, states, words, [tuple(vector) for vector in vectors])
    holds = verdict.holds
    broken = breaks if breaks is not None and not holds[breaks] else verdict.breaks
    failure = None if broken is None else Failure(broken, *case.failure(broken))
    return Explanation(verdict, failure, {each: case.witness(each) for each in PROPERTIES if holds[each]})


class _Case(ABC):
    def __init__(self, judge: Judge, states: Sequence[Hashable], words: Words) -> None:
        self.judge = judge
        self.course = judge.course
        self.states = states
        self.words = words

    @abstractmethod
    def witness(self, held: Property) -> tuple[Chain, ...]: ...

    @abstractmethod
    def failure(self, broken: Property) -> _Reason: ...

    def not_converged(self) -> _Reason:
        last = len(self.states) - 1
        full = self.words.cut(self.course.full)
        return last, (), f"the last state, {last}, is not the content of the full cut {full}."

    def so_far(self, chain: Chain) -> str:
        return f" The states before it have {self.words.chain(chain)}." if chain else ""


class _Searched(_Case):
    """Follows the states through lists of cuts: slower than the judge's search, and apart from it."""

    def witness(self, held: Property) -> tuple[Chain, ...]:
        match held:
            case "convergence":
                return ((self.course.full,),)
            case "weak":
                return tuple((cut,) for cut in self._some_cuts())
            case "pairwise":
                pairs = combinations(range(len(self.states)), 2)
                return tuple(next(self._pairs(*pair)) for pair in pairs)
            case "consistency":
                return (self._chain(),)
            case "completeness":
                return (self._order((len(self._runs) - 1, self.course.full)),)

    def failure(self, broken: Property) -> _Reason:
        match broken:
            case "convergence":
                return self.not_converged()
            case "weak":
                cuts = self._some_cuts()
                before = f" Those before it are at {self.words.cuts(cuts)}." if cuts else ""
                return len(cuts), cuts, f"state {len(cuts)} is the content of no cut." + before
            case "pairwise":
                return self._no_pair()
            case "consistency":
                return self._no_chain()
            case "completeness":
                return self._no_order()

    def _closed(self, state: int) -> Chain:
        return self.judge.lattice.cuts_of(self.states[state])

    def _some_cuts(self) -> Chain:
        """A cut for each state, a closed one where there is one, up to the first state without any."""
        cuts: list[Cut] = []
        for at, state in enumerate(self.states):
            closed = self._closed(at)
            cut = closed[0] if closed else self.judge.lattice.split_cut(state)
            if cut is None:
                break
            cuts.append(cut)
        return tuple(cuts)

    def _pairs(self, earlier: int, later: int) -> Iterator[Chain]:
        return (
            (lower, upper)
            for lower in self._closed(earlier)
            for upper in self._closed(later)
            if below(lower, upper)
        )

    def _no_pair(self) -> _Reason:
        later = next(at for at in range(len(self.states)) if not self._paired(at))
        chain = self._chain()[:later]
        if not self._closed(later):
            return later, chain, self._not_closed(later) + self.so_far(chain)
        earlier = next(at for at in range(later) if not any(self._pairs(at, later)))
        lower, upper = (self.words.cuts(self._closed(at)) for at in (earlier, later))
        reason = (
            f"state {earlier} is the content of {lower} only, state {later} of {upper} only, "
            "and no cut of the first lies below one of the second."
        )
        return later, chain, reason

    def _paired(self, later: int) -> bool:
        return bool(self._closed(later)) and all(any(self._pairs(at, later)) for at in range(later))

    def _not_closed(self, state: int) -> str:
        cut = self.judge.lattice.split_cut(self.states[state])
        if cut is None:
            return f"state {state} is the content of no cut."
        what = self.words.not_closed(cut)
        return f"state {state} is the content of no closed cut; {self.words.cut(cut)} {what}."

    @cached_property
    def _ends(self) -> list[dict[Cut, Cut]]:
        """For each state its cuts in a chain that explains all so far, each with the cut before it; up to
        the first state with none."""
        ends: list[dict[Cut, Cut]] = [{cut: cut for cut in self._closed(0)}]
        for at in range(1, len(self.states)):
            ends.append(
                {cut: before for cut in self._closed(at) for before in ends[-1] if below(before, cut)}
            )
        return ends[: next((at for at, each in enumerate(ends) if not each), len(ends))]

    def _chain(self) -> Chain:
        """The longest chain found, from the initial state on."""
        if not self._ends:
            return ()
        chain = [next(iter(self._ends[-1]))]
        for befores in reversed(self._ends[1:]):
            chain.append(befores[chain[-1]])
        return tuple(reversed(chain))

    def _no_chain(self) -> _Reason:
        state = len(self._ends)
        chain = self._chain()
        if not self._closed(state):
            return state, chain, self._not_closed(state) + self.so_far(chain)
        cuts, before = self.words.cuts(self._closed(state)), self.words.cuts(tuple(self._ends[-1]))
        reason = (
            f"no chain goes on to state {state}, which is the content of {cuts} only: "
            f"chains come to state {state - 1} at {before}."
        )
        return state, chain, reason + self.so_far(chain)

    @cached_property
    def _runs(self) -> list[int]:
        """The first state of each run of equal neighbours."""
        states = self.states
        return [at for at in range(len(states)) if not at or states[at] != states[at - 1]]

    @cached_property
    def _places(self) -> dict[_Place, _Place]:
        """Runs and cuts that serial orders pass through without showing a content the history lacks, each
        with the place before it."""
        content = self.judge.content
        start = (0, self.course.empty)
        if content(self.course.empty) != self.states[0]:
            return {}
        places = {start: start}
        waiting = [start]
        while waiting:
            run, cut = waiting.pop()
            for step in self.course.steps(cut):
                for place in ((run, step), (run + 1, step)):
                    if place in places or place[0] == len(self._runs):
                        continue
                    if content(step) == self.states[self._runs[place[0]]]:
                        places[place] = (run, cut)
                        waiting.append(place)
        return places

    def _order(self, end: _Place) -> Chain:
        order = [end]
        while self._places[order[-1]] != order[-1]:
            order.append(self._places[order[-1]])
        return tuple(cut for _, cut in reversed(order))

    def _no_order(self) -> _Reason:
        if not self._places:
            empty = self.words.cut(self.course.empty)
            return 0, (), f"state 0 is not the content of the empty cut {empty}."
        run = max(run for run, _ in self._places)
        furthest = [cut for reached, cut in self._places if reached == run]
        order = self._order((run, max(furthest, key=sum)))
        if run == len(self._runs) - 1:
            reason = (
                "no serial order that shows all states goes on to the full cut without another state; "
                f"one comes as far as {self.words.chain(order)}."
            )
            return len(self.states) - 1, order, reason
        state = self._runs[run + 1]
        reason = (
            f"no single step leads to state {state} from where serial orders that miss nothing are in state "
            f"{state - 1}: {self.words.cuts(furthest)}. One of them is {self.words.chain(order)}."
        )
        return state, order, reason


class _Given(_Case):
    """Holds the history to the vectors it carries."""

    def __init__(self, judge: Judge, states: Sequence[Hashable], words: Words, vectors: list[Cut]) -> None:
        super().__init__(judge, states, words)
        self.vectors = tuple(vectors)

    def witness(self, held: Property) -> tuple[Chain, ...]:
        match held:
            case "convergence":
                return ((self.course.full,),)
            case "weak":
                return tuple((vector,) for vector in self.vectors)
            case "pairwise":
                return tuple(combinations(self.vectors, 2))
            case "consistency":
                return (self.vectors,)
            case "completeness":
                walks = self.judge.walks(self.states, self.vectors)
                return ((self.course.empty, *(cut for walk in walks if walk for cut in walk[1:])),)

    def failure(self, broken: Property) -> _Reason:
        if broken == "convergence":
            return self.not_converged()
        return self._wrong() or self._open_or_back() or self._gap()

    def _wrong(self) -> _Reason | None:
        for at, (vector, state) in enumerate(zip(self.vectors, self.states, strict=True)):
            if not self.judge.shows(vector, state):
                what = "has another content" if self.course.has_cut(vector) else "is no cut of this course"
                chain = self.vectors[:at]
                reason = f"state {at} carries {self.words.cut(vector)}, which {what}."
                return at, chain, reason + self._before(chain)
        return None

    def _open_or_back(self) -> _Reason | None:
        for at, vector in enumerate(self.vectors):
            chain = self.vectors[:at]
            carries = f"state {at} carries {self.words.cut(vector)}, which"
            if not self.course.closed(vector):
                return at, chain, f"{carries} {self.words.not_closed(vector)}." + self.so_far(chain)
            if at and not below(chain[-1], vector):
                goes_back = f"lacks a transaction of the vector before it, {self.words.cut(chain[-1])}"
                return at, chain, f"{carries} {goes_back}." + self.so_far(chain)
        return None

    def _before(self, vectors: Chain) -> str:
        return f" The vectors before it are right: {self.words.cuts(vectors)}." if vectors else ""

    def _gap(self) -> _Reason:
        """Where the serial order is not one step a state; of a history whose vectors are a chain."""
        at = list(self.judge.walks(self.states, self.vectors)).index(None)
        last = len(self.states) - 1
        start, end = map(self.words.cut, [self.course.empty, *self.vectors, self.course.full][at : at + 2])
        shown = f"{at - 1} or {at}" if 0 < at <= last else str(min(at, last))
        reason = (
            f"every order of the transactions between {start} and {end} shows a state other than {shown}."
        )
        return min(at, last), self.vectors[:at], reason
