"""Workers whose Python has no `stillframe`: the package reaches them with the tasks, and what they lack is
told. Run with `--engine=spark --master=standalone`; `tests/standalone.py` starts the cluster."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyspark.cloudpickle as cloudpickle
import pytest
from tests.room import driver_takes

from shops import Shop
from standalone import PACKAGES, Cluster, plain_environment
from stillframe.algebra.arrow import staged_schema
from stillframe.algebra.types import BIGINT
from stillframe.engine import Engine, EngineError, stage
from stillframe.engine.shipping import package
from stillframe.sources import SqliteSource

FEW = 20_000  # rows that the driver stages by itself here
MANY = 3 * FEW

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def tasks_read_what_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    driver_takes(FEW, monkeypatch.setattr)


def test_the_zip_is_all_that_a_task_needs_of_us(tmp_path: Path) -> None:
    """A source is unpickled from the zip alone, and nothing of the driver's libraries comes with it."""
    (tmp_path / "source").write_bytes(pickle.dumps(SqliteSource("shop", tmp_path / "shop.db", None)))
    code = (
        "import pickle, sys; sys.path.insert(0, sys.argv[1]); source = pickle.load(open('source', 'rb'));"
        "import stillframe.sources.opening, stillframe.sources.postgres.logical,"
        " stillframe.sources.mariadb.binlog, stillframe.sources.files.reader;"
        "assert stillframe.__file__.startswith(sys.argv[1]), stillframe.__file__;"
        "print(source.name, *sorted({'pyspark', 'deltalake', 'sqlglot', 'yaml', 'rich'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(package())],
        cwd=tmp_path,
        env=plain_environment(),
        capture_output=True,
        text=True,
    )
    assert (run.stdout, run.stderr) == ("shop\n", "")


WITH_THEM = ("py4j", "psycopg-binary", "typing_extensions")  # what comes with the packages of workers
ONLY = """
import importlib, sys
from importlib.metadata import packages_distributions

allowed = {name.lower() for name in sys.argv[1].split(",")}
refused = {top for top, of in packages_distributions().items() if allowed.isdisjoint(map(str.lower, of))}

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused - {"stillframe"}:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Refusing())
importlib.import_module(sys.argv[2])
"""


@pytest.mark.parametrize(
    "module",
    [
        "stillframe.engine.stage",
        "stillframe.engine.rewriting",
        "stillframe.engine.managers",
        "stillframe.records.stores.redis_store",
        "stillframe.records.stores.postgres_store",
        "stillframe.records.stores.sqlite_store",
        "stillframe.sources.opening",
        "stillframe.sources.postgres.logical",
        "stillframe.sources.mariadb.binlog",
        "stillframe.sources.files.reader",
    ],
)
def test_tasks_import_what_workers_have(module: str) -> None:
    allowed = ",".join((*PACKAGES, *WITH_THEM))
    run = subprocess.run([sys.executable, "-c", ONLY, allowed, module], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.engine
@pytest.mark.long
def test_a_large_source_is_read_by_workers_that_lack_the_package(
    standalone_cluster: Cluster, shop: Shop
) -> None:
    alone = subprocess.run(
        [standalone_cluster.python, "-c", "import stillframe"], env=plain_environment(), capture_output=True
    )
    assert b"No module named 'stillframe'" in alone.stderr
    shop.source("shop", "CREATE TABLE t (id INTEGER PRIMARY KEY, a INT, b TEXT)")
    shop.write("shop", _many("INSERT INTO t"))
    shop.views(
        "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n, max(b) AS m FROM shop.t GROUP BY a;"
        "CREATE MATERIALIZED VIEW w AS SELECT x.id, y.b FROM shop.t x JOIN shop.t y ON x.id = y.id + 1;"
    )
    wh = shop.open()
    wh.refresh()
    shop.write("shop", "DELETE FROM t WHERE id % 2 = 0")
    assert {name: state.rows for name, state in wh.refresh().views.items() if name in "vw"} == {
        "v": 97,
        "w": 0,
    }
    assert {name: found.ok for name, found in wh.verify_all().items()} == {"v": True, "w": True}


def _many(insert: str) -> str:
    return (
        f"{insert} WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
        " SELECT i, i % 97, 'row ' || i FROM n"
    )


def _reads(failing: str) -> Iterator[pa.RecordBatch]:
    """Rows; inside a task, a library is imported first."""
    from pyspark import TaskContext

    if failing and TaskContext.get() is not None:
        importlib.import_module(failing)
    columns = [pa.array(range(MANY)), pa.array([1] * MANY)]
    yield pa.RecordBatch.from_arrays(columns, schema=staged_schema([BIGINT]))


@pytest.mark.engine
@pytest.mark.long
def test_a_package_that_the_workers_lack_is_named(
    standalone_cluster: Cluster, engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(EngineError) as caught:
        stage(lambda: engine, partial(_reads, "duckdb"), [0], [BIGINT], tmp_path / "staged")
    assert caught.value.code == "WORKER_PYTHON"
    assert "'duckdb'" in caught.value.message


@pytest.mark.engine
@pytest.mark.long
def test_workers_without_such_a_python_are_told(
    standalone_cluster: Cluster, engine: Engine, tmp_path: Path
) -> None:
    context = engine.maintenance.sparkContext
    before = context.pythonExec
    context.pythonExec = str(tmp_path / "no-python")
    try:
        with pytest.raises(EngineError) as caught:
            stage(lambda: engine, partial(_reads, ""), [0], [BIGINT], tmp_path / "staged")
    finally:
        context.pythonExec = before
    assert caught.value.code == "WORKER_PYTHON"
    assert "spark.pyspark.python" in caught.value.hint
