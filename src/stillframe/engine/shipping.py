"""What a task of the engine needs on another machine: this package, as a zip that Spark hands to the
executors. It stands before whatever is installed there, so a task never runs another version than its driver.

A task imports `stillframe.sources` and what stands above it, and with them pyarrow and the drivers of the
databases, which have parts in machine code: those are installed in the Python of the workers.

Passwords travel inside the tasks that read a source, over Spark's own connections as the rest of a task does:
no setting, no plan and no file of ours holds one.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from stillframe.engine.session import is_connect

if TYPE_CHECKING:
    from stillframe.engine.session import Engine

_SHIPPED = "_stillframe_shipped"
_ONE_AT_A_TIME = Lock()
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)


def ship(engine: Engine) -> None:
    """Before the first task that reads a source: later calls, and engines whose tasks run in this machine's
    own Python, need nothing."""
    session: Any = engine.maintenance
    if engine.kind != "spark":
        return
    classic = not is_connect(session)
    holder = session.sparkContext if classic else session
    if classic and _here(holder.master):
        return
    with _ONE_AT_A_TIME:
        if not getattr(holder, _SHIPPED, False):
            if classic:
                _add(holder, package())
            else:
                holder.addArtifacts(str(package()), pyfile=True)
            setattr(holder, _SHIPPED, True)


def _here(master: str) -> bool:
    return master.startswith("local") and not master.startswith("local-cluster")


def _add(context: Any, path: Path) -> None:
    """`addPyFile` also lets this process import from the executors' copy: not from ours."""
    before = list(sys.path)
    context.addPyFile(str(path))
    sys.path[:] = before


@cache
def package() -> Path:
    """This package as a zip, which lives as long as this process: executors that start late ask for it."""
    root = Path(__file__).parents[1]
    content = {
        path.relative_to(root.parent).as_posix(): path.read_bytes() for path in sorted(root.rglob("*.py"))
    }
    digest = hashlib.sha256(repr(content).encode()).hexdigest()[:12]
    folder = Path(tempfile.mkdtemp(prefix="stillframe-package-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / f"stillframe-{digest}.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(ZipInfo(name, _FIRST_DAY), data, ZIP_DEFLATED)
    return path
