"""Fault tests use real processes and real signals; their sizes grow in longer campaigns."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults_project import FaultsProject, fill

from stillframe.engine import Engine


@pytest.fixture
def project(tmp_path: Path, engine: Engine, engine_name: str) -> Iterator[FaultsProject]:
    made = FaultsProject(tmp_path / "project", engine, engine_name)
    fill(made.root, random.Random(1))
    yield made
    made.end()
