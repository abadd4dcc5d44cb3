"""Pieces of the statements of PostgreSQL's store. They have parameters, so a name's `%` is written twice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from stillframe.algebra.types import Type
from stillframe.records.stores.postgres_session import Session

_TYPES = {
    "BOOLEAN": "boolean", "TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer", "BIGINT": "bigint",
    "DOUBLE": "double precision", "STRING": "text", "BINARY": "bytea", "DATE": "date",
    "TIMESTAMP": "timestamptz", "VOID": "text",
}  # fmt: skip


def digest(id_: str) -> bytes:
    return hashlib.sha256(id_.encode()).digest()


def hashed(values: Sequence[str]) -> str:
    return f"hash_record_extended(ROW({', '.join(values)}), 0)"


def given(columns: Sequence[str]) -> str:
    """The rows `v` of these columns, each a name and a type, given by one array for each column."""
    named = [column.split(" ", 1) for column in columns]
    arrays = ", ".join(f"%s::{type_}[]" for _, type_ in named)
    return f"unnest({arrays}) AS v ({', '.join(name for name, _ in named)})"


def turned(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def is_there(session: Session, table: str) -> bool:
    return session.one("SELECT to_regclass(%s) IS NOT NULL", bare(table)) == (True,)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def type_name(type_: Type) -> str:
    return f"numeric({type_.precision},{type_.scale})" if type_.is_decimal else _TYPES[type_.name]


def bare(name: str) -> str:
    """A quoted name as a value."""
    return name.replace("%%", "%")
