"""Where IO meets the pure parts: configuration, sessions, verification, and the warehouse users open."""

from stillframe.runtime.config import Project, load_project
from stillframe.runtime.outcome import Result, Step
from stillframe.runtime.session import Session
from stillframe.runtime.verify import Verification
from stillframe.runtime.warehouse import Warehouse, open_project

__all__ = [
    "Project",
    "Result",
    "Session",
    "Step",
    "Verification",
    "Warehouse",
    "load_project",
    "open_project",
]
