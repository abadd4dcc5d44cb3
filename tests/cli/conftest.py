"""The real command, run as a process of its own, in projects on Sail."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stillframe.cli.main import main

SECONDS = 180
COMMAND = [sys.executable, "-m", "stillframe.cli.main"]


class Done:
    """What a command left: status, text on stdout and stderr."""

    def __init__(self, run: subprocess.CompletedProcess[str]) -> None:
        self.status, self.out, self.err = run.returncode, run.stdout, run.stderr
        assert "Traceback" not in self.err, self.err

    @property
    def document(self) -> Any:
        """Stdout as exactly one JSON document."""
        return json.loads(self.out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))

    def __repr__(self) -> str:
        return f"status {self.status}\n--- out\n{self.out}\n--- err\n{self.err}"


class Project:
    """A folder, the databases in it, and commands run there."""

    def __init__(self, root: Path, engine: str = "sail") -> None:
        self.root = root
        self.engine = engine

    def command(self, *arguments: str, env: dict[str, str] | None = None) -> Done:
        environment = {**os.environ, **(env or {})}
        self.root.mkdir(exist_ok=True)
        return Done(
            subprocess.run(
                [*COMMAND, *arguments],
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        pipe = subprocess.PIPE
        return subprocess.Popen([*COMMAND, *arguments], cwd=self.root, stdout=pipe, stderr=pipe, text=True)

    def done(self, *arguments: str) -> Done:
        """A command that must succeed."""
        done = self.command(*arguments)
        assert done.status == 0, done
        return done

    def here(self, *arguments: str) -> Any:
        """The JSON document of a command that needs no engine, run in this process to save its start."""
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            assert main([*arguments, "--json", "--project", str(self.root)]) == 0
        return json.loads(written.getvalue())

    def init(self) -> Project:
        """What `stillframe init` makes, on this project's engine."""
        assert main(["init", str(self.root)]) == 0
        self.use(self.engine)
        return self

    def use(self, engine: str) -> None:
        path = self.root / "stillframe.yml"
        text = path.read_text().replace('engine: spark, master: "local[*]"', f"engine: {engine}")
        path.write_text(text)

    def write(self, source: str, *statements: str) -> None:
        """One transaction."""
        database = sqlite3.connect(self.root / f"{source}.db", timeout=30, isolation_level=None)
        database.execute("BEGIN IMMEDIATE")
        for statement in statements:
            database.execute(statement)
        database.execute("COMMIT")
        database.close()

    def ask(self, source: str, query: str) -> list[tuple[Any, ...]]:
        database = sqlite3.connect(self.root / f"{source}.db", timeout=30)
        try:
            return database.execute(query).fetchall()
        finally:
            database.close()

    def view(self, text: str, file: str) -> None:
        (self.root / "views" / file).write_text(text)

    def configure(self, text: str) -> None:
        self.root.mkdir(exist_ok=True)
        (self.root / "stillframe.yml").write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty folder."""
    return Project(tmp_path / "project")


@pytest.fixture
def shop(project: Project) -> Project:
    """What `init` makes, on Sail; no frame yet."""
    return project.init()


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """What `init` makes, refreshed once; for tests that only read."""
    made = Project(tmp_path_factory.mktemp("cli") / "shop").init()
    made.done("refresh")
    return made


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., Project]:
    return lambda name, engine="sail": Project(tmp_path / name, engine)
