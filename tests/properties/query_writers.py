"""Random transactions at the sources of a case: rows come and go, groups are emptied and filled again, keys
move, and some rows are written as they were."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType

from property_cases import Column, Table, Transaction
from query_cases import VALUES

KEYS = 14
NULLS = 0.2


def random_start(rng: Random, tables: tuple[Table, ...]) -> tuple[Transaction, ...]:
    """Rows in every table, but for some that are empty at first."""
    return tuple(
        Transaction(table.source, tuple(_insert(rng, table) for _ in range(rng.randint(6, 10))))
        for place, table in enumerate(tables)
        if place < 2 or rng.random() < 0.7
    )


def random_frames(rng: Random, tables: tuple[Table, ...], frames: int) -> tuple[tuple[Transaction, ...], ...]:
    """What is emptied in one frame is mostly filled again in the next."""
    found: list[tuple[Transaction, ...]] = []
    for _ in range(frames):
        back = [_back(rng, table, found[-1]) for table in tables] if found else [()] * len(tables)
        written = []
        for table, statements in rng.sample(list(zip(tables, back, strict=True)), len(tables)):
            if statements:
                written.append(Transaction(table.source, statements))
            if rng.random() < 0.8:
                written.append(random_transaction(rng, table))
        found.append(tuple(written))
    return tuple(found)


def _back(rng: Random, table: Table, before: tuple[Transaction, ...]) -> tuple[str, ...]:
    """Rows for a table or a group of it that was deleted."""
    found: list[str] = []
    for statement in (statement for each in before for statement in each.statements):
        words = statement.split()
        if words[:3] != ["DELETE", "FROM", table.name] or rng.random() < 0.3:
            continue
        if len(words) == 3:
            found += [_insert(rng, table) for _ in range(4)]
        elif words[5] == "IS":
            name, value = words[4], words[6]
            found += [_insert(rng, table, given={name: value}) for _ in range(rng.choice([1, 2]))]
    return tuple(found)


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
                return [
                    _insert(rng, table, given={table.key[0]: "99"}),
                    f"DELETE FROM {table.name} WHERE {table.key[0]} = 99",
                ]
            return [
                _insert(rng, table),
                f"DELETE FROM {table.name} WHERE rowid = (SELECT max(rowid) FROM {table.name})",
            ]
    return [f"DELETE FROM {table.name}"] + [_insert(rng, table) for _ in range(rng.choice([0, 0, 0, 5]))]


def _row(rng: Random, table: Table) -> str:
    """Some row that is there, as far as there are rows."""
    place = rng.randrange(8)
    return f"(SELECT rowid FROM {table.name} ORDER BY rowid LIMIT 1 OFFSET {place})"


def _insert(rng: Random, table: Table, given: Mapping[str, str] = MappingProxyType({})) -> str:
    values = []
    for column in table.columns:
        free = str(rng.randrange(KEYS)) if column.name in table.key else _value(rng, column)
        values.append(given.get(column.name, free))
    return f"INSERT OR REPLACE INTO {table.name} VALUES ({', '.join(values)})"


def _value(rng: Random, column: Column) -> str:
    if not column.required and rng.random() < NULLS:
        return "NULL"
    return rng.choice(VALUES[column.kind])
