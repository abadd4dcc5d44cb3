"""A view that is served as records: what it makes of the rows of its relations, how a class keeps them, and
what readers see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from stillframe.algebra import Ref, Scalar, Schema, evaluate_scalar
from stillframe.algebra.aggregates import aggregated
from stillframe.errors import StillframeError
from stillframe.records.aggregates import Measure
from stillframe.records.entry import Image, Row
from stillframe.records.program import ViewClass
from stillframe.records.requests import State
from stillframe.records.store import Key

SIGNATURE, COUNTER = "signature", "counter"  # ways to test and set


class NoRecords(StillframeError):
    """A view that cannot be served as records."""

    code = "NO_RECORDS"


@dataclass(frozen=True)
class Side:
    """What a view makes of the rows of one relation; scalars are over its columns. `identity` is the key of
    the relation that tells its records apart: the one that a record's own key rests on, if one does, so that
    whatever happens to a record happens in one stream."""

    relation: str
    schema: Schema
    conditions: tuple[Scalar, ...]
    key: tuple[Scalar, ...]
    values: tuple[Scalar, ...] = ()
    link: tuple[Scalar, ...] | None = None
    identity: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.identity:
            object.__setattr__(self, "identity", _shortest(self.schema))

    def image(self, row: Row | None) -> Image | None:
        if row is None or not all(evaluate_scalar(c, row) is True for c in self.conditions):
            return None
        link = None if self.link is None else tuple(evaluate_scalar(s, row) for s in self.link)
        return Image(
            tuple(evaluate_scalar(s, row) for s in self.key),
            tuple(evaluate_scalar(s, row) for s in self.values),
            None if link is None or None in link else link,
        )


@dataclass(frozen=True)
class Served:
    """`outputs` are the view's columns, over a record's key and what the class keeps beside it; `key` are the
    places of the key's columns among them. `reads_base` says when the base is read, if ever; `measures` are
    the aggregates that it is then asked for."""

    called: str
    view: ViewClass
    sides: tuple[Side, ...]
    outputs: tuple[Scalar, ...]
    key: tuple[int, ...]
    level: str
    reads_base: str = ""
    measures: tuple[Measure, ...] = ()

    @property
    def is_one(self) -> bool:
        """Whether it has one record, whatever the base holds: that of groups without GROUP BY."""
        return not self.key

    @property
    def of_nothing(self) -> Any:
        """The data of a record that an empty base gives."""
        if self.is_one and self.measures:
            return aggregated_images(self.measures, (), always=True)
        return self.view.empty

    def vanished(self, key: Key, state: State) -> bool:
        """Whether a record is kept for what it reflects alone."""
        return not self.is_one and state.data == (None if key.kind else self.view.empty)

    def shown(self, key: Row, state: State | None) -> Row | None:
        """What readers see of a record."""
        row = None if state is None else self.view.row(key, state)
        if row is None:
            return None
        if self._places is not None:
            return tuple(row[place] for place in self._places)
        return tuple(evaluate_scalar(output, row) for output in self.outputs)

    @cached_property
    def _places(self) -> tuple[int, ...] | None:
        """Of outputs that are columns and nothing else."""
        columns = [output.position for output in self.outputs if isinstance(output, Ref)]
        return tuple(columns) if len(columns) == len(self.outputs) else None


def counted(found: Served) -> Served:
    """With counter-based test-and-set."""
    view: Any = found.view
    if not view.idempotent:
        raise NoRecords(
            f"a view of class {found.called} is not kept with test_and_set = 'counter'",
            detail="its records count rows, and a change that comes again would be counted again",
            hint="leave it out: signatures tell a change that comes again",
        )
    return replace(found, view=replace(view, signed=False))


def _shortest(schema: Schema) -> tuple[int, ...]:
    return tuple(sorted(schema.identity))


def aggregated_images(
    measures: Sequence[Measure], images: Sequence[Image], *, always: bool = False
) -> Row | None:
    """What a base that holds these images of a group answers; None where there is no group, which the one of
    a view without GROUP BY `always` is."""

    def values(measure: Measure) -> list[tuple[Any, int]]:
        if measure.place is None:
            return [(1, 1)] * len(images)
        return [(i.values[measure.place], 1) for i in images if i.values[measure.place] is not None]

    return tuple(aggregated(m.function, m.type, values(m)) for m in measures) if images or always else None
