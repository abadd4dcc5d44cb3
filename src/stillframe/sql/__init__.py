"""SQL text to plans. Nothing outside this package knows the parser."""

from stillframe.sql.catalog import Catalog, Names
from stillframe.sql.query import can_be_column, resolve, resolved
from stillframe.sql.reasons import Operator, Reason, Refused
from stillframe.sql.rewrite import sources_named
from stillframe.sql.statements import OPTIONS, ViewText, parse_views, read_views

__all__ = [
    "OPTIONS",
    "Catalog",
    "Names",
    "Operator",
    "Reason",
    "Refused",
    "ViewText",
    "can_be_column",
    "parse_views",
    "read_views",
    "resolve",
    "resolved",
    "sources_named",
]
