"""Bugs to plant: each changes one function of Stillframe for as long as its context lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import stillframe.algebra.plan
import stillframe.change.derive
import stillframe.change.fetches
import stillframe.change.propagation.plans
import stillframe.engine.stage
import stillframe.lake.reader
import stillframe.runtime.binding
import stillframe.runtime.computing
import stillframe.runtime.settle
import stillframe.runtime.work
from stillframe.algebra import Call, Join, Moment, Plan, Scan
from stillframe.algebra.arrow import COUNT
from stillframe.change import terms
from stillframe.engine import Tables
from stillframe.lake.reader import content
from stillframe.runtime.binding import Binder
from stillframe.runtime.reads import Reads
from stillframe.runtime.session import Session
from stillframe.runtime.standing import Standing
from stillframe.runtime.work import Work
from stillframe.sources.base import Keys, Position
from stillframe.sources.sqlite.log import newest
from stillframe.sources.sqlite.read import reading
from stillframe.sources.sqlite.source import SqliteSource


@dataclass(frozen=True)
class Bug:
    name: str
    plant: Callable[[], AbstractContextManager[Any]]


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[], AbstractContextManager[Any]]:
    """`name` of `owner`, made anew from what it was."""

    @contextmanager
    def planted() -> Iterator[None]:
        with patch.object(owner, name, make(getattr(owner, name))):
            yield

    return planted


def _present(source: SqliteSource) -> Position:
    with reading(source.name, source.path) as con:
        return newest(con, source.name)


def _dropped_sign(staged: Any) -> Any:
    return lambda self, rows, schema, *, sign=1: staged(self, rows, schema, sign=1)


def _always_after(at: Any) -> Any:
    return lambda plan, moment, changed: at(plan, Moment.AFTER, changed)


def _each_relation_once(join_change: Any) -> Any:
    def mutant(join: Join, changed: frozenset[str], change_of: Any, order: Any) -> Plan | None:
        seen: set[Plan] = set()

        def once(plan: Plan) -> Plan | None:
            if plan in seen:
                return None
            seen.add(plan)
            return change_of(plan)

        return join_change(join, changed, once, order)

    return mutant


def _last_row_skipped(changes: Any) -> Any:
    def mutant(self: SqliteSource, *args: Any, **how: Any) -> Iterator[pa.RecordBatch]:
        for batch in changes(self, *args, **how):
            yield batch.slice(0, batch.num_rows - 1)

    return mutant


def _read_to_the_end(changes: Any) -> Any:
    def mutant(
        self: SqliteSource, relation: str, columns: Sequence[str], after: Position, _: Position, **how: Any
    ) -> Any:
        return changes(self, relation, columns, after, _present(self), **how)

    return mutant


def _suffix_kept(state: Any) -> Any:
    def mutant(
        self: SqliteSource, relation: str, columns: Sequence[str], at: Position, *args: Any, **how: Any
    ) -> Any:
        return state(self, relation, columns, _present(self), *args, **how)

    return mutant


def _counts_ignored(consolidated_sql: Any) -> Any:
    def mutant(query: str, width: int, **how: Any) -> str:
        return str(consolidated_sql(query, width, **how).replace(f"SUM({COUNT})", f"MAX({COUNT})"))

    return mutant


def _counts_clamped(netted: Any) -> Any:
    def mutant(table: pa.Table) -> pa.Table:
        net = netted(table)
        counts = [1 if count > 0 else -1 for count in net.column(COUNT).to_pylist()]
        place = net.schema.get_field_index(COUNT)
        return net.set_column(place, net.schema.field(COUNT), pa.array(counts, pa.int64()))

    return mutant


def _a_key_lost(keys_as: Any) -> Any:
    return lambda values, type_: keys_as(values[1:], type_)


def _null_safe_link(links: Any) -> Any:
    def mutant(join: Join, place: int, known: set[int]) -> Iterator[Any]:
        plain = tuple(
            Call("=", c.args) if isinstance(c, Call) and c.function == "<=>" else c for c in join.conditions
        )
        yield from links(Join(join.inputs, plain), place, known)

    return mutant


def _restrictions_mixed_up(state: Any) -> Any:
    def mutant(self: Reads, relation: str, keys: Keys | None = None) -> Any:
        for key, staged in self._memo.items():
            if key[:2] == ("state", relation):
                return staged
        return state(self, relation, keys)

    return mutant


def _vector_left_behind(advanced: Any) -> Any:
    return lambda self, view, former, files: replace(
        advanced(self, view, former, files), vector=former.vector
    )


def _vector_too_far(vector_of: Any) -> Any:
    def mutant(self: Standing, view: Any) -> Mapping[str, Any]:
        return {
            source: _present(self.means.sources[source]).to_json()  # type: ignore[arg-type]
            for source in vector_of(self, view)
        }

    return mutant


def _first_column_is_key(keys_of_projection: Any) -> Any:
    return lambda plan, kept: frozenset({frozenset({0})})


def _changes_forgotten(_: Any) -> Any:
    return lambda session, root, view: content(session, root, replace(view, changes=()))


def _last_term_lost(total: Any) -> Any:
    def mutant(changes: Any) -> Plan | None:
        found = total(changes)
        parts = terms(found)
        return total(parts[:-1]) if len(parts) > 1 else found

    return mutant


def _condition_lost(join_change: Any) -> Any:
    def mutant(join: Join, changed: frozenset[str], change_of: Any, order: Any) -> Plan | None:
        return join_change(Join(join.inputs, join.conditions[:-1]), changed, change_of, order)

    return mutant


def _held_reader_forgotten(upstream: Any) -> Any:
    def mutant(self: Work, view: Any, former: Any) -> Any:
        before = [self.standing.former(name) for name in view.upstream]
        frames = {state.session.get("frame") for state in before if state}
        seen = frames.pop() if frames else None
        return upstream(self, view, replace(former, session={**former.session, "frame": seen}))

    return mutant


def _trimmed_too_far(acknowledge: Any) -> Any:
    def mutant(self: Session, frame: Any, fixed: Mapping[str, Position], kept: Any = ()) -> None:
        for name, position in fixed.items():
            self.sources[name].acknowledge(self.consumer, position)

    return mutant


def _view_before_is_after(view_rows: Any) -> Any:
    def mutant(self: Binder, scan: Scan, keys: Any) -> Any:
        return view_rows(self, replace(scan, at=Moment.AFTER) if scan.at is Moment.BEFORE else scan, keys)

    return mutant


def _copies_forgotten(content_sql: Any) -> Any:
    return lambda view, **how: content_sql(view, **how).replace(
        f"sequence(CAST(1 AS BIGINT), {COUNT})", "array(1)"
    )


_staging = sys.modules["stillframe.engine.stage"]  # by its name one finds the function of the same name
_computing, _plans = stillframe.runtime.computing, stillframe.change.propagation.plans

BUGS = (
    Bug("the sign of an undone change is dropped", replaced(Tables, "staged", _dropped_sign)),
    Bug("the state before is read as the state after", replaced(_plans, "at", _always_after)),
    Bug(
        "a view's state before is read as its state after",
        replaced(Binder, "_view_rows", _view_before_is_after),
    ),
    Bug(
        "the second term of a self-join is missed",
        replaced(stillframe.change.derive, "join_change", _each_relation_once),
    ),
    Bug("a row of the log is skipped", replaced(SqliteSource, "changes", _last_row_skipped)),
    Bug("the log is read beyond the vector", replaced(SqliteSource, "changes", _read_to_the_end)),
    Bug("changes after the vector stay in a state", replaced(SqliteSource, "state", _suffix_kept)),
    Bug("consolidation ignores counts", replaced(_computing, "consolidated_sql", _counts_ignored)),
    Bug("duplicate changes count once", replaced(_staging, "netted", _counts_clamped)),
    Bug("duplicates are read once", replaced(stillframe.lake.reader, "content_sql", _copies_forgotten)),
    Bug("a restriction to keys loses a key", replaced(stillframe.runtime.binding, "keys_as", _a_key_lost)),
    Bug(
        "a NULL-safe equality restricts like a plain one",
        replaced(stillframe.runtime.binding, "links", _null_safe_link),
    ),
    Bug("a restricted read serves other keys", replaced(Reads, "state", _restrictions_mixed_up)),
    Bug("the vector is not advanced", replaced(Standing, "advanced", _vector_left_behind)),
    Bug("the vector is advanced too far", replaced(Standing, "vector_of", _vector_too_far)),
    Bug(
        "every projection is thought to be keyed",
        replaced(stillframe.algebra.plan, "keys_of_projection", _first_column_is_key),
    ),
    Bug("settling forgets changes", replaced(stillframe.runtime.settle, "content", _changes_forgotten)),
    Bug("a term of a sum is lost", replaced(stillframe.change.derive, "total", _last_term_lost)),
    Bug("a join condition is lost", replaced(stillframe.change.derive, "join_change", _condition_lost)),
    Bug("a held view misses what it reads", replaced(Work, "_upstream", _held_reader_forgotten)),
    Bug("the log is trimmed under a held view", replaced(Session, "acknowledge", _trimmed_too_far)),
)
