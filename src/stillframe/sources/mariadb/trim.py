"""Trimming the log to what some consumer still needs.

Values go as soon as nobody needs them; the numbers they stood under go with their segment.
"""

from __future__ import annotations

import pymysql

from stillframe.errors import CaptureGap
from stillframe.sources.mariadb import log
from stillframe.sources.mariadb.capture import (
    CONSUMERS,
    GLOBAL,
    NUMBER,
    RELATIONS,
    SOURCE,
    numbering,
    values_name,
)
from stillframe.sources.mariadb.connect import LOCK_WAIT, Connection, locked, transaction
from stillframe.sources.mariadb.install import declare_fault, define, lock_name, new_segment
from stillframe.sources.mariadb.segments import number_of, segments
from stillframe.sources.mariadb.witness import logged_net

_TRIM_NUMBERS = 20_000
SEGMENT_ROWS = 200_000


def trim(con: Connection, database: str, verify: log.Verify) -> None:
    """Drop what is below every consumer's position. Whoever is in the way now, the next one trims."""
    if not con.value("SELECT GET_LOCK(%s, 0)", (lock_name(database),)):
        return
    try:
        floor, trimmed = con.all(
            f"SELECT (SELECT min(floor) FROM {CONSUMERS} WHERE position IS NOT NULL), trimmed FROM {SOURCE}"
        )[0]
        if floor is None or floor <= trimmed:
            return
        for relation, number in con.all(
            f"SELECT name, id FROM {RELATIONS} WHERE floor < %s AND since IS NOT NULL AND fault IS NULL",
            (floor,),
        ):
            _verify_or_fault(con, relation, number, verify)
        for bound in [*range(trimmed + _TRIM_NUMBERS, floor, _TRIM_NUMBERS), floor]:
            _trim_to(con, bound)
        _rotate(con, floor)
    except pymysql.err.MySQLError as error:
        if not locked(error):
            raise
    finally:
        if con.raw.open:
            con.run("DO RELEASE_LOCK(%s)", (lock_name(database),))


def _rotate(con: Connection, floor: int) -> None:
    """Go on in a new segment if much of this one is below the floor; drop those of which all is. Replacing
    the procedure waits for the transactions that called it, so afterwards nobody writes to an older
    segment."""
    con.forget()
    newest, *older = segments(con)
    if con.value(f"SELECT count(*) FROM {newest} WHERE seq <= {floor}") >= SEGMENT_ROWS:
        older = [newest, *older]
        newest = new_segment(con, number_of(newest) + 1)
    written = con.value(
        "SELECT ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()"
        " AND ROUTINE_NAME = %s",
        (NUMBER,),
    )
    if older and f"INSERT INTO {newest} " not in (written or ""):
        define(con, numbering(newest), seconds=1.0)
    for name in older:
        if con.value(f"SELECT max(seq) FROM {name}") <= floor:
            define(con, f"DROP TABLE {name}", seconds=0.0)
    con.forget()


def _verify_or_fault(con: Connection, relation: str, number: int, verify: log.Verify) -> None:
    """What the log says of witnesses is about to go. A relation that has a gap keeps it, on record."""
    try:
        verify(relation)
    except CaptureGap as error:
        declare_fault(con, error, number)


def _trim_to(con: Connection, bound: int) -> None:
    con.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    con.run("SET innodb_lock_wait_timeout = 0")
    try:
        with transaction(con):
            con.value(f"SELECT trimmed FROM {SOURCE} FOR UPDATE")
            behind = con.value(
                f"SELECT count(*) FROM {RELATIONS} WHERE floor < {bound} AND since IS NOT NULL"
                " AND fault IS NULL"
            )
            if behind:
                raise pymysql.err.OperationalError(LOCK_WAIT, "a relation was installed meanwhile")
            for (number,) in con.all(f"SELECT id FROM {RELATIONS} WHERE since IS NOT NULL"):
                gone = logged_net(con, number, bound)
                con.run(f"UPDATE {RELATIONS} SET base = base + %s WHERE id = %s", (gone, number))
                _delete(con, values_name(number), bound)
            _delete(con, GLOBAL, bound)
            con.run(f"UPDATE {SOURCE} SET trimmed = {bound} WHERE trimmed < {bound}")
    finally:
        if con.raw.open:
            con.run("SET innodb_lock_wait_timeout = DEFAULT")
            con.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def _delete(con: Connection, table: str, bound: int) -> None:
    """A range of numbers is deleted by a scan that locks the row after it, too, which may be one in flight.
    So the last committed row of the range goes by itself."""
    last = con.value(f"SELECT max(seq) FROM {table} WHERE seq BETWEEN 1 AND {bound}")
    if last is not None:
        con.run(f"DELETE FROM {table} WHERE seq BETWEEN 1 AND {last - 1}")
        con.run(f"DELETE FROM {table} WHERE seq = {last}")
