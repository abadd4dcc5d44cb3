"""From a history to a verdict.

A *cut* takes a prefix of each source's transactions; `closed` is defined in `course.py`. Of the view states
s0 s1 ... sn, equal neighbours counted as one:

- convergence: sn is the content of the full cut;
- weak: every si is the content of some cut;
- pairwise: for all i <= j there are closed cuts ci <= cj with contents si and sj;
- consistency: there is one chain c0 <= c1 <= ... <= cn of closed cuts with contents s0 ... sn;
- completeness: some serial order of all transactions, from the empty cut to the full cut by single steps,
  passes through exactly the distinct contents s0 s1 ... sn, in this order.

`judge` searches for the cuts. `verify` is given them: then weak, pairwise and consistency are claims about
those very vectors (the order of cuts is transitive, so the last two coincide), and only the serial order
between two successive vectors is still free.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise

from stillframe.consistency.course import Course, Cut, below
from stillframe.consistency.lattice import Lattice
from stillframe.consistency.verdict import Verdict


class Judge:
    """Judges any number of histories of one course. `content` must depend on the cut alone; it is asked
    once per cut, and about cuts that are not closed only when a state is found nowhere else."""

    def __init__(self, course: Course, content: Callable[[Cut], Hashable]) -> None:
        self.course = course
        self._evaluate = content
        self._contents: dict[Cut, Hashable] = {}

    def content(self, cut: Cut) -> Hashable:
        if cut not in self._contents:
            self._contents[cut] = self._evaluate(cut)
        return self._contents[cut]

    @cached_property
    def lattice(self) -> Lattice:
        return Lattice(self.course, self.content)

    def judge(self, states: Sequence[Hashable]) -> Verdict:
        _refuse_empty(states)
        lattice = self.lattice
        having = [lattice.having.get(state, 0) for state in states]
        convergence = bool(having[-1] & lattice.full)
        if not all(having):
            weak = all(
                found or lattice.split_cut(state) is not None
                for found, state in zip(having, states, strict=True)
            )
            return Verdict(convergence, weak, pairwise=False, consistency=False, completeness=False)
        history = [found for at, found in enumerate(having) if not at or found != having[at - 1]]
        consistency = lattice.consistent(history)
        return Verdict(
            convergence,
            weak=True,
            pairwise=consistency or lattice.pairwise(history),
            consistency=consistency,
            completeness=convergence and consistency and lattice.complete(history),
        )

    def verify(self, states: Sequence[Hashable], vectors: Sequence[Cut]) -> Verdict:
        _refuse_empty(states)
        if len(states) != len(vectors):
            raise ValueError(f"{len(states)} states with {len(vectors)} vectors")
        vectors = [tuple(vector) for vector in vectors]
        convergence = states[-1] == self.content(self.course.full)
        weak = all(self.shows(vector, state) for vector, state in zip(vectors, states, strict=True))
        consistency = (
            weak and all(map(self.course.closed, vectors)) and all(below(*pair) for pair in pairwise(vectors))
        )
        completeness = convergence and consistency and None not in self.walks(states, vectors)
        return Verdict(convergence, weak, consistency, consistency, completeness)

    def shows(self, vector: Cut, state: Hashable) -> bool:
        return self.course.has_cut(vector) and self.content(vector) == state

    def walks(self, states: Sequence[Hashable], vectors: Sequence[Cut]) -> Iterator[tuple[Cut, ...] | None]:
        """The pieces of a serial order: from the empty cut to the first vector, from each vector to the
        next, and from the last to the full cut; None where every order shows another state."""
        stops = [self.course.empty, *vectors, self.course.full]
        shown = [states[0], *states, states[-1]]
        return (self._walk(*stops[at : at + 2], *shown[at : at + 2]) for at in range(len(stops) - 1))

    def _walk(self, start: Cut, end: Cut, first: Hashable, then: Hashable) -> tuple[Cut, ...] | None:
        """Single steps from one cut to another through the first content and then only the second."""
        if self.content(start) != first:
            return None
        came_from: dict[Cut, Cut] = {start: start}
        waiting = [start]
        while waiting and end not in came_from:
            cut = waiting.pop()
            allowed = (first, then) if self.content(cut) == first else (then,)
            for step in self.course.steps(cut):
                if step not in came_from and below(step, end) and self.content(step) in allowed:
                    came_from[step] = cut
                    waiting.append(step)
        if end not in came_from:
            return None
        path = [end]
        while path[-1] != start:
            path.append(came_from[path[-1]])
        return tuple(reversed(path))


def _refuse_empty(states: Sequence[Hashable]) -> None:
    if not states:
        raise ValueError("a history has at least its initial state")
