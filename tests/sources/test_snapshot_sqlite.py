"""Snapshots of SQLite: one state of all tables, and a sign that no commit escapes."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from exports import ME, bag

from stillframe.algebra import types as t
from stillframe.algebra.bag import Bag
from stillframe.errors import ProjectError, SourceError, ValueMismatch
from stillframe.sources import Capture, SourceConfig, SqliteSource, open_source
from stillframe.sources.auto import AutoSource
from stillframe.sources.snapshots.source import SnapshotSource
from stillframe.sources.sqlite import snapshot_reader as sqlite_snapshot
from stillframe.sources.sqlite.snapshot_reader import SqliteSnapshotReader


def database(path: Path, *statements: str) -> sqlite3.Connection:
    con = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    con.execute("PRAGMA journal_mode=WAL")
    for statement in statements:
        con.execute(statement)
    return con


TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"


def elsewhere(path: Path, *statements: str) -> None:
    """In another program, which then ends."""
    text = (
        "import sqlite3, sys; con = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)\n"
        "for statement in sys.argv[2:]: con.execute(statement)"
    )
    subprocess.run([sys.executable, "-c", text, str(path), *statements], check=True)


def test_every_commit_changes_the_sign(tmp_path: Path) -> None:
    """By whoever, into a log that grows, is reset or is gone. As long as nothing is committed it stays."""
    path = tmp_path / "s.db"
    con = database(path, TABLE)
    reader = SqliteSnapshotReader("s", path)
    rng = random.Random(7)
    seen = [reader.fingerprint(["t"])]

    def insert(by: sqlite3.Connection) -> None:
        by.execute("INSERT INTO t (n) VALUES (?)", (rng.randrange(10),))

    def moved(act: Callable[[], object]) -> None:
        act()
        sign = reader.fingerprint(["t"])
        assert sign is not None and sign not in seen, "a commit was not seen"
        seen.append(sign)
        assert reader.fingerprint(["t"]) == sign

    other = database(path)
    for i in range(40):
        moved(lambda: insert(rng.choice([con, other])))
        if i % 7 == 3:
            mode = rng.choice(["PASSIVE", "FULL", "RESTART", "TRUNCATE"])
            con.execute(f"PRAGMA wal_checkpoint({mode})")
            seen.append(reader.fingerprint(["t"]))
    moved(lambda: con.execute("UPDATE t SET n = n + 1"))
    moved(lambda: con.execute("ALTER TABLE t ADD COLUMN s TEXT"))
    moved(lambda: elsewhere(path, "DELETE FROM t WHERE id = 1"))
    con.close()
    other.close()
    assert not path.with_name("s.db-wal").exists()
    seen.append(reader.fingerprint(["t"]))
    for i in range(3):
        moved(lambda i=i: elsewhere(path, f"UPDATE t SET n = {i} WHERE id = 2"))
    assert reader.fingerprint(["t"]) == seen[-1]


def test_a_commit_that_no_time_of_a_file_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is written before its index says so: its times may be old when the commit comes to count."""
    path = tmp_path / "s.db"
    con = database(path, TABLE)
    monkeypatch.setattr(sqlite_snapshot, "_stamp_if_there", lambda _: None)
    reader = SqliteSnapshotReader("s", path)
    seen = []
    for i in range(10):
        con.execute("INSERT INTO t VALUES (?, 0)", (i,))
        seen.append(reader.fingerprint(["t"]))
        assert reader.fingerprint(["t"]) == seen[-1]
        con.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if i % 3 else 'PASSIVE'})")
    assert None not in seen and len(set(seen)) == 10


def test_what_is_not_committed_is_not_there(tmp_path: Path) -> None:
    con = database(tmp_path / "s.db", TABLE, "INSERT INTO t VALUES (1, 1)")
    source = SnapshotSource(SqliteSnapshotReader("s", tmp_path / "s.db"), tmp_path / "kept")
    first = source.attach(ME, ["t"])
    con.execute("BEGIN IMMEDIATE")
    con.execute("PRAGMA cache_size = 1")
    con.execute(
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        " INSERT INTO t SELECT i, i FROM n"
    )
    assert source.position(ME, ["t"]) == first
    con.execute("COMMIT")
    second = source.position(ME, ["t"])
    assert bag(source.state("t", ("id",), second)).size == 20000
    con.execute("BEGIN IMMEDIATE")
    con.execute("DELETE FROM t")
    con.execute("ROLLBACK")
    assert source.position(ME, ["t"]) == second


def test_the_locks_of_this_process_hold_while_signs_are_read(tmp_path: Path) -> None:
    """A reader in this very process keeps its state while another program writes and empties the log."""
    path = tmp_path / "s.db"
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    database(path, TABLE, f"{many} INSERT INTO t SELECT i, 1 FROM n").close()
    con = sqlite3.connect(path, isolation_level=None)
    con.execute("PRAGMA cache_size = 2")  # pages are read again, not remembered
    con.execute("BEGIN")
    total = "SELECT sum(n) FROM t"
    assert con.execute(total).fetchall() == [(20000,)]
    reader = SqliteSnapshotReader("s", path)
    for i in range(5):
        assert reader.fingerprint(["t"]) is not None
        elsewhere(path, f"UPDATE t SET n = {i + 2}", "PRAGMA wal_checkpoint(TRUNCATE)")
        assert con.execute(total).fetchall() == [(20000,)]
    con.execute("COMMIT")
    assert con.execute(total).fetchall() == [(6 * 20000,)]


def test_all_tables_at_one_state_under_writers(tmp_path: Path) -> None:
    """Money that moves between two tables is always all there; a sign never hides a change."""
    path = tmp_path / "s.db"
    database(
        path,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER)",
        "CREATE TABLE b (id INTEGER PRIMARY KEY, n INTEGER)",
        "INSERT INTO a VALUES (1, 500), (2, 500)",
        "INSERT INTO b VALUES (1, 0), (2, 0)",
    )
    stop = threading.Event()

    def write(seed: int) -> None:
        con, rng = database(path), random.Random(seed)
        while not stop.is_set():
            amount = rng.randrange(-5, 6)
            con.execute("BEGIN IMMEDIATE")
            con.execute("UPDATE a SET n = n - ? WHERE id = ?", (amount, rng.choice([1, 2])))
            con.execute("UPDATE b SET n = n + ? WHERE id = ?", (amount, rng.choice([1, 2])))
            con.execute("COMMIT")
            stop.wait(rng.choice([0, 0, 0.02, 0.1]))
        con.close()

    writers = [threading.Thread(target=write, args=[seed]) for seed in range(2)]
    for writer in writers:
        writer.start()
    source = SnapshotSource(SqliteSnapshotReader("s", path), tmp_path / "kept")
    at = source.attach(ME, ["a", "b"])
    try:
        for _ in range(40):
            upto = source.position(ME, ["a", "b"])
            totals = {}
            for name in ("a", "b"):
                state = bag(source.state(name, ("id", "n"), upto))
                before = bag(source.state(name, ("id", "n"), at))
                assert bag(source.changes(name, ("id", "n"), at, upto)) == state - before
                totals[name] = sum(n * count for (_, n), count in state.items())
            assert sum(totals.values()) == 1000, totals
            at = upto
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    print(f"{at.sequence} states")
    assert at.sequence > 5
    last = source.position(ME, ["a", "b"])
    con = database(path)
    for name in ("a", "b"):
        assert bag(source.state(name, ("id", "n"), last)) == Bag.of(con.execute(f"SELECT id, n FROM {name}"))


def test_what_triggers_cannot_capture_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    con = database(path)
    con.create_collation("mine", lambda a, b: (a > b) - (a < b))
    for statement in (
        "CREATE TABLE t (a TEXT COLLATE mine UNIQUE, b INTEGER)",
        "CREATE TABLE rowids (rowid TEXT, _rowid_ TEXT, oid TEXT)",
        "CREATE TABLE w (a TEXT, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID",
        "INSERT INTO t VALUES ('x', 1)",
        "INSERT INTO rowids VALUES ('x', 'y', 'z')",
        "INSERT INTO w VALUES ('x', 'y')",
    ):
        con.execute(statement)
    assert SqliteSource("s", path).describe()["t"].refused
    source = SnapshotSource(SqliteSnapshotReader("s", path), tmp_path / "kept")
    there = source.describe()
    assert not there["t"].refused and there["t"].schema.types == (t.STRING, t.BIGINT)
    at = source.attach(ME, ["t", "rowids", "w"])
    assert bag(source.state("t", ("a", "b"), at)) == Bag.of([("x", 1)])
    assert bag(source.state("rowids", ("oid", "rowid"), at)) == Bag.of([("z", "x")])
    assert bag(source.state("w", ("a",), at)) == Bag.of([("x",)])
    assert source.rows("t") == 1 and source.inner.rows("w") == 1


def test_a_database_that_cannot_be_used(tmp_path: Path) -> None:
    source = SnapshotSource(SqliteSnapshotReader("s", tmp_path / "s.db"), tmp_path / "kept")
    with pytest.raises(SourceError) as said:
        source.attach(ME, ["t"])
    assert said.value.code == "NO_DATABASE"
    sqlite3.connect(tmp_path / "s.db").execute(TABLE)
    with pytest.raises(SourceError) as said:
        source.attach(ME, ["t"])
    assert said.value.code == "NOT_WAL"
    con = database(tmp_path / "s.db")
    at = source.attach(ME, ["t"])
    con.execute("INSERT INTO t VALUES (1, 'text')")
    with pytest.raises(ValueMismatch, match=r"column 'n' of s\.t holds the text 'text'"):
        list(source.state("t", ("n",), source.position(ME, [])))
    con.close()
    (tmp_path / "s.db").unlink()
    with pytest.raises(SourceError) as said:
        source.position(ME, ["t"])
    assert said.value.code == "NO_DATABASE"
    assert bag(source.state("t", ("id",), at)) == Bag()


def test_a_project_asks_for_snapshots(tmp_path: Path) -> None:
    config = SourceConfig("sqlite:///s.db", capture="snapshot", capture_limit=5)
    source = open_source("s", config, base=tmp_path, keep=tmp_path / "keep")
    assert isinstance(source, AutoSource)
    chosen = source.chosen()
    assert isinstance(chosen, SnapshotSource)
    assert (chosen.folder, chosen.capture_limit) == (tmp_path / "keep" / "s", 5)
    assert [m.capture for m in source.methods()] == [Capture.TRIGGERS, Capture.SNAPSHOT]
    triggers = open_source("s", SourceConfig("sqlite:///s.db"), base=tmp_path, keep=tmp_path / "keep")
    assert triggers.capture is Capture.TRIGGERS and triggers.address == source.address


def test_a_project_names_files(tmp_path: Path) -> None:
    base = tmp_path / "odd [1] *"
    (base / "rates").mkdir(parents=True)
    (base / "rates" / "a.csv").write_text("currency,rate\nUSD,1.0842\n")
    config = SourceConfig(files="rates/*.csv", key=("currency",), columns={"rate": "decimal(9,4)"})
    source = open_source("rates", config, base=base, keep=tmp_path / "keep")
    schema = source.describe()["rates"].schema
    assert schema.types == (t.STRING, t.decimal(9, 4)) and schema.keys == {frozenset({0})}
    with pytest.raises(ProjectError, match="column 'rate' cannot be of the type 'money'") as said:
        open_source("r", SourceConfig(files="*.csv", columns={"rate": "money"}), base=base, keep=tmp_path)
    assert "decimal(p,s)" in said.value.hint and said.value.exit_status == 2
