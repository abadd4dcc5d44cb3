"""Schemas: named, typed columns in order, and the sets of columns that identify a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stillframe.algebra.types import Type


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """`keys` holds sets of column positions; in a relation no two rows agree on all columns of a key.

    A key column is never NULL. A schema without keys promises nothing: rows may repeat.
    """

    columns: tuple[Column, ...]
    keys: frozenset[frozenset[int]] = field(default=frozenset())

    def __post_init__(self) -> None:
        for key in self.keys:
            if any(position >= len(self.columns) for position in key):
                raise ValueError(f"key {sorted(key)} names a column beyond the {len(self.columns)} there are")

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, position: int) -> Column:
        return self.columns[position]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(column.type for column in self.columns)

    @property
    def identity(self) -> frozenset[int]:
        """The key that rows are told apart by, wherever they are: the shortest, and of these the first. Empty
        where there is none."""
        return min(self.keys, key=lambda key: (len(key), sorted(key)), default=frozenset())

    def position(self, name: str) -> int:
        """Where a column stands; names are compared without regard to case, as Spark does."""
        for position, column in enumerate(self.columns):
            if column.name.lower() == name.lower():
                return position
        raise KeyError(f"no column {name!r}; there are: {', '.join(self.names)}")

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in self.columns],
            "keys": sorted(sorted(self.columns[i].name for i in key) for key in self.keys),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Schema:
        columns = tuple(Column(c["name"], parse_type(c["type"]), c["nullable"]) for c in document["columns"])
        positions = {column.name: i for i, column in enumerate(columns)}
        keys = frozenset(frozenset(positions[name] for name in key) for key in document["keys"])
        return cls(columns, keys)


def parse_type(text: str) -> Type:
    """The inverse of `str(type)`."""
    name, _, rest = text.partition("(")
    if rest:
        precision, scale = rest.rstrip(")").split(",")
        return Type(name, int(precision), int(scale))
    return Type(name)
