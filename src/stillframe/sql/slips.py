"""Slips of the pen that the parser passes over and Spark does not: a doubled comma, a bracket left open,
an AS without a name. A text is what its tokens say, so a slip is refused where it stands."""

from __future__ import annotations

from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

from stillframe.sql.reasons import Reason, Text

T = TokenType
_BEGINNINGS = {T.SELECT, T.COMMA, T.L_PAREN}
_AFTER = {
    T.COMMA: {T.COMMA, T.R_PAREN, T.FROM, T.WHERE, T.JOIN},
    T.FROM: {T.FROM, T.FOR, T.COMMA, T.R_PAREN},
}
_BEFORE = {T.COMMA: _BEGINNINGS, T.ALIAS: _BEGINNINGS}
_LITERALS = {T.STRING, T.RAW_STRING, T.HEX_STRING, T.NUMBER}
_PARTNERS = {T.R_PAREN: T.L_PAREN, T.THEN: T.WHEN, T.AND: T.BETWEEN}


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
        if left.token_type == T.ALIAS and not _may_follow_as(right):
            return right
        if left.token_type in _BEFORE.get(right.token_type, ()):
            return right
    return tokens[-1] if tokens and tokens[-1].token_type in (*_AFTER, T.ALIAS) else None


def _may_follow_as(token: Token) -> bool:
    """A name, a type, or the query of a WITH."""
    if token.token_type in (T.IDENTIFIER, T.L_PAREN):
        return True
    return token.token_type not in _LITERALS and (token.text[:1].isalnum() or token.text[:1] == "_")


def _unpaired(tokens: list[Token]) -> Token | None:
    """Brackets pair, and so do WHEN and THEN, BETWEEN and AND; only an AND may also stand alone."""
    open_: dict[TokenType, list[Token]] = {T.L_PAREN: [], T.WHEN: [], T.BETWEEN: []}
    for token in tokens:
        if token.token_type in open_:
            open_[token.token_type].append(token)
        partner = _PARTNERS.get(token.token_type)
        if partner is not None:
            if open_[partner]:
                open_[partner].pop()
            elif token.token_type != T.AND:
                return token
    left_over = [token for waiting in open_.values() for token in waiting]
    return left_over[-1] if left_over else None
