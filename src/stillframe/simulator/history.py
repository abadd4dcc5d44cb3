"""What happens at the sources of a scenario: fixed, whatever the schedule, because each source executes its
transactions in one order. So a relation's content is known by the number of transactions executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from stillframe.algebra import Bag, Moment, Scan
from stillframe.algebra.types import Type
from stillframe.consistency import Course
from stillframe.protocol.events import Ask, Notified, Place
from stillframe.protocol.events import Transaction as Reported
from stillframe.protocol.events import Update as ReportedUpdate
from stillframe.simulator.bags import Bags
from stillframe.simulator.scenario import Scenario, Transaction, Update


@dataclass(frozen=True)
class Entry:
    """One transaction of the scenario, with its place at each source it touches."""

    transaction: Transaction
    places: tuple[Place, ...]

    @property
    def id(self) -> str:
        return self.transaction.id


class Sources:
    """Contents, entries and messages of a scenario's sources."""

    def __init__(self, scenario: Scenario, bags: Bags) -> None:
        self.scenario = scenario
        self.bags = bags
        self.names = scenario.sources
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.types: dict[str, tuple[Type, ...]] = {
            relation.name: scenario.schema(relation.name).types for relation in scenario.relations
        }
        self.entries = self._entries()
        self.update_ids = _update_ids(scenario)
        self.contents = self._contents()

    def _entries(self) -> tuple[Entry, ...]:
        counts = dict.fromkeys(self.names, 0)
        entries = []
        for transaction in self.scenario.transactions:
            touched = dict.fromkeys(self.scenario.source_of(u.relation) for u in transaction.updates)
            for source in touched:
                counts[source] += 1
            entries.append(Entry(transaction, tuple((source, counts[source]) for source in touched)))
        self.lengths = tuple(counts[name] for name in self.names)
        return tuple(entries)

    @cached_property
    def at_source(self) -> tuple[tuple[int, ...], ...]:
        """For each source, its entries in order."""
        return tuple(
            tuple(n for n, entry in enumerate(self.entries) if name in dict(entry.places))
            for name in self.names
        )

    @cached_property
    def entry_sources(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(self.numbers[source] for source, _ in entry.places) for entry in self.entries)

    @cached_property
    def course(self) -> Course:
        groups = [
            frozenset((self.numbers[source], number) for source, number in entry.places)
            for entry in self.entries
            if entry.transaction.group is not None and len(entry.places) > 1
        ]
        return Course(self.lengths, tuple(groups))

    def _contents(self) -> dict[str, tuple[Bag, ...]]:
        """Each relation after 0, 1, 2, … transactions of its source."""
        found: dict[str, list[Bag]] = {r.name: [Bag.of(r.rows)] for r in self.scenario.relations}
        for entry in self.entries:
            touched = {source for source, _ in entry.places}
            for relation in self.scenario.relations:
                if relation.source in touched:
                    found[relation.name].append(
                        sum(
                            (signed(u) for u in entry.transaction.updates if u.relation == relation.name),
                            found[relation.name][-1],
                        )
                    )
        return {name: tuple(states) for name, states in found.items()}

    def at(self, cut: tuple[int, ...], scan: Scan) -> Bag:
        """A relation when its source has executed so many transactions."""
        relation = self.scenario.relation(scan.relation)
        return self.contents[relation.name][cut[self.numbers[relation.source]]]

    def updates_at(self, source: int, number: int) -> tuple[Update, ...]:
        """What the number-th transaction of a source did there."""
        entry = self.entries[self.at_source[source][number - 1]]
        name = self.names[source]
        return tuple(u for u in entry.transaction.updates if self.scenario.source_of(u.relation) == name)

    def logged(
        self, ask: Ask, present: Callable[[Scan], Bag], log: Sequence[Update]
    ) -> Callable[[Scan], Bag]:
        """What a question of one side reads: logged rows as they stand, and states computed from the present
        one by undoing all that is logged since, then redoing the session (equations 2 and 3 of the
        multi-source paper). `log` is what is seen of the log since the session began."""
        assert ask.since is not None and ask.until is not None
        source = self.numbers[ask.source]
        session = self.updates_between(source, ask.since, ask.until)

        def rows(relation: str, updates: Sequence[Update], insert: bool) -> Bag:
            return Bag.of(u.row for u in updates if u.relation == relation and u.insert is insert)

        def read(scan: Scan) -> Bag:
            name = scan.relation
            added, removed = rows(name, session, True), rows(name, session, False)
            if scan.at is Moment.CHANGE:
                return added if ask.side == "add" else removed
            before = monus(present(scan), rows(name, log, True)) + rows(name, log, False)
            after = monus(before, removed) + added
            return monus(after, added)

        return read

    def updates_between(self, source: int, since: int, until: int) -> tuple[Update, ...]:
        """What a source did after some of its transactions, up to others."""
        return tuple(u for number in range(since + 1, until + 1) for u in self.updates_at(source, number))

    def reports(self, entry: int) -> tuple[tuple[int, Notified], ...]:
        """The messages an entry causes, by the source that sends them."""
        made = self.entries[entry]
        whole = made.places if len(made.places) > 1 else ()
        if whole and self.scenario.report == "coordinator":
            first = self.numbers[self.scenario.source_of(made.transaction.updates[0].relation)]
            return ((first, Notified(self._reported(entry, made.places, whole))),)
        return tuple(
            (self.numbers[place[0]], Notified(self._reported(entry, (place,), whole)))
            for place in made.places
        )

    def _reported(self, entry: int, places: tuple[Place, ...], parts: tuple[Place, ...]) -> Reported:
        sources = {source for source, _ in places}
        updates = tuple(
            ReportedUpdate(id, u.relation, u.insert, self.bags.scan(signed(u), self.types[u.relation]))
            for u, id in zip(self.entries[entry].transaction.updates, self.update_ids[entry], strict=True)
            if self.scenario.source_of(u.relation) in sources
        )
        conflicts = self._conflicts(entry, sources)
        return Reported(self.entries[entry].id, updates, places, parts, conflicts)

    def _conflicts(self, entry: int, sources: set[str]) -> tuple[str, ...]:
        """The earlier transactions that touched a row which this one touches at some of its sources."""
        mine = {row for row in self._rows(entry) if self.scenario.source_of(row[0]) in sources}
        return tuple(self.entries[n].id for n in range(entry) if mine & self._rows(n))

    def _rows(self, entry: int) -> set[tuple[str, tuple[object, ...]]]:
        rows = set()
        for update in self.entries[entry].transaction.updates:
            relation = self.scenario.relation(update.relation)
            key = [relation.columns.index(column) for column in relation.key] or range(len(update.row))
            rows.add((update.relation, tuple(update.row[column] for column in key)))
        return rows


def monus(left: Bag, right: Bag) -> Bag:
    return Bag((row, count) for row, count in (left - right).items() if count > 0)


def signed(update: Update) -> Bag:
    return Bag({update.row: 1 if update.insert else -1})


def _update_ids(scenario: Scenario) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (t.id,) if len(t.updates) == 1 else tuple(f"{t.id}.{n}" for n in range(1, len(t.updates) + 1))
        for t in scenario.transactions
    )
