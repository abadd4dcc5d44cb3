"""What an algorithm costs on one schedule, counted from its own messages.

Two schedules bound what timing can do. Apart: every message is delivered and answered before the next update
happens. Together: every update has happened, and been reported, before the first query is answered.

A message is a query or an answer; reports of updates are not counted. Bytes are rows times columns times the
width of a value, each row as often as it is there, whichever its sign. Two counts of them: `bytes` is what an
answer carries once equal rows of opposite sign have cancelled in it; `term_bytes` adds up the answers to
the single terms, as if a source sent them side by side. Law: bytes <= term_bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from stillframe.algebra import Bag, Scan
from stillframe.protocol.events import Ask
from stillframe.protocol.terms import Question, Term, term_plan
from stillframe.simulator.scenario import Scenario
from stillframe.simulator.source_io import Disk, Stored
from stillframe.simulator.world import Simulation, Step, World


class Schedule(StrEnum):
    APART = "apart"
    TOGETHER = "together"


@dataclass(frozen=True)
class Cost:
    """`queries` counts questions of the algorithm, however many sources each had to visit; `terms` the
    terms evaluated for them; `io1` and `io2` the reads for these in both scenarios of 6.3."""

    messages: int = 0
    queries: int = 0
    terms: int = 0
    bytes: int = 0
    term_bytes: int = 0
    io1: int = 0
    io2: int = 0


@dataclass(frozen=True)
class Sent:
    """One query on its way to a source and what came back: its terms, with their rows, and bags."""

    id: str
    source: str
    asked: tuple[Any, ...]
    answer: tuple[Bag, ...]


class Counting(Simulation):
    """A simulation that walks one schedule. Each message is answered once on it, so what answering costs
    is added up as it happens."""

    def __init__(
        self, scenario: Scenario, algorithm: str, view: str | None = None, per_block: int | None = None
    ) -> None:
        super().__init__(scenario, algorithm, view)
        self.per_block = per_block
        self.sent = list[Sent]()
        self._stored: dict[tuple[str, int], Stored] = {}
        self._terms = self._term_bytes = self._io1 = self._io2 = 0

    def following(self, world: World, schedule: Schedule) -> Step | None:
        """The next step of a schedule; steps not taken are not computed."""
        kinds: tuple[Callable[[World], Iterator[Step]], ...]
        if schedule is Schedule.APART:
            kinds = (self._receive, self._answer, self._happen, self._tick_of)
        else:
            kinds = (self._receive, self._happen, self._answer, self._tick_of)
        return next((step for kind in kinds for step in kind(world)), None)

    def answered(self, ask: Ask, read: Callable[[Scan], Bag], count: int) -> tuple[int, int]:
        number, size = super().answered(ask, read, count)
        answers = tuple(map(self.bags.content, self.messages[number].answers))
        for question, answer in zip(ask.questions, answers, strict=True):
            for term in question.terms:
                rows = answer if len(question.terms) == 1 else self._rows(question, term, read)
                self._term_bytes += rows.size * self._columns(question) * self.scenario.width
                self._count_reads(term, count)
            self._terms += len(question.terms)
        self.sent.append(Sent(ask.id, ask.source, tuple(map(self._told, ask.questions)), answers))
        return number, size

    def _rows(self, question: Question, term: Term, read: Callable[[Scan], Bag]) -> Bag:
        plan = term_plan(self.protocol.asked_view, term, frozenset(question.covers))
        return self.bags.value(plan, read)

    def _columns(self, question: Question) -> int:
        covers = frozenset(question.covers)
        view = self.protocol.asked_view
        return len(view.outputs) if covers == view.everything else len(view.needed(covers))

    def _count_reads(self, term: Term, count: int) -> None:
        if self.per_block is not None:
            disk = Disk(self.protocol.asked_view, lambda name: self._relation(name, count), self.per_block)
            held = disk.carried(term, self.bags.content)
            self._io1 += disk.with_indexes(term, held)
            self._io2 += disk.with_three_blocks(term, held)

    def _relation(self, name: str, count: int) -> Stored:
        if (name, count) not in self._stored:
            self._stored[name, count] = Stored.of(self.sources.contents[name][count])
        return self._stored[name, count]

    def _told(self, question: Question) -> tuple[Any, ...]:
        """A question by content, so that those of two simulations can be compared."""
        terms = tuple(
            (term.sign, term.at, tuple((p.slots, p.columns, self.bags.content(p.rows)) for p in term.parts))
            for term in question.terms
        )
        return question.covers, terms

    def walk(self, schedule: Schedule) -> list[Cost]:
        """The cost before the first update, before each further one, and at the end. Of updates apart, the
        n-th is what the first n cost."""
        world, messages, size, asked = self.start(), 0, 0, set[str]()
        costs = list[Cost]()
        while (step := self.following(world, schedule)) is not None:
            if step.world.done != world.done:
                costs.append(self._cost(messages, asked, size))
            asked.update(query_of(self.messages[m].id) for queue in step.world.down for m in queue)
            world, messages, size = step.world, messages + step.messages, size + step.bytes
        return [*costs, self._cost(messages, asked, size)]

    def _cost(self, messages: int, asked: set[str], size: int) -> Cost:
        return Cost(messages, len(asked), self._terms, size, self._term_bytes, self._io1, self._io2)


def query_of(message: str) -> str:
    """The query a message belongs to: without the sources it has visited. Updates, in brackets, may have
    dots in their names."""
    update, bracket, rest = message.rpartition("]")
    return update + bracket + rest.partition(".")[0]


def count(scenario: Scenario, algorithm: str, schedule: Schedule, per_block: int | None = None) -> Cost:
    """One algorithm on one schedule; with `per_block`, also the reads at the source, which must be one."""
    return Counting(scenario, algorithm, per_block=per_block).walk(schedule)[-1]


def prefixes(scenario: Scenario, algorithm: str, per_block: int | None = None) -> list[Cost]:
    """What the first 0, 1, 2, … updates cost when they come apart."""
    return Counting(scenario, algorithm, per_block=per_block).walk(Schedule.APART)
