"""Walking a paper's event list through the simulator, in the paper's own notation.

A bag is written `[1], [4], -[2]`, sorted, a row as often as it is there; nothing is `∅`. A query is a sum of
terms, `r1 ⋈ [2, 5] - [4, 2] ⋈ -[2, 5]`: a sign with a space is the term's, a sign without one is the row's.
The projection and selection of the view go without saying. A message is `Q[U1].x: …`.

Every step states what it sends and, where the view changes, the view; a step of which neither is said must
send nothing and leave the view as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stillframe.algebra import Bag, evaluate
from stillframe.consistency import Level
from stillframe.protocol import JoinView, Protocol
from stillframe.protocol.events import Ask, AskPosition
from stillframe.protocol.terms import Question, Term
from stillframe.simulator import Scenario, load
from stillframe.simulator.explore import explore, verdict
from stillframe.simulator.outcome import simulation_of
from stillframe.simulator.world import Simulation, World

SCENARIOS = Path(__file__).parent / "scenarios"
NOTHING = "∅"


def scenario(name: str) -> Scenario:
    return load(SCENARIOS / f"{name}.yml")


# Notation.


def rows(bag: Bag) -> str:
    texts = []
    for row, count in sorted(bag.items()):
        texts += [("-" if count < 0 else "") + json.dumps(row)] * abs(count)
    return ", ".join(texts) or NOTHING


def terms(query: str) -> list[str]:
    """The terms of a query, each with its sign, sorted."""
    return sorted(re.split(r" (?=[+-] )", query if re.match(r"[+-] ", query) else f"+ {query}"))


def is_sent(term: str) -> bool:
    """Whether a term still reads a relation."""
    return any(not factor.startswith(("[", "-[")) for factor in term[2:].split(" ⋈ "))


def messages(asks: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Messages to compare: in which order they, and the terms within them, are written is all one."""
    split = (ask.split(": ", 1) if ": " in ask else (ask, "") for ask in asks)
    return sorted((id, terms(query) if query else []) for id, query in split)


class Walk:
    """One schedule of a scenario, chosen step by step; the algorithm is a name, or a protocol."""

    def __init__(self, given: Scenario | str, algorithm: str | type[Protocol[Any]]) -> None:
        self.scenario = scenario(given) if isinstance(given, str) else given
        self.simulation = simulation_with(self.scenario, algorithm)
        self.world = self.simulation.start()
        self.last_answer = Bag()

    # What the warehouse holds.

    @property
    def state(self) -> Any:
        return self.simulation.states[self.world.state]

    def bag(self, plan: Any) -> Bag:
        return self.simulation.bags.content(plan)

    def total(self, plans: Iterable[Any]) -> Bag:
        return sum(map(self.bag, plans), Bag())

    @property
    def views(self) -> list[str]:
        """Every view seen so far."""
        return [rows(self.simulation.bags[number]) for number in self.simulation.views(self.world)]

    @property
    def choices(self) -> list[str]:
        return [step.label for step in self.simulation.steps(self.world)]

    # Steps.

    def happens(self, *ids: str) -> None:
        """Transactions are executed and reported."""
        for id in ids:
            self.take(rf"\w+(, \w+)*: {re.escape(id)} .*")

    def answers(self, query: str, answer: str, having_seen: str | None = None) -> None:
        seen = "" if having_seen is None else rf" having seen {re.escape(having_seen)}"
        self.take(rf"\w+: answers {re.escape(query)}{seen}")
        assert rows(self.last_answer) == answer

    def begins(self, query: str, again: bool = False) -> None:
        """A source that answers at read committed starts to read."""
        self.take(rf"\w+: begins {'again with ' if again else ''}{re.escape(query)}")

    def reports(self, id: str) -> None:
        """Such a source reports what it has committed."""
        self.take(rf"\w+: reports {re.escape(id)}")

    def receives(self, id: str, asks: str | Iterable[str] = (), view: str | Iterable[str] = ()) -> None:
        self._warehouse(rf"warehouse: receives {re.escape(id)} from \w+", asks, view)

    def hears(self, query: str, asks: str | Iterable[str] = (), view: str | Iterable[str] = ()) -> None:
        """An answer arrives."""
        self._warehouse(rf"warehouse: receives the answer to {re.escape(query)} from \w+", asks, view)

    def take(self, pattern: str) -> list[Ask | AskPosition]:
        """The one step whose label matches; what was sent to the sources in it."""
        found = [s for s in self.simulation.steps(self.world) if re.fullmatch(pattern, s.label)]
        assert len(found) == 1, f"{len(found)} steps match {pattern!r} of {self.choices}"
        before, self.world = self.world, found[0].world
        sent = list[Ask | AskPosition]()
        for source in range(len(self.simulation.sources.names)):
            asked = self.world.down[source][len(before.down[source]) :]
            sent += [self.simulation.messages[number] for number in asked]
            if len(self.world.up[source]) > len(before.up[source]) and "answers" in found[0].label:
                self.last_answer = self._answer(before, self.world.up[source][-1])
        return sent

    def ends(self, view: str) -> None:
        """Nothing can happen any more, and this is the view."""
        assert self.choices == []
        assert self.views[-1] == view

    def _warehouse(self, pattern: str, asks: str | Iterable[str], view: str | Iterable[str]) -> None:
        before = self.views
        sent = self.take(pattern)
        asks = [asks] if isinstance(asks, str) else asks
        assert messages(map(self.text, sent)) == messages(asks)
        expected = [view] if isinstance(view, str) else list(view)
        assert self.views == before + expected

    # Texts of messages.

    def text(self, ask: Ask | AskPosition) -> str:
        if isinstance(ask, AskPosition):
            return ask.id
        return f"{ask.id}: {' | '.join(self._question(question) for question in ask.questions)}"

    def _question(self, question: Question) -> str:
        view = self.simulation.protocol.asked_view
        texts = [self._term(view, term, question.covers) for term in question.terms]
        return re.sub(r"^\+ ", "", " ".join(texts))

    def _term(self, view: JoinView, term: Term, covers: Iterable[int]) -> str:
        factors = {slot: _read(view, term, slot) for slot in covers if slot not in term.bound}
        for part in term.parts:
            bag = _once(view, part.columns, self.bag(part.rows))
            factors[min(part.slots)] = rows(bag) if bag.size == 1 else f"({rows(bag)})"
        text = " ⋈ ".join(factor for _, factor in sorted(factors.items()))
        return f"{'+' if term.sign > 0 else '-'} {text}"

    def _answer(self, before: World, number: int) -> Bag:
        """The rows of an answer; a partial one shows columns of one name once."""
        answer = self.simulation.messages[number]
        if not hasattr(answer, "answers"):
            return Bag()
        asked = (self.simulation.messages[n] for queue in before.down for n in queue)
        reading = (n for n, _ in filter(None, before.rest.reading)) if before.rest else ()
        asked = [*asked, *(self.simulation.messages[n] for n in reading)]
        ask = next(each for each in asked if each.id == answer.id)
        view, found = self.simulation.protocol.asked_view, Bag()
        for question, plan in zip(ask.questions, answer.answers, strict=True):
            covers = frozenset(question.covers)
            whole = covers == view.everything
            bag = self.bag(plan)
            found += self.shown(bag) if whole else _once(view, view.needed(covers), bag)
        return found

    def shown(self, bag: Bag) -> Bag:
        """Rows in which a protocol asks, with the columns of the view only."""
        width = len(self.simulation.view.outputs)
        return Bag([(row[:width], count) for row, count in bag.items()])


def _read(view: JoinView, term: Term, slot: int) -> str:
    """A relation as a term reads it: now, or at a moment of a session."""
    relation = view.slots[slot].relation
    return f"{relation} ({term.at[slot].value})" if term.at else relation


def _once(view: JoinView, places: Iterable[int], bag: Bag) -> Bag:
    """Rows of a natural join: of columns with one name, the first."""
    names = [view.columns[place].name for place in places]
    kept = [at for at, name in enumerate(names) if names.index(name) == at]
    return Bag([(tuple(row[at] for at in kept), count) for row, count in bag.items()])


class PrintedEca(Walk):
    """ECA beside its printed run. The text writes terms without relations into a query; here they are
    evaluated at once. So, with H the sum of such terms of one query:

    printed query = what is sent + H's terms; printed answer = the answer + H; and printed COLLECT = COLLECT
    less the H of every query still unanswered.
    """

    def __init__(self, given: Scenario | str) -> None:
        super().__init__(given, "eca")
        self.held: dict[str, Bag] = {}

    @property
    def collect(self) -> str:
        return rows(self.total(self.state.collect) - sum(self.held.values(), Bag()))

    @property
    def unanswered(self) -> list[str]:
        return [ask.id for ask in self.state.unanswered]

    def receives_update(self, id: str, query: str, unanswered: Iterable[str] = ()) -> None:
        """`query` is the printed one, `unanswered` is UQS before it is sent."""
        assert self.unanswered == [f"Q[{each}].x" for each in unanswered]
        before = self.total(self.state.collect)
        sent = [term for term in terms(query) if is_sent(term)]
        here = [term for term in terms(query) if not is_sent(term)]
        self.receives(id, asks=f"Q[{id}].x: {' '.join(sent)}")
        value = sum((self.value(term) for term in here), Bag())
        assert self.total(self.state.collect) == before + value
        self.held[f"Q[{id}].x"] = value

    def answers_query(self, id: str, answer: str) -> None:
        """`answer` is the printed one."""
        query = f"Q[{id}].x"
        self.take(rf"x: answers {re.escape(query)}")
        assert rows(self.last_answer + self.held[query]) == answer

    def hears_answer(self, id: str, collect: str, unanswered: Iterable[str], view: str | None = None) -> None:
        """`collect` is the printed COLLECT before a view is made of it, `unanswered` is UQS then."""
        before = self.bag(self.state.view)
        self.hears(f"Q[{id}].x", view=() if view in (None, rows(before)) else view)
        del self.held[f"Q[{id}].x"]
        assert self.unanswered == [f"Q[{each}].x" for each in unanswered]
        if view is None:
            assert self.collect == collect
        else:
            assert self.collect == NOTHING
            assert rows(self.bag(self.state.view) - before) == collect

    def value(self, term: str) -> Bag:
        """A term of rows only: the view of these rows, by its definition."""
        factors = term[2:].split(" ⋈ ")
        signed = [Bag({tuple(json.loads(f.lstrip("-"))): -1 if f.startswith("-") else 1}) for f in factors]
        view = self.simulation.view
        held = {slot.relation: bag for slot, bag in zip(view.slots, signed, strict=True)}
        found = evaluate(view.plan, lambda scan: held[scan.relation])
        return -found if term.startswith("-") else found


# Every schedule.


def simulation_with(given: Scenario, algorithm: str | type[Protocol[Any]]) -> Simulation:
    """A simulation of a named algorithm, or of a protocol that a test has made."""
    if isinstance(algorithm, str):
        return simulation_of(given, algorithm)
    simulation = simulation_of(given, "sc")
    simulation.protocol = algorithm(simulation.view)
    return simulation


def explored(given: Scenario | str, algorithm: str | type[Protocol[Any]]) -> tuple[Level, set[str]]:
    """The level reached on every schedule, and the final views."""
    given = scenario(given) if isinstance(given, str) else given
    simulation = simulation_with(given, algorithm)
    graph = explore(simulation)
    ends = [simulation.views(graph.worlds[end]) for end in graph.ends()]
    level = min(verdict(simulation, views).level for views in set(ends))
    return level, {rows(simulation.bags[views[-1]]) for views in ends}


def behaviour(given: Scenario, algorithm: str) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """For every schedule and every beginning of one: what its last step asks and answers, the views seen so
    far, and what may happen next."""
    found: dict[tuple[str, ...], tuple[Any, ...]] = {}
    waiting: list[tuple[tuple[str, ...], Walk]] = [((), Walk(given, algorithm))]
    while waiting:
        path, walk = waiting.pop()
        for label in walk.choices:
            after = Walk.__new__(Walk)
            after.__dict__.update(walk.__dict__, last_answer=Bag())
            sent = messages(map(after.text, after.take(re.escape(label))))
            what = (sent, rows(after.last_answer), tuple(after.views), sorted(after.choices))
            found[(*path, label)] = what
            waiting.append(((*path, label), after))
    return found
