"""Which relations are copied where the project leaves the choice: those whose copies cost less than asking
their sources, by what was measured. A choice is changed only where it is clearly wrong, for changing it costs
more than a session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stillframe.algebra import scans
from stillframe.change.propagation import Calibration
from stillframe.lake.frame import Frame, ViewState
from stillframe.runtime.config import ENGINES, Project
from stillframe.runtime.copies import Copies, columns_kept, copy_name, made_since, with_copies
from stillframe.runtime.definitions import Definitions
from stillframe.runtime.prices import prices
from stillframe.runtime.statistics import Relation, read_statistics
from stillframe.runtime.widths import schema_bytes

SESSIONS = 3  # after which what reading at the source takes is known
CLEARLY = 2.0  # by what the one has to be cheaper than the other for a copy to be made, or given up
FIXED_SECONDS = 0.02  # a session, of any copy


@dataclass(frozen=True)
class Worth:
    """Whether a copy of a relation is worth its while, by what was measured: the seconds a session that views
    spend on reading it at its source, and those that keeping a copy would take or takes. Of a copy that was
    always there it is not known what asking takes, and it stays."""

    asking: float
    keeping: float
    known: bool  # sessions enough have been measured
    kept: bool

    @classmethod
    def of(
        cls, known: Relation, prices: Calibration, settle_rows: float, row_bytes: float, *, kept: bool
    ) -> Worth:
        volume = (known.changed or 0.0) * row_bytes
        rewritten = (prices.per_byte_scanned + prices.per_byte_written) / settle_rows if settle_rows else 0.0
        keeping = FIXED_SECONDS + volume * (prices.per_byte_written + rewritten)
        return cls(known.read_seconds or 0.0, keeping, known.sessions >= SESSIONS, kept)

    @property
    def is_worth_it(self) -> bool:
        if self.kept:
            return not self.known or self.keeping <= CLEARLY * self.asking
        return self.known and self.asking > CLEARLY * self.keeping

    def to_json(self) -> dict[str, Any]:
        return {
            "copied": self.kept,
            "wanted": self.is_worth_it,
            "asking_seconds": round(self.asking, 4),
            "keeping_seconds": round(self.keeping, 4),
            "measured": self.known,
        }


class Copying:
    """Of one project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._memo: tuple[Definitions, object, Definitions] | None = None

    def over(self, definitions: Definitions, newest: Callable[[], Frame | None]) -> Definitions:
        """The definitions, reading copies."""
        if self._project.copies == Copies():
            return definitions
        shown = _views(newest())
        chosen = frozenset(name for name, each in self._worth(definitions, shown).items() if each.is_worth_it)
        states = tuple(
            (name, state.definition, state.vector is None, made_since(shown, name))
            for name, state in shown.items()
        )
        key = (chosen, states)
        if self._memo is None or self._memo[0] is not definitions or self._memo[1] != key:
            found = with_copies(definitions, self._project.copies, shown, chosen.__contains__)
            self._memo = (definitions, key, found)
        return self._memo[2]

    def told(
        self, definitions: Definitions, frame: Frame | None, relations: Iterable[str], asked: Collection[str]
    ) -> dict[str, dict[str, Any]]:
        """Of each relation a view is about, whether it is copied and, where that was a choice, by what; and
        whether the view reads the copy, or `asked` the source."""
        shown = _views(frame)
        worth = self._worth(definitions, shown)
        found = {}
        for name in relations:
            copied = copy_name(name) in shown
            known = worth[name].to_json() if name in worth else {"copied": copied}
            found[name] = {**known, "read": copied and name not in asked}
        return found

    def _worth(self, definitions: Definitions, shown: Mapping[str, ViewState]) -> dict[str, Worth]:
        """`definitions` are those that read relations only."""
        if not self._project.copies.auto:
            return {}
        engine, warehouse = self._project.spark.get("engine", ENGINES[0]), self._project.warehouse
        known, paid = read_statistics(warehouse, engine), prices(engine, warehouse)
        plans = [view.plan for view in definitions.views.values()]
        columns, schemas = (
            columns_kept(plans),
            {each.relation: each.schema for p in plans for each in scans(p)},
        )

        def row_bytes(name: str) -> float:
            held = [schemas[name][i] for i in columns.get(name, ())]
            texts = known.of(copy_name(name)).text_bytes or known.of(name).text_bytes
            return sum(schema_bytes(held, texts))

        return {
            name: Worth.of(
                known.of(name),
                paid,
                self._project.settle.rows,
                row_bytes(name),
                kept=copy_name(name) in shown,
            )
            for view in definitions.views.values()
            for name in view.relations
        }


def _views(frame: Frame | None) -> Mapping[str, ViewState]:
    return frame.views if frame else {}
