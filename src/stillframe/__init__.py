"""Stillframe: SQL materialized views over many autonomous databases, exact at every frame.

Importing this package loads no Spark; opening a warehouse does not either, until there is work for it. The
public names are looked up when they are asked for: a task that reads a source in a cluster imports
`stillframe.sources`, and needs nothing of what a driver does.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from stillframe.memory import keep_what_is_free

if TYPE_CHECKING:
    from stillframe.errors import StillframeError
    from stillframe.lake.frame import Frame
    from stillframe.runtime.verify import Verification
    from stillframe.runtime.warehouse import Warehouse
    from stillframe.runtime.warehouse import open_project as open

keep_what_is_free()

__version__ = "0.1.0"
__all__ = ["Frame", "StillframeError", "Verification", "Warehouse", "__version__", "open"]

_HOMES = {
    "Frame": ("stillframe.lake.frame", "Frame"),
    "StillframeError": ("stillframe.errors", "StillframeError"),
    "Verification": ("stillframe.runtime.verify", "Verification"),
    "Warehouse": ("stillframe.runtime.warehouse", "Warehouse"),
    "open": ("stillframe.runtime.warehouse", "open_project"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, original = _HOMES[name]
    found = globals()[name] = getattr(import_module(module), original)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
