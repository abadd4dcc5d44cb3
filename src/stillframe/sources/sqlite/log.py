"""Is the log what a frame takes it for?

Capture rolls back with the transaction it captures, so the numbers of committed log rows have no gaps:
(after, upto] is whole exactly if it has upto − after rows and the rows at both ends bear the marks that
were seen there. A relation's part is whole if its triggers stand as they were installed, since `after`.

Whatever installs capture first writes a row of its own to the log: a position fixed before is below that row
even if nothing was logged in between, when there may have been no triggers to log it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.base import Committed, Position, another
from stillframe.sources.sqlite.capture import (
    CONSUMERS,
    FORMAT,
    LOG,
    MARK,
    MARKER,
    RELATIONS,
    SOURCE,
    first_trigger_rowid,
    installed_digest,
)
from stillframe.sources.sqlite.catalog import (
    Table,
    per_schema,
    read_table,
    self_writing,
    silencing,
    table_names,
)
from stillframe.sources.sqlite.many import Guard

MANY_GO, FEW_LEFT = 5_000, 100  # rows of the log
LEFT = "_stillframe_left"


@dataclass(frozen=True, slots=True)
class Captured:
    """One relation under capture: its number in the log, since when, and where each column stands. `added`
    says since when columns are captured that came later than the others."""

    id: int
    since: int
    columns: tuple[str, ...]
    added: Mapping[str, int]
    table: Table

    def has(self, column: str, after: int) -> bool:
        """Whether every log row after `after` holds the column."""
        return column in self.columns and self.added.get(column, 0) <= after


def gap(source: str, message: str, detail: str = "", code: str | None = None) -> CaptureGap:
    return CaptureGap(
        f"the log of source {source!r} does not reach back to what the frame reflects: {message}",
        detail=detail,
        hint="run `stillframe refresh --full` to start again from the source's present state",
        code=code,
    )


def identity(con: sqlite3.Connection) -> str | None:
    """The identity capture gave this database, None where none is installed."""
    try:
        found, version = con.execute(f"SELECT identity, format FROM {SOURCE}").fetchone()
    except sqlite3.OperationalError:
        installed = con.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (SOURCE,))
        if installed.fetchone() is None:
            return None
        raise
    if version != FORMAT:
        raise SourceError(
            "the capture installed there is of another version of stillframe",
            detail=f"format {version}, this version has {FORMAT}",
            hint="detach with the version that installed it, then attach with this one",
            code="CAPTURE_FORMAT",
        )
    return str(found)


def required_identity(con: sqlite3.Connection, source: str) -> str:
    found = identity(con)
    if found is None:
        raise gap(source, "capture is not installed there (never attached, detached, or created anew)")
    return found


def newest(con: sqlite3.Connection, source: str) -> Position:
    """The committed state this connection's snapshot shows."""
    found = required_identity(con, source)
    last = con.execute(f"SELECT seq, mark FROM {LOG} ORDER BY seq DESC LIMIT 1").fetchone()
    if last is None:
        raise gap(
            source, "the log is empty, and capture always keeps one row: it was trimmed by someone else"
        )
    return Position(found, last[0], str(last[1]))


def write_marker(con: sqlite3.Connection) -> None:
    """A log row of no relation, above every position there is or was, also where the log was emptied."""
    con.execute(
        f"INSERT INTO {LOG} (seq, mark) SELECT 1 + max((SELECT coalesce(max(seq), 0) FROM {LOG}),"
        f" (SELECT coalesce(max(since), 0) FROM {RELATIONS}),"
        f" (SELECT coalesce(max(position), 0) FROM {CONSUMERS})), {MARK}"
    )


def trim(con: sqlite3.Connection) -> None:
    """Forget what every consumer has passed. Of a table that is emptied SQLite frees whole pages, and does
    not look at rows; so where many go and few are left, these are set aside meanwhile. Nor does it write
    zeros over the pages, as it is built to do on some systems, at ten times the cost of all else here."""
    con.execute("PRAGMA secure_delete = FAST")
    (oldest,) = con.execute(f"SELECT min(position) FROM {CONSUMERS}").fetchone()
    if oldest is None:
        return

    def at_most(limit: int, where: str) -> bool:
        some = f"SELECT 1 FROM {LOG} WHERE seq {where} ? LIMIT {limit + 1}"
        (found,) = con.execute(f"SELECT count(*) FROM ({some})", (oldest,)).fetchone()
        return bool(found <= limit)

    if at_most(MANY_GO, "<") or not at_most(FEW_LEFT, ">="):
        con.execute(f"DELETE FROM {LOG} WHERE seq < ?", (oldest,))
        return
    con.execute(f"CREATE TEMP TABLE {LEFT} AS SELECT * FROM {LOG} WHERE seq >= ?", (oldest,))
    con.execute(f"DELETE FROM {LOG}")
    con.execute(f"INSERT INTO {LOG} SELECT * FROM temp.{LEFT}")
    con.execute(f"DROP TABLE temp.{LEFT}")


def require_anchor(
    con: sqlite3.Connection, source: str, position: Position, found: str | None = None
) -> None:
    """`found` is the database's identity, where it is known."""
    found = required_identity(con, source) if found is None else found
    if found != position.source:
        raise another(source, found, position.source)
    row = con.execute(f"SELECT mark FROM {LOG} WHERE seq = ?", (position.sequence,)).fetchone()
    if row is None:
        low, high = con.execute(f"SELECT min(seq), max(seq) FROM {LOG}").fetchone()
        if high is None:
            message = "the log is empty"
        elif position.sequence > high:
            message = "the database was restored from an older copy"
        elif position.sequence < low:
            message = "the log was trimmed too far"
        else:
            message = "a log row is missing"
        raise gap(source, message, f"position {position.sequence}, the log holds {low} to {high}")
    if str(row[0]) != position.mark:
        raise gap(
            source,
            "the database was restored from an older copy and written to since",
            f"the log row at position {position.sequence} is another one",
        )


def require_ends(con: sqlite3.Connection, source: str, after: Position, upto: Position) -> None:
    found = required_identity(con, source)
    for position in (after, upto):
        require_anchor(con, source, position, found)


def counted(
    con: sqlite3.Connection, first: int, last: int, numbers: Sequence[int]
) -> tuple[int, dict[int, int]]:
    """How many rows a part of the log has, and how many of each number of a relation, or MARKER, that are in
    it. Grouping would sort them."""
    counts = "".join(f", count(*) FILTER (WHERE relation = {number:d})" for number in numbers)
    there, *found = con.execute(
        f"SELECT count(*){counts} FROM {LOG} WHERE seq BETWEEN ? AND ?", (first, last)
    ).fetchone()
    return there, {number: count for number, count in zip(numbers, found, strict=True) if count}


Counting = Callable[[sqlite3.Connection, int, int, Sequence[int]], tuple[int, dict[int, int]]]


def require_whole(
    con: sqlite3.Connection, source: str, after: Position, upto: Position, count: Counting = counted
) -> None:
    require_ends(con, source, after, upto)
    _all_counted(con, source, after, upto, (), count)


def _all_counted(
    con: sqlite3.Connection,
    source: str,
    after: Position,
    upto: Position,
    numbers: Sequence[int],
    count: Counting,
) -> dict[int, int]:
    first, last = after.sequence + 1, upto.sequence
    expected = wholeness(after.sequence, last).number
    there, every = count(con, first, last, numbers)
    if there != expected:  # a later snapshot may be of a log that was trimmed since
        there, every = counted(con, first, last, numbers)
    if there != expected:
        message = f"{expected - there} log rows are missing"
        raise gap(source, message, f"between {after.sequence} and {upto.sequence}")
    return every


def wholeness(after: int, upto: int) -> Guard:
    """That no row of the log between two positions is missing."""
    return Guard(
        f"SELECT count(*) FROM {LOG} WHERE seq > ? AND seq <= ?", (after, upto), max(upto - after, 0)
    )


def captured(con: sqlite3.Connection, source: str, relation: str) -> Captured:
    """The relation's capture, if it stands as it was installed."""
    row = con.execute(
        f"SELECT id, since, shape, triggers FROM {RELATIONS} WHERE name = ?", (relation,)
    ).fetchone()
    if row is None:
        raise gap(source, f"relation {relation!r} is not captured")
    return per_schema(con, (relation, *row), lambda: _standing(con, source, relation, row))


def _standing(
    con: sqlite3.Connection, source: str, relation: str, row: tuple[int, int, str, str]
) -> Captured:
    if relation not in table_names(con):
        raise gap(source, f"table {relation!r} is gone")
    number, since, shape_text, triggers = row
    if installed_digest(con, relation, number) != triggers:
        raise gap(
            source,
            f"the capture triggers of table {relation!r} are not as they were installed",
            "the table was dropped and created again, it or a column was renamed, or triggers were dropped",
        )
    table = read_table(con, relation)
    if table.refusal:
        raise gap(source, f"table {relation!r} cannot be captured any more", table.refusal)
    installed, present = json.loads(shape_text), table.shape()
    columns, added = installed["columns"], installed.pop("added", {})
    present["columns"] = present["columns"][: len(columns)]  # columns added since are not captured, no harm
    if present != installed:
        raise gap(
            source,
            f"table {relation!r} changed its columns or unique keys since capture was installed",
            code="TABLE_CHANGED",
        )
    ours = first_trigger_rowid(con, number)
    late = self_writing(con, relation, younger_than=ours)
    if late:
        raise gap(
            source,
            f"trigger {late[0]!r} on table {relation!r} is younger than capture and writes to the same table",
            "it fires before the capture triggers do",
        )
    silent = silencing(con, relation, younger_than=ours)
    if silent:
        raise gap(
            source,
            f"trigger {silent[0]!r} on table {relation!r} is younger than capture and calls RAISE(IGNORE)",
            "it fires before the capture triggers do, and keeps them from firing",
        )
    return Captured(number, since, tuple(name for name, _ in columns), added, table)


def require_captured(con: sqlite3.Connection, source: str, relation: str, after: Position) -> Captured:
    found = captured(con, source, relation)
    if found.since > after.sequence:
        raise gap(
            source,
            f"capture of table {relation!r} was installed later",
            f"since {found.since}, needed from {after.sequence}",
        )
    return found


def require_consumer(con: sqlite3.Connection, source: str, consumer: str) -> int:
    """The position a consumer acknowledged last."""
    required_identity(con, source)
    row = con.execute(f"SELECT position FROM {CONSUMERS} WHERE name = ?", (consumer,)).fetchone()
    if row is None:
        raise gap(source, f"consumer {consumer!r} is not registered there")
    if row[0] is None:
        raise gap(source, f"consumer {consumer!r} was dropped, being further behind than the capture limit")
    return int(row[0])


def check(
    con: sqlite3.Connection,
    source: str,
    after: Position,
    relations: Sequence[str],
    count: Counting = counted,
) -> None:
    require_anchor(con, source, after)
    now = newest(con, source)
    if now != after:
        require_whole(con, source, after, now, count)
    for relation in relations:
        require_captured(con, source, relation, after)


def missing(
    con: sqlite3.Connection, source: str, after: Position, relations: Sequence[str]
) -> tuple[int, int | None]:
    """How many log rows of the relations a frame at `after` does not have, and the mark of the oldest."""
    check(con, source, after, relations)
    names = ", ".join("?" * len(relations))
    count, oldest = con.execute(
        f"SELECT count(*), min(seq) FROM {LOG} WHERE seq > ?"
        f" AND relation IN (SELECT id FROM {RELATIONS} WHERE name IN ({names}))",
        (after.sequence, *relations),
    ).fetchone()
    row = con.execute(f"SELECT mark FROM {LOG} WHERE seq = ?", (oldest,)).fetchone()
    return count, row[0] if row else None


def transactions(
    con: sqlite3.Connection,
    source: str,
    relations: Sequence[str],
    after: Position,
    upto: Position,
    count: Counting = counted,
) -> tuple[Committed, ...]:
    """The log does not say where a transaction ends, only where one that was marked begins: what lies between
    two such marks is taken for one. Its number is that of its first log row."""
    require_ends(con, source, after, upto)
    known = con.execute(f"SELECT id, name FROM {RELATIONS}")
    names = {number: name for number, name in known if name in relations}
    first, numbers = after.sequence + 1, (MARKER, *names)
    every = _all_counted(con, source, after, upto, numbers, count)
    segments = [(first, "", 0, every)]
    if MARKER in every:
        begins = _segments(con, after, upto)
        ends = [*(begin - 1 for begin, _, _ in begins[1:]), upto.sequence]
        segments = [
            (*begin, counted(con, begin[0], end, numbers)[1]) for begin, end in zip(begins, ends, strict=True)
        ]
    found = []
    for first, group, parts, counts in segments:
        rows = {names[number]: count for number, count in counts.items() if number != MARKER}
        if rows or group:
            found.append(Committed(first, rows, group, parts))
    return tuple(found)


def _segments(con: sqlite3.Connection, after: Position, upto: Position) -> list[tuple[int, str, int]]:
    marks = con.execute(
        f"SELECT seq, v0, v1 FROM {LOG} WHERE relation = {MARKER} AND seq > ? AND seq <= ? ORDER BY seq",
        (after.sequence, upto.sequence),
    ).fetchall()
    before = [] if marks and marks[0][0] == after.sequence + 1 else [(after.sequence + 1, "", 0)]
    return [*before, *marks] if upto.sequence > after.sequence else []


def tag(con: sqlite3.Connection, after: Position, upto: Position) -> str:
    """An expression for the number of the transaction a log row is of."""
    whens = [
        f"WHEN seq >= {int(first)} THEN {int(first)}" for first, _, _ in reversed(_segments(con, after, upto))
    ]
    return f"CASE {' '.join(whens)} END" if whens else "NULL"


def without(
    con: sqlite3.Connection, source: str, after: Position, upto: Position, numbers: Collection[int]
) -> Position:
    require_whole(con, source, after, upto)
    if not numbers:
        return upto
    last = max(min(numbers) - 1, after.sequence)
    (mark,) = con.execute(f"SELECT mark FROM {LOG} WHERE seq = ?", (last,)).fetchone()
    return Position(upto.source, last, str(mark))
