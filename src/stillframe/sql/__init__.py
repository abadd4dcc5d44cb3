"""SQL text to plans. Nothing outside this package knows the parser."""

from stillframe.sql.catalog import Catalog, Names
from stillframe.sql.query import resolve
from stillframe.sql.reasons import Reason, Refused
from stillframe.sql.statements import OPTIONS, ViewText, parse_views

__all__ = ["OPTIONS", "Catalog", "Names", "Reason", "Refused", "ViewText", "parse_views", "resolve"]
