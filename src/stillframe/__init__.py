"""Stillframe: SQL materialized views over many autonomous databases, exact at every frame.

Importing this package loads no Spark; opening a warehouse does not either, until there is work for it.
"""

from stillframe.errors import StillframeError
from stillframe.lake.frame import Frame
from stillframe.runtime.verify import Verification
from stillframe.runtime.warehouse import Warehouse
from stillframe.runtime.warehouse import open_project as open

__version__ = "0.1.0"
__all__ = ["Frame", "StillframeError", "Verification", "Warehouse", "__version__", "open"]
