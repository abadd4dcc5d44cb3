"""What follows from a schema is found once, and found again when the schema is another."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from stillframe.errors import CaptureGap
from stillframe.sources import SqliteSource
from stillframe.sources.sqlite import catalog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    _run(tmp_path / "shop.db", "PRAGMA journal_mode=WAL", "CREATE TABLE t (id INTEGER PRIMARY KEY, x INT)")
    return tmp_path / "shop.db"


def _run(path: Path, *statements: str) -> None:
    con = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        con.execute(statement)
    con.close()


def _columns(source: SqliteSource) -> dict[str, tuple[str, ...]]:
    return {name: relation.schema.names for name, relation in source.describe().items()}


def test_a_schema_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SqliteSource("shop", path)
    source.attach("me", ["t"])
    first = _columns(source), source.position("me", ["t"])

    def unasked(*_: object) -> None:
        raise AssertionError("the schema was read again")

    monkeypatch.setattr(catalog, "read_table", unasked)
    monkeypatch.setattr("stillframe.sources.sqlite.source.read_table", unasked)
    monkeypatch.setattr("stillframe.sources.sqlite.log.read_table", unasked)
    assert (_columns(source), source.position("me", ["t"])) == first


def test_another_schema_is_seen_at_once(path: Path, tmp_path: Path) -> None:
    source = SqliteSource("shop", path)
    assert _columns(source) == {"t": ("id", "x")}
    _run(path, "ALTER TABLE t ADD COLUMN y TEXT")
    assert _columns(source) == {"t": ("id", "x", "y")}
    _run(path, "CREATE TABLE u (id INTEGER PRIMARY KEY)")
    assert set(_columns(source)) == {"t", "u"}


def test_two_files_of_one_age_and_different_schemas(path: Path, tmp_path: Path) -> None:
    """A copy made before a change of the schema, changed otherwise and put in its place: SQLite counts
    changes of the schema, and would count the same."""
    other = tmp_path / "other.db"
    _run(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copyfile(path, other)
    source = SqliteSource("shop", path)
    _run(path, "ALTER TABLE t ADD COLUMN y TEXT")
    _run(other, "ALTER TABLE t ADD COLUMN z TEXT")
    assert _columns(source) == {"t": ("id", "x", "y")}
    for each in (path, other):
        _run(each, "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copyfile(other, path)
    assert _columns(source) == {"t": ("id", "x", "z")}


@pytest.mark.parametrize(
    "harm",
    [
        "DROP TABLE t",
        "ALTER TABLE t RENAME COLUMN x TO z",
        "CREATE UNIQUE INDEX i ON t (x)",
        "CREATE TRIGGER late AFTER UPDATE ON t BEGIN UPDATE t SET x = 1; END",
    ],
)
def test_capture_that_stood_is_looked_at_again(path: Path, harm: str) -> None:
    source = SqliteSource("shop", path)
    began = source.attach("me", ["t"])
    source.check(began, ["t"])
    source.check(began, ["t"])
    _run(path, harm)
    with pytest.raises(CaptureGap):
        source.check(began, ["t"])
