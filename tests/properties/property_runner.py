"""Runs a case: writers, sessions, and after every frame each view beside what it should be."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from deltalake import DeltaTable
from property_cases import Case, Session, Transaction, View
from property_oracles import (
    DuckOracle,
    EngineOracle,
    NaiveOracle,
    Oracle,
    Snapshot,
    bag_of_arrow,
    snapshot,
)

from stillframe.algebra import Bag
from stillframe.engine import Engine
from stillframe.lake.frame import CURRENT, HELD, ViewState
from stillframe.runtime import Warehouse, load_project
from stillframe.runtime.outcome import Result, Step

ALL_ORACLES = ("spark.sql", "naive evaluator", "DuckDB")


class Mismatch(AssertionError):
    """A view is not what it should be."""


class Runner:
    """One case in a folder of its own."""

    def __init__(
        self,
        case: Case,
        engine: Engine,
        folder: Path,
        coverage: Counter[str],
        oracles: Sequence[str] = ALL_ORACLES,
    ) -> None:
        self.case = case
        self.engine = engine
        self.root = folder
        self.coverage = coverage
        self.wanted = oracles
        self.expected: dict[str, Bag] = {}
        self.history: dict[tuple[str, int], Bag] = {}
        self._pending: list[tuple[str, Transaction]] = []
        self._fixed: Snapshot = {}

    def run(self) -> None:
        self._prepare()
        warehouse = Warehouse(project=load_project(self.root), engine=self.engine, observe=self._observe)
        oracles = self._oracles(warehouse)
        try:
            for number, session in enumerate(self.case.sessions):
                self._session(warehouse, oracles, number, session)
        finally:
            for oracle in oracles:
                oracle.close()

    def _prepare(self) -> None:
        (self.root / "views").mkdir(parents=True)
        sources = [f"  {source}: {{url: 'sqlite:///{source}.db'}}" for source in self.case.sources]
        small = ("engine", "driver")[self.case.seed % 2]
        lines = ["name: case", "warehouse: ./warehouse", f"small_changes: {small}", "sources:", *sources]
        (self.root / "stillframe.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for source in self.case.sources:
            connection = sqlite3.connect(self.root / f"{source}.db")
            connection.execute("PRAGMA journal_mode=WAL")
            for table in self.case.tables:
                if table.source == source:
                    connection.execute(table.ddl)
            connection.commit()
            connection.close()

    def _oracles(self, warehouse: Warehouse) -> list[Oracle]:
        makers = {
            "spark.sql": lambda: EngineOracle(self.case, self.engine, self.root / "snapshots"),
            "naive evaluator": lambda: NaiveOracle(self.case, warehouse.catalog()),
            "DuckDB": lambda: DuckOracle(self.case),
        }
        return [makers[name]() for name in self.wanted]

    # -- writing

    def _write(self, transaction: Transaction) -> None:
        """One transaction; a statement that breaks a constraint fails alone, as in any program that
        carries on."""
        connection = sqlite3.connect(self.root / f"{transaction.source}.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        for statement in transaction.statements:
            try:
                connection.execute(statement)
            except sqlite3.IntegrityError:
                self.coverage["statements refused by a constraint"] += 1
        connection.execute("COMMIT" if transaction.commit else "ROLLBACK")
        connection.close()
        self.coverage["transactions" if transaction.commit else "transactions rolled back"] += 1

    def _observe(self, step: Step, subject: str) -> None:
        """Writers go on while a session runs. What they commit after the vector is fixed belongs to the
        next frame."""
        if step is Step.FIXED:
            self._fixed = snapshot(self.case, self.root)
        at = next((i for i, (name, _) in enumerate(self._pending) if name == step.value), None)
        if at is not None:
            _, transaction = self._pending.pop(at)
            self._write(transaction)
            self.coverage["changes mid-session"] += 1

    # -- sessions

    def _session(self, warehouse: Warehouse, oracles: list[Oracle], number: int, session: Session) -> None:
        there = [view for view in self.case.views if view.since <= number]
        if not there:
            return
        text = "".join(f"CREATE MATERIALIZED VIEW {view.name} AS {view.sql};\n" for view in there)
        (self.root / "views" / "views.sql").write_text(text, encoding="utf-8")
        for transaction in session.before:
            self._write(transaction)
        self._pending = list(session.amid)
        asked = tuple(name for name in session.views if any(view.name == name for view in there))
        result = warehouse.maintain(asked, full=session.full, settle=session.settle)
        for _, transaction in self._pending:  # steps this session had no reason to take
            self._write(transaction)
        self._pending = []
        maintained = self.case.closure(asked, number)
        self._expect(oracles, [view for view in there if view.name in maintained])
        self._check(warehouse, result, there, maintained, number)
        self._look_back(warehouse, result.frame.number)
        if session.settle:
            self._check_settled(warehouse)
        if session.verify:
            self._check_verified(warehouse)
        self._count(session, result)

    def _expect(self, oracles: list[Oracle], views: list[View]) -> None:
        for oracle in oracles:
            oracle.load(self._fixed)
        for view in views:
            answers = {oracle.name: oracle.answer(view) for oracle in oracles}
            first, *others = answers.items()
            for name, answer in others:
                if answer != first[1]:
                    raise Mismatch(
                        f"{view.name}: {first[0]} and {name} disagree\n{_difference(answer, first[1])}"
                    )
            self.expected[view.name] = first[1]

    def _check(
        self,
        warehouse: Warehouse,
        result: Result,
        there: list[View],
        maintained: frozenset[str],
        number: int,
    ) -> None:
        frame = result.frame
        vectors: dict[str, object] = {}
        for view in there:
            state = frame.views.get(view.name)
            if state is None:
                if view.name in maintained:
                    raise Mismatch(f"session {number}: {view.name} is not in the frame")
                continue
            wanted = CURRENT if view.name in maintained else HELD
            if state.state != wanted:
                why = dict(state.reason or {})
                raise Mismatch(f"session {number}: {view.name} is {state.state}, not {wanted}: {why}")
            self._compare(warehouse, view.name, state, number, result)
            self.history[view.name, frame.number] = self.expected[view.name]
            for source, position in (state.vector or {}).items():
                if wanted == CURRENT and vectors.setdefault(source, position) != position:
                    raise Mismatch(f"session {number}: current views differ in their vector of {source}")

    def _compare(
        self, warehouse: Warehouse, name: str, state: ViewState, number: int, result: Result
    ) -> None:
        expected = self.expected[name]
        actual = bag_of_arrow(warehouse.arrow(name))
        outcome = result.outcomes.get(name)
        how = f"{outcome.mode} ({outcome.reason})" if outcome else "held"
        if actual != expected:
            raise Mismatch(f"session {number}: {name}, {how}, is wrong\n{_difference(actual, expected)}")
        if state.rows != expected.size:
            raise Mismatch(f"session {number}: {name}, {how}, counts {state.rows} rows, not {expected.size}")

    def _look_back(self, warehouse: Warehouse, newest: int) -> None:
        """A frame stays what it was."""
        for (name, frame), expected in self.history.items():
            if frame == newest - 1:
                actual = bag_of_arrow(warehouse.arrow(name, frame))
                if actual != expected:
                    raise Mismatch(f"frame {frame} changed {name}\n{_difference(actual, expected)}")
                self.coverage["older frames read"] += 1

    def _check_settled(self, warehouse: Warehouse) -> None:
        for name, state in warehouse.frame().views.items():
            table = DeltaTable(str(warehouse.lake.table_path(state.table))).to_pyarrow_table()
            actual = bag_of_arrow(table.select(list(state.schema.names)))
            if actual != self.expected[name]:
                raise Mismatch(f"{name}, settled, is wrong\n{_difference(actual, self.expected[name])}")
            self.coverage["settles"] += 1

    def _check_verified(self, warehouse: Warehouse) -> None:
        for name, verification in warehouse.verify_all().items():
            if not verification.ok:
                raise Mismatch(f"verify finds drift in {name}: {verification.to_json()}")
            self.coverage["verifications"] += 1

    def _count(self, session: Session, result: Result) -> None:
        count = self.coverage
        count["frames"] += 1
        count["full refreshes asked for"] += session.full
        for name, state in result.frame.views.items():
            count["held views"] += state.state == HELD
            expected = self.expected[name]
            count["views with duplicates"] += expected.size > len(expected)
            count["views without rows"] += not expected
        for name, outcome in result.outcomes.items():
            count[f"views {outcome.mode}"] += 1
            count["rows in"] += outcome.rows_in
            count["rows out"] += outcome.rows_out
            view = self.case.view(name)
            if outcome.mode == "incremental":
                _count_text(view, count)
        count["NULL keys"] += any(
            value is None for rows in self._fixed.values() for row in rows for value in row[:1]
        )


def _count_text(view: View, count: Counter[str]) -> None:
    """What incremental maintenance has met."""
    for branch in view.branches:
        relations = [item.relation for item in branch.inputs if isinstance(item.relation, str)]
        count[f"joins of {len(branch.inputs)}"] += 1
        count["self-joins"] += len(relations) != len(set(relations))
        count["derived tables"] += any(not isinstance(item.relation, str) for item in branch.inputs)
        count["USING"] += any(item.using for item in branch.inputs)
        count["cross joins"] += any(item.join == "CROSS JOIN" for item in branch.inputs)
        sources = {name.split(".")[0] for name in relations if "." in name}
        count[f"views over {len(sources)} sources"] += 1
    count["unions"] += len(view.branches) > 1
    count["common table expressions"] += bool(view.ctes)
    count["views over views"] += bool(view.upstream)


ESSENTIAL = (
    *(f"joins of {n}" for n in (1, 2, 3, 4)),
    *(f"views over {n} sources" for n in (1, 2, 3)),
    "self-joins",
    "unions",
    "derived tables",
    "common table expressions",
    "views over views",
    "USING",
    "cross joins",
    "views with duplicates",
    "NULL keys",
    "rows in",
    "rows out",
    "changes mid-session",
    "held views",
    "settles",
    "full refreshes asked for",
    "transactions rolled back",
    "verifications",
    "older frames read",
    "views incremental",
    "views unchanged",
)


def missing_coverage(coverage: Counter[str]) -> list[str]:
    return [name for name in ESSENTIAL if not coverage[name]]


def report(coverage: Counter[str]) -> str:
    return "\n".join(f"  {name:36}{coverage[name]:>8}" for name in sorted({*coverage, *ESSENTIAL}))


def _difference(actual: Bag, expected: Bag) -> str:
    lines = [f"  {count:+d} {row}" for row, count in list((actual - expected).items())[:10]]
    return "\n".join(["  (+ is too many, - is missing)", *lines])
