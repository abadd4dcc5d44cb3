"""Why a view is refused: a stable code, what is wrong, what to do, and where in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stillframe.algebra.plan import Plan
from stillframe.errors import ProjectError


@dataclass(frozen=True, slots=True)
class Reason:
    """`line` and `column` count from 1, in the text that was given."""

    code: str
    message: str
    hint: str = ""
    line: int = 1
    column: int = 1
    snippet: str = ""

    def __str__(self) -> str:
        near = f", at {self.snippet!r}" if self.snippet else ""
        return f"{self.line}:{self.column} {self.code}: {self.message}{near}"


@dataclass(frozen=True, slots=True)
class Operator:
    """What a text asks for at some place; `plan` is what it means there, None where it means nothing."""

    name: str
    plan: Plan | None
    line: int
    column: int
    snippet: str


class Refused(ProjectError):
    """A text that cannot be maintained as it stands; `reasons` is never empty, and in order of the text."""

    def __init__(self, reasons: Sequence[Reason], view: str = "") -> None:
        self.reasons = tuple(reasons)
        self.view = view
        first = self.reasons[0]
        super().__init__(
            (f"view {view}: " if view else "") + first.message,
            detail="; ".join(map(str, self.reasons)),
            hint=first.hint,
            code=first.code,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (Refused, (self.reasons, self.view))


@dataclass(frozen=True, slots=True)
class Text:
    """A text in which places are found again."""

    text: str

    def place(self, start: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        before = self.text[:start]
        return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1

    def reason(self, code: str, message: str, hint: str, start: int, end: int) -> Reason:
        """`start` to `end` (exclusive) is what the reason is about."""
        line, column = self.place(start)
        while self.text.count("(", start, end) > self.text.count(")", start, end) and end < len(self.text):
            end += 1
        snippet = " ".join(self.text[start:end].split())
        return Reason(
            code, message, hint, line, column, snippet if len(snippet) <= 60 else snippet[:59] + "…"
        )
