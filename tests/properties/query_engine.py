"""The texts themselves, run by the engine over the sources' rows. A view that others read is there as it was
published, which DuckDB has judged by then: each text is run for itself."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from property_cases import KINDS
from property_oracles import arrow_rows
from query_cases import QueryCase, QueryView
from query_duckdb import Contents, Rows

from stillframe.engine import Engine

# What Sail takes for something else, and says nothing: NULL-safe equality, how often a row is in an INTERSECT
# or EXCEPT that counts, and grouping sets over no rows, of which it makes a group.
SAIL_MISTAKES = re.compile(r"DISTINCT FROM|INTERSECT ALL|EXCEPT ALL|GROUPING SETS|ROLLUP|CUBE")
# What both engines take for false where it is unknown: NOT IN beside OR, of values that may be NULL.
MISTAKES = re.compile(r" OR \S+ NOT IN \(SELECT")
# What an engine says it cannot run, and the other can.
CANNOT = {
    "sail": (
        "null_aware anti join only supports single column join key",
        "found QUALIFY",
        "No field named",  # a window over groups by GROUP BY 1
        "Schema contains duplicate unqualified field name",  # one aggregate under two casts
        "All partition by columns should have an ordering",  # a window by two columns
        "Projections require unique expression names",  # one column under two casts
    ),
    "spark": ("InlineCTE.buildCTEMap",),  # a WITH that nobody reads, in one of two branches that have one
}


class EngineTexts:
    def __init__(self, case: QueryCase, engine: Engine, folder: Path) -> None:
        self.case, self.engine, self.folder = case, engine, folder
        self.session = engine.maintenance
        self.number = 0
        self.named: set[str] = set()
        self.counts: Counter[str] = Counter()
        for source in case.sources:
            self.session.sql(f"CREATE DATABASE IF NOT EXISTS {source} LOCATION '{folder / source}'").collect()

    def load(self, contents: Contents) -> None:
        self.number += 1
        for table in self.case.tables:
            place = self._written(table.full_name, arrow_rows(table, contents[table.full_name]))
            columns = ", ".join(f"{column.name} {KINDS[column.kind].type}" for column in table.columns)
            self.session.sql(f"DROP TABLE IF EXISTS {table.full_name}").collect()
            made = f"CREATE TABLE {table.full_name} ({columns}) USING parquet LOCATION '{place}'"
            self.session.sql(made).collect()

    def _written(self, name: str, rows: pa.Table) -> Path:
        place = self.folder / name / str(self.number)
        place.mkdir(parents=True)
        pq.write_table(rows, place / "rows.parquet")
        return place

    def show(self, view: QueryView, published: pa.Table) -> None:
        """Let others read a view."""
        frame = self.session.read.parquet(str(self._written(view.name, published)))
        frame.createOrReplaceTempView(view.name)
        self.named.add(view.name)

    def rows(self, view: QueryView) -> Rows | None:
        """What the engine makes of a text; None where it is known to be wrong or not to run it."""
        if MISTAKES.search(view.sql):
            self.counts["texts that engines take otherwise"] += 1
            return None
        if self.engine.kind == "sail" and SAIL_MISTAKES.search(view.sql):
            self.counts["texts that Sail takes otherwise"] += 1
            return None
        try:
            table = self.session.sql(view.sql).toArrow()
        except Exception as error:
            if any(words in str(error) for words in CANNOT[self.engine.kind]):
                self.counts["texts that the engine cannot run"] += 1
                return None
            raise
        self.counts["texts run by the engine"] += 1
        return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def close(self) -> None:
        for name in self.named:
            self.session.catalog.dropTempView(name)
        for table in self.case.tables:
            self.session.sql(f"DROP TABLE IF EXISTS {table.full_name}").collect()
        for source in self.case.sources:
            self.session.sql(f"DROP DATABASE IF EXISTS {source} CASCADE").collect()
        shutil.rmtree(self.folder, ignore_errors=True)
