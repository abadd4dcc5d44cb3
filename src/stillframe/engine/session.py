"""Opening an engine: Apache Spark (classic or Spark Connect) or Sail, through the part of PySpark's API
that Spark Connect has.

Maintenance runs in a session of its own, in ANSI mode and UTC; the caller's session keeps its settings
and is used only for the DataFrames handed back.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stillframe.engine.scalar_sql import ScalarWriter
from stillframe.errors import ProjectError, StillframeError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAINTENANCE = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.optimizer.maxIterations": "100",
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",  # AND and OR guard what follows
    # It takes away aliases that keep the columns of a UNION ALL apart, and Spark then refuses its own plan.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases",
}
CALLER = {"spark.sql.session.timeZone": "UTC"}
# What a session of our own gets; a caller's session is never configured.
OWN_SESSION = {
    "spark.ui.enabled": "false",
    # Plans of what ran are kept for a page that nobody sees: a driver that runs for days must not fill up.
    "spark.sql.ui.retainedExecutions": "5",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -Xshare:auto "
        f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
    ),
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
}
# Tasks of a cluster hold passwords of sources and rows: what of them reaches a disk of Spark's is encrypted.
CLUSTER = {"spark.io.encryption.enabled": "true"}
WORKERS_PYTHON = "spark.pyspark.python"
# A server of our own keeps its sessions as long as it lives; those of others forget them after minutes.
SAIL_FORGETS = ("SAIL_SPARK__SESSION_TIMEOUT_SECS", str(10 * 365 * 24 * 3600))
# Rows that it takes at a time. By 8 192, as it comes, a tenth of a large join's time goes into handing on.
SAIL_TAKES = ("SAIL_EXECUTION__BATCH_SIZE", "32768")
QUIET_SECONDS = 60.0

ENGINE_LOST = "ENGINE_LOST"
NO_ENGINE = "NO_ENGINE"
WORKER_PYTHON = "WORKER_PYTHON"


class EngineError(StillframeError):
    """The engine failed while it evaluated a plan: overflow, a bad cast, lost executors."""

    code = "EVALUATION_FAILED"


@dataclass
class Engine:
    """`maintenance` evaluates plans; `caller` makes the DataFrames users get."""

    kind: str
    caller: SparkSession
    maintenance: SparkSession
    _server: Any = field(default=None, repr=False)
    _own: bool = True
    _settings: Mapping[str, str] = field(default_factory=lambda: MAINTENANCE, repr=False)
    _asked: float = field(default_factory=time.monotonic, repr=False)

    @property
    def writer(self) -> ScalarWriter:
        return ScalarWriter(sail=self.kind == "sail")

    @property
    def is_beside(self) -> bool:
        """Whether it runs on the driver's own machine, as far as that is known."""
        if is_connect(self.maintenance):
            return self._server is not None
        return str(self.caller.sparkContext.master).startswith("local")

    def sql(self, text: str) -> DataFrame:
        return self.maintenance.sql(text)

    def awake(self) -> Engine:
        """With sessions that their server knows. It forgets one that has asked nothing for long, and a server
        that was started again knows none; nothing in them outlasts a refresh, so they are made anew."""
        quiet, self._asked = time.monotonic() - self._asked, time.monotonic()
        if quiet >= QUIET_SECONDS and is_connect(self.maintenance):
            if _forgotten(self.maintenance):
                self.maintenance = _instead_of(self.maintenance, self._settings)
            if self._own and _forgotten(self.caller):
                self.caller = _instead_of(self.caller, CALLER)
        return self

    def close(self) -> None:
        """Sessions before their server: a client left open would wait for it when the process ends."""
        try:
            if is_connect(self.maintenance):
                _release(self.maintenance)
            if self._own and is_connect(self.caller):
                _release(self.caller)
        finally:
            if self._own:
                self.caller.stop()
            if self._server is not None:
                self._server.stop()


def open_engine(settings: Mapping[str, Any]) -> Engine:
    """From the `spark:` part of a project: engine, master, remote, conf."""
    unknown = set(settings) - {"engine", "master", "remote", "conf"}
    if unknown:
        raise ProjectError(
            f"unknown settings under spark: {', '.join(sorted(unknown))}",
            hint="known are: engine, master, remote, conf",
        )
    _prepare_python()
    kind = settings.get("engine", "spark")
    conf = {str(k): str(v) for k, v in (settings.get("conf") or {}).items()}
    if kind == "sail":
        return _sail(conf)
    if kind != "spark":
        raise ProjectError(f"no engine {kind!r}", hint="engine is spark or sail")
    if settings.get("remote"):
        return _connect(settings["remote"], conf)
    return _classic(settings.get("master", "local[*]"), conf)


def adopt(spark: SparkSession) -> Engine:
    """An engine on the caller's own session, whose settings stay as they are."""
    if is_connect(spark):
        maintenance = _beside(spark)
        _configure(maintenance, MAINTENANCE)
        return Engine(_kind(maintenance), spark, maintenance, _own=False)
    maintenance = spark.newSession()
    _configure(maintenance, MAINTENANCE)
    return Engine("spark", spark, maintenance, _own=False)


def _prepare_python() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    warnings.filterwarnings("ignore", module="pyspark")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)


def _classic(master: str, conf: Mapping[str, str]) -> Engine:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("stillframe").master(master)
    here = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for key, value in {**OWN_SESSION, **(here if master.startswith("local") else CLUSTER), **conf}.items():
        builder = builder.config(key, value)
    try:
        caller = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise EngineError(
            "Apache Spark did not start",
            detail=str(error).splitlines()[0],
            hint="Spark needs Java 17: install openjdk-17-jre-headless, or set engine: sail",
            code=NO_ENGINE,
        ) from error
    if WORKERS_PYTHON in conf:  # Spark reads it only when a program is submitted
        caller.sparkContext.pythonExec = conf[WORKERS_PYTHON]
    maintenance = caller.newSession()
    _configure(maintenance, {**MAINTENANCE, **_runtime_conf(conf)})
    return Engine("spark", caller, maintenance)


def _sail(conf: Mapping[str, str]) -> Engine:
    try:
        from pysail.spark import SparkConnectServer
    except ImportError as error:
        raise ProjectError(
            "engine: sail needs the package pysail", hint="pip install 'stillframe[sail]'"
        ) from error
    os.environ.setdefault("RUST_LOG", "error")
    os.environ.setdefault(*SAIL_FORGETS)
    os.environ.setdefault(*SAIL_TAKES)
    server = SparkConnectServer()
    server.start(background=True)
    _, port = server.listening_address
    engine = _connect(f"sc://127.0.0.1:{port}", conf)
    engine._server = server
    return engine


def _connect(remote: str, conf: Mapping[str, str]) -> Engine:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        caller = SparkSession.builder.remote(remote).create()
        _reach(caller)
        maintenance = SparkSession.builder.remote(remote).create()
        settings = {**MAINTENANCE, **_runtime_conf(conf)}
        _configure(maintenance, settings)
        _configure(caller, CALLER)
    except PySparkException as error:
        raise EngineError(
            f"no Spark Connect server answers at {remote.partition(';')[0]}",  # a token may follow
            detail=_told(error),
            code=NO_ENGINE,
        ) from error
    return Engine(_kind(maintenance), caller, maintenance, _settings=settings)


def _told(error: Exception) -> str:
    """The line of an RPC's error that says something."""
    details = re.search(r'details = "(.*)"', str(error))
    return details.group(1) if details else str(error).splitlines()[0]


def is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _beside(spark: Any) -> Any:
    """A new session on the server of a Spark Connect session, reached as that one is: same address, token
    and user, whatever the environment says. It becomes nobody's active session."""
    channel = copy(spark.client._builder)
    channel._params = {k: v for k, v in channel._params.items() if k != channel.PARAM_SESSION_ID}
    return type(spark)(connection=channel)


@contextmanager
def _asked_once(session: Any) -> Iterator[None]:
    """What is not there now is told now, not after minutes of retries."""
    client = session.client
    policies = client.get_retry_policies()
    client.set_retry_policies([])
    try:
        yield
    finally:
        client.set_retry_policies(policies)


def _forgotten(session: Any) -> bool:
    """Whether a server that answers does not know the session."""
    from pyspark.errors import PySparkException

    try:
        with _asked_once(session):
            session.conf.get("spark.sql.session.timeZone")
    except PySparkException as error:
        return "UNAVAILABLE" not in str(error)
    return False


def _instead_of(session: Any, settings: Mapping[str, str]) -> Any:
    made = _beside(session)
    _configure(made, settings)
    session.client.close()
    return made


def _reach(session: Any) -> None:
    try:
        with _asked_once(session):
            _ = session.version
    except BaseException:
        session.client.close()
        raise


def _release(session: Any) -> None:
    """End one Spark Connect session; `stop` would end the server with it where PySpark started that."""
    client = session.client
    try:
        client.set_retry_policies([])  # the server may be gone before its sessions
        with suppress(Exception):
            client.release_session()
    finally:
        client.close()


def _kind(session: SparkSession) -> str:
    """Spark and Sail give a quotient of decimals different types; asking for one runs no job."""
    quotient = session.sql("SELECT CAST(1 AS DECIMAL(10,2)) / CAST(3 AS DECIMAL(10,2)) AS q").schema[0]
    return "spark" if quotient.dataType.simpleString() == "decimal(23,13)" else "sail"


def _runtime_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings of Spark SQL reach every session; those of Spark itself only its start."""
    return {k: v for k, v in conf.items() if k.startswith("spark.sql.") and k not in MAINTENANCE}


def _configure(session: SparkSession, settings: Mapping[str, str]) -> None:
    from pyspark.errors import PySparkException

    for key, value in settings.items():
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            if "CANNOT_MODIFY" not in str(error):  # a static setting was given at start-up already
                raise
