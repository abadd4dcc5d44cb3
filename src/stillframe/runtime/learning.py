"""What one session learns of sizes, rates and costs, for those after it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import pyarrow.compute as pc

from stillframe.algebra import Join, Plan, Scan
from stillframe.algebra.arrow import internal_name
from stillframe.algebra.plan import walk
from stillframe.change.propagation import equated_columns
from stillframe.engine import Staged, text_bytes
from stillframe.lake.frame import ViewState
from stillframe.runtime.deciding import FULL, INCREMENTAL
from stillframe.runtime.definitions import COPIES, View
from stillframe.runtime.distinct import distinct_values, sampled
from stillframe.runtime.estimating import Estimate
from stillframe.runtime.outcome import Outcome
from stillframe.runtime.statistics import GROWTH, Relation, Statistics, aged
from stillframe.runtime.widths import TEXTS, texts_read

MANY_ROWS = 1000  # rows from which the time that a read took says what a row takes


class Learning:
    """`statistics` are those of former sessions, and of this one as far as it went."""

    def __init__(self, statistics: Statistics) -> None:
        self.statistics = statistics
        self._seconds: dict[str, float] = {}
        self._rows: dict[str, int] = {}
        self._changes: dict[str, Staged] = {}

    def staged(self, kind: str, relation: str, staged: Staged, seconds: float) -> None:
        """A read at a source is done."""
        if kind == "change":
            self._changes[relation] = staged
            return
        self._seconds[relation] = self._seconds.get(relation, 0.0) + seconds
        self._rows[relation] = self._rows.get(relation, 0) + staged.rows

    def maintained(
        self, view: View, model: Estimate | None, outcome: Outcome, seconds: float, *, trial: bool = False
    ) -> None:
        """`model` is the estimate before it is corrected by what was measured. A `trial` is believed, also
        one that shows that nothing comes of the changes."""
        name, known = view.name, self.statistics
        if model is not None and (outcome.mode == INCREMENTAL or (trial and outcome.mode != FULL)):
            known = known.with_measure(
                name, model.way, model.rows_in, model.incremental, seconds, trial=trial
            )
            if outcome.rows_in and model.rows_in:
                said, seen = model.rows_made / model.rows_in, max(outcome.rows_out, 0.5) / outcome.rows_in
                known = known.with_measure(name, GROWTH, model.rows_in, said, seen, trial=trial)
        elif model is not None and outcome.mode == FULL:
            known = known.with_measure(name, FULL, model.rows_read, model.full, seconds, trial=trial)
        self.statistics = known

    def done(
        self,
        views: Collection[View],
        states: Callable[[str], ViewState | None],
        changed: Callable[[str], int],
        whole: Callable[[str], Staged | None],
        root: Path,
    ) -> Statistics:
        """The session has published. `changed` says how many rows of a view changed in it, `whole` what was
        read of all of a relation."""
        known = self.statistics
        asked = {name for view in views if view.owner != COPIES for name in view.relations}
        for relation in dict.fromkeys(name for view in views for name in view.relations):
            known = self._with_relation(known, relation, whole(relation), asked=relation in asked)
        for view in views:
            state = states(view.name)
            if state is not None and state.vector is not None:
                before = known.of(view.name)
                known = known.with_relation(
                    view.name,
                    rows=float(state.rows),
                    changed=aged(before.changed, changed(view.name)),
                    changed_since=before.changed_since + changed(view.name),
                    sessions=before.sessions + 1,
                )
        plans = [view.plan for view in views]
        joined, texts = joined_columns(plans), texts_read(plans)
        for name in dict.fromkeys((*joined, *texts)):
            known = self._with_content(
                known, name, joined.get(name, {}), texts.get(name, {}), states(name), whole(name), root
            )
        self.statistics = known
        return known

    @staticmethod
    def _with_content(
        known: Statistics,
        name: str,
        joined: Mapping[str, int],
        texts: Mapping[str, int],
        state: ViewState | None,
        whole: Staged | None,
        root: Path,
    ) -> Statistics:
        """What a sample of its rows tells, where it is due and there are rows to be had. While nothing is
        stale, what other views asked of it stays beside what these ask."""
        before = known.of(name)
        rows = before.rows
        aside = 0 if state is None else sum(file.rows for file in state.changes)  # of the sample
        new = not (joined.keys() <= before.distinct.keys() and texts.keys() <= before.text_bytes.keys())
        stale = _is_stale(before, aside)
        if not rows or not (new or (stale and (joined or texts))):
            return known
        if state is not None:
            types = {column.name: column.type for column in state.schema}
            if not joined.keys() <= types.keys() or any(types.get(text) not in TEXTS for text in texts):
                return known  # it stands as before its text changed
            files = [root / file.path for file in state.base]
            to_count, to_measure = list(joined), list(texts)
        elif whole is not None:
            files = list(whole.files)
            to_count, to_measure = (
                [internal_name(whole.positions.index(position)) for position in each.values()]
                for each in (joined, texts)
            )
        else:
            return known
        sample, lengths = sampled(files, to_count), text_bytes(files, to_measure)
        if sample is None or lengths is None:  # there is no row
            return known
        counted = {
            column: distinct_values(values, rows)
            for column, values in zip(joined, sample.columns, strict=True)
        }
        measured = dict(zip(texts, lengths, strict=True))
        if not stale:
            return known.with_relation(
                name,
                distinct={**before.distinct, **counted},
                text_bytes={**before.text_bytes, **measured},
            )
        return known.with_relation(
            name, distinct=counted, text_bytes=measured, counted_at=rows, changed_since=float(aside)
        )

    def _with_relation(
        self, known: Statistics, relation: str, whole: Staged | None, *, asked: bool
    ) -> Statistics:
        """What reading at the source takes is of sessions in which a view `asked` for rows that met a
        change: not of those that read all of it, nor of those that have a copy."""
        before = known.of(relation)
        change = self._changes.pop(relation, None)
        rows, row_seconds = before.rows, before.row_seconds
        if whole is not None:
            rows = float(whole.rows)
        elif change is not None and rows is not None and change.rows:
            rows = max(0.0, rows + float(pc.sum(change.table([]).column(0)).as_py()))
        read, took = self._rows.pop(relation, 0), self._seconds.pop(relation, 0.0)
        if read >= MANY_ROWS:
            row_seconds = aged(row_seconds, took / read)
        known = known.with_relation(
            relation,
            rows=rows,
            changed=before.changed if change is None else aged(before.changed, change.rows),
            changed_since=before.changed_since + (0 if change is None else change.rows),
            row_seconds=row_seconds,
        )
        if not asked or whole is not None:
            return known
        return known.with_relation(
            relation,
            read_rows=aged(before.read_rows, read),
            read_seconds=aged(before.read_seconds, took),
            sessions=before.sessions + 1,
        )


def joined_columns(plans: Iterable[Plan]) -> dict[str, dict[str, int]]:
    """Of each relation or view that plans read: the columns that an equality of a join is about, and that
    are no key by themselves, with their positions."""
    found: dict[str, dict[str, int]] = {}
    for join in (node for plan in plans for node in walk(plan) if isinstance(node, Join)):
        for place, column in equated_columns(join):
            source = join.inputs[place]
            if isinstance(source, Scan) and frozenset({column}) not in source.schema.keys:
                found.setdefault(source.relation, {})[source.schema[column].name] = column
    return found


def _is_stale(known: Relation, aside: int) -> bool:
    """Whether what was counted and measured is to be so anew: it never was, there are half as many rows again
    as there were then, or as many changed as are half of them; those `aside` would not be seen yet."""
    if known.counted_at is None or known.changed_since - aside > known.counted_at / 2:
        return True
    return not known.counted_at / 1.5 <= (known.rows or 0.0) <= known.counted_at * 1.5
