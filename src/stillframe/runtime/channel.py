"""One source as a protocol hears it: reports of what it committed, and answers, in the order in which they
happened there.

Law: an answer is computed on one state p of the source and says so. Before it is delivered, everything the
source had committed by p is reported, and nothing else. So what an answer has seen is known from the
source's own snapshot, and the channel is ordered however late anything arrives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from stillframe.algebra import Bag, Join, Monus, Negate, Plan, Scan, Schema, UnionAll
from stillframe.algebra.arrow import keys_as
from stillframe.algebra.plan import map_scans
from stillframe.change import Fetch, body, fetches
from stillframe.protocol.terms import Question, question_plan
from stillframe.protocol.view import JoinView
from stillframe.runtime.holding import SMALL, Holding, bag_of
from stillframe.runtime.reads import KEY_LIMIT
from stillframe.sources.base import Committed, Keys, Position, Source


@dataclass(frozen=True)
class Wanted:
    """A relation as the conducted views read it: its name at the source, and the columns they look at."""

    relation: str
    schema: Schema
    positions: tuple[int, ...]

    @property
    def table(self) -> str:
        return self.relation.split(".", 1)[1]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema[i].name for i in self.positions)


@dataclass(frozen=True)
class Report:
    """What one or more transactions did to each relation: rows that went, then rows that came. The order
    is one that keys allow. `left` are the transactions of the same interval that come after."""

    sides: tuple[tuple[str, bool, Scan], ...]
    after: Position
    upto: Position
    left: tuple[int, ...] = ()
    group: str = ""
    parts: int = 0


@dataclass
class Channel:
    source: Source
    wanted: Mapping[str, Wanted]
    holding: Holding
    apart: bool  # every transaction for itself; else what lies between two positions is one report
    marks: dict[int, tuple[str, int]] = field(default_factory=dict)  # parts of global transactions seen
    _last: tuple[Position, Position, tuple[Report, ...]] | None = None

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(wanted.table for wanted in self.wanted.values())

    # -- reports

    def reports(self, after: Position, upto: Position) -> tuple[Report, ...]:
        """What was committed between two states, in order."""
        if self._last is None or self._last[:2] != (after, upto):
            self._last = (after, upto, tuple(self._read(after, upto)))
        return self._last[2]

    def _read(self, after: Position, upto: Position) -> Iterator[Report]:
        committed = self.source.transactions(self.tables, after, upto) if upto != after else ()
        self.marks |= {one.number: (one.group, one.parts) for one in committed if one.group}
        if not committed:
            return
        if not self.apart:
            yield self._between(frozenset(table for one in committed for table in one.rows), after, upto)
        elif sum(sum(one.rows.values()) for one in committed) <= SMALL:
            yield from self._tagged(committed, after, upto)
        else:
            before = after
            for place, one in enumerate(committed):
                left = tuple(other.number for other in committed[place + 1 :])
                here = self.source.without(after, upto, left)
                report = self._between(frozenset(one.rows), before, here)
                yield replace(report, upto=here, group=one.group, parts=one.parts)
                before = here

    def _between(self, tables: frozenset[str], after: Position, upto: Position) -> Report:
        sides = list[tuple[str, bool, Scan]]()
        for relation, wanted in self.wanted.items():
            if wanted.table in tables:
                read = partial(self.source.changes, wanted.table, wanted.columns, after, upto)
                change = self.holding.take(read, wanted.schema, wanted.positions, net=True)
                sides += self._sides(relation, change)
        return Report(tuple(sides), after, upto)

    def _tagged(self, committed: tuple[Committed, ...], after: Position, upto: Position) -> Iterator[Report]:
        """Few rows are read once, and told apart by their tags."""
        parts: dict[int, dict[str, list[pa.RecordBatch]]] = {one.number: {} for one in committed}
        for relation, wanted in self.wanted.items():
            for batch in self.source.changes(wanted.table, wanted.columns, after, upto, tagged=True):
                tags = batch.column(batch.num_columns - 1)
                for number in tags.unique().to_pylist():
                    rows = batch.filter(pc.equal(tags, number))
                    parts[number].setdefault(relation, []).append(rows)
        for place, one in enumerate(committed):
            left = tuple(other.number for other in committed[place + 1 :])
            sides = list[tuple[str, bool, Scan]]()
            for relation, batches in parts[one.number].items():
                wanted = self.wanted[relation]
                bag = bag_of(batches, len(wanted.schema), wanted.positions)
                sides += self._sides(relation, self.holding.hold(bag, wanted.schema))
            yield Report(tuple(sides), after, upto, left, one.group, one.parts)

    def reached(self, report: Report) -> Position:
        """The state right after what a report tells."""
        return self.source.without(report.after, report.upto, report.left) if report.left else report.upto

    def _sides(self, relation: str, change: Scan) -> Iterator[tuple[str, bool, Scan]]:
        nothing = self.holding.hold(Bag(), change.schema)
        went = Negate(Monus(Negate(change), nothing))
        for insert, plan in ((False, went), (True, Monus(change, nothing))):
            rows = self.holding.settled(plan)
            if not self.holding.empty(rows):
                yield relation, insert, rows

    # -- answers

    def answer(self, view: JoinView, question: Question, at: Position) -> Scan:
        """A question's rows on the state `at`. The source is asked for the rows that can join what is known,
        or for more; what the conditions mean is decided here."""
        sent = tuple(
            replace(term, parts=tuple(replace(p, rows=self.holding.settled(p.rows)) for p in term.parts))
            for term in question.terms
        )
        plan = question_plan(view, replace(question, terms=sent))
        terms = plan.inputs if isinstance(plan, UnionAll) else (plan,)
        bound = [self._bound(term, at, {}) for term in terms]
        return self.holding.settled(bound[0] if len(bound) == 1 else UnionAll(tuple(bound)))

    def _bound(self, term: Plan, at: Position, read: dict[object, Scan]) -> Plan:
        sign = isinstance(term, Negate)
        inner = term.inputs[0] if sign else term
        join = body(inner)
        assert isinstance(join, Join), "a question is a join"
        known = {
            place: leaf
            for place, leaf in enumerate(join.inputs)
            if isinstance(leaf, Scan) and self.holding.is_held(leaf)
        }
        rest = [leaf for leaf in join.inputs if isinstance(leaf, Scan) and not self.holding.is_held(leaf)]
        if rest and any(self.holding.empty(leaf) for leaf in known.values()):
            return self.holding.hold(Bag(), term.schema)
        for fetch in fetches(inner):
            if fetch.place not in known:
                known[fetch.place] = self.state(fetch.scan.relation, at, self._keys(fetch, known))
        bound = map_scans(inner, lambda scan, place: known.get(-1 if place is None else place, scan))
        return Negate(bound) if sign else bound

    def state(self, relation: str, at: Position, keys: Keys | None = None) -> Scan:
        wanted = self.wanted[relation]
        read = partial(self.source.state, wanted.table, wanted.columns, at, keys)
        return self.holding.take(read, wanted.schema, wanted.positions)

    def _keys(self, fetch: Fetch, known: Mapping[int, Scan]) -> Keys | None:
        wanted = self.wanted[fetch.scan.relation]
        for link in fetch.links:
            column = wanted.schema[link.column].name
            values = self.holding.values(known[link.known], link.known_column, KEY_LIMIT)
            if values is not None and self.source.pushable(wanted.table, column):
                return Keys(column, keys_as(values, wanted.schema[link.column].type))
        return None
