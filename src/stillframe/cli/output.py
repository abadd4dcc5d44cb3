"""How results reach the terminal: text made with rich, or exactly one JSON document.

Data (rows of a view) is printed as it is; everything else passes `redact` first, so that no password of a
database url is ever shown.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from stillframe.errors import StillframeError

_URL_PASSWORD = re.compile(r"(://[^\s:/@\"']*):[^\s\"']*@")
_NAMED_SECRET = re.compile(r"(?i)\b(password|passwd|pwd|token|secret)=[^&\s\"']+")
_ENDLESS = 10_000
_READABLE = 16  # characters to which a column may be folded
_GAP = 3
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {10: "\\n", 13: "\\r", 9: "\\t"}


def redact(text: str) -> str:
    """The text without the passwords of urls in it."""
    return _NAMED_SECRET.sub(r"\1=***", _URL_PASSWORD.sub(r"\1:***@", text))


def json_safe(value: Any) -> Any:
    """Values JSON has no faithful form for become strings: decimals, dates, NaN and infinities; bytes in
    hex."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _number(value)
        case Mapping():
            return {str(key): json_safe(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_safe(item) for item in value]
    return plain(value)


def plain(value: Any) -> str:
    """One value as text, the same in tables, in CSV and in JSON strings."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float():
            return _number(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).isoformat().replace("+00:00", "Z")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return f"{value.total_seconds()}s"
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
    return str(value)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _redacted(value: Any) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            return {key: _redacted(item) for key, item in value.items()}
        case list():
            return [_redacted(item) for item in value]
    return value


class _Rows(Table):
    """Folded where some columns are a bit too wide; stacked, a line for each value, where the columns
    would be folded beyond reading."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=_ENDLESS)
        needed = sum(
            min(
                _READABLE,
                max(console.measure(c, options=wide).maximum for c in (column.header, *column.cells)),
            )
            for column in self.columns
        )
        if needed + _GAP * (len(self.columns) - 1) <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Text(str(self.title), style="italic")
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            stack = Table.grid(padding=(0, 1))
            stack.add_column(style="bold", no_wrap=True)
            stack.add_column(overflow="fold")
            for column, value in zip(self.columns, cells, strict=True):
                stack.add_row(column.header, _left(value))
            yield stack
            yield Text()


def _left(value: RenderableType) -> RenderableType:
    if not isinstance(value, Text):
        return value
    moved = value.copy()
    moved.justify = "left"
    return moved


def table(*columns: str, right: Iterable[str] = (), title: str | None = None) -> Table:
    """A table without vertical lines; the columns named in `right` hold numbers."""
    made = _Rows(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def cell(value: Any) -> Text:
    """One value of a row. Control characters are shown, never sent to the terminal."""
    shown = plain(value).translate(_CONTROL)
    numeric = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return Text(shown, style="dim" if value is None else "", justify="right" if numeric else "left")


class Output:
    """Where one command writes. With `as_json`, text is dropped and `document` is the one document."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._documents = 0
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr, stderr=True)

    def text(self, *things: Any) -> None:
        """Tables, trees and sentences of ours."""
        if not self.as_json:
            for thing in things:
                self.out.print(thing, soft_wrap=isinstance(thing, str), highlight=False, markup=False)

    def say(self, text: str, style: str = "") -> None:
        self.text(Text(redact(text), style=style, overflow="fold"))

    def document(self, document: Any, *, data: bool = False) -> None:
        """The JSON document; `data` holds users' rows, which are not ours to change."""
        if self.as_json:
            self._documents += 1
            safe = json_safe(document)
            self.raw(json.dumps(safe if data else _redacted(safe), ensure_ascii=False, indent=2) + "\n")

    def raw(self, text: str) -> None:
        # A lone surrogate cannot be encoded; it is shown, not a reason to fail.
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode("utf-8"))
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Something to know that is not the result."""
        self.err.print(Text(redact(text), style="dim"), soft_wrap=True)

    def failed(self, error: StillframeError) -> None:
        """The document of a command that failed before it had one."""
        if not self._documents:
            parts = {"code": error.code, "message": error.message, "detail": error.detail, "hint": error.hint}
            self.document({"error": parts})

    def error(self, error: StillframeError, subject: str = "") -> None:
        """Message, detail, hint: one line each."""
        message = f"{subject}: {error.message}" if subject else error.message
        lines = [(f"error[{error.code}]", message, "bold red")]
        if error.detail:
            lines.append(("detail", error.detail, "bold"))
        if error.hint:
            lines.append(("hint", error.hint, "bold cyan"))
        for label, text, style in lines:
            line = Text.assemble((label, style), ": ", " ".join(redact(text).split()))
            self.err.print(line, soft_wrap=True, highlight=False)


def _console(stream: Any, *, stderr: bool = False) -> Console:
    """On a terminal as wide as it is; piped, wide enough that nothing is folded away."""
    return Console(stderr=stderr, width=None if stream.isatty() else 400, emoji=False)


def rows_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    made = table(*columns)
    for row in rows:
        made.add_row(*(cell(value) for value in row))
    return made
