"""One engine to a process: `--engine` says which; tests marked `engine` are run once for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import servers
from shops import Shop
from stillframe.engine import Engine, open_engine


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


@pytest.fixture
def shop(tmp_path: Path, engine: Engine, engine_name: str) -> Shop:
    return Shop(tmp_path, engine, engine_name)


@pytest.fixture
def make_shop(tmp_path: Path, engine: Engine, engine_name: str) -> Callable[[str], Shop]:
    return lambda folder: Shop(tmp_path / folder, engine, engine_name)
