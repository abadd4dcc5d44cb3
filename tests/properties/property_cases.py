"""A random case as data: tables, views, and sessions with the transactions before and amid each. Being data,
it can be shown, run again, and made smaller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Kind:
    """A kind of column: how SQLite declares it, what Spark and Arrow call it, which values it holds, and
    what a stored value means."""

    declared: str
    type: str
    arrow: pa.DataType
    literals: tuple[str, ...]
    decode: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _money(value: Any) -> Decimal:
    return Decimal(repr(value)).quantize(Decimal("0.01"))


def _stamp(value: str) -> datetime:
    return datetime.fromisoformat(value).replace(tzinfo=UTC)


# Few values each, so that rows repeat and joins meet.
KINDS = {
    "int": Kind("BIGINT", "BIGINT", pa.int64(), ("0", "1", "1", "2", "2", "3", "-1"), _same),
    "wide": Kind(
        "INTEGER",
        "BIGINT",
        pa.int64(),
        ("9223372036854775807", "-9223372036854775807 - 1", "5", "4294967296"),
        _same,
    ),
    "text": Kind(
        "TEXT",
        "STRING",
        pa.string(),
        (
            "'a'",
            "'a'",
            "'a'",
            "'ab'",
            "'ab'",
            "''",
            "'A'",
            "'é'",
            "'日本'",
            "'😀'",
            "'it''s'",
            "'a\\b'",
            "'x%'",
            "' a '",
        ),
        _same,
    ),
    "real": Kind("DOUBLE", "DOUBLE", pa.float64(), ("0.0", "-0.0", "1.5", "-2.25", "0.1"), float),
    "money": Kind(
        "DECIMAL(10,2)", "DECIMAL(10,2)", pa.decimal128(10, 2), ("0", "1.50", "-2.25", "1000000.01"), _money
    ),
    "date": Kind(
        "DATE",
        "DATE",
        pa.date32(),
        ("'2024-02-29'", "'2024-03-01'", "'0001-01-01'", "'9999-12-31'", "'1969-12-31'"),
        date.fromisoformat,
    ),
    "stamp": Kind(
        "TIMESTAMP",
        "TIMESTAMP",
        pa.timestamp("us", tz="UTC"),
        ("'2024-02-29 12:30:00'", "'1969-12-31 23:59:59.999999'", "'0001-01-01 00:00:00'"),
        _stamp,
    ),
    "blob": Kind("BLOB", "BINARY", pa.binary(), ("x''", "x'00ff'", "x'61'"), _same),
    "flag": Kind("BOOLEAN", "BOOLEAN", pa.bool_(), ("0", "1"), bool),
}


@dataclass(frozen=True)
class Column:
    name: str
    kind: str
    required: bool = False


@dataclass(frozen=True)
class Table:
    """`shape` is what the table's key is to SQLite: none, rowid (INTEGER PRIMARY KEY), primary, unique or
    without-rowid."""

    source: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    shape: str = "none"

    @property
    def full_name(self) -> str:
        return f"{self.source}.{self.name}"

    @property
    def ddl(self) -> str:
        parts = []
        for column in self.columns:
            declared = "INTEGER PRIMARY KEY" if self.shape == "rowid" and column.name in self.key else ""
            required = " NOT NULL" if column.required and not declared else ""
            parts.append(f"{column.name} {declared or KINDS[column.kind].declared}{required}")
        if self.key and self.shape != "rowid":
            parts.append(f"{'UNIQUE' if self.shape == 'unique' else 'PRIMARY KEY'} ({', '.join(self.key)})")
        suffix = " WITHOUT ROWID" if self.shape == "without-rowid" else ""
        return f"CREATE TABLE {self.name} ({', '.join(parts)}){suffix}"


@dataclass(frozen=True)
class FromItem:
    """One input of a block. `join` is how it follows those before it: ",", "CROSS JOIN" or "JOIN"."""

    alias: str
    relation: str | Select
    join: str = ","
    on: tuple[str, ...] = ()
    using: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        what = self.relation if isinstance(self.relation, str) else f"({self.relation.sql})"
        return f"{what} {self.alias}"


@dataclass(frozen=True)
class Select:
    items: tuple[tuple[str, str], ...]  # name, expression
    inputs: tuple[FromItem, ...]
    where: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        items = ", ".join(f"{expression} AS {name}" for name, expression in self.items)
        source = self.inputs[0].sql
        for item in self.inputs[1:]:
            if item.join == "JOIN" and item.using:
                source += f" JOIN {item.sql} USING ({', '.join(item.using)})"
            elif item.join == "JOIN" and item.on:
                source += f" JOIN {item.sql} ON {' AND '.join(item.on)}"
            else:
                source += ", " if item.join == "," else " CROSS JOIN "
                source += item.sql
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"SELECT {items} FROM {source}{where}"


@dataclass(frozen=True)
class View:
    """`since` is the session in which it first exists; `upstream` are the views its text reads."""

    name: str
    branches: tuple[Select, ...]
    ctes: tuple[tuple[str, Select], ...] = ()
    upstream: tuple[str, ...] = ()
    since: int = 0

    @property
    def sql(self) -> str:
        names = ", ".join(f"{name} AS ({select.sql})" for name, select in self.ctes)
        return (f"WITH {names} " if names else "") + " UNION ALL ".join(b.sql for b in self.branches)


@dataclass(frozen=True)
class Transaction:
    source: str
    statements: tuple[str, ...]
    commit: bool = True


@dataclass(frozen=True)
class Session:
    """`amid` holds transactions that commit while the session runs, each at a named step of it. Without
    `views` all are refreshed."""

    before: tuple[Transaction, ...] = ()
    amid: tuple[tuple[str, Transaction], ...] = ()
    views: tuple[str, ...] = ()
    full: bool = False
    settle: bool = False
    verify: bool = False


@dataclass(frozen=True)
class Case:
    seed: int
    tables: tuple[Table, ...]
    views: tuple[View, ...]
    sessions: tuple[Session, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table.source for table in self.tables))

    def view(self, name: str) -> View:
        return next(view for view in self.views if view.name == name)

    def closure(self, names: tuple[str, ...], session: int) -> frozenset[str]:
        """The views a refresh of `names` maintains."""
        there = [view.name for view in self.views if view.since <= session]
        wanted, pending = set(), [name for name in names if name in there] or there
        while pending:
            name = pending.pop()
            wanted.add(name)
            pending += self.view(name).upstream
        return frozenset(wanted)


def shown(case: Case) -> str:
    """The case as a person reads it."""
    lines = [f"case {case.seed}"]
    lines += [f"  {table.source}: {table.ddl}" for table in case.tables]
    for view in case.views:
        since = f" (from session {view.since})" if view.since else ""
        lines.append(f"  view {view.name}{since}: {view.sql}")
    for number, session in enumerate(case.sessions):
        lines += [f"  {_transaction(transaction)}" for transaction in session.before]
        flags = [flag for flag in ("full", "settle", "verify") if getattr(session, flag)]
        lines.append(f"  session {number}: refresh {' '.join(session.views) or 'all'} {' '.join(flags)}")
        lines += [f"    at {step}: {_transaction(transaction)}" for step, transaction in session.amid]
    return "\n".join(lines)


def _transaction(transaction: Transaction) -> str:
    end = "COMMIT" if transaction.commit else "ROLLBACK"
    return f"{transaction.source}: BEGIN; {'; '.join(transaction.statements)}; {end}"
