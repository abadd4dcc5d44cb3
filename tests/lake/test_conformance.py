"""The Delta lake keeps every promise of `Storage`."""

from pathlib import Path

import pytest

from stillframe.lake import Lake
from stillframe.lake.conformance import CHECKS, Check


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_storage(check: Check, tmp_path: Path) -> None:
    check(lambda folder: Lake.open(folder, create=True), tmp_path / "ware house")
