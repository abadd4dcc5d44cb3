"""Passwords reach the tasks that read a source, and no place that anyone else reads: Spark's settings, plans,
event logs and pages, the processes of the executors, their logs and scratch space, the lake."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyspark.cloudpickle as cloudpickle
import pytest
from tests.room import driver_takes

import servers
from shops import Shop
from standalone import Cluster, wait_until
from stillframe.algebra.arrow import staged_schema
from stillframe.algebra.types import BIGINT
from stillframe.engine import Engine, stage

pytestmark = [pytest.mark.engine, pytest.mark.long]

SECRETS = {"postgres": "Sesame-4f9a1c", "mariadb": "Swordfish-77be02"}
FEW = 20_000  # rows that the driver stages by itself here
MANY = 3 * FEW

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def tasks_read_what_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    driver_takes(FEW, monkeypatch.setattr)


def found_in(text: bytes) -> list[str]:
    return [secret for secret in SECRETS.values() if secret.encode() in text]


def found_below(folder: Path) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and found_in(path.read_bytes()):
                found.append(str(path))
        except OSError:
            continue  # Spark clears up while we look
    return found


def pages(engine: Engine, cluster: Cluster) -> Iterator[tuple[str, bytes]]:
    """What the driver's pages and the master's show."""
    context = engine.caller.sparkContext
    root = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    paths = ["environment", "allexecutors", "jobs", "stages?details=true", "sql?details=true&length=1000"]
    addresses = [f"{root}/{path}" for path in paths]
    addresses += [f"{context.uiWebUrl}/environment/", f"http://127.0.0.1:{cluster.page}/"]
    addresses.append(f"http://127.0.0.1:{cluster.page}/json/")
    for address in addresses:
        with urllib.request.urlopen(address, timeout=60) as page:
            yield address, page.read()


@pytest.fixture
def project(
    shop: Shop,
    postgres_server: servers.PostgresServer,
    mariadb_server: servers.MariadbServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Shop]:
    """Two servers that let nobody in without a password, and a project that has the passwords from its
    environment."""
    postgres_server.database("bank")
    mariadb_server.database("bank")
    with postgres_server.connect("bank") as con:
        con.execute("DROP ROLE IF EXISTS clerk")
        con.execute(f"CREATE ROLE clerk SUPERUSER LOGIN PASSWORD '{SECRETS['postgres']}'")
        con.execute("CREATE TABLE t (id bigint PRIMARY KEY, a int)")
        con.execute(f"INSERT INTO t SELECT i, i % 31 FROM generate_series(1, {MANY}) i")
    with mariadb_server.connect("bank") as con, con.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE USER clerk@'127.0.0.1' IDENTIFIED BY '{SECRETS['mariadb']}'")
        cursor.execute("GRANT ALL ON *.* TO clerk@'127.0.0.1'")
        cursor.execute("CREATE TABLE u (id bigint PRIMARY KEY, b int)")
        cursor.execute(f"INSERT INTO u SELECT seq, seq % 17 FROM seq_1_to_{MANY}")
    hba = postgres_server.folder / "data" / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text("host all clerk 127.0.0.1/32 scram-sha-256\n" + before)
    with postgres_server.connect() as con:
        con.execute("SELECT pg_reload_conf()")
    for kind, secret in SECRETS.items():
        monkeypatch.setenv(f"{kind.upper()}_PASSWORD", secret)
    shop.configure(
        extra=f"  p: {{url: '{postgres_server.url('bank', 'clerk', '${POSTGRES_PASSWORD}')}'}}\n"
        f"  m: {{url: '{mariadb_server.url('bank', 'clerk', '${MARIADB_PASSWORD}')}'}}\n"
    )
    yield shop
    hba.write_text(before)
    with postgres_server.connect() as con:
        con.execute("SELECT pg_reload_conf()")


def test_passwords_reach_the_tasks_and_nobody_else(
    standalone_cluster: Cluster,
    engine: Engine,
    project: Shop,
    postgres_server: servers.PostgresServer,
    mariadb_server: servers.MariadbServer,
) -> None:
    project.views(
        "CREATE MATERIALIZED VIEW v AS"
        " SELECT t.a, count(*) AS n FROM p.t t JOIN m.u u ON t.id = u.id GROUP BY t.a"
    )
    wh = project.open()
    wh.refresh()
    with postgres_server.connect("bank") as con:
        con.execute("UPDATE t SET a = a + 1 WHERE id % 2 = 0")
    with mariadb_server.connect("bank") as con, con.cursor() as cursor:
        cursor.execute("DELETE FROM u WHERE id % 3 = 0")
    wh.refresh()
    assert wh.verify("v").ok
    told = dict(pages(engine, standalone_cluster))
    plans = [text for address, text in told.items() if "/sql?" in address]
    assert "MapInArrow" in json.dumps(json.loads(plans[0]), ensure_ascii=False), "no task read a source"
    assert {address: found_in(text) for address, text in told.items() if found_in(text)} == {}
    settings = repr(engine.caller.sparkContext.getConf().getAll())
    assert found_in(settings.encode()) == []
    for pid in standalone_cluster.wait_for_executors(2):
        for name in ("cmdline", "environ"):
            assert found_in(Path(f"/proc/{pid}/{name}").read_bytes()) == []
    logs = [
        path.read_text(errors="replace") for path in standalone_cluster.events.rglob("*") if path.is_file()
    ]
    assert any("SparkListenerTaskEnd" in log for log in logs), "the event log is empty"
    assert found_below(standalone_cluster.folder) == []
    assert found_below(project.root) == []


def _waiting(secret: str, ballast: bytes, go: Path) -> Iterator[pa.RecordBatch]:
    """A read that has a password and much else with it, and waits in its task to be looked at."""
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        go.with_name("waits").write_text(str(len(secret) + len(ballast)))
        until = time.monotonic() + 240
        while not go.exists() and time.monotonic() < until:
            time.sleep(0.05)
    columns = [pa.array(range(MANY)), pa.array([1] * MANY)]
    yield pa.RecordBatch.from_arrays(columns, schema=staged_schema([BIGINT]))


def test_a_task_too_large_for_a_message_leaves_no_password_on_a_disk(
    standalone_cluster: Cluster, engine: Engine, tmp_path: Path
) -> None:
    """Spark hands a task of more than a megabyte (many keys to look up) round as files."""
    secret, go = SECRETS["postgres"], tmp_path / "go"
    ballast = bytes(3_000_000)
    read = partial(_waiting, secret, ballast, go)
    work = threading.Thread(
        target=lambda: stage(lambda: engine, read, [0], [BIGINT], tmp_path / "staged"), daemon=True
    )
    work.start()
    try:
        wait_until(lambda: go.with_name("waits").exists() or not work.is_alive(), "a task")
        assert work.is_alive(), "the task failed"
        drivers = [
            path
            for path in Path(tempfile.gettempdir()).glob("*")
            if re.match(r"(spark|blockmgr)-", path.name)
        ]
        found = [where for folder in (standalone_cluster.folder, *drivers) for where in found_below(folder)]
    finally:
        go.touch()
        work.join(240)
    assert found == []
    assert not work.is_alive()
