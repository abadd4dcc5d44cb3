"""A small catalog with its contents, for tests of the SQL front end."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from stillframe.algebra import Bag, Column, Scan, Schema, evaluate
from stillframe.algebra.types import BIGINT, DATE, INT, STRING, TIMESTAMP, Type, decimal
from stillframe.sources.base import Relation
from stillframe.sql import Names, resolve


def _schema(**columns: Type) -> Schema:
    return Schema(tuple(Column(name, type_) for name, type_ in columns.items()))


CUSTOMERS = _schema(id=INT, Name=STRING)
ORDERS = _schema(id=INT, customer_id=INT, amount=decimal(10, 2), placed=DATE, stamp=TIMESTAMP)
BIG = _schema(id=INT, total=BIGINT)

CATALOG = Names(
    sources={
        "shop": {
            "orders": Relation("orders", ORDERS),
            "places": Relation("places", _schema(id=INT), {"outline": "GEOMETRY has no counterpart"}),
        },
        "crm": {"Customers": Relation("Customers", CUSTOMERS)},
    },
    views={"big_orders": BIG},
)

ROWS: dict[str, list[tuple[Any, ...]]] = {
    "shop.orders": [
        (1, 10, Decimal("5.00"), date(2024, 1, 31), datetime(2024, 1, 31, 8, 30, tzinfo=UTC)),
        (2, 10, Decimal("7.50"), date(2024, 2, 1), datetime(2024, 2, 1, tzinfo=UTC)),
        (3, 20, None, None, None),
    ],
    "shop.places": [(1,)],
    "crm.Customers": [(10, "Ada"), (20, None), (30, "Cy")],
    "big_orders": [(2, 99), (2, 99)],
}


def contents(scan: Scan) -> Bag:
    return Bag.of(ROWS[scan.relation])


def answer(text: str) -> list[tuple[Any, ...]]:
    """The rows of a query, sorted, each as often as it is there."""
    return sorted(evaluate(resolve(text, CATALOG), contents).rows(), key=repr)


def value(expression: str) -> Any:
    ((result,),) = answer(f"SELECT {expression} AS v")
    return result
