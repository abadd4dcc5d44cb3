"""The demo: exact at every frame it checked, and no writer outlives it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def writers(folder: Path) -> list[int]:
    """Processes that were given a database in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "demo_writer.py" in command and str(folder) in command:
            found.append(int(process.name))
    return found


def test_the_demo_ends_by_itself_with_every_view_exact(project):
    done = project.command("demo", "--engine", "sail", "--seconds", "4", "--dir", "d", "--json")
    assert done.status == 0, done
    document = done.document
    assert document["verified"] is True and document["frames"] >= 2 and document["changes"] > 0
    assert document["transactions"]["committed"] > 0 and document["transactions"]["rolled_back"] > 0
    checked = {
        view: [v["frame"] for v in document["verifications"] if v["view"] == view] for view in views(document)
    }
    assert set(checked) == {"city_sales", "repeat_orders", "loyalty"}
    last = document["history"][-1]["frame"]
    assert all(frames[0] == 1 and frames[-1] == last for frames in checked.values())
    assert writers(project.root / "d") == []
    rows = project.done("show", "city_sales", "--limit", "0", "--json", "--project", "d").document["rows"]
    assert len(rows) > len({tuple(row) for row in rows})
    again = project.command("demo", "--dir", "d")
    assert again.status == 2 and "error[NOT_EMPTY]" in again.err


def views(document):
    return {v["view"] for v in document["verifications"]}


def test_writers_end_when_the_demo_is_killed(project):
    project.root.mkdir()
    folder = project.root / "d"
    process = project.start("demo", "--engine", "sail", "--seconds", "100", "--dir", "d")
    try:
        assert eventually(lambda: len(writers(folder)) == 4)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert eventually(lambda: writers(folder) == [])
    finally:
        process.kill()
        process.communicate()


def eventually(holds) -> bool:
    for _ in range(300):
        if holds():
            return True
        time.sleep(0.2)
    return False
