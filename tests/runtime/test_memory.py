"""`memory`: how much of the lake's columns a process holds; and for how long what is free."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stillframe import memory
from stillframe.errors import ProjectError
from stillframe.lake.warm import WARM
from stillframe.runtime import Warehouse, load_project


def project(root: Path, memory: str) -> Path:
    (root / "stillframe.yml").write_text(f"name: x\nsources: {{}}\nmemory: {memory}\n", encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("0", 0), ("4096", 4096), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("2GB", 2 * 10**9), ("7B", 7)],
)
def test_sizes(tmp_path: Path, text: str, bytes_: int) -> None:
    assert load_project(project(tmp_path, text)).memory == bytes_


@pytest.mark.parametrize("text", ["much", "-1", "5 apples", "[1]", "1 mb"])
def test_what_is_no_size_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(ProjectError, match="is not a size") as found:
        load_project(project(tmp_path, text))
    assert found.value.hint


def test_a_warehouse_holds_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WARM, "room", WARM.room)
    Warehouse(project=load_project(project(tmp_path, "3MiB"))).close()
    assert WARM.room == 3 << 20
    before = WARM.room
    (tmp_path / "stillframe.yml").write_text("name: x\nsources: {}\n", encoding="utf-8")
    Warehouse(project=load_project(tmp_path)).close()
    assert before == WARM.room


@pytest.mark.parametrize(("said", "found"), [(None, memory.KEPT_FOR), ("0", "0")])
def test_arrow_keeps_what_is_free_for_a_while_unless_it_is_told_otherwise(
    said: str | None, found: str
) -> None:
    """As it tells itself, when it is loaded; on a machine with ample memory."""
    others = {name: value for name, value in os.environ.items() if name != memory.SETTING}
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import stillframe.memory as memory; memory.AMPLE = 0; memory.keep_what_is_free()\n"
            "import pyarrow; pyarrow.allocate_buffer(1)",
        ],
        env={**others, **({} if said is None else {memory.SETTING: said}), "MIMALLOC_VERBOSE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"option 'purge_delay': {found} " in told.stderr


def test_where_there_is_little_memory_it_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.SETTING, raising=False)
    monkeypatch.setattr(memory, "there_is", lambda: memory.AMPLE - 1)
    memory.keep_what_is_free()
    assert memory.SETTING not in os.environ
