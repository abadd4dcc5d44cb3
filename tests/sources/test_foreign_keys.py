"""The foreign keys that databases declare: which of them `describe` tells, and how they survive as JSON."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import mariadb_world
import postgres_world

import servers
from stillframe.runtime.catalog import read_catalog, write_catalog
from stillframe.sources.base import Reference
from stillframe.sources.mariadb.binlog import MariadbLogSource
from stillframe.sources.sqlite.source import SqliteSource


def test_sqlite(tmp_path: Path) -> None:
    con = sqlite3.connect(tmp_path / "a.db")
    con.execute("PRAGMA journal_mode=WAL")
    con.executescript(
        """
        CREATE TABLE Parent (id INTEGER PRIMARY KEY, code TEXT UNIQUE);
        CREATE TABLE two (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
        CREATE TABLE child (
          p INTEGER REFERENCES PARENT, c TEXT REFERENCES parent (CODE), x INTEGER, y INTEGER,
          z INTEGER REFERENCES gone, FOREIGN KEY (x, y) REFERENCES two
        );
        """
    )
    con.close()
    described = SqliteSource("a", tmp_path / "a.db").describe()
    assert set(described["child"].references) == {
        Reference(("p",), "Parent", ("id",)),
        Reference(("c",), "Parent", ("code",)),
        Reference(("x", "y"), "two", ("a", "b")),
    }
    assert described["Parent"].references == ()
    write_catalog(tmp_path / "catalog.json", {"a": described})
    assert read_catalog(tmp_path / "catalog.json") == {"a": described}


def test_postgres_tells_those_that_hold_for_all_rows() -> None:
    with postgres_world.running() as server:
        world = postgres_world.World(
            server, "t", "CREATE TABLE t (id int PRIMARY KEY, a int, UNIQUE (a, id))"
        )
        world.run(
            "CREATE TABLE s (f int REFERENCES t, g int, h int,"
            " FOREIGN KEY (h, g) REFERENCES t (id, a) DEFERRABLE INITIALLY DEFERRED)",
            "ALTER TABLE s ADD FOREIGN KEY (g) REFERENCES t NOT VALID",
            "CREATE SCHEMA other",
            "CREATE TABLE other.o (id int PRIMARY KEY)",
            "ALTER TABLE s ADD FOREIGN KEY (g) REFERENCES other.o",
        )
        assert set(world.s.describe()["s"].references) == {
            Reference(("f",), "t", ("id",)),
            Reference(("h", "g"), "t", ("id", "a")),
        }
        world.run("ALTER TABLE s DISABLE TRIGGER ALL")
        assert world.s.describe()["s"].references == ()


def test_mariadb(mariadb_server: servers.MariadbServer) -> None:
    world = mariadb_world.World(
        mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, UNIQUE (a, id))"
    )
    world.run(
        "CREATE TABLE s (f INT, g INT, FOREIGN KEY (f) REFERENCES t (id),"
        " FOREIGN KEY (g, f) REFERENCES t (a, id))"
    )
    expected = {Reference(("f",), "t", ("id",)), Reference(("g", "f"), "t", ("a", "id"))}
    assert set(world.source.describe()["s"].references) == expected
    log = MariadbLogSource(world.source.name, world.source.url)
    assert set(log.describe()["s"].references) == expected
