"""Which ways to capture the account at hand may use, and what is missing for the others, in words and with
the statement that mends it."""

from __future__ import annotations

from stillframe.sources.base import Capture, Method
from stillframe.sources.postgres.catalog import OWN_SCHEMA, Connection, quoted, require_schema

MINIMUM = 130_000


def methods(con: Connection, source: str, schema: str) -> tuple[Method, ...]:
    require_schema(con, source, schema)
    return (
        Method(
            Capture.LOG,
            tuple(_for_log(con, schema)),
            "every transaction by itself in the order of commits, hence also `complete`; writers do no more",
        ),
        Method(
            Capture.TRIGGERS,
            tuple(_for_triggers(con, schema)),
            "every change, exactly, with the transaction that made it",
        ),
        Method(Capture.SNAPSHOT, tuple(_for_snapshot(con, schema)), "nothing is installed"),
    )


def _account(con: Connection) -> str:
    (name,) = con.execute("SELECT quote_ident(current_user)").fetchone() or ("",)
    return str(name)


def _common(con: Connection) -> list[str]:
    version, replica = con.execute(
        "SELECT current_setting('server_version_num')::int, pg_is_in_recovery()"
    ).fetchone() or (0, True)
    missing = []
    if version < MINIMUM:
        missing.append("PostgreSQL 13 or later")
    if replica:
        missing.append("the primary server: this one is a read-only replica")
    return missing


def _own_schema(con: Connection, account: str) -> list[str]:
    owner = con.execute(
        "SELECT quote_ident(pg_get_userbyid(nspowner)), pg_has_role(nspowner, 'USAGE') FROM pg_namespace"
        " WHERE nspname = %s",
        (OWN_SCHEMA,),
    ).fetchone()
    if owner is not None:
        if owner[1]:
            return []
        return [f"the role that owns the schema {OWN_SCHEMA}: GRANT {owner[0]} TO {account}"]
    may, database = con.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_database())"
    ).fetchone() or (False, "")
    return [] if may else [f"the right to create a schema: GRANT CREATE ON DATABASE {database} TO {account}"]


def _ownership(con: Connection, schema: str, account: str) -> list[str]:
    """Triggers are made, made to fire always, and removed by the owner of a table. That the account owns some
    tables is enough here: `attach` says of each table whether it may."""
    rows = con.execute(
        "SELECT c.relname::text, quote_ident(pg_get_userbyid(c.relowner)), pg_has_role(c.relowner, 'USAGE')"
        " FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s"
        " AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1",
        (schema,),
    ).fetchall()
    if not rows or any(owned for _, _, owned in rows):
        return []
    owners: dict[str, list[str]] = {}
    for table, owner, _ in rows:
        owners.setdefault(owner, []).append(table)
    return [
        f"ownership of {', '.join(tables[:5])}{' …' if len(tables) > 5 else ''}: GRANT {owner} TO {account}"
        for owner, tables in owners.items()
    ]


def _for_triggers(con: Connection, schema: str) -> list[str]:
    account = _account(con)
    return [
        *_common(con),
        *_own_schema(con, account),
        *_ownership(con, schema, account),
        *_for_snapshot(con, schema),
    ]


def log_level(con: Connection) -> str:
    (level,) = con.execute("SELECT current_setting('wal_level')").fetchone() or ("",)
    return str(level)


def for_reading_the_log(con: Connection) -> list[str]:
    """What is missing to have the server's log, whatever is to be read in it."""
    row = con.execute("SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user")
    missing = []
    if log_level(con) != "logical":
        missing.append("the server's log in full: ALTER SYSTEM SET wal_level = logical, and restart it")
    if row.fetchone() != (True,):
        account = _account(con)
        missing.append(f"the right to read the server's log: ALTER ROLE {account} REPLICATION")
    return missing


def _for_log(con: Connection, schema: str) -> list[str]:
    return [*for_reading_the_log(con), *_for_triggers(con, schema)]


def _for_snapshot(con: Connection, schema: str) -> list[str]:
    account = _account(con)
    usage, readable, tables = con.execute(
        "SELECT has_schema_privilege(n.oid, 'USAGE'), count(c.oid) FILTER (WHERE"
        " has_table_privilege(c.oid, 'SELECT')), count(c.oid) FROM pg_namespace AS n LEFT JOIN pg_class AS c"
        " ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        " WHERE n.nspname = %s GROUP BY n.oid",
        (schema,),
    ).fetchone() or (False, 0, 0)
    if not usage:
        return [f"the right to use the schema: GRANT USAGE ON SCHEMA {quoted(schema)} TO {account}"]
    if tables and not readable:
        return [
            f"the right to read: GRANT SELECT ON ALL TABLES IN SCHEMA {quoted(schema)} TO {account}",
        ]
    return []
