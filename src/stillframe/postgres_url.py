"""The url of a PostgreSQL server, as sources and stores of records read it."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

HINT = (
    "postgresql://user:${PASSWORD}@host:5432/database; special characters in a password are written as %40"
    " and the like"
)


def url_parts(url: str) -> dict[str, Any] | None:
    """The connection's parameters; None where the url cannot be read. What is wrong with it is never quoted:
    it may be a part of a password, with characters in it that end it early."""
    try:
        parts = {name: value for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError:
        return None
    ports = str(parts.get("port") or "5432").split(",")
    early = any("@" in str(parts.get(part, "")) for part in ("host", "dbname"))
    return None if early or not all(port.isdigit() for port in ports) else parts


def place_of(parts: dict[str, Any]) -> str:
    """Where the database is, without who asks."""
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    return f"{str(host).lower()}:{parts.get('port') or 5432}/{parts.get('dbname') or parts.get('user') or ''}"
