"""The views the maintenance protocols speak of: one projection over one selection over a product of slots.

A slot is one appearance of a relation in FROM, so a self-join has two slots of one relation. Columns are
numbered through all slots, side by side; a column's number is its *place*.

Law of shown columns: where the view's conditions force two columns to be equal, a row of the view shows both
if it shows one. So a key is in the view when each of its columns, or an equal one, is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from stillframe.algebra import (
    Call,
    Filter,
    Join,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    normalize,
)
from stillframe.algebra.scalar import conjuncts, refs
from stillframe.errors import StillframeError


class NotApplicable(StillframeError):
    """An algorithm needs what this view or its sources do not offer."""

    code = "NOT_APPLICABLE"


@dataclass(frozen=True)
class Slot:
    relation: str
    source: str
    schema: Schema
    key: tuple[int, ...] = ()

    @property
    def scan(self) -> Scan:
        return Scan(self.relation, self.schema)


@dataclass(frozen=True)
class JoinView:
    slots: tuple[Slot, ...]
    conditions: tuple[Scalar, ...]
    outputs: tuple[Output, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        offsets = [0]
        for slot in self.slots:
            offsets.append(offsets[-1] + len(slot.schema))
        return tuple(offsets)

    @cached_property
    def columns(self) -> tuple[Ref, ...]:
        """Every column of every slot, by its place."""
        every = [column for slot in self.slots for column in slot.schema]
        return tuple(Ref(place, column.type, column.name) for place, column in enumerate(every))

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot.source for slot in self.slots))

    @cached_property
    def everything(self) -> frozenset[int]:
        return frozenset(range(len(self.slots)))

    def places(self, slot: int) -> tuple[int, ...]:
        return tuple(range(self.offsets[slot], self.offsets[slot + 1]))

    def slot_at(self, place: int) -> int:
        return max(slot for slot in self.everything if self.offsets[slot] <= place)

    def slots_of(self, scalar: Scalar) -> frozenset[int]:
        return frozenset(self.slot_at(place) for place in refs(scalar))

    def slots_reading(self, relation: str) -> tuple[int, ...]:
        return tuple(i for i, slot in enumerate(self.slots) if slot.relation == relation)

    @cached_property
    def conditions_on(self) -> tuple[tuple[Scalar, frozenset[int]], ...]:
        """Each condition with the slots it reads."""
        return tuple((condition, self.slots_of(condition)) for condition in self.conditions)

    def needed(self, slots: frozenset[int]) -> tuple[int, ...]:
        """The places of a product of some slots that are still wanted once the conditions among these
        slots have been tested."""
        wanted = set[int]()
        for output in self.outputs:
            wanted |= refs(output.scalar)
        for condition, read in self.conditions_on:
            if not read <= slots:
                wanted |= refs(condition)
        return tuple(sorted(place for place in wanted if self.slot_at(place) in slots))

    @cached_property
    def plan(self) -> Plan:
        """The view over its relations as they are."""
        joined = Join(tuple(slot.scan for slot in self.slots), self.conditions)
        return Project(joined, self.outputs)

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @cached_property
    def _equals(self) -> tuple[frozenset[int], ...]:
        """Which places each place is forced to be equal to, itself among them."""
        classes = [frozenset({place}) for place in range(len(self.columns))]
        for condition in self.conditions:
            match condition:
                case Call("=", (Ref(a, _, _), Ref(b, _, _))):
                    merged = classes[a] | classes[b]
                    for place in merged:
                        classes[place] = merged
        return tuple(classes)

    def shown(self, place: int) -> int | None:
        """Which output shows a column, or one equal to it."""
        for number, output in enumerate(self.outputs):
            if isinstance(output.scalar, Ref) and output.scalar.position in self._equals[place]:
                return number
        return None

    def key_shown(self, slot: int) -> tuple[tuple[int, int], ...] | None:
        """(output, column of the relation) for each column of the slot's key, if the view shows them all."""
        key = self.slots[slot].key
        pairs = [(self.shown(self.offsets[slot] + column), column) for column in key]
        return tuple((at, column) for at, column in pairs if at is not None) if _complete(pairs) else None

    def row_shown(self, slot: int) -> tuple[tuple[int, int], ...]:
        """(output, column of the relation) for each column of a slot that the view shows."""
        pairs = [(self.shown(place), column) for column, place in enumerate(self.places(slot))]
        return tuple((at, column) for at, column in pairs if at is not None)

    @property
    def shows_keys(self) -> bool:
        return all(self.key_shown(slot) is not None for slot in self.everything)

    @cached_property
    def with_keys(self) -> JoinView:
        """The same view with the key columns it lacks appended."""
        missing = [
            self.offsets[slot] + column
            for slot in sorted(self.everything)
            for column in self.slots[slot].key
            if self.shown(self.offsets[slot] + column) is None
        ]
        return self._adding(missing)

    @cached_property
    def with_everything(self) -> JoinView:
        """The same view with every column it lacks appended."""
        shown = {o.scalar.position for o in self.outputs if isinstance(o.scalar, Ref)}
        return self._adding(place for place in range(len(self.columns)) if place not in shown)

    def _adding(self, places: Iterable[int]) -> JoinView:
        added = tuple(Output(f"__{place}", self.columns[place]) for place in dict.fromkeys(places))
        return JoinView(self.slots, self.conditions, self.outputs + added) if added else self

    def only(self, rows: Plan) -> Plan:
        """Rows of a view that shows more than this one, as this one shows them."""
        if len(rows.schema) == len(self.outputs):
            return rows
        kept = list(rows.schema)[: len(self.outputs)]
        return Project(rows, tuple(Output(c.name, Ref(i, c.type, c.name)) for i, c in enumerate(kept)))


def _complete(pairs: list[tuple[int | None, int]]) -> bool:
    return bool(pairs) and all(at is not None for at, _ in pairs)


def join_view(plan: Plan, source_of: Callable[[str], str]) -> JoinView:
    """A plan as the protocols see it. Other views than select, project and join are refused."""
    top = normalize(plan)
    if isinstance(top, Scan):
        columns = tuple(Output(c.name, Ref(i, c.type, c.name)) for i, c in enumerate(top.schema))
        top = Project(top, columns)
    if not isinstance(top, Project):
        raise _not_a_join(type(top).__name__)
    body: Plan = top.input
    conditions: tuple[Scalar, ...] = ()
    while isinstance(body, Filter):
        conditions = (*conjuncts(body.predicate), *conditions)
        body = body.input
    if isinstance(body, Join):
        conditions += body.conditions
    inputs = body.inputs if isinstance(body, Join) else (body,)
    slots = []
    for part in inputs:
        if not isinstance(part, Scan):
            raise _not_a_join(type(part).__name__)
        key = tuple(sorted(part.schema.identity))
        # Without its keys a schema is cheap to carry through joins; the slot remembers the key.
        slots.append(Slot(part.relation, source_of(part.relation), Schema(part.schema.columns), key))
    return JoinView(tuple(slots), tuple(conditions), top.outputs)


def _not_a_join(found: str) -> NotApplicable:
    return NotApplicable(
        "the view is not one select, project and join of relations",
        detail=f"it has a {found} node",
        hint="the published algorithms maintain such views only",
        code="NOT_A_JOIN",
    )
