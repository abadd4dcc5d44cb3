"""A file of views: `CREATE MATERIALIZED VIEW name [WITH (option = 'value', …)] AS SELECT …;`, repeated.

The header is read token by token; the SELECT is sliced out of the text, so that what Spark and the user
see is one and the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from stillframe.errors import ProjectError
from stillframe.sql.dialect import tokenize
from stillframe.sql.reasons import Reason, Refused, Text

OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "consistency": ("convergent", "weak", "strong", "complete"),
        "refresh_policy": ("auto", "incremental", "incremental_strict", "full"),
        "algorithm": (),  # any word; which there are is known where they are
        "serve": (),  # where records go
        "key": (),  # the columns they are found by
        "test_and_set": ("signature", "counter"),  # how they tell a change that comes again
    }
)
AS_WRITTEN = ("serve", "key")  # options whose value is no word
_FORM = "write CREATE MATERIALIZED VIEW name [WITH (option = 'value', …)] AS SELECT …;"


@dataclass(frozen=True, slots=True)
class ViewText:
    """One statement. `select` holds exactly the characters between AS and the semicolon; it begins at
    `select_line`, `select_column` of the file, the statement at `line`."""

    name: str
    options: Mapping[str, str]
    select: str
    origin: str = ""
    line: int = 1
    select_line: int = 1
    select_column: int = 1


def parse_views(text: str, origin: str = "") -> tuple[ViewText, ...]:
    """The views of a file, in order; a file with a statement that cannot be read is refused."""
    views, reasons = read_views(text, origin)
    if reasons:
        reason = reasons[0]
        place = _place(origin, reason.line, reason.column)
        raise ProjectError(reason.message, detail=place, hint=reason.hint, code=reason.code)
    return views


def read_views(text: str, origin: str = "") -> tuple[tuple[ViewText, ...], tuple[Reason, ...]]:
    """The views of a file, in order, and the reasons why the other statements are none."""
    try:
        statements = _statements(tokenize(text))
    except Refused as refused:
        return (), refused.reasons
    views: dict[str, ViewText] = {}
    reasons: list[Reason] = []
    for statement in statements:
        header = _Header(text, origin, statement)
        try:
            view = header.read()
            if view.name.lower() in views:
                message, hint = f"view {view.name} is defined twice", "names differ by more than case"
                header.fail(header.name, message, hint)
        except Refused as refused:
            reasons += refused.reasons
        else:
            views[view.name.lower()] = view
    return tuple(views.values()), tuple(reasons)


def _statements(tokens: list[Token]) -> list[list[Token]]:
    """Tokens between semicolons, each with the semicolon that ends it, if one does."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        parts[-1].append(token)
        if token.token_type == TokenType.SEMICOLON:
            parts.append([])
    return [part for part in parts if any(t.token_type != TokenType.SEMICOLON for t in part)]


def _place(origin: str, line: int, column: int) -> str:
    return f"{origin}:{line}:{column}" if origin else f"line {line}, column {column}"


class _Header:
    """A cursor over one statement."""

    def __init__(self, text: str, origin: str, tokens: list[Token]) -> None:
        self.text, self.origin, self.tokens, self.at = text, origin, tokens, 0
        self.name = tokens[0]

    def fail(self, token: Token | None, message: str, hint: str) -> NoReturn:
        at = token or self.tokens[-1]
        raise Refused([Text(self.text).reason("BAD_STATEMENT", message, hint, at.start, at.end + 1)])

    def peek(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def word(self) -> str:
        """The next token as an upper-case word; quoted names and strings are none."""
        token = self.peek()
        quoted = token is not None and token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
        return "" if token is None or quoted else token.text.upper()

    def take(self) -> Token | None:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, word: str) -> Token:
        token = self.peek()
        if token is None or self.word() != word:
            self.fail(token, f"{word} is missing here", _FORM)
        self.at += 1
        return token

    def read(self) -> ViewText:
        first = self.tokens[0]
        self.introduction()
        name = self.view_name()
        options = self.options() if self.word() == "WITH" else {}
        begin = self.expect("AS").end + 1
        last = self.tokens[-1]
        ended = last.token_type == TokenType.SEMICOLON
        if self.peek() in (None, last if ended else None):
            self.fail(self.peek(), f"view {name} has no query", _FORM)
        source = Text(self.text)
        line, column = source.place(begin)
        return ViewText(
            name,
            MappingProxyType(options),
            self.text[begin : last.start if ended else len(self.text)],
            self.origin,
            source.place(first.start)[0],
            line,
            column,
        )

    def introduction(self) -> None:
        start = self.peek()
        if self.word() != "CREATE":
            self.fail(start, f"a file of views holds views, not {self.word() or 'this'}", _FORM)
        self.take()
        if self.word() == "OR":
            hint = "leave OR REPLACE out: a changed text is noticed and the view is rebuilt"
            self.fail(self.peek(), "CREATE OR REPLACE is not supported", hint)
        if self.word() != "MATERIALIZED":
            hint = "write CREATE MATERIALIZED VIEW; a query used by several views can be a view of its own"
            self.fail(self.peek(), f"CREATE {self.word()} is not supported", hint)
        self.take()
        self.expect("VIEW")
        if self.word() == "IF":
            self.fail(
                self.peek(), "IF NOT EXISTS is not supported", "leave it out: a file says what there is"
            )

    def view_name(self) -> str:
        token = self.take()
        if token is None or not token.text or token.token_type in (TokenType.STRING, TokenType.L_PAREN):
            self.fail(token, "the view has no name", _FORM)
        self.name = token
        after = self.peek()
        if after is not None and after.token_type == TokenType.DOT:
            self.fail(after, "a view's name has one part", "leave the qualifier out")
        if self.word() == "(":
            self.fail(after, "a column list is not supported", "name the columns with AS in the SELECT")
        if any(char in "./\\`" or ord(char) < 32 for char in token.text) or token.text.startswith("__"):
            hint = "use letters, digits and underscores, not two underscores first"
            self.fail(token, f"{token.text!r} cannot be a view's name", hint)
        if token.token_type != TokenType.IDENTIFIER and not token.text.isidentifier():
            self.fail(
                token, f"{token.text!r} cannot be a view's name", "quote an unusual name with backquotes"
            )
        return token.text

    def options(self) -> dict[str, str]:
        self.expect("WITH")
        self.expect("(")
        found: dict[str, str] = {}
        while True:
            option, value = self.option()
            if option in found:
                name = self.tokens[self.at - 3]
                self.fail(name, f"option {option} is given twice", "give each option once")
            found[option] = value
            token = self.take()
            if token is not None and token.token_type == TokenType.R_PAREN:
                return found
            if token is None or token.token_type != TokenType.COMMA:
                self.fail(token, "a comma or ) is missing here", _FORM)

    def option(self) -> tuple[str, str]:
        token = self.take()
        name = token.text.lower() if token is not None else ""
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, 1)
            hint = (f"did you mean {near[0]}? " if near else "") + f"options are: {', '.join(OPTIONS)}"
            self.fail(token, f"unknown option {name!r}", hint)
        self.expect("=")
        value = self.take()
        if value is None or value.token_type != TokenType.STRING:
            self.fail(value, f"the value of {name} is not a string", f"write {name} = '…'")
        word = value.text.strip().lower()
        allowed = OPTIONS[name]
        if not word or (allowed and word not in allowed):
            hint = f"{name} is one of: {', '.join(allowed)}" if allowed else f"{name} is a word"
            self.fail(value, f"{value.text!r} is not a value of {name}", hint)
        return name, value.text.strip() if name in AS_WRITTEN else word
