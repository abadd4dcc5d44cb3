"""Frames and the files they name. `Lake` is the implementation on Delta tables; `Storage` what it offers."""

from stillframe.lake.delta import Lake
from stillframe.lake.frame import ChangeFile, DataFile, Frame, ViewState
from stillframe.lake.storage import Storage, Vacuumed

__all__ = ["ChangeFile", "DataFile", "Frame", "Lake", "Storage", "Vacuumed", "ViewState"]
