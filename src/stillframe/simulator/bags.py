"""Bags by content: equal bags have one name, so states that hold equal contents are equal.

Every plan a protocol leaves in its state or its actions is evaluated at once and replaced by a scan of the
bag it denotes. The shape of an expression, and the path that led to it, then no longer tell two states apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from stillframe.algebra import Bag, Column, Plan, Scan, Schema, evaluate
from stillframe.algebra.types import Type

T = TypeVar("T")

_MARK = "#"


class Bags:
    """Interned bags. A bag is known by its rows and their types: Python's 1, 1.0 and True are equal."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Bag, tuple[Type, ...]], int] = {}
        self._bags: list[Bag] = []
        self._schemas: dict[tuple[Type, ...], Schema] = {}
        self._known: dict[Plan, Scan] = {}

    def __getitem__(self, number: int) -> Bag:
        return self._bags[number]

    def number(self, bag: Bag, types: tuple[Type, ...]) -> int:
        found = self._numbers.get((bag, types))
        if found is None:
            found = self._numbers[bag, types] = len(self._bags)
            self._bags.append(bag)
        return found

    def scan(self, bag: Bag, types: tuple[Type, ...]) -> Scan:
        schema = self._schemas.get(types)
        if schema is None:
            columns = tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types))
            schema = self._schemas[types] = Schema(columns)
        return Scan(f"{_MARK}{self.number(bag, types)}", schema)

    def number_of(self, scan: Plan) -> int:
        assert isinstance(scan, Scan), "settled plans are scans"
        return int(scan.relation[1:])

    def content(self, scan: Plan) -> Bag:
        return self._bags[self.number_of(scan)]

    def value(self, plan: Plan, relations: Callable[[Scan], Bag] | None = None) -> Bag:
        def read(scan: Scan) -> Bag:
            if scan.relation.startswith(_MARK):
                return self._bags[int(scan.relation[1:])]
            assert relations is not None, "a protocol reads relations only at its start"
            return relations(scan)

        return evaluate(plan, read)

    def settled(self, plan: Plan, relations: Callable[[Scan], Bag] | None = None) -> Scan:
        if isinstance(plan, Scan) and plan.relation.startswith(_MARK):
            return plan
        if relations is not None:
            return self.scan(self.value(plan, relations), plan.schema.types)
        found = self._known.get(plan)
        if found is None:
            found = self._known[plan] = self.scan(self.value(plan), plan.schema.types)
        return found

    def settle(self, value: T, relations: Callable[[Scan], Bag] | None = None) -> T:
        """A state, or actions, with every plan in them evaluated."""
        return self._settle(value, relations)  # type: ignore[no-any-return]

    def _settle(self, value: Any, relations: Callable[[Scan], Bag] | None) -> Any:
        if isinstance(value, Plan):
            return self.settled(value, relations)
        if isinstance(value, tuple):
            changed = tuple(self._settle(item, relations) for item in value)
            return value if all(a is b for a, b in zip(changed, value, strict=True)) else changed
        if is_dataclass(value) and not isinstance(value, type):
            old = {field.name: getattr(value, field.name) for field in fields(value)}
            new = {name: self._settle(item, relations) for name, item in old.items()}
            changes = {name: item for name, item in new.items() if item is not old[name]}
            return replace(value, **changes) if changes else value
        return value
