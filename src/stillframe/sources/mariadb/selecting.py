"""A selection in MariaDB's words. Collations only make more texts equal, so texts are asked to be equal, and
never to differ."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal

from stillframe.algebra.selection import IS_NOT_NULL, IS_NULL, Compared, Said
from stillframe.sources.mariadb.catalog import TableColumn
from stillframe.sources.mariadb.connect import HERE
from stillframe.sources.mariadb.read import compared_text, pushable


def in_mariadb(places: Mapping[str, str], columns: Mapping[str, TableColumn], one: Compared) -> Said | None:
    """`places` tells under which name a column's values are found."""
    column = columns.get(one.column)
    if column is None or one.word in (IS_NULL, IS_NOT_NULL):
        return None if column is None else (f"{places[one.column]} {one.word}", ())
    name, value, type_ = places[one.column], one.value, column.reading.type
    if not pushable(column.reading):
        return None
    if (
        (type_.is_integer and type(value) is int)
        or (type_.name == "DECIMAL" and type(value) in (int, Decimal))
        or (type_.name == "DATE" and type(value) is date)
    ):
        return f"{name} {one.word} {HERE}", (value,)
    if type_.name == "STRING" and isinstance(value, str) and one.word == "=":
        return f"{name} = {compared_text(column)}", (value,)
    return None
