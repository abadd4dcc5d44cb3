"""Positions: which committed log rows a state has, exactly, and without any privilege.

A snapshot sees a set of log rows. Numbers below the highest it sees belong to transactions that are still in
flight, or to nobody. So a position is the highest number and the transactions to leave out:

    row in position  ⇔  number ≤ high  and  transaction not among `out`

To fix one, take a snapshot, then look at the numbers missing from it with a dirty read, which shows what is
in flight. A number that is missing there too is struck out (see `capture`). Every number up to `high`
is then seen, struck, or of a known transaction in flight: a transaction that commits late is taken exactly
once, and rolled-back numbers never pile up.

Last, an anchor is written: a log row committed after the snapshot. A copy of the database that has it has all
that the snapshot saw, whatever the copy's last moment was.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pymysql

from stillframe.errors import CaptureGap
from stillframe.sources.mariadb.capture import NOTHING, SEQUENCE, SOURCE
from stillframe.sources.mariadb.connect import Connection, locked, transaction
from stillframe.sources.mariadb.segments import highest, of_log, segments

_BUCKET = 1024
_CHUNK = 500

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Anchor:
    number: int
    mark: int
    trx: int


@dataclass(frozen=True, slots=True)
class Mark:
    """`out` names transactions, each with the first number it is known by; `rows` counts all log rows of
    relations that the position ever had."""

    high: int
    rows: int
    out: tuple[tuple[int, int], ...]
    anchor: Anchor

    def to_text(self) -> str:
        anchor = [self.anchor.number, self.anchor.mark, self.anchor.trx]
        return json.dumps([self.high, self.rows, self.out, anchor], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Mark:
        high, rows, out, anchor = json.loads(text)
        return cls(high, rows, tuple((trx, first) for trx, first in out), Anchor(*anchor))

    @property
    def floor(self) -> int:
        """All log rows up to here are in the position."""
        return min([self.high, *(first - 1 for _, first in self.out)])

    @property
    def trxs(self) -> list[int]:
        return [trx for trx, _ in self.out]


def beyond(after: Mark, upto: Mark | None = None) -> str:
    """A condition on rows of the log: not in `after`, and in `upto` (or committed at all)."""
    terms = [f"l.seq > {after.floor}"]
    if after.out:
        terms.append(f"(l.seq > {after.high} OR l.trx IN ({_list(after.trxs)}))")
    if upto is not None:
        terms.append(f"l.seq <= {upto.high}")
        if upto.out:
            terms.append(f"l.trx NOT IN ({_list(upto.trxs)})")
    return " AND ".join(terms)


def gap(source: str, message: str, detail: str = "", code: str | None = None) -> CaptureGap:
    return CaptureGap(
        f"the log of source {source!r} does not reach back to what the frame reflects: {message}",
        detail=detail,
        hint="run `stillframe refresh --full` to start again from the source's present state",
        code=code,
    )


def settled(con: Connection) -> Mark:
    """The newest position that anybody fixed: a base to go on from."""
    return Mark.from_text(con.value(f"SELECT settled FROM {SOURCE}"))


def fix(
    source: str, snap: Connection, writer: Connection, *, fresh: bool = False, damaged: bool = False
) -> Mark:
    """The position of the snapshot. One that has all rows of the newest before it and no more is that one,
    unless a `fresh` one is asked for. A gap if others deleted rows of the log, unless it is known to be
    `damaged`."""
    base = settled(snap)
    high = highest(snap)
    count, rows = snap.all(
        f"SELECT count(*), coalesce(sum(l.relation <> {NOTHING}), 0) {of_log(snap, f'l.seq > {base.high}')}"
    )[0]
    late = _of_transactions(snap, base)
    waiting = [known for known in base.out if known[0] not in late]
    if waiting:
        with dirty(writer):
            flying = _of_transactions(writer, replace(base, out=tuple(waiting)))
        waiting = [known for known in waiting if known[0] in flying]
    if not fresh and not rows and len(waiting) == len(base.out):
        return base
    out = dict(waiting)
    if count < high - base.high:
        gaps = missing(snap, base.high + 1, high)
        if not damaged:
            _require_undeleted(source, snap, gaps)
        for trx, first in _unseen(writer, gaps):
            out[trx] = min(first, out.get(trx, first))
    total = base.rows + int(rows) + sum(late.values())
    return _anchored(writer, Mark(high, total, tuple(sorted(out.items())), base.anchor))


def _anchored(writer: Connection, mark: Mark) -> Mark:
    with transaction(writer):
        known = Mark.from_text(writer.value(f"SELECT settled FROM {SOURCE} FOR UPDATE"))
        mark = replace(mark, anchor=write_anchor(writer))
        if (mark.high, -len(mark.out)) >= (known.high, -len(known.out)):
            writer.run(f"UPDATE {SOURCE} SET settled = %s, high = %s", (mark.to_text(), mark.high))
    return mark


def write_anchor(writer: Connection) -> Anchor:
    """In the transaction at hand, if there is one. A number that is struck out meanwhile is not used."""
    mark, segment = secrets.randbits(62), segments(writer)[0]
    number, written = 0, 0
    while not written:
        number = writer.value(f"SELECT NEXTVAL({SEQUENCE})")
        row = f"({number}, {NOTHING}, 0, {mark})"
        written = writer.run(f"INSERT IGNORE INTO {segment} (seq, relation, sign, mark) VALUES {row}")
    trx = writer.value(f"SELECT trx FROM {segment} WHERE seq = {number}")
    return Anchor(number, mark, trx)


def anchor_at(con: Connection, number: int) -> Anchor | None:
    for segment in con.remembered("segments", segments):
        for mark, trx in con.all(
            f"SELECT mark, trx FROM {segment} WHERE seq = {number} AND mark IS NOT NULL"
        ):
            return Anchor(number, mark, trx)
    return None


def _of_transactions(con: Connection, mark: Mark) -> dict[int, int]:
    """Which of the transactions a position leaves out have rows among its numbers now, and how many."""
    if not mark.out:
        return {}
    known = (
        f"l.seq > {mark.floor} AND l.seq <= {mark.high} AND l.relation <> {NOTHING}"
        f" AND l.trx IN ({_list(mark.trxs)})"
    )
    return dict(con.all(f"SELECT l.trx, count(*) {of_log(con, known)} GROUP BY l.trx"))


class dirty:
    """Reads in its block show what is not committed yet."""

    def __init__(self, con: Connection) -> None:
        self.con = con

    def __enter__(self) -> None:
        self.con.run("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")

    def __exit__(self, *_: object) -> None:
        if self.con.raw.open:
            self.con.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _unseen(writer: Connection, gaps: Sequence[Span]) -> list[tuple[int, int]]:
    """The transactions that have numbers which a snapshot does not show. Afterwards nobody but them has any,
    or ever will."""
    with dirty(writer):
        nowhere = _common(gaps, missing(writer, gaps[0][0], gaps[-1][1])) if gaps else []
    _strike(writer, nowhere)
    found: dict[int, int] = {}
    with dirty(writer):
        for condition in _conditions(gaps):
            among = of_log(writer, f"l.relation <> {NOTHING} AND ({condition})")
            for trx, first in writer.all(f"SELECT l.trx, min(l.seq) {among} GROUP BY l.trx"):
                found[trx] = min(first, found.get(trx, first))
    return sorted(found.items())


def _require_undeleted(source: str, snap: Connection, gaps: Sequence[Span]) -> None:
    """A row that somebody else deleted from the log is in the history the server keeps of it."""
    for condition in _conditions(gaps):
        lost = sum(
            snap.value(
                f"SELECT count(*) FROM {segment} FOR SYSTEM_TIME ALL AS l"
                f" WHERE l.relation <> {NOTHING} AND ({condition})"
            )
            for segment in snap.remembered("segments", segments)
        )
        if lost:
            raise gap(source, f"{lost} log rows are missing", "they were deleted by another program")


def missing(con: Connection, low: int, high: int) -> list[Span]:
    """The numbers in [low, high] that no row has, as spans."""
    among = of_log(con, f"l.seq BETWEEN {low} AND {high}")
    counts = dict(con.all(f"SELECT l.seq DIV {_BUCKET}, count(*) {among} GROUP BY l.seq DIV {_BUCKET}"))
    empty: list[Span] = []
    partly: list[Span] = []
    for bucket in range(low // _BUCKET, high // _BUCKET + 1):
        span = max(low, bucket * _BUCKET), min(high, (bucket + 1) * _BUCKET - 1)
        there = counts.get(bucket, 0)
        if there < span[1] - span[0] + 1:
            (partly if there else empty).append(span)
    for condition, spans in zip(_conditions(partly), _chunks(partly), strict=True):
        numbers = con.all(f"SELECT l.seq {of_log(con, condition)} ORDER BY l.seq")
        empty += _without_numbers(spans, [number for (number,) in numbers])
    return merged(empty)


def _without_numbers(spans: Sequence[Span], numbers: Sequence[int]) -> list[Span]:
    """What is left of the ascending spans when ascending numbers are taken out."""
    left = []
    upcoming = iter([*numbers, None])
    number = next(upcoming)
    for low, high in spans:
        start = low
        while number is not None and number <= high:
            if number > start:
                left.append((start, number - 1))
            start = number + 1
            number = next(upcoming)
        if start <= high:
            left.append((start, high))
    return left


def merged(spans: Iterable[Span]) -> list[Span]:
    out: list[Span] = []
    for low, high in sorted(spans):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return out


def _common(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    out = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            out.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return out


def _strike(writer: Connection, spans: Sequence[Span]) -> None:
    """Each number has a row afterwards: one of ours, or one that its writer has put there by now. Whoever
    took one of these numbers writes to a segment that is there already."""
    numbers = [n for low, high in spans for n in range(low, high + 1)]
    if not numbers:
        return
    writer.forget()
    writer.run("SET innodb_lock_wait_timeout = 0")
    for segment in writer.remembered("segments", segments):
        for start in range(0, len(numbers), _BUCKET):
            _strike_some(writer, segment, numbers[start : start + _BUCKET])
    writer.run("SET innodb_lock_wait_timeout = DEFAULT")


def _strike_some(writer: Connection, segment: str, numbers: list[int]) -> None:
    while numbers:
        rows = ", ".join(f"({n}, {NOTHING}, 0)" for n in numbers)
        try:
            writer.run(f"INSERT IGNORE INTO {segment} (seq, relation, sign) VALUES {rows}")
            return
        except pymysql.err.MySQLError as error:
            if not locked(error):
                raise
        with dirty(writer):
            there = writer.all(f"SELECT seq FROM {segment} WHERE seq IN ({_list(numbers)})")
        taken = {number for (number,) in there}
        numbers = [n for n in numbers if n not in taken]


def _chunks(spans: Sequence[Span]) -> list[Sequence[Span]]:
    return [spans[i : i + _CHUNK] for i in range(0, len(spans), _CHUNK)]


def _conditions(spans: Sequence[Span]) -> list[str]:
    return [" OR ".join(f"l.seq BETWEEN {low} AND {high}" for low, high in chunk) for chunk in _chunks(spans)]


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, map(int, numbers)))
