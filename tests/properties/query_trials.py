"""Which random views are worth a place in a campaign."""

from __future__ import annotations

from random import Random

import duckdb
from property_cases import Table, Transaction
from query_cases import QueryView
from query_coverage import Coverage, has_update
from query_duckdb import Duck, states

LARGE = 400  # rows
DULL = 0.1  # of the views that do not change, so many are kept


class Trials:
    """What DuckDB says of a query at each state of a case: most of the views that are kept do change and are
    never large, and much happens to the operator they are there for."""

    def __init__(self, tables: tuple[Table, ...], written: tuple[tuple[Transaction, ...], ...]) -> None:
        self.tables = tables
        self.states = tuple(states(tables, written))
        self.updated = [has_update(transactions) for transactions in written]
        self.kept: list[QueryView] = []
        self.ducks: list[Duck] = []
        self._open()

    def _open(self) -> None:
        for contents in self.states:
            duck = Duck(self.tables)
            duck.load(contents)
            for view in self.kept:
                duck.compute(view)
            self.ducks.append(duck)

    def worthy(self, rng: Random, view: QueryView, operator: str, events: int) -> bool:
        """A text that DuckDB has a fault with, or cannot run, is none it could judge; it is of no use after a
        fault."""
        try:
            if self._events(view, operator) < events:
                return False
            contents = [duck.compute(view) for duck in self.ducks]
        except (duckdb.InternalException, duckdb.NotImplementedException):
            self.close()
            self._open()
            return False
        changes = any(rows != contents[0] for rows in contents[1:])
        small = max(rows.total() for rows in contents) <= LARGE
        if small and (changes or rng.random() < DULL):
            self.kept.append(view)
            return True
        for duck in self.ducks:
            duck.forget(view)
        return False

    def _events(self, view: QueryView, operator: str) -> int:
        """How many kinds of things happen to an operator."""
        met = Coverage()
        for duck, updated in zip(self.ducks, self.updated, strict=True):
            met.look([view], duck, updated=updated, only=operator)
        return sum(count > 0 for count in met.events[operator].values())

    def close(self) -> None:
        for duck in self.ducks:
            duck.close()
        self.ducks = []
