"""The tables and triggers of capture, as SQL text.

Each change is logged as whole rows: +NEW for an insert, −OLD for a delete, both for an update. A log row is
two: one in the common log, narrow, which numbers it and names its relation and sign, and one in a table of
the relation's own, which holds the values in columns of their own types. The common log is versioned by
transactions, which makes the server write the id of the writing transaction into `trx`: the only place where
SQL can read it.

The laws the numbers obey:

- a number is taken before its transaction commits, and a transaction that writes a row another one wrote
  takes its number after the other's commit: by their last numbers, transactions stand after all they conflict
  with;
- a number that no reader can find, not even dirtily, is of a row that was rolled back or is just being
  written. A reader *strikes it out* with a row of its own. The writer then meets a duplicate and takes
  another number, so a number that was struck out is never used.

No trigger may ever fail a writer. So triggers write through procedures: MariaDB refuses statements under LOCK
TABLES (error 1442) where several triggers name one table. A column that was dropped is met with a log row of
sign 0, which says that the relation has a gap there; a procedure that is missing, as in a copy made without
routines, with nothing, since the digest of the triggers tells. Nothing else is caught: after a deadlock, say,
there is no transaction left to write to.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from stillframe.sources.mariadb.catalog import OWN_PREFIX, Table, quoted
from stillframe.sources.mariadb.connect import Connection

LOG = f"{OWN_PREFIX}_log"
SOURCE = f"{OWN_PREFIX}_source"
RELATIONS = f"{OWN_PREFIX}_relations"
CONSUMERS = f"{OWN_PREFIX}_consumers"
NEEDS = f"{OWN_PREFIX}_needs"
GLOBAL = f"{OWN_PREFIX}_global"
NUMBER = f"{OWN_PREFIX}_number"
SEQUENCE = f"{OWN_PREFIX}_sequence"
FORMAT = 1

NOTHING = 0  # what stands in the place of a relation in rows that only take a number
MARKER = -1  # and where a global transaction is marked
BROKEN = 0  # the sign of a row that could not be logged
WITNESSES = 1 << 62  # numbers from here on are of rows kept as witnesses

_InnoDB = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
EVENTS = ("insert", "update", "delete")
_COMMENT = re.compile(r"/\*.*?\*/")

# A source row without an identity is one that is being made or removed.
FOUNDATION = (
    f"CREATE TABLE IF NOT EXISTS {SOURCE} (id TINYINT PRIMARY KEY, identity VARCHAR(64),"
    f" format INT NOT NULL, settled LONGTEXT, high BIGINT UNSIGNED NOT NULL DEFAULT 0,"
    f" trimmed BIGINT UNSIGNED NOT NULL DEFAULT 0) {_InnoDB}",
    # A relation without `since` is one that is being installed.
    f"CREATE TABLE IF NOT EXISTS {RELATIONS} (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(64) NOT NULL,"
    " since BIGINT UNSIGNED, shape LONGTEXT, triggers VARCHAR(64), base BIGINT NOT NULL DEFAULT 0,"
    f" floor BIGINT UNSIGNED NOT NULL DEFAULT 0, witnesses TEXT, fault TEXT) {_InnoDB}",
    # A consumer without a position was dropped for being too far behind.
    f"CREATE TABLE IF NOT EXISTS {CONSUMERS} (name VARCHAR(255) PRIMARY KEY, position BIGINT UNSIGNED,"
    f" floor BIGINT UNSIGNED, heartbeat VARCHAR(32) NOT NULL) {_InnoDB}",
    f"CREATE TABLE IF NOT EXISTS {NEEDS} (consumer VARCHAR(255) NOT NULL, relation VARCHAR(64) NOT NULL,"
    f" PRIMARY KEY (consumer, relation)) {_InnoDB}",
    f"CREATE SEQUENCE IF NOT EXISTS {SEQUENCE} START WITH 1 INCREMENT BY 1 MINVALUE 1 CACHE 1000",
    # Where an application says that it writes a part of something global: id, and number of parts.
    f"CREATE TABLE IF NOT EXISTS {GLOBAL} (seq BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
    f" id VARCHAR(255) NOT NULL, parts INT NOT NULL) {_InnoDB}",
)


def segment_table(name: str) -> str:
    """A table of the common log."""
    return (
        f"CREATE TABLE IF NOT EXISTS {name} (seq BIGINT UNSIGNED NOT NULL PRIMARY KEY, relation INT NOT NULL,"
        " sign TINYINT NOT NULL, mark BIGINT, at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
        " trx BIGINT UNSIGNED GENERATED ALWAYS AS ROW START INVISIBLE,"
        " gone BIGINT UNSIGNED GENERATED ALWAYS AS ROW END INVISIBLE,"
        f" PERIOD FOR SYSTEM_TIME (trx, gone)) WITH SYSTEM VERSIONING {_InnoDB}"
    )


def numbering(segment: str) -> str:
    """The procedure that logs a change in that table, and leaves its number in LAST_INSERT_ID()."""
    number = f"LAST_INSERT_ID(NEXTVAL({SEQUENCE}))"
    insert = f"INSERT INTO {segment} (seq, relation, sign) VALUES ({number}, of_relation, of_sign)"
    again = (
        "BEGIN DECLARE struck BOOLEAN DEFAULT TRUE; WHILE struck DO BEGIN"
        " DECLARE CONTINUE HANDLER FOR 1062 SET struck = TRUE;"
        f" SET struck = FALSE; {insert}; END; END WHILE; END"
    )
    return (
        f"CREATE OR REPLACE PROCEDURE {NUMBER} (of_relation INT, of_sign TINYINT) MODIFIES SQL DATA"
        f" BEGIN DECLARE CONTINUE HANDLER FOR 1062 {again}; {insert}; END"
    )


MARKING = (
    f"CREATE OR REPLACE TRIGGER {GLOBAL}_marked BEFORE INSERT ON {GLOBAL} FOR EACH ROW BEGIN"
    f" CALL {NUMBER}({MARKER}, 0); SET NEW.seq = LAST_INSERT_ID(); END"
)


def values_name(relation: int) -> str:
    return f"{OWN_PREFIX}_rows_{relation}"


def value_name(position: int) -> str:
    return f"v{position}"


def values_table(table: Table, relation: int) -> str:
    columns = "".join(
        f", {value_name(i)} {column.declared} NULL" for i, column in enumerate(table.captured())
    )
    return (
        f"CREATE TABLE {values_name(relation)} (seq BIGINT UNSIGNED NOT NULL PRIMARY KEY{columns}) {_InnoDB}"
    )


# InnoDB buffers what a session without unique checks loads into an empty table, so that no other session
# sees it coming: no table of the log is ever empty.
def never_empty(relation: int) -> str:
    return f"INSERT IGNORE INTO {values_name(relation)} (seq) VALUES (0)"


def added_columns(relation: int, first: int, declared: Sequence[str]) -> str:
    """Columns are only ever added at the end, so log rows hold the older ones where they were."""
    added = ", ".join(f"ADD COLUMN {value_name(first + i)} {how} NULL" for i, how in enumerate(declared))
    return f"ALTER TABLE {values_name(relation)} {added}"


def procedure_name(relation: int, width: int) -> str:
    """Triggers that name more columns call another procedure, so that the two never disagree."""
    return f"{OWN_PREFIX}_{relation}_{width}"


def procedure(relation: int, declared: Sequence[str]) -> str:
    """What puts the values of a row to the number that was taken last."""
    parameters = ", ".join(f"p{i} {_COMMENT.sub('', how)}" for i, how in enumerate(declared))
    into = "".join(f", {value_name(i)}" for i in range(len(declared)))
    values = "".join(f", p{i}" for i in range(len(declared)))
    return (
        f"CREATE OR REPLACE PROCEDURE {procedure_name(relation, len(declared))} ({parameters})"
        f" MODIFIES SQL DATA INSERT INTO {values_name(relation)} (seq{into})"
        f" VALUES (LAST_INSERT_ID(){values})"
    )


def trigger_names(relation: int) -> list[str]:
    return [f"{OWN_PREFIX}_{relation}_{event}" for event in EVENTS]


def triggers(table: str, columns: Sequence[str], relation: int) -> list[str]:
    """The three triggers of one table, whatever there was under their names."""

    def logged(sign: int, image: str) -> str:
        row = ", ".join(f"{image}.{quoted(column)}" for column in columns)
        return f"CALL {NUMBER}({relation}, {sign}); CALL {procedure_name(relation, len(columns))}({row});"

    bodies = {
        "insert": logged(1, "NEW"),
        "update": f"{logged(-1, 'OLD')} {logged(1, 'NEW')}",
        "delete": logged(-1, "OLD"),
    }
    helpless = "DECLARE EXIT HANDLER FOR 1305 BEGIN END;"
    broken = f"DECLARE EXIT HANDLER FOR 1054 BEGIN {helpless} CALL {NUMBER}({relation}, {BROKEN}); END;"
    return [
        f"CREATE OR REPLACE TRIGGER {name} AFTER {event.upper()} ON {quoted(table)} FOR EACH ROW"
        f" BEGIN {helpless} {broken} {bodies[event]} END"
        for name, event in zip(trigger_names(relation), EVENTS, strict=True)
    ]


def installed_digest(con: Connection, table: str, relation: int, width: int) -> str:
    """What of a table's triggers is there now. Dropping, re-creating or renaming changes it."""
    names = trigger_names(relation)
    found = con.all(
        "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, EVENT_MANIPULATION, ACTION_TIMING, ACTION_STATEMENT,"
        " SQL_MODE, DEFINER, CAST(CREATED AS CHAR) FROM information_schema.TRIGGERS"
        " WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_SCHEMA = DATABASE() AND EVENT_OBJECT_TABLE = %s"
        f" AND TRIGGER_NAME IN ({', '.join(['%s'] * len(names))}) ORDER BY TRIGGER_NAME",
        (table, *names),
    )
    called = con.all(
        "SELECT ROUTINE_NAME, SQL_MODE, DEFINER, IF(ROUTINE_NAME = %s, '', CAST(LAST_ALTERED AS CHAR))"
        " FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE() AND ROUTINE_NAME IN (%s, %s)"
        " ORDER BY ROUTINE_NAME",
        (NUMBER, NUMBER, procedure_name(relation, width)),
    )
    return digest("\n".join(map(str, row)) for row in (*found, *called))


def digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
