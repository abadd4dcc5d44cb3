"""Collecting the reasons against a text while it is resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from sqlglot import exp

from stillframe.algebra.plan import Plan
from stillframe.sql.dialect import span
from stillframe.sql.reasons import Operator, Reason, Text


class Stop(Exception):
    """The reason is recorded; this part of the text goes no further."""


@dataclass
class Complaints:
    """The reasons found so far, and the text they are about."""

    text: str
    reasons: list[Reason] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)

    def note(self, node: exp.Expr, code: str, message: str, hint: str = "") -> None:
        reason = Text(self.text).reason(code, message, hint, *span(node))
        if reason not in self.reasons:
            self.reasons.append(reason)

    def operator(self, node: exp.Expr, name: str, plan: Plan | None) -> None:
        """Something that is maintained, as it is met in the text."""
        at = Text(self.text).reason("", "", "", *span(node))
        found = Operator(name, plan, at.line, at.column, at.snippet)
        if not any((o.name, o.line, o.column) == (name, at.line, at.column) for o in self.operators):
            self.operators.append(found)

    def stop(self, node: exp.Expr, code: str, message: str, hint: str = "") -> NoReturn:
        self.note(node, code, message, hint)
        raise Stop

    def only(self, node: exp.Expr, *understood: str) -> None:
        """Refuse a node with a part nobody here understands; no part is ever dropped."""
        for name, value in node.args.items():
            if value not in (None, False, []) and name not in understood:
                place = value if isinstance(value, exp.Expr) else node
                what = f"{name.rstrip('_').replace('_', ' ')} in {described(node)}"
                self.stop(place, "UNSUPPORTED_SYNTAX", f"{what} is not supported", "leave it out")


def described(node: exp.Expr) -> str:
    return node.key.replace("_", " ")


def refused_column(complaints: Complaints, node: exp.Expr, label: str, why: str) -> NoReturn:
    hint = "leave it out of the SELECT; list the other columns instead of *"
    complaints.stop(node, "REFUSED_COLUMN", f"column {label} cannot be used: {why}", hint)
