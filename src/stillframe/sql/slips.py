"""Slips of the pen that the parser passes over and Spark does not: a doubled comma, a bracket left open,
an AS without a name. A text is what its tokens say, so a slip is refused where it stands."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from stillframe.sql.reasons import Reason, Text

T = TokenType
_BEGINNINGS = {T.SELECT, T.COMMA, T.L_PAREN}
_NO_NAME = {T.COMMA, T.R_PAREN, T.STRING, T.NUMBER}
_AFTER = {
    T.COMMA: {T.COMMA, T.R_PAREN, T.FROM, T.WHERE},
    T.ALIAS: _NO_NAME,
    T.FROM: {T.FROM, T.FOR, T.COMMA, T.R_PAREN},
}
_BEFORE = {T.COMMA: _BEGINNINGS, T.ALIAS: _BEGINNINGS}
_PARTNERS = {T.R_PAREN: T.L_PAREN, T.THEN: T.WHEN}


def slip(text: str, tokens: list[Token]) -> Reason | None:
    """The first slip there is."""
    at = _misplaced(tokens) or _unpaired(tokens)
    if at is None:
        return None
    hint = "look for a comma, a bracket, an AS or a THEN too many or too few"
    return Text(text).reason("SYNTAX", f"syntax error near {at.text!r}", hint, at.start, at.end + 1)


def _misplaced(tokens: list[Token]) -> Token | None:
    for left, right in pairwise(tokens):
        if right.token_type in _AFTER.get(left.token_type, ()):
            return right
        if left.token_type in _BEFORE.get(right.token_type, ()):
            return right
    return tokens[-1] if tokens and tokens[-1].token_type in _AFTER else None


def _unpaired(tokens: list[Token]) -> Token | None:
    """Brackets pair, and so do WHEN and THEN."""
    open_: dict[TokenType, list[Token]] = {T.L_PAREN: [], T.WHEN: []}
    for token in tokens:
        if token.token_type in open_:
            open_[token.token_type].append(token)
        partner = _PARTNERS.get(token.token_type)
        if partner is not None:
            if not open_[partner]:
                return token
            open_[partner].pop()
    left_over = [*open_[T.L_PAREN], *open_[T.WHEN]]
    return left_over[-1] if left_over else None
