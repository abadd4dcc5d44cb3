"""The tables, functions and triggers of capture, as SQL text.

Each change is logged as whole rows: −OLD for a delete, +NEW for an insert, both for an update, in the
writer's own transaction. Laws the rest of this source builds on:

- `lsn` is where the server's own log stood. A transaction that changes a row after another did waits for the
  other's commit, which that log has by then: so its last place is above all of the other's. (A sequence would
  do as well, but a writer's `lastval()` would be ours.)
- `xid` names the top-level transaction, also from inside a savepoint.
- Capture never makes a writer fail. A function whose static SQL would not fit the table any more (a column
  dropped, renamed or retyped) asks the row first: it logs a *reload*, from which on the log says nothing.

A transition table carries its table's identity into cached plans, so the question whether the columns fit is
answered when a plan is made, costs nothing after, and is asked again after every ALTER TABLE. Function bodies
name every object with its schema: the writer's search_path has no say, and setting it would cost more than
all the rest.
"""

from __future__ import annotations

from typing import Any

from stillframe.sources.postgres.catalog import OWN_SCHEMA, Connection, Table, TableColumn, quoted

FORMAT = 1
S = OWN_SCHEMA
SOURCE, RELATIONS, CONSUMERS, NEEDS = f"{S}.source", f"{S}.relations", f"{S}.consumers", f"{S}.needs"
LOG, GLOBAL, RELOADS = f"{S}.log", f"{S}.global", f"{S}.reloads"
SLOTS, PUBLISHED, IDENTITIES = f"{S}.slots", f"{S}.published", f"{S}.identities"

TRUNCATED = "truncated"
CHANGED = "changed"

FOUNDATION = (
    f"CREATE SCHEMA {S}",
    # `trimmed` holds the transactions whose log rows may be gone.
    f"CREATE TABLE {SOURCE} (identity text PRIMARY KEY, system bigint NOT NULL, database bigint NOT NULL,"
    " format int NOT NULL, trimmed text NOT NULL)",
    f"CREATE TABLE {RELATIONS} (id int PRIMARY KEY, schema text NOT NULL, name text NOT NULL,"
    " since bigint NOT NULL, shape text NOT NULL, digest text NOT NULL, UNIQUE (schema, name))",
    # A consumer without a position was dropped for being too far behind.
    f"CREATE TABLE {CONSUMERS} (name text, schema text, position bigint, mark text, heartbeat text NOT NULL,"
    " registered text NOT NULL, PRIMARY KEY (name, schema))",
    f"CREATE TABLE {NEEDS} (consumer text, schema text, relation text,"
    " PRIMARY KEY (consumer, schema, relation))",
    # The same for consumers of the server's own log; `identities` are those that tables had before.
    f"CREATE TABLE {SLOTS} (slot text PRIMARY KEY, consumer text NOT NULL, schema text NOT NULL,"
    " position bigint, mark text, heartbeat text NOT NULL, registered text NOT NULL)",
    f"CREATE TABLE {PUBLISHED} (slot text, relation text, since bigint NOT NULL, shape text NOT NULL,"
    " digest text NOT NULL, PRIMARY KEY (slot, relation))",
    f"CREATE TABLE {IDENTITIES} (part bigint PRIMARY KEY, identity text NOT NULL)",
    # Every log inherits from this one, so that they can be asked as one. It holds the rows of no relation.
    f"CREATE TABLE {LOG} (lsn pg_lsn NOT NULL DEFAULT pg_current_wal_insert_lsn(),"
    " xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text)::bigint, sign smallint,"
    " at timestamptz NOT NULL DEFAULT clock_timestamp())",
    # Where an application says that its transaction is a part of a global one.
    f"CREATE TABLE {GLOBAL} (id text NOT NULL CHECK (id <> ''), parts int NOT NULL CHECK (parts > 0))"
    f" INHERITS ({LOG})",
    f"CREATE TABLE {RELOADS} (relation int NOT NULL, reason text NOT NULL) INHERITS ({LOG})",
    # Rows of tables without a key can be deleted, also where all tables are published.
    *(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in (LOG, GLOBAL, RELOADS)),
    f"GRANT USAGE ON SCHEMA {S} TO PUBLIC",
    f"GRANT INSERT (id, parts) ON {GLOBAL} TO PUBLIC",
)


def log_name(relation: int) -> str:
    return f"{S}.log_{relation}"


def value_name(column: TableColumn) -> str:
    """Where a log holds a column: by its number, which neither a new name nor another column ever takes."""
    return f"v{column.number}"


def log_table(relation: int, columns: tuple[TableColumn, ...]) -> list[str]:
    name = log_name(relation)
    values = ", ".join(f"{value_name(c)} {c.reading.logged}" for c in columns)
    return [
        f"CREATE TABLE {name} ({values}) INHERITS ({LOG})"
        " WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000)",
        f"ALTER TABLE {name} REPLICA IDENTITY FULL",
        f"CREATE INDEX ON {name} USING brin (xid, lsn) WITH (pages_per_range = 16, autosummarize = on)",
    ]


def widened(relation: int, columns: tuple[TableColumn, ...]) -> list[str]:
    return [
        f"ALTER TABLE {log_name(relation)} ADD COLUMN {value_name(c)} {c.reading.logged}" for c in columns
    ]


def functions(table: Table, relation: int, columns: tuple[TableColumn, ...]) -> list[str]:
    """The functions that log changes of these columns, in the place of those there are."""
    body = _Bodies(table, relation, columns)
    named = {"fits": body.fits(), "truncate": body.truncate()}
    if table.by_row:
        named["row"] = body.row()
    else:
        named |= {"insert": body.statement("new"), "delete": body.statement("old")}
        named["update"] = body.statement("old", "new")
    head = {"fits": "boolean LANGUAGE plpgsql IMMUTABLE", "truncate": _TRUNCATE_HEAD}
    return [
        f"CREATE OR REPLACE FUNCTION {S}.{event}_{relation}() RETURNS"
        f" {head.get(event, 'trigger LANGUAGE plpgsql SECURITY DEFINER')} AS {_literal(text)}"
        for event, text in named.items()
    ] + [f"REVOKE EXECUTE ON FUNCTION {S}.{event}_{relation}() FROM PUBLIC" for event in named]


_TRUNCATE_HEAD = "trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp"
_OLD, _NEW = "OLD TABLE AS _stillframe_old", "NEW TABLE AS _stillframe_new"
_REFERENCING = {"insert": _NEW, "update": f"{_OLD} {_NEW}", "delete": _OLD}


def triggers(table: Table, relation: int, part_names: list[str]) -> list[str]:
    """`part_names` are the tables that hold the rows, as SQL has them."""
    made: list[tuple[str, str, str]] = []
    if table.by_row:
        made.append(("row", table.sql, "AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW"))
    else:
        for event, names in _REFERENCING.items():
            made.append(
                (event, table.sql, f"AFTER {event.upper()} ON {{}} REFERENCING {names} FOR EACH STATEMENT")
            )
    made += [("truncate", part, "BEFORE TRUNCATE ON {} FOR EACH STATEMENT") for part in part_names]
    statements = []
    for event, on, text in made:
        name = f"{S}_{event}"
        statements.append(
            f"CREATE TRIGGER {name} {text.format(on)} EXECUTE FUNCTION {S}.{event}_{relation}()"
        )
        statements += [
            f"ALTER TABLE {place} ENABLE ALWAYS TRIGGER {name}"
            for place in ([on, *part_names] if event == "row" and table.partitioned else [on])
        ]
    return statements


_EVENTS = ("row", "insert", "update", "delete", "truncate", "fits")


def removal(relation: int) -> list[str]:
    """Takes the triggers along, wherever their table is by now."""
    return [
        *(f"DROP FUNCTION IF EXISTS {S}.{event}_{relation}() CASCADE" for event in _EVENTS),
        f"DROP TABLE IF EXISTS {log_name(relation)}",
    ]


def installed_digest(con: Connection, table: Table, relation: int) -> str:
    """What of a table's capture is there now. Whatever is dropped, created again, replaced, or switched off
    and on again since has another version."""
    (found,) = con.execute(
        "SELECT md5(concat("
        " (SELECT string_agg(concat_ws(' ', tgrelid, tgname, tgenabled, tgfoid, tgtype, xmin), ',' ORDER BY"
        "   tgrelid, tgname) FROM pg_trigger WHERE tgrelid = ANY (%s::oid[]) AND tgname ^@ %s),"
        " (SELECT string_agg(concat_ws(' ', oid, xmin), ',' ORDER BY oid) FROM pg_proc"
        "   WHERE pronamespace = %s::regnamespace AND proname = ANY (%s)),"
        " %s::text))",
        (
            [table.oid, *table.parts],
            f"{S}_",
            S,
            [f"{event}_{relation}" for event in _EVENTS],
            str(table.refusal),
        ),
    ).fetchone() or ("",)
    return str(found)


def shape(table: Table, columns: tuple[TableColumn, ...], added: dict[str, int]) -> dict[str, Any]:
    """What a log rests on. `added` says by which transaction columns were captured that came later."""
    return {
        "table": table.oid,
        "columns": [[c.number, c.name, c.declared, c.version] for c in columns],
        "files": list(table.files),
        "parts": [list(table.parts), table.by_row],
        "added": added,
    }


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _Bodies:
    """The bodies of one table's functions."""

    def __init__(self, table: Table, relation: int, columns: tuple[TableColumn, ...]) -> None:
        self.table = table
        self.relation = relation
        self.columns = columns
        self.log = log_name(relation)
        self.targets = "".join(f", {value_name(c)}" for c in columns)

    def values(self, row: str) -> str:
        return "".join(f", {row}{quoted(c.name)}::pg_catalog.{c.reading.logged}" for c in self.columns)

    def reload(self, reason: str) -> str:
        return f"INSERT INTO {RELOADS} (relation, reason) VALUES ({self.relation}, '{reason}');"

    def fits(self) -> str:
        """Asked of the table's present row type, not of the catalog as some snapshot has it; and when the
        question is put, not when the function is compiled, which must not fail."""
        same = " AND ".join(
            f"pg_catalog.pg_typeof(r.{quoted(c.name)}) OPERATOR(pg_catalog.=)"
            f" {c.type}::pg_catalog.oid::pg_catalog.regtype"
            for c in self.columns
        )
        question = f"SELECT {same or 'true'} FROM (SELECT (NULL::{self.table.sql}).*) AS r"
        return (
            f"DECLARE fits boolean; BEGIN EXECUTE {_literal(question)} INTO fits; RETURN fits;"
            " EXCEPTION WHEN OTHERS THEN RETURN false; END"
        )

    def statement(self, *images: str) -> str:
        signed = {"old": -1, "new": 1}
        select = " UNION ALL ".join(
            f"SELECT {signed[image]}::pg_catalog.int2{self.values('r.')} FROM _stillframe_{image} AS r"
            for image in images
        )
        rows = f"_stillframe_{images[-1]}"
        return (
            f"BEGIN IF EXISTS (SELECT FROM {rows} WHERE {S}.fits_{self.relation}())"
            f" THEN INSERT INTO {self.log} (sign{self.targets}) {select};"
            f" ELSIF EXISTS (SELECT FROM {rows}) THEN {self.reload(CHANGED)} END IF; RETURN NULL; END"
        )

    def row(self) -> str:
        expected = ", ".join(f"({_literal(c.name)}, {c.type})" for c in self.columns)
        fits = "true"
        if self.columns:
            fits = (
                "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute AS a"
                " WHERE a.attrelid OPERATOR(pg_catalog.=) TG_RELID AND NOT a.attisdropped AND EXISTS"
                f" (SELECT FROM (VALUES {expected}) AS e (name, type)"
                " WHERE e.name::pg_catalog.name OPERATOR(pg_catalog.=) a.attname"
                " AND e.type::pg_catalog.oid OPERATOR(pg_catalog.=) a.atttypid))"
                f" OPERATOR(pg_catalog.=) {len(self.columns)}"
            )
        into = f"INSERT INTO {self.log} (sign{self.targets})"
        old, new = f"(-1{self.values('OLD.')})", f"(1{self.values('NEW.')})"
        return (
            f"BEGIN IF NOT {fits} THEN {self.reload(CHANGED)}"
            f" ELSIF TG_OP OPERATOR(pg_catalog.=) 'INSERT' THEN {into} VALUES {new};"
            f" ELSIF TG_OP OPERATOR(pg_catalog.=) 'DELETE' THEN {into} VALUES {old};"
            f" ELSE {into} VALUES {old}, {new}; END IF; RETURN NULL; END"
        )

    def truncate(self) -> str:
        """The lock is held by now. A snapshot of a stricter isolation may be older than the lock, though, and
        row security may hide rows from it."""
        insert = f"INSERT INTO {self.log} (sign{self.targets}) SELECT -1{self.values('r.')} FROM ONLY "
        return (
            f"DECLARE fits boolean; BEGIN EXECUTE 'SELECT {S}.fits_{self.relation}()' INTO fits;"
            " IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')"
            " OR row_security_active(TG_RELID) OR NOT fits"
            f" THEN {self.reload(TRUNCATED)}"
            f" ELSE EXECUTE {_literal(insert)} || TG_RELID::regclass::text || ' AS r'; END IF;"
            " RETURN NULL; END"
        )
