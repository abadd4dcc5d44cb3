"""Propagation trees are enumerated by the tests of changes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "change"))
