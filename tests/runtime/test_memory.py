"""`memory`: how much of the lake's columns a process holds."""

from __future__ import annotations

from pathlib import Path

import pytest

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
