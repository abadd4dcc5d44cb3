"""Random transactions at the sources of a case: rows come and go, groups are emptied and filled again, keys
move, and some rows are written as they were."""

from __future__ import annotations

from random import Random

from property_cases import Column, Table, Transaction
from query_cases import VALUES

KEYS = 14
NULLS = 0.2


def random_start(rng: Random, tables: tuple[Table, ...]) -> tuple[Transaction, ...]:
    """Rows in every table, but for some that are empty at first."""
    return tuple(
        Transaction(table.source, tuple(_insert(rng, table) for _ in range(rng.randint(6, 10))))
        for place, table in enumerate(tables)
        if place < 2 or rng.random() < 0.8
    )


def random_frames(rng: Random, tables: tuple[Table, ...], frames: int) -> tuple[tuple[Transaction, ...], ...]:
    return tuple(
        tuple(
            random_transaction(rng, table) for table in rng.sample(tables, len(tables)) if rng.random() < 0.8
        )
        for _ in range(frames)
    )


def random_transaction(rng: Random, table: Table) -> Transaction:
    statements: list[str] = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        statements += _statements(rng, table)
    return Transaction(table.source, tuple(statements))


def _statements(rng: Random, table: Table) -> list[str]:
    grouped = rng.choice([column for column in table.columns if column.name in ("g", "s")])
    other = rng.choice([column for column in table.columns if column.name not in table.key])
    one, two = _value(rng, grouped), _value(rng, grouped)
    match rng.choices(
        ["insert", "again", "one", "group", "move", "some", "value", "nothing", "come and go", "all"],
        [28, 10, 10, 9, 12, 8, 10, 4, 4, 7],
    )[0]:
        case "insert":
            return [_insert(rng, table) for _ in range(rng.choice([1, 2, 3]))]
        case "again" if not table.key:  # a row that is there once more
            return [f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE rowid = {_row(rng, table)}"]
        case "one" | "again":
            return [f"DELETE FROM {table.name} WHERE rowid = {_row(rng, table)}"]
        case "group":
            return [f"DELETE FROM {table.name} WHERE {grouped.name} IS {one}"]
        case "move":
            return [f"UPDATE {table.name} SET {grouped.name} = {one} WHERE {grouped.name} IS {two}"]
        case "some":
            return [f"UPDATE {table.name} SET {grouped.name} = {one} WHERE rowid = {_row(rng, table)}"]
        case "value":
            change = f"{other.name} = {_value(rng, other)}"
            return [f"UPDATE {table.name} SET {change} WHERE rowid % 3 = {rng.randrange(3)}"]
        case "nothing":
            return [f"UPDATE {table.name} SET {other.name} = {other.name} WHERE {grouped.name} IS {one}"]
        case "come and go":
            if table.key:
                return [_insert(rng, table, key=99), f"DELETE FROM {table.name} WHERE {table.key[0]} = 99"]
            return [
                _insert(rng, table),
                f"DELETE FROM {table.name} WHERE rowid = (SELECT max(rowid) FROM {table.name})",
            ]
    return [f"DELETE FROM {table.name}"] + [_insert(rng, table) for _ in range(rng.choice([0, 0, 0, 5]))]


def _row(rng: Random, table: Table) -> str:
    """Some row that is there, as far as there are rows."""
    place = rng.randrange(8)
    return f"(SELECT rowid FROM {table.name} ORDER BY rowid LIMIT 1 OFFSET {place})"


def _insert(rng: Random, table: Table, key: int | None = None) -> str:
    values = [_value(rng, column) for column in table.columns]
    if table.key:
        values[0] = str(rng.randrange(KEYS) if key is None else key)
    return f"INSERT OR REPLACE INTO {table.name} VALUES ({', '.join(values)})"


def _value(rng: Random, column: Column) -> str:
    if not column.required and rng.random() < NULLS:
        return "NULL"
    return rng.choice(VALUES[column.kind])
