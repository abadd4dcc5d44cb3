"""Real database servers for tests: private folders, loopback ports, stopped when their block ends.

A server that is not installed is a failure that says what to install, never a skip.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pymysql
import redis

START_SECONDS = 60.0


def program(name: str, package: str) -> str:
    """Where a server's program is, also where Debian keeps it off the path."""
    places = [*os.environ.get("PATH", "").split(":"), "/usr/sbin", "/usr/local/sbin"]
    places += map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
    found = shutil.which(name, path=":".join(places))
    if found is None:
        raise RuntimeError(f"{name} is missing: install it with `sudo apt-get install {package}`")
    return found


def children(parent: int) -> list[int]:
    """The processes that a process started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def unprivileged() -> list[str]:
    """A server refuses to run as root; root runs it as nobody."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    folder.chmod(0o755)
    inner = folder / "data"
    inner.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(inner, "nobody", "nogroup")
        shutil.chown(folder, "nobody", "nogroup")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait_until(ready: Callable[[], Any], server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            ready()
            return
        except Exception as error:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}") from error
            time.sleep(0.05)


@dataclass
class PostgresServer:
    """Superuser `postgres`, no password. `settings` become `-c` options."""

    folder: Path
    port: int
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "wal_level": "logical",
            "max_connections": "60",
            **self.settings,
        }
        arguments = [item for key, value in options.items() for item in ("-c", f"{key}={value}")]
        log = self.folder / "log"
        command = [program("postgres", "postgresql"), "-D", str(self.folder / "data"), *arguments]
        deadline = time.monotonic() + START_SECONDS
        while True:
            with log.open("ab") as out:
                self.process = subprocess.Popen([*unprivileged(), *command], stdout=out, stderr=out)
            try:
                return wait_until(lambda: self.connect().close(), self.process, log)
            except RuntimeError:
                # Sessions of a server that was killed may hold its memory a moment longer than it lives.
                held = "pre-existing shared memory block" in log.read_text()[-600:]
                if not held or self.process.poll() is None or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            sessions = children(self.process.pid) if kill else []
            (self.process.kill if kill else self.process.terminate)()  # SIGTERM waits for sessions to end
            for session in sessions:  # which would notice a moment later, and might answer once more
                with suppress(ProcessLookupError):
                    os.kill(session, signal.SIGKILL)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.send_signal(2)  # SIGINT ends them
                self.process.wait(20)
            self.process = None

    def url(self, database: str = "postgres", user: str = "postgres", password: str = "") -> str:
        login = f"{user}:{password}" if password else user
        return f"postgresql://{login}@127.0.0.1:{self.port}/{database}"

    def connect(
        self, database: str = "postgres", user: str = "postgres", password: str = ""
    ) -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database, user, password), autocommit=True)

    def database(self, name: str) -> None:
        """An empty database of that name, whatever there was."""
        with self.connect() as con:
            con.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            con.execute(f'CREATE DATABASE "{name}"')


@contextmanager
def postgres(**settings: str) -> Iterator[PostgresServer]:
    with private_folder("stillframe-pg-") as folder:
        initdb = [program("initdb", "postgresql"), "-D", str(folder / "data"), "-U", "postgres"]
        initdb += ["-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        subprocess.run([*unprivileged(), *initdb], check=True, capture_output=True, cwd=folder)
        server = PostgresServer(folder, free_port(), settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@dataclass
class MariadbServer:
    """User `root`, no password. `options` are mariadbd's own, as `--name=value`."""

    folder: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = self.folder / "log"
        command = [
            program("mariadbd", "mariadb-server"),
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'pid'}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
            "--server-id=1",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=128M",
            "--character-set-server=utf8mb4",
            f"--tmpdir={self.folder}",  # a server that starts clears its own of temporary tables
            *self.options,
        ]
        with log.open("ab") as out:
            self.process = subprocess.Popen([*unprivileged(), *command], stdout=out, stderr=out)
        wait_until(lambda: self.connect().close(), self.process, log)

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(60)
            self.process = None

    def url(self, database: str, user: str = "root", password: str = "") -> str:
        login = f"{user}:{password}" if password else user
        return f"mariadb://{login}@127.0.0.1:{self.port}/{database}"

    def connect(
        self, database: str | None = None, user: str = "root", password: str = ""
    ) -> pymysql.Connection[Any]:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=user,
            password=password,
            database=database,
            charset="utf8mb4",
            autocommit=True,
        )

    def database(self, name: str) -> None:
        """An empty database of that name, whatever there was."""
        with self.connect() as con, con.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")
            cursor.execute(f"CREATE DATABASE `{name}`")


BINLOG = ("--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL")


@contextmanager
def mariadb(*options: str) -> Iterator[MariadbServer]:
    with private_folder("stillframe-my-") as folder:
        install = [
            program("mariadb-install-db", "mariadb-server"),
            "--no-defaults",
            f"--datadir={folder / 'data'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]
        subprocess.run([*unprivileged(), *install], check=True, capture_output=True, cwd=folder)
        server = MariadbServer(folder, free_port(), options)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@dataclass
class RedisServer:
    """`password` is asked of everyone, where there is one. `options` are redis-server's own."""

    folder: Path
    port: int
    password: str = ""
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = self.folder / "log"
        command = [program("redis-server", "redis-server"), "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.folder / "data"), "--save", "", "--appendonly", "no", *self.options]
        if self.password:
            command += ["--requirepass", self.password]
        with log.open("ab") as out:
            self.process = subprocess.Popen([*unprivileged(), *command], stdout=out, stderr=out)
        wait_until(lambda: self.connect().ping(), self.process, log)

    def stop(self, *, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.wait(60)
            self.process = None

    def url(self, database: int = 0) -> str:
        login = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"redis://{login}127.0.0.1:{self.port}/{database}"

    def connect(self, database: int = 0) -> redis.Redis:
        return redis.Redis.from_url(self.url(database), decode_responses=True)


@contextmanager
def redis_server(*options: str, password: str = "") -> Iterator[RedisServer]:
    """It forgets everything when it stops, unless the options say `--appendonly yes`."""
    with private_folder("stillframe-redis-") as folder:
        server = RedisServer(folder, free_port(), password, options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
