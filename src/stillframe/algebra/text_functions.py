"""Functions of text. A character is a code point; places count from 1."""

from __future__ import annotations

import re

from stillframe.algebra.signatures import EvaluationError, Function, TypeMismatch, Types, arity, takes
from stillframe.algebra.types import BINARY, BOOLEAN, INT, STRING, VOID, Type


def _strings(types: Types) -> tuple[Types, Type]:
    if any(type_ not in (STRING, VOID) for type_ in types):
        raise TypeMismatch(f"takes text, not {', '.join(map(str, types))}")
    return (STRING,) * len(types), STRING


def _length_signature(types: Types) -> tuple[Types, Type]:
    arity(types, 1)
    if types[0] not in (STRING, BINARY):
        raise TypeMismatch(f"length takes text or bytes, not {types[0]}")
    return types, INT


def _substring(text: str, start: int, length: int) -> str:
    """Positions count from 1; 0 is 1; a negative one counts from the end, and may begin before the text."""
    begin = start - 1 if start > 0 else (len(text) + start if start < 0 else 0)
    end = begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _replace(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


def like_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern with the escape character backslash."""
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            i += 1
            if i == len(pattern) or pattern[i] not in "%_\\":
                raise EvaluationError(f"the pattern {pattern!r} has an escape before an ordinary character")
            out.append(re.escape(pattern[i]))
        else:
            out.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        i += 1
    return re.compile("".join(out), re.DOTALL)


TEXT_FUNCTIONS: dict[str, Function] = {
    "like": Function(
        takes(STRING, STRING, returns=BOOLEAN), lambda a, p: like_pattern(p).fullmatch(a) is not None
    ),
    "concat": Function(_strings, lambda *a: "".join(a)),
    "upper": Function(takes(STRING, returns=STRING), str.upper),
    "lower": Function(takes(STRING, returns=STRING), str.lower),
    "length": Function(_length_signature, len),
    "trim": Function(takes(STRING, returns=STRING), lambda a: a.strip(" ")),
    "ltrim": Function(takes(STRING, returns=STRING), lambda a: a.lstrip(" ")),
    "rtrim": Function(takes(STRING, returns=STRING), lambda a: a.rstrip(" ")),
    "substring": Function(takes(STRING, INT, INT, returns=STRING), _substring),
    "replace": Function(takes(STRING, STRING, STRING, returns=STRING), _replace),
}
