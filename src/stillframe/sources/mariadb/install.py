"""Installing and removing capture, and trimming its log.

A statement that defines something commits by itself, so every step is one that can be the last: a source
without an identity, and a relation without `since`, are not there, and the next one who comes begins anew or
takes the rest away. Triggers go before the tables they write to, and come after them.

CREATE TRIGGER waits until no transaction that wrote to the table is open: whatever such a one wrote, it has
committed or rolled back when the triggers begin to fire. While it waits, writers wait behind it, so it waits
for a second at most, and tries again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.mariadb import log
from stillframe.sources.mariadb.capture import (
    CONSUMERS,
    FORMAT,
    FOUNDATION,
    GLOBAL,
    MARKING,
    NEEDS,
    NOTHING,
    RELATIONS,
    SEQUENCE,
    SOURCE,
    added_columns,
    installed_digest,
    never_empty,
    numbering,
    procedure,
    procedure_name,
    segment_table,
    trigger_names,
    triggers,
    value_name,
    values_name,
    values_table,
)
from stillframe.sources.mariadb.catalog import CASCADE, OWN_PREFIX, Table, quoted, read_tables, table_names
from stillframe.sources.mariadb.connect import (
    LOCK_SECONDS,
    Connection,
    locked,
    retried,
    transaction,
)
from stillframe.sources.mariadb.position import Mark, write_anchor
from stillframe.sources.mariadb.queries import no_relation
from stillframe.sources.mariadb.segments import name_of
from stillframe.sources.mariadb.witness import Verified, logged_net

_PATIENCE = (0.05, 0.1, 0.1, 0.2, 0.2, 0.3, 0.5)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def lock_name(database: str) -> str:
    return f"{OWN_PREFIX}:{hashlib.sha256(database.encode()).hexdigest()[:32]}"


@contextmanager
def alone(con: Connection, source: str, database: str) -> Iterator[None]:
    """Nobody else installs, removes or trims meanwhile."""
    if not con.value("SELECT GET_LOCK(%s, %s)", (lock_name(database), LOCK_SECONDS)):
        raise SourceError(
            f"capture of source {source!r} is being installed or removed by another program",
            detail=f"for more than {LOCK_SECONDS:g} seconds",
            hint="try again when it is done",
            code="LOCKED",
        )
    try:
        yield
    finally:
        if con.raw.open:
            con.run("DO RELEASE_LOCK(%s)", (lock_name(database),))


def define(con: Connection, statement: str, seconds: float = LOCK_SECONDS) -> None:
    """Run a statement that defines something, without keeping writers waiting for long: it gives up soon at
    first, and after a second at last."""
    limits = iter(_PATIENCE)

    def attempt() -> None:
        limit = next(limits, 0.0)
        con.run(f"SET lock_wait_timeout = 1, max_statement_time = {limit}")
        con.run(statement)

    try:
        retried(attempt, when=locked, seconds=seconds)
    finally:
        if con.raw.open:
            con.run("SET lock_wait_timeout = DEFAULT, max_statement_time = 0")


def found(con: Connection) -> str:
    """The identity of the source; its bookkeeping is there afterwards."""
    known = log.identity(con)
    if known is not None:
        return known
    remove_all(con)
    for statement in FOUNDATION:
        define(con, statement)
    new_segment(con, 1)
    con.run(f"INSERT INTO {SOURCE} (id, format) VALUES (1, {FORMAT})")
    con.run(f"INSERT IGNORE INTO {GLOBAL} (seq, id, parts) VALUES (0, '', 0)")
    define(con, numbering(name_of(1)))
    define(con, MARKING)
    identity = str(uuid.uuid4())
    with transaction(con):
        anchor = write_anchor(con)
        mark = Mark(anchor.number, 0, (), anchor)
        con.run(
            f"UPDATE {SOURCE} SET settled = %s, high = %s, identity = %s",
            (mark.to_text(), mark.high, identity),
        )
    return identity


def new_segment(con: Connection, segment: int) -> str:
    """A table for the log to go on in. It is never empty (see `never_empty`)."""
    name = name_of(segment)
    define(con, segment_table(name))
    con.run(f"INSERT INTO {name} (seq, relation, sign) VALUES (NEXTVAL({SEQUENCE}), {NOTHING}, 0)")
    con.forget()
    return name


def remove_all(con: Connection) -> None:
    """Take every trace of capture away."""
    tables = [
        name
        for (name,) in con.all(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
            " AND LEFT(TABLE_NAME, %s) = %s",
            (len(OWN_PREFIX) + 1, OWN_PREFIX + "_"),
        )
    ]
    if SOURCE in tables:
        con.run(f"UPDATE {SOURCE} SET identity = NULL")
    made = con.all(
        "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()"
        " AND LEFT(TRIGGER_NAME, %s) = %s",
        (len(OWN_PREFIX) + 1, OWN_PREFIX + "_"),
    )
    for (name,) in made:
        define(con, f"DROP TRIGGER IF EXISTS {name}")
    for name in routines(con, f"{OWN_PREFIX}_"):
        define(con, f"DROP PROCEDURE IF EXISTS {name}")
    if con.one(f"SHOW TABLES LIKE '{OWN_PREFIX}log\\\\_source'"):
        tables = [name for name in tables if name != GLOBAL]  # log capture goes on with it
    for name in sorted(tables, key=lambda table: table == SOURCE):
        kind = "SEQUENCE" if name == SEQUENCE else "TABLE"
        define(con, f"DROP {kind} IF EXISTS {name}")
    con.forget()


def routines(con: Connection, prefix: str) -> list[str]:
    made = con.all(
        "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()"
        " AND LEFT(ROUTINE_NAME, %s) = %s",
        (len(prefix), prefix),
    )
    return [name for (name,) in made]


def capturable(con: Connection, source: str, relations: Sequence[str]) -> dict[str, Table]:
    tables = read_tables(con, list(relations))
    for relation in relations:
        if relation not in tables or relation.lower().startswith(OWN_PREFIX):
            raise no_relation(source, relation, table_names(con))
        if refusal := tables[relation].refusal:
            raise uncapturable(source, relation, refusal)
    return {relation: tables[relation] for relation in relations}


def uncapturable(source: str, relation: str, refusal: tuple[str, str]) -> SourceError:
    code, reason = refusal
    if code == CASCADE:
        return SourceError(
            f"table {relation!r} of source {source!r} is changed by foreign keys, which fires no trigger",
            detail=reason,
            hint="use capture: snapshot for this source, or let the constraint say RESTRICT",
            code=code,
        )
    return SourceError(
        f"table {relation!r} of source {source!r} cannot be captured",
        detail=reason,
        hint="leave the table out of the views, or change what is named here",
        code=code,
    )


def standing(con: Connection, source: str, relation: str) -> log.Captured | None:
    """Capture that goes on; None where it is missing or broken, and has to begin anew."""
    try:
        return log.captured(con, source, relation)
    except CaptureGap:
        return None


def new_columns(capture: log.Captured) -> list[str]:
    return [c.name for c in capture.table.captured() if c.name not in capture.columns]


def install(con: Connection, table: Table) -> int:
    """Put capture in the place of what there is; it counts from when `begin` says so."""
    remove(con, table.name)
    con.run(f"INSERT INTO {RELATIONS} (name) VALUES (%s)", (table.name,))
    number = int(con.value("SELECT LAST_INSERT_ID()"))
    columns = table.captured()
    define(con, values_table(table, number))
    con.run(never_empty(number))
    define(con, procedure(number, [c.declared for c in columns]))
    for statement in triggers(table.name, [c.name for c in columns], number):
        define(con, statement)
    return number


def extend(con: Connection, capture: log.Captured) -> tuple[str, ...]:
    """Capture the columns that were added. Until `begin` says so, the relation is one whose triggers are not
    as they were installed."""
    columns = (*capture.columns, *new_columns(capture))
    declared = [c.declared for name in columns if (c := capture.table.column(name))]
    first = len(capture.columns)
    width = con.value(
        "SELECT count(*) - 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
        " AND TABLE_NAME = %s",
        (values_name(capture.id),),
    )
    for left_behind in range(first, width):
        define(con, f"ALTER TABLE {values_name(capture.id)} DROP COLUMN {value_name(left_behind)}")
    define(con, added_columns(capture.id, first, declared[first:]))
    define(con, procedure(capture.id, declared))
    for statement in triggers(capture.table.name, columns, capture.id):
        define(con, statement)
    return columns


def begin(
    snap: Connection, con: Connection, table: Table, number: int, since: int, mark: Mark
) -> log.Captured:
    """Capture of the table counts, from the snapshot on, whose position is `mark`."""
    columns = tuple(c.name for c in table.captured())
    base = snap.value(f"SELECT count(*) FROM {quoted(table.name)}") - logged_net(snap, number)
    con.run(
        f"UPDATE {RELATIONS} SET since = %s, shape = %s, triggers = %s, base = %s, floor = %s WHERE id = %s",
        (
            since,
            log.shape_of(table, columns, {}),
            installed_digest(con, table.name, number, len(columns)),
            base,
            mark.floor,
            number,
        ),
    )
    return log.Captured(number, since, columns, {}, table, base, Verified(mark.floor))


def go_on(con: Connection, capture: log.Captured, columns: Sequence[str], marker: int) -> None:
    """Capture counts with its new columns, from the marker on."""
    define(con, f"DROP PROCEDURE IF EXISTS {procedure_name(capture.id, len(capture.columns))}")
    added = dict(capture.added) | {name: marker for name in columns if name not in capture.columns}
    con.run(
        f"UPDATE {RELATIONS} SET shape = %s, triggers = %s WHERE id = %s",
        (
            log.shape_of(capture.table, columns, added),
            installed_digest(con, capture.table.name, capture.id, len(columns)),
            capture.id,
        ),
    )


def remove(con: Connection, relation: str) -> None:
    for (number,) in con.all(f"SELECT id FROM {RELATIONS} WHERE name = %s", (relation,)):
        con.run(f"UPDATE {RELATIONS} SET since = NULL WHERE id = %s", (number,))
        for name in trigger_names(number):
            define(con, f"DROP TRIGGER IF EXISTS {name}")
        for name in routines(con, f"{OWN_PREFIX}_{number}_"):
            define(con, f"DROP PROCEDURE IF EXISTS {name}")
        define(con, f"DROP TABLE IF EXISTS {values_name(number)}")
        con.run(f"DELETE FROM {RELATIONS} WHERE id = %s", (number,))


def remove_unneeded(con: Connection) -> None:
    """A consumer that was dropped needs nothing until it is back."""
    unneeded = con.all(
        f"SELECT DISTINCT name FROM {RELATIONS} WHERE name NOT IN (SELECT relation FROM {NEEDS}"
        f" WHERE consumer IN (SELECT name FROM {CONSUMERS} WHERE position IS NOT NULL))"
    )
    for (relation,) in unneeded:
        remove(con, relation)


def register(con: Connection, consumer: str, relations: Sequence[str], mark: Mark) -> None:
    with transaction(con):
        con.run(
            f"INSERT INTO {CONSUMERS} (name, position, floor, heartbeat) VALUES (%s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE floor = IF(position IS NULL, VALUES(floor), floor),"
            " position = coalesce(position, VALUES(position)), heartbeat = VALUES(heartbeat)",
            (consumer, mark.high, mark.floor, now()),
        )
        for relation in relations:
            con.run(f"INSERT IGNORE INTO {NEEDS} VALUES (%s, %s)", (consumer, relation))


def declare_fault(con: Connection, error: CaptureGap, relation: int | None = None) -> None:
    """The relation, or every one, has a gap that stays until its capture is installed anew."""
    fault = json.dumps([error.message.partition(": ")[2], error.detail, error.code])
    which = "" if relation is None else f" WHERE id = {relation}"
    con.run(f"UPDATE {RELATIONS} SET fault = %s{which}", (fault,))


def tidy(con: Connection) -> None:
    """After a failure: nothing is left half-way, as far as it can be taken away."""
    if log.identity(con) is None or not con.value(f"SELECT count(position) FROM {CONSUMERS}"):
        remove_all(con)
        return
    for (relation,) in con.all(f"SELECT name FROM {RELATIONS} WHERE since IS NULL"):
        remove(con, relation)
