"""Runs a case: writers, frames, and after each of them every view beside what DuckDB makes of its text; at
chosen frames beside what the engine makes of it."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
from property_cases import Transaction
from query_cases import QueryCase, QueryView
from query_coverage import Coverage, has_update
from query_duckdb import Contents, Duck, Rows, contents_at
from query_engine import EngineTexts
from query_text import relations

from stillframe.engine import Engine
from stillframe.runtime import Warehouse, load_project


class WrongRows(AssertionError):
    """A view is not what it should be."""


class NotMaintained(AssertionError):
    """A view that was accepted stopped, or was computed anew."""


@dataclass
class Wrong:
    """What was found in one view, and the frame it was first seen in."""

    view: str
    frame: int
    error: Exception


@dataclass
class Found:
    refused: dict[str, str] = field(default_factory=dict)  # view -> code of the first reason
    said: dict[str, str] = field(default_factory=dict)  # and its message
    wrong: list[Wrong] = field(default_factory=list)
    modes: Counter[str] = field(default_factory=Counter)
    fell_back: list[str] = field(default_factory=list)  # view, and what the engine said of its change
    asked: Counter[str] = field(default_factory=Counter)


class QueryRunner:
    """One case in a folder of its own. `verify` says after which frames the engine runs the texts."""

    def __init__(
        self,
        case: QueryCase,
        engine: Engine,
        folder: Path,
        verify: frozenset[int],
        coverage: Coverage | None = None,
        strict: bool = True,
    ) -> None:
        self.strict = strict
        self.case, self.engine, self.root, self.verify, self.coverage = case, engine, folder, verify, coverage
        self.found = Found()

    def run(self) -> Found:
        shutil.rmtree(self.root, ignore_errors=True)
        self._prepare()
        with Warehouse(project=load_project(self.root), engine=self.engine) as warehouse:
            self._define(warehouse)
            if self.coverage is not None:
                self.coverage.begin(self.case.views)
            duck = Duck(self.case.tables)
            try:
                for number, transactions in enumerate((self.case.start, *self.case.frames)):
                    self._frame(warehouse, duck, number, transactions)
                    if self.found.wrong:
                        break
            finally:
                duck.close()
        return self.found

    def _prepare(self) -> None:
        (self.root / "views").mkdir(parents=True)
        sources = [f"  {source}: {{url: 'sqlite:///{source}.db'}}" for source in self.case.sources]
        some = f"[{self.case.tables[0].full_name}]"
        copies = ("all", "none", some)[self.case.seed % 3]
        small = ("engine", "driver")[self.case.seed // 3 % 2]
        lines = ["name: case", "warehouse: ./warehouse", f"copies: {copies}", f"small_changes: {small}"]
        lines += ["sources:", *sources]
        (self.root / "stillframe.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for source in self.case.sources:
            connection = sqlite3.connect(self.root / f"{source}.db")
            connection.execute("PRAGMA journal_mode=WAL")
            for table in self.case.tables:
                if table.source == source:
                    connection.execute(table.ddl)
            connection.commit()
            connection.close()

    def _define(self, warehouse: Warehouse) -> None:
        """The views that `check` accepts; those it refuses are counted and left out."""
        self._write_views(self.case.views)
        for name, said in warehouse.check().items():
            if not said["ok"]:
                self.found.refused[name] = said["reasons"][0]["code"]
                self.found.said[name] = said["reasons"][0]["message"]
        refused = self.found.refused
        kept = tuple(view for view in self.case.views if view.name not in refused)
        self.case = replace(self.case, views=kept)
        self._write_views(kept)

    def _write_views(self, views: tuple[QueryView, ...]) -> None:
        text = "".join(f"CREATE MATERIALIZED VIEW {view.name} AS {view.sql};\n" for view in views)
        (self.root / "views" / "views.sql").write_text(text, encoding="utf-8")

    def _write(self, transaction: Transaction) -> None:
        connection = sqlite3.connect(self.root / f"{transaction.source}.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        for statement in transaction.statements:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.close()

    def _frame(
        self, warehouse: Warehouse, duck: Duck, number: int, transactions: tuple[Transaction, ...]
    ) -> None:
        for transaction in transactions:
            self._write(transaction)
        result = warehouse.maintain()
        contents = contents_at(self.root, self.case.tables)
        duck.load(contents)
        expected = {view.name: duck.compute(view) for view in self.case.views}
        if self.coverage is not None:
            self.coverage.look(self.case.views, duck, updated=has_update(transactions))
        for view in self.case.views:
            outcome = result.outcomes[view.name]
            self.found.modes[
                outcome.mode if not number or outcome.mode != "full" else f"full {outcome.reason}"
            ] += 1
            try:
                if outcome.error is not None:
                    raise NotMaintained(
                        f"{outcome.mode} {outcome.reason}: {outcome.error} {outcome.error.detail}"
                    )
                # An engine may fail on the text of a change and not on that of the view; the view is then
                # recomputed, which a campaign counts and bounds.
                if outcome.detail:
                    self.found.fell_back.append(f"{view.name} in frame {number + 1}: {outcome.detail}")
                fell_back = outcome.reason in ("INCREMENTAL_FAILED", "UPSTREAM_FULL")
                if (
                    number
                    and self.strict
                    and outcome.mode not in ("incremental", "unchanged")
                    and not fell_back
                ):
                    raise NotMaintained(f"{outcome.mode} {outcome.reason}")
                self._compare(warehouse, view, expected[view.name])
            except Exception as error:
                self.found.wrong.append(Wrong(view.name, number, error))
        if number in self.verify and not self.found.wrong:
            self._ask_engine(warehouse, number, contents)

    def _compare(self, warehouse: Warehouse, view: QueryView, expected: Rows) -> None:
        got = rows_of(warehouse.arrow(view.name))
        if got != expected:
            raise WrongRows(difference(got, expected, "DuckDB"))

    def _ask_engine(self, warehouse: Warehouse, number: int, contents: Contents) -> None:
        texts = EngineTexts(self.case, self.engine, self.root / "texts")
        read = frozenset(name for view in self.case.views for name in relations(view.query))
        try:
            texts.load(contents)
            for view in self.case.views:
                table = warehouse.arrow(view.name)
                if view.name in read:
                    texts.show(view, table)
                try:
                    expected = texts.rows(view)
                    if expected is not None and rows_of(table) != expected:
                        raise WrongRows(difference(rows_of(table), expected, "the engine on the text"))
                except Exception as error:
                    self.found.wrong.append(Wrong(view.name, number, error))
        finally:
            self.found.asked.update(texts.counts)
            texts.close()


def rows_of(table: pa.Table) -> Rows:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def difference(got: Rows, expected: Rows, by: str) -> str:
    lines = [f"  too many: {row} × {n}" for row, n in list((got - expected).items())[:8]]
    lines += [f"  missing:  {row} × {n}" for row, n in list((expected - got).items())[:8]]
    return "\n".join([f"beside {by}", *lines])


def only(case: QueryCase, name: str) -> QueryCase:
    """A view alone, with the views it reads."""
    view = next(view for view in case.views if view.name == name)
    kept = case.upstream(view) | {name}
    return replace(case, views=tuple(each for each in case.views if each.name in kept))
