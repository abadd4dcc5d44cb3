"""The benchmark's changes: what `benchmarks/tpch/changes.py` promises of them, checked by DuckDB."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from benchmarks.tpch import data, sources
from benchmarks.tpch.changes import SIGN, Workload
from benchmarks.tpch.strategies import EDGES
from benchmarks.tpch.views import JOIN, checksum
from tpch_benchmark import SCALE, tables

__all__ = ["tables"]


def states(workload: Workload) -> Iterator[duckdb.DuckDBPyConnection]:
    for number in range(workload.last + 1):
        con = duckdb.connect()
        for table in data.TABLES:
            con.execute(f"CREATE VIEW {table} AS FROM '{workload.state(number) / table}.parquet'")
        yield con


WORKLOADS = [
    Workload(SCALE, 10, 3),
    Workload(SCALE, 10, 3, "skewed", seed=7),
    Workload(SCALE, 50, 2),
    Workload(SCALE, 50, 2, percents=(5, 50)),
    Workload(SCALE, 0.1, 2),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_every_reference_has_its_partner_after_every_frame(workload: Workload) -> None:
    for con in states(workload):
        for table, other, condition in EDGES:
            key, partner = condition.split(" = ")
            lost = f"SELECT count(*) FROM {table} WHERE {key} NOT IN (SELECT {partner} FROM {other})"
            assert con.execute(lost).fetchall() == [(0,)], (table, other)
        for table, keys in data.KEYS.items():
            twice = f"SELECT {', '.join(keys)} FROM {table} GROUP BY ALL HAVING count(*) > 1"
            assert con.execute(twice).fetchall() == [], table


@pytest.mark.parametrize("workload", WORKLOADS[:4], ids=str)
def test_as_many_rows_change_as_were_asked_for(workload: Workload) -> None:
    first = next(states(workload))
    frames = list(enumerate(workload.facts()["changed"], start=1))  # type: ignore[call-overload]
    assert len(frames) == workload.last
    for number, changed in frames:
        percent = workload.percent_of(number)
        for table in ("customer", "orders", "lineitem", "supplier"):
            (rows,) = first.execute(f"SELECT count(*) FROM {table}").fetchall()[0]
            assert changed[table] == pytest.approx(rows * percent / 100, rel=0.15), table


def test_a_third_each_is_inserted_deleted_and_updated() -> None:
    with closing(sqlite3.connect(sources.staged(Workload(SCALE, 10, 1).frame(1)))) as con:
        counts = [many for (many,) in con.execute("SELECT count(*) FROM orders GROUP BY done")]
    assert len(counts) == 3 and max(counts) - min(counts) <= 1


@pytest.mark.parametrize("part", [3, sources.PART])
@pytest.mark.parametrize("workload", [*WORKLOADS[:2], WORKLOADS[3]], ids=str)
def test_databases_are_written_from_state_to_state(
    workload: Workload, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the parts that a table is changed in."""
    monkeypatch.setattr(sources, "PART", part)
    sources.copied(workload.scale, tmp_path)
    for number, con in enumerate(states(workload)):
        if number:
            sources.write(tmp_path, workload.frame(number))
        for table, source in sources.HOME.items():
            with closing(sqlite3.connect(tmp_path / f"{source}.db")) as database:
                found = database.execute(f"SELECT * FROM {table}").fetchall()
            names = ", ".join(data.COLUMNS[table])
            stored = con.execute(f"SELECT {names} FROM {table}").fetchall()
            assert sorted(found) == sorted(tuple(map(_in_sqlite, row)) for row in stored), (number, table)


def _in_sqlite(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, date) else value


@pytest.mark.parametrize("workload", WORKLOADS[:2], ids=str)
def test_signed_rows_lead_from_state_to_state(workload: Workload) -> None:
    """What the maker changed in its own tables is what its files say: the view's checksum is the same."""
    *_, last = states(workload)
    rows, total = checksum(last, f"({JOIN})", "joined")
    assert workload.facts()["joined"] == {"rows": rows, "checksum": total}


def test_skewed_changes_fall_on_the_newest_keys() -> None:
    share = {}
    for spread in ("uniform", "skewed"):
        path = Workload(SCALE, 1, 1, spread).frame(1)["orders"]
        newest = f"FROM '{path}' WHERE {SIGN} < 0 AND o_orderkey > 0.8 * {_last_order()}"
        (all_,) = duckdb.execute(f"SELECT count(*) FROM '{path}' WHERE {SIGN} < 0").fetchall()[0]
        share[spread] = duckdb.execute(f"SELECT count(*) {newest}").fetchall()[0][0] / all_
    assert share["uniform"] < 0.5 < share["skewed"]


def _last_order() -> int:
    path = Workload(SCALE, 1, 1).state(0) / "orders.parquet"
    return int(duckdb.execute(f"SELECT max(o_orderkey) FROM '{path}'").fetchall()[0][0])


def test_the_same_seed_gives_the_same_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Workload(SCALE, 5, 2, seed=3).facts()
    other = Workload(SCALE, 5, 2, seed=4).facts()
    monkeypatch.setenv("STILLFRAME_BENCH_CACHE", str(tmp_path / "again"))
    assert Workload(SCALE, 5, 2, seed=3).facts() == first
    assert other["joined"] != first["joined"]
