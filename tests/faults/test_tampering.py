"""What somebody changes behind our back, in the lake or in a source's log, is told: as drift with samples or
as an error that says what is wrong. Never a traceback, never silence."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.errors import StillframeError
from stillframe.runtime import Warehouse

pytestmark = pytest.mark.engine


@pytest.fixture
def wh(shop) -> Warehouse:
    shop.source("s", "CREATE TABLE t (id INTEGER PRIMARY KEY, x INT, note TEXT); CREATE TABLE bag (x INT);")
    shop.views(
        "CREATE MATERIALIZED VIEW keyed AS SELECT id, x, note FROM s.t;"
        "CREATE MATERIALIZED VIEW keyless AS SELECT x FROM s.bag;"
    )
    shop.write("s", "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, NULL), (3, 30, 'c')")
    shop.write("s", "INSERT INTO bag VALUES (1), (1), (2)")
    wh = shop.open()
    wh.refresh()
    shop.write(
        "s",
        "UPDATE t SET x = 11 WHERE id = 1",
        "INSERT INTO bag VALUES (1), (3)",
        "DELETE FROM bag WHERE x = 2",
    )
    wh.refresh()
    assert all(v.ok for v in wh.verify_all().values())
    return wh


def edit(path: Path, column: str, old: object, new: object) -> None:
    """Put another value into a Parquet file, in place."""
    table = pq.ParquetFile(path).read()
    values = table.column(column).to_pylist()
    assert old in values
    values[values.index(old)] = new
    place = table.column_names.index(column)
    pq.write_table(
        table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type)),
        path,
    )
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def files(wh: Warehouse, view: str, kind: str) -> list[Path]:
    return [wh.lake.path / f.path for f in getattr(wh.frame().views[view], kind)]


def holding(paths: list[Path], column: str, value: object) -> Path:
    return next(p for p in paths if value in pq.ParquetFile(p).read().column(column).to_pylist())


def samples(verification) -> set[tuple[object, ...]]:
    return {(row["is"], row["count"], *row["row"].values()) for row in verification.sample}


def test_a_row_changed_in_the_table(wh, shop):
    edit(holding(files(wh, "keyed", "base"), "x", 30), "x", 30, 31)
    found = wh.verify("keyed")
    assert not found.ok and (found.missing, found.extra) == (1, 1)
    assert samples(found) == {("missing", 1, 3, 30, "c"), ("extra", 1, 3, 31, "c")}
    assert wh.verify("keyless").ok
    shop.write("s", "UPDATE t SET note = 'z' WHERE id = 2")
    wh.refresh(settle=True)
    assert not wh.verify("keyed").ok, "neither refreshing nor settling hides it"
    wh.refresh("keyed", full=True)
    assert wh.verify("keyed").ok


def test_a_row_changed_in_a_change_file(wh):
    edit(holding(files(wh, "keyless", "changes"), "x", 3), "x", 3, 4)
    found = wh.verify("keyless")
    assert samples(found) == {("missing", 1, 3), ("extra", 1, 4)}
    edit(holding(files(wh, "keyless", "changes"), "x", 1), "__count", 1, 5)
    assert not wh.verify("keyless").ok


@pytest.mark.parametrize("kind", ["base", "changes"])
@pytest.mark.parametrize("how", ["gone", "cut short", "not Parquet"])
def test_a_file_is_gone_or_broken(wh, kind, how):
    for path in files(wh, "keyed", kind):
        if how == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:40] if how == "cut short" else b"no such thing" * 20)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    found = wh.verify("keyed")
    assert found.drift and "keyed" in found.reason
    assert found.error.code == ("MISSING_FILE" if how == "gone" else "DAMAGED_FILE")
    with pytest.raises(StillframeError):
        wh.view("keyed").collect() if how == "gone" else wh.arrow("keyed")
    assert wh.verify("keyless").ok
    wh.refresh("keyed", full=True)
    assert wh.verify("keyed").ok


def delete_log_rows(root: Path, where: str) -> None:
    con = sqlite3.connect(root / "s.db")
    assert con.execute(f"DELETE FROM _stillframe_log WHERE {where}").rowcount == 1
    con.commit()
    con.close()


LAST = "seq = (SELECT max(seq) FROM _stillframe_log)"


def test_a_log_row_deleted_in_the_middle_is_a_gap(wh, shop):
    shop.write("s", "INSERT INTO t VALUES (4, 40, 'd'), (5, 50, 'e')", "INSERT INTO bag VALUES (9)")
    delete_log_rows(shop.root, "v0 = 4")
    found = wh.verify("keyed")
    assert found.drift and found.error.code == "CAPTURE_GAP" and "1 log rows are missing" in found.reason
    assert samples(found) == {("missing", 1, 4, 40, "d"), ("missing", 1, 5, 50, "e")}
    before = wh.frame()
    wh.refresh()
    assert {v.reason["code"] for v in wh.frame().views.values()} == {"CAPTURE_GAP"}
    assert [v.base for v in wh.frame().views.values()] == [v.base for v in before.views.values()]
    wh.refresh(full=True)
    assert all(v.ok for v in wh.verify_all().values())


def test_the_last_log_row_deleted_is_drift(wh, shop):
    """Nothing in the log tells of it any more; the rows do."""
    shop.write("s", "INSERT INTO bag VALUES (7)", "INSERT INTO t VALUES (4, 40, 'd')")
    delete_log_rows(shop.root, LAST)
    wh.refresh()
    found = wh.verify("keyed")
    assert samples(found) == {("missing", 1, 4, 40, "d")}
    assert wh.verify("keyless").ok
    shop.write("s", "INSERT INTO t VALUES (5, 50, 'e')")
    wh.refresh()
    assert samples(wh.verify("keyed")) == {("missing", 1, 4, 40, "d")}


def test_the_log_row_a_frame_stands_at_deleted_is_a_gap(wh, shop):
    (at,) = {v.vector["s"]["position"] for v in wh.frame().views.values()}
    shop.write("s", "INSERT INTO bag VALUES (7)")
    delete_log_rows(shop.root, f"seq = {at}")
    found = wh.verify("keyed")
    assert not found.ok and found.error.code == "CAPTURE_GAP"
    wh.refresh()
    assert {v.reason["code"] for v in wh.frame().views.values()} == {"CAPTURE_GAP"}
    wh.refresh(full=True)
    shop.write("s", "INSERT INTO t VALUES (6, 60, 'f')")
    wh.refresh()
    assert all(v.ok for v in wh.verify_all().values())


def test_an_emptied_log_is_a_gap(wh, shop):
    delete_log_rows(shop.root, LAST)
    found = wh.verify("keyed")
    assert not found.ok and found.error.code == "CAPTURE_GAP"
    wh.refresh()
    assert {v.reason["code"] for v in wh.frame().views.values()} == {"CAPTURE_GAP"}
    shop.write("s", "INSERT INTO t VALUES (6, 60, 'f')")
    wh.refresh()
    assert {v.reason["code"] for v in wh.frame().views.values()} == {"CAPTURE_GAP"}
    wh.refresh(full=True)
    shop.write("s", "INSERT INTO t VALUES (7, 70, 'g')")
    wh.refresh()
    assert all(v.ok for v in wh.verify_all().values())


@pytest.mark.slow_on_spark
def test_the_command_line_tells_without_a_traceback(wh, shop):
    def verify() -> tuple[int, dict, str]:
        command = [
            sys.executable,
            "-m",
            "stillframe.cli.main",
            "verify",
            "--project",
            str(shop.root),
            "--json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout or "{}"), done.stderr

    edit(holding(files(wh, "keyless", "base"), "x", 1), "x", 1, 8)
    status, document, _ = verify()
    assert status == 3
    assert document["views"]["keyed"]["ok"] is True
    assert document["views"]["keyless"]["missing"] == document["views"]["keyless"]["extra"] == 1
    delete_log_rows(shop.root, LAST)
    status, document, errors = verify()
    assert status == 3 and not document["views"]["keyed"]["ok"]
    assert "refresh --full" in errors


def test_the_table_of_frames_loses_a_file(wh):
    max((wh.lake.path / "frames").glob("*.parquet")).unlink()
    for ask in (wh.frame, wh.refresh, wh.verify_all, wh.status):
        with pytest.raises(StillframeError) as failed:
            ask()
        assert failed.value.code == "LAKE_ERROR" and "missing" in failed.value.message
