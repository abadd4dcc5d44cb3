"""One engine to a process: `--engine` says which; tests marked `engine` are run once for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import servers
import standalone
from shops import Shop
from stillframe.engine import Engine, open_engine

SLOW = Path(__file__).parent / "slow.txt"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", default="sail", choices=["spark", "sail"], help="the engine tests run on")
    parser.addoption(
        "--master",
        default="local[2]",
        help="where Apache Spark runs: a master's address, or `standalone` for a cluster made for the tests",
    )
    parser.addoption(
        "--slow", choices=["without", "only"], help=f"tests named in {SLOW.name}: none, or no others"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make test` runs without the slow tests of its engine, `make test-more` runs these
    (`tools/slow_tests.py`)."""
    wanted = config.getoption("--slow")
    if wanted is None:
        return
    engine = config.getoption("--engine")
    named = set(SLOW.read_text(encoding="utf-8").splitlines())
    slow = [f"{engine} {item.nodeid}" in named for item in items]
    runs = [is_slow == (wanted == "only") for is_slow in slow]
    config.hook.pytest_deselected(items=[item for item, run in zip(items, runs, strict=True) if not run])
    items[:] = [item for item, run in zip(items, runs, strict=True) if run]


@pytest.fixture(scope="session")
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--engine"))


@pytest.fixture(scope="session")
def standalone_cluster(
    request: pytest.FixtureRequest, engine_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[standalone.Cluster]:
    """The cluster that the tests of this process run on."""
    if engine_name != "spark" or request.config.getoption("--master") != "standalone":
        pytest.skip("runs with --engine=spark --master=standalone")
    with standalone.standalone(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest, engine_name: str) -> Iterator[Engine]:
    """The one engine of this process; tests share it."""
    settings: dict[str, Any] = {"engine": engine_name}
    if engine_name == "spark":
        settings["master"] = request.config.getoption("--master")
        if settings["master"] == "standalone":
            settings = request.getfixturevalue("standalone_cluster").settings_that_tell()
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
