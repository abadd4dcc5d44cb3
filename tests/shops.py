"""Projects in folders, for tests that write to their sources as any program would."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from stillframe.engine import Engine
from stillframe.runtime import Warehouse, load_project


class Shop:
    """A project in a folder, with SQLite sources that tests write to as any program would."""

    def __init__(self, root: Path, engine: Engine | None, engine_name: str) -> None:
        self.root = root
        self.engine = engine
        self.engine_name = engine_name
        (root / "views").mkdir(parents=True, exist_ok=True)
        self.sources: list[str] = []

    def source(self, name: str, ddl: str) -> None:
        connection = sqlite3.connect(self.root / f"{name}.db")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(ddl)
        connection.close()
        self.sources.append(name)

    def write(self, source: str, *statements: str) -> None:
        """One transaction."""
        connection = sqlite3.connect(self.root / f"{source}.db", timeout=30, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            connection.execute(statement)
        connection.execute("COMMIT")
        connection.close()

    def views(self, text: str, file: str = "views.sql") -> None:
        (self.root / "views" / file).write_text(text, encoding="utf-8")

    def configure(self, name: str = "test", extra: str = "") -> None:
        lines = [
            f"name: {name}",
            "warehouse: ./warehouse",
            f"spark: {{engine: {self.engine_name}}}",
            f"small_changes: {'engine' if self.engine_name == 'spark' else 'driver'}",
            "sources:",
        ]
        lines += [f"  {source}: {{url: 'sqlite:///{source}.db'}}" for source in self.sources]
        (self.root / "stillframe.yml").write_text("\n".join(lines) + "\n" + extra, encoding="utf-8")

    def open(self) -> Warehouse:
        if not (self.root / "stillframe.yml").exists():
            self.configure()
        return Warehouse(project=load_project(self.root), engine=self.engine)
