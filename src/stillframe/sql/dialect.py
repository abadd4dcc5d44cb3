"""The one place where sqlglot parses: Spark's grammar, with the tree left as the user wrote it.

sqlglot's own trees are made for translation between databases, so they rewrite functions on the way
(`date_sub(d, n)` becomes an addition of `n * -1`). Here every call keeps its name and its arguments, CAST
and TRY_CAST stay apart, and nodes carry the place where they begin.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from stillframe.sql.reasons import Reason, Refused, Text
from stillframe.sql.slips import slip

COMMA_JOIN = "comma_join"
TYPED_LITERAL = "typed_literal"
UNARY_PLUS = "unary +"


logging.getLogger("sqlglot").setLevel(logging.ERROR)  # what it warns of is refused here, with a place


class _ViewParser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: SparkParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "SUBSTR", "TRIM", "POSITION")
    }
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **SparkParser.UNARY_PARSERS,
        TokenType.PLUS: lambda self: exp.Anonymous(this=UNARY_PLUS, expressions=[self._parse_unary()]),
    }
    STRICT_CAST = True

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        node = super().expression(instance, token, comments)
        if (
            token is None
            and not any(isinstance(v, exp.Expr | list) for v in node.args.values())
            and self._prev
        ):
            node.update_positions(self._prev)
        return node

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        node = super()._parse_function_call(*args, **kwargs)
        if node is not None and token and "start" not in node.meta:
            node.update_positions(token)
        return node

    def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        node = super()._parse_interval(*args, **kwargs)
        for part in node.find_all(exp.Interval) if isinstance(node, exp.Expr) else ():
            if "start" not in part.meta:
                part.update_positions(token)
        return node

    def _parse_type(self, *args: Any, **kwargs: Any) -> Any:
        typed = bool(self._curr and self._next) and (
            self._curr.token_type in self.TYPE_TOKENS
            and self._next.token_type in (TokenType.STRING, TokenType.NUMBER)
        )
        node = super()._parse_type(*args, **kwargs)
        if typed and isinstance(node, exp.Cast):
            node.meta[TYPED_LITERAL] = True
        return node

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        comma = bool(self._curr) and self._curr.token_type == TokenType.COMMA
        join = super()._parse_join(*args, **kwargs)
        if join is not None and comma:
            join.meta[COMMA_JOIN] = True
        return join


class _ViewSpark(Spark):
    Parser = _ViewParser


def tokenize(text: str) -> list[Token]:
    """The tokens as Spark sees them: a number with its suffix is one, and a quote written twice within
    a string is a quote. Text that ends in the middle of a token is refused."""
    try:
        found = _ViewSpark().tokenize(text)
    except TokenError:
        start = _unfinished(text)
        hint = "close the string, the quoted name or the comment that is open"
        reason = Text(text).reason("SYNTAX", "the text ends in the middle", hint, start, start + 20)
        raise Refused([reason]) from None
    tokens: list[Token] = []
    for token in found:
        last = tokens[-1] if tokens else None
        if last is not None and last.token_type == TokenType.NUMBER and token.start == last.start:
            tokens[-1] = _token(last, text[last.start : last.end + 1], last.end)
        elif last is not None and _doubles_a_quote(text, last, token):
            tokens[-1] = _token(last, last.text + text[token.start] + token.text, token.end)
        else:
            tokens.append(token)
    return tokens


def _doubles_a_quote(text: str, last: Token, token: Token) -> bool:
    both_strings = last.token_type == token.token_type == TokenType.STRING
    return both_strings and token.start == last.end + 1 and text[token.start] == text[last.end]


def _token(like: Token, text: str, end: int) -> Token:
    return Token(like.token_type, text, like.line, like.col, like.start, end, like.comments)


def _unfinished(text: str) -> int:
    """Where the token begins that never ends: the last opening mark before which all is well."""
    for cut in range(len(text) - 1, -1, -1):
        if text[cut] in "'\"`/":
            try:
                _ViewSpark().tokenize(text[:cut])
            except TokenError:
                continue
            return cut
    return 0


def parse(text: str) -> exp.Expr:
    """The tree of one query."""
    tokens = tokenize(text)
    source = Text(text)
    for token in tokens:
        if token.token_type == TokenType.PIPE_GT:
            hint = "write the query with SELECT … FROM … WHERE"
            reason = source.reason("PIPE_SYNTAX", "|> is not supported", hint, token.start, token.end + 1)
            raise Refused([reason])
    found = slip(text, tokens)
    if found is not None:
        raise Refused([found])
    if not tokens:
        raise Refused([source.reason("SYNTAX", "there is no query", "write SELECT …", 0, 0)])
    try:
        trees = [tree for tree in _ViewSpark().parser().parse(tokens, text) if tree is not None]
    except ParseError as error:
        raise Refused([_syntax(source, tokens, error)]) from None
    except RecursionError:
        raise
    except Exception:  # a parser's own slip on a text nobody foresaw is still the text's refusal
        raise Refused([source.reason("SYNTAX", "the text cannot be parsed", "simplify it", 0, 60)]) from None
    if len(trees) != 1:
        cut = next(token for token in tokens if token.token_type == TokenType.SEMICOLON)
        hint = "write one query; a semicolon ends it"
        raise Refused([source.reason("SYNTAX", "more than one statement", hint, cut.start, cut.end + 1)])
    return trees[0]


def _syntax(source: Text, tokens: list[Token], error: ParseError) -> Reason:
    details = error.errors[0] if error.errors else {}
    message = str(details.get("description") or "the text cannot be parsed").rstrip(".")
    if message.startswith("Required keyword"):
        message = "something is missing"
    line, col = details.get("line"), details.get("col")
    at = next((t for t in tokens if t.line == line and t.col == col), tokens[-1])
    hint = "see Spark SQL's SELECT; quote unusual names with backquotes"
    return source.reason("SYNTAX", f"syntax error: {message}", hint, at.start, at.end + 1)


def span(node: exp.Expr) -> tuple[int, int]:
    """Where a node begins and ends (exclusive), by the tokens below it, else by its nearest parent."""
    here: exp.Expr | None = node
    while here is not None:
        marks = [(n.meta["start"], n.meta["end"]) for n in here.walk() if "start" in n.meta]
        if marks:
            return min(start for start, _ in marks), max(end for _, end in marks) + 1
        here = here.parent
    return 0, 0
