"""One engine to a process: `--engine` says which; tests marked `engine` are run once for each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import servers
from stillframe.engine import Engine, open_engine
from stillframe.runtime import Warehouse, load_project


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", default="sail", choices=["spark", "sail"], help="the engine tests run on")


@pytest.fixture(scope="session")
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--engine"))


@pytest.fixture(scope="session")
def engine(engine_name: str) -> Iterator[Engine]:
    """The one engine of this process; tests share it."""
    settings = {"engine": engine_name}
    if engine_name == "spark":
        settings["master"] = "local[2]"
    opened = open_engine(settings)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.PostgresServer]:
    with servers.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[servers.MariadbServer]:
    with servers.mariadb(*servers.BINLOG) as server:
        yield server


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
            "sources:",
        ]
        lines += [f"  {source}: {{url: 'sqlite:///{source}.db'}}" for source in self.sources]
        (self.root / "stillframe.yml").write_text("\n".join(lines) + "\n" + extra, encoding="utf-8")

    def open(self) -> Warehouse:
        if not (self.root / "stillframe.yml").exists():
            self.configure()
        return Warehouse(project=load_project(self.root), engine=self.engine)


@pytest.fixture
def shop(tmp_path: Path, engine: Engine, engine_name: str) -> Shop:
    return Shop(tmp_path, engine, engine_name)


@pytest.fixture
def make_shop(tmp_path: Path, engine: Engine, engine_name: str) -> Callable[[str], Shop]:
    return lambda folder: Shop(tmp_path / folder, engine, engine_name)
