"""The paper's three strategies for one change of the view: recompute it, n terms, and a propagation tree.

Expressions and trees are those of `stillframe.change.propagation`, the tree being the cheapest by the paper's
linear metric. They become SQL over Parquet files of the tables before and after, and of their changes, and
run on one engine; what is timed is the computing and writing of the view or of its change. How often each
relation is scanned is counted in the engine's own plans, and stands beside what the expression says.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.tpch.changes import SIGN, Workload
from benchmarks.tpch.data import TABLES, duck
from benchmarks.tpch.measure import machine, versions
from benchmarks.tpch.views import JOINED, NEEDED, OWNED, checksum, join
from stillframe.algebra import Moment
from stillframe.change.propagation import (
    Change,
    Expression,
    Input,
    JoinGraph,
    Linear,
    Size,
    Step,
    Term,
    best_tree,
    n_term,
    propagated,
)
from stillframe.engine import Engine, open_engine

STRATEGIES = ("recompute", "n-term", "tree")
EDGES = (
    ("lineitem", "orders", "l_orderkey = o_orderkey"),
    ("orders", "customer", "o_custkey = c_custkey"),
    ("lineitem", "supplier", "l_suppkey = s_suppkey"),
    ("supplier", "nation", "s_nationkey = n_nationkey"),
    ("nation", "region", "n_regionkey = r_regionkey"),
)


class Trial:
    """One frame of a workload on one engine."""

    def __init__(self, engine: Engine, workload: Workload, number: int, folder: Path) -> None:
        self.engine, self.folder, self.workload, self.number = engine, folder, workload, number
        self.before, self.after = workload.state(number - 1), workload.state(number)
        self.changes = workload.frame(number)
        self.scans: Counter[str] = Counter()
        self.queries: list[Any] = []
        con = duck()
        inputs, sizes = [], []
        for place, table in enumerate(TABLES):
            (rows,) = con.execute(f"SELECT count(*) FROM '{self.before}/{table}.parquet'").fetchall()[0]
            added, removed = 0, 0
            if table in self.changes:
                query = f"SELECT count(*) FILTER ({SIGN} > 0), count(*) FILTER ({SIGN} < 0) FROM"
                added, removed = con.execute(f"{query} '{self.changes[table]}'").fetchall()[0]
            inputs.append(Input(place, table, changes=table in self.changes))
            sizes.append(Size(rows, added, removed))
        self.graph = graph_of(inputs, sizes)

    def expression(self, strategy: str) -> Expression:
        if strategy == "n-term":
            return propagated(n_term(self.graph.inputs))
        return propagated(best_tree(self.graph, Linear(self.graph)))

    def run(self, strategy: str) -> None:
        """Leaves the view in the folder `view`, or its change in `change`."""
        self.scans.clear()
        self.queries.clear()
        self._tables()
        if strategy == "recompute":
            self._write(join({table: f"after_{table}" for table in TABLES}), "view")
            return
        *inner, last = self.expression(strategy).steps
        for step in inner:
            self._write(_sum(step, _columns(step.change)), _name(step.change))
            self._register(_name(step.change), self.folder / _name(step.change))
        names = ", ".join(JOINED)
        net = f"SELECT {names}, SUM({SIGN}) AS copies FROM ({_sum(last, tuple(JOINED))}) GROUP BY {names}"
        self._write(f"SELECT {names}, copies AS {SIGN} FROM ({net}) WHERE copies <> 0", "change")

    def _tables(self) -> None:
        for table in TABLES:
            self._register(f"before_{table}", self.before / f"{table}.parquet")
            self._register(f"after_{table}", self.after / f"{table}.parquet")
            if table in self.changes:
                self._register(f"change_{table}", self.changes[table])

    def _register(self, name: str, path: Path) -> None:
        self.engine.maintenance.read.parquet(str(path)).createOrReplaceTempView(name)

    def _write(self, query: str, name: str) -> None:
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        found = self.engine.sql(query)
        found.write.mode("overwrite").parquet(str(folder))
        self.queries.append(found)

    def count(self, strategy: str) -> dict[str, int]:
        """Scans of states of relations in the engine's plans of the strategy's queries."""
        self.run(strategy)
        for frame in self.queries:
            text = io.StringIO()
            with contextlib.redirect_stdout(text):
                frame.explain()
            for columns in scanned(text.getvalue()):
                if SIGN not in columns:
                    self.scans[OWNED[columns[0][0]]] += 1
        return {table: self.scans[table] for table in TABLES}

    def exact(self, strategy: str) -> bool:
        """The view before and the change together against the view after, all by DuckDB."""
        con = duck()
        after = join({table: f"'{self.after}/{table}.parquet'" for table in TABLES})
        shown = f"read_parquet('{self.folder}/view/*.parquet')"
        if strategy != "recompute":
            before = join({table: f"'{self.before}/{table}.parquet'" for table in TABLES})
            names = ", ".join(JOINED)
            shown = (
                f"(SELECT {names} FROM (SELECT *, 1 AS {SIGN} FROM ({before}) UNION ALL BY NAME"
                f" FROM '{self.folder}/change/*.parquet') GROUP BY ALL HAVING sum({SIGN}) = 1)"
            )
        return checksum(con, shown, "joined") == checksum(con, f"({after})", "joined")


def graph_of(inputs: list[Input], sizes: list[Size]) -> JoinGraph:
    """Every edge is a reference: a row that refers has one partner."""
    place = {each.name: each.place for each in inputs}
    kept = {
        frozenset({place[one], place[other]}): 1 / max(sizes[place[other]].rows, 1) for one, other, _ in EDGES
    }
    return JoinGraph(tuple(inputs), tuple(sizes), kept)


def scanned(plan: str) -> Iterator[list[str]]:
    """The columns of each scan of files in a printed plan of Spark or Sail."""
    for line in plan.splitlines():
        if "FileScan parquet" in line or "DataSourceExec" in line:
            columns = re.findall(rf"\b([colsnr]_[a-z]+|{SIGN})\b", line.split("Batched")[0])
            if any(column != SIGN for column in columns):
                yield sorted(columns, key=lambda column: column == SIGN)


def _name(change: Change) -> str:
    return "change_" + "_".join(each.name for each in change.inputs)


def _columns(change: Change) -> tuple[str, ...]:
    return tuple(name for each in change.inputs for name in NEEDED[each.name])


def _sum(step: Step, columns: tuple[str, ...]) -> str:
    return " UNION ALL ".join(_term(term, columns) for term in step.terms)


def _term(term: Term, columns: tuple[str, ...]) -> str:
    """Joined from the change outwards, along the edges."""
    held = {}
    for change in term.changes:
        held.update({each.name: _name(change) for each in change.inputs})
    for state in term.states:
        moment = "after" if state.moment is Moment.AFTER else "before"
        held[state.input.name] = f"{moment}_{state.input.name}"
    signs = [f"{_name(change)}.{SIGN}" for change in term.changes]
    first = _name(term.changes[0])
    joined, text, kept = {first}, first, ["true"]
    waiting = [
        edge for edge in EDGES if edge[0] in held and edge[1] in held and held[edge[0]] != held[edge[1]]
    ]
    while waiting:
        edge = next((e for e in waiting if held[e[0]] in joined or held[e[1]] in joined), None)
        if edge is None:  # a block of inputs that no edge ties
            text += f" CROSS JOIN {held[waiting[0][0]]}"
            joined.add(held[waiting[0][0]])
            continue
        waiting.remove(edge)
        new = held[edge[1]] if held[edge[0]] in joined else held[edge[0]]
        condition = _qualified(edge[2], held)
        if new in joined:
            kept.append(condition)
        else:
            text += f" JOIN {new} ON {condition}"
            joined.add(new)
    for name in sorted(set(held.values()) - joined):
        text += f" CROSS JOIN {name}"
    shown = ", ".join(f"{held[OWNED[name[0]]]}.{name}" for name in columns)
    return f"SELECT {shown}, {' * '.join(signs)} AS {SIGN} FROM {text} WHERE {' AND '.join(kept)}"


def _qualified(condition: str, held: dict[str, str]) -> str:
    left, right = condition.split(" = ")
    return f"{held[OWNED[left[0]]]}.{left} = {held[OWNED[right[0]]]}.{right}"


def compare(workload: Workload, engine: str, repeat: int) -> dict[str, Any]:
    """Medians over the workload's first frame, the strategies in turn."""
    folder = Path(tempfile.mkdtemp(prefix="stillframe-strategies-"))
    opened = open_engine({"engine": engine})
    try:
        trial = Trial(opened, workload, 1, folder)
        found: dict[str, Any] = {}
        for strategy in STRATEGIES:
            counted = trial.count(strategy)  # warms up, too
            expected = dict.fromkeys(TABLES, 1)
            if strategy != "recompute":
                expression = trial.expression(strategy)
                reads = expression.reads()
                expected = {each.name: reads[each] for each in trial.graph.inputs}
                found[strategy] = {"expression": str(expression)}
            found.setdefault(strategy, {}).update(
                scans=counted, scans_by_plan=expected, exact=trial.exact(strategy), seconds=[]
            )
        for _ in range(repeat):
            for strategy in STRATEGIES:
                began = time.perf_counter()
                trial.run(strategy)
                found[strategy]["seconds"].append(round(time.perf_counter() - began, 4))
        for strategy in STRATEGIES:
            found[strategy]["median"] = statistics.median(found[strategy]["seconds"])
        return {
            "who": f"strategies on {engine}",
            "workload": dict(workload.__dict__),
            "machine": machine(),
            "versions": versions("stillframe", "pyspark", "pysail", "duckdb"),
            "strategies": found,
        }
    finally:
        opened.close()
        shutil.rmtree(folder, ignore_errors=True)
