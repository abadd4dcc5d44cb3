"""A shop whose sessions are counted, and whose views are compared with their texts after every frame."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import stillframe.runtime.computing as computing
from shops import Shop
from stillframe.algebra import Moment, Scan, relations
from stillframe.change import Core
from stillframe.engine import Engine
from stillframe.runtime import Warehouse
from stillframe.runtime.binding import Binder
from stillframe.runtime.work import Work
from stillframe.sources.sqlite.source import SqliteSource

DDL = """
CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT, region INTEGER);
CREATE TABLE o (id INTEGER PRIMARY KEY, c INTEGER, day INTEGER);
CREATE TABLE l (id INTEGER PRIMARY KEY, o INTEGER, amount INTEGER);
CREATE TABLE s (id INTEGER PRIMARY KEY, l INTEGER, place TEXT);
"""


class Counted:
    """What a session asks of sources, reads of states, gives to the engine, and shares."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.scans: list[str] = []
        self.jobs = 0
        self.cores: list[tuple[str, ...]] = []
        state: Callable[..., Any] = SqliteSource.state
        read = Binder._read
        monkeypatch.setattr(
            SqliteSource,
            "state",
            lambda source, relation, *args, **more: (
                self.asked.append(relation) or state(source, relation, *args, **more)
            ),
        )

        def scanned(binder: Binder, scan: Scan, keys: Any) -> Any:
            if (
                scan.at is not Moment.CHANGE
                and scan.relation not in binder.staged
                and "v" not in scan.relation
            ):
                self.scans.append(scan.relation)
            return read(binder, scan, keys)

        monkeypatch.setattr(Binder, "_read", scanned)
        core = Work._core

        def shared(work: Work, found: Core, *args: Any) -> Any:
            self.cores.append(relations(found.join))
            return core(work, found, *args)

        monkeypatch.setattr(Work, "_core", shared)
        for name in ("staged_query", "write_query"):
            monkeypatch.setattr(computing, name, self._counted(getattr(computing, name)))

    def _counted(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.jobs += 1
            return run(*args)

        return counted

    def clear(self) -> None:
        self.asked.clear()
        self.scans.clear()
        self.cores.clear()
        self.jobs = 0


def opened(
    root: Path, engine: Engine, name: str, texts: Sequence[str], **more: str
) -> tuple[Shop, Warehouse]:
    shop = Shop(root, engine, name)
    shop.source("a", DDL)
    shop.configure(extra="".join(f"{key}: {value}\n" for key, value in more.items() if key == "copies"))
    path = root / "stillframe.yml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("small_changes")]
    path.write_text("\n".join([*lines, f"small_changes: {more.get('small', 'engine')}"]) + "\n")
    shop.views("\n".join(f"CREATE MATERIALIZED VIEW v{i} AS {text};" for i, text in enumerate(texts)))
    shop.write("a", "INSERT INTO c VALUES (1, 'ann', 1), (2, 'bob', 2), (3, 'cid', 1)")
    shop.write("a", "INSERT INTO o VALUES (1, 1, 1), (2, 2, 2), (3, 2, 3), (4, 3, 11)")
    shop.write("a", "INSERT INTO l VALUES (1, 1, 11), (2, 1, 12), (3, 2, 20), (4, 3, 7), (5, 4, 30)")
    shop.write("a", "INSERT INTO s VALUES (1, 1, 'x'), (2, 3, 'y'), (3, 3, 'z')")
    warehouse = shop.open()
    warehouse.maintain()
    return shop, warehouse


def step(shop: Shop, warehouse: Warehouse, texts: Sequence[str], *statements: str) -> None:
    """One frame; every view is what SQLite makes of its text then."""
    shop.write("a", *statements)
    result = warehouse.maintain()
    assert not result.failures
    assert {o.mode for o in result.outcomes.values()} <= {"incremental", "unchanged"}, result.outcomes
    con = sqlite3.connect(shop.root / "a.db")
    for i, text in enumerate(texts):
        table = warehouse.arrow(f"v{i}")
        got = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
        expected = Counter(con.execute(text.replace("a.", "main.")).fetchall())
        assert got == expected, (text, got - expected, expected - got)
    con.close()
