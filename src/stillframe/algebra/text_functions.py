"""Functions of text. A character is a code point; places count from 1."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

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


def _padded(text: str, length: int, pad: str, *, left: bool) -> str:
    """Cut to the length, or filled up to it; never filled with nothing."""
    length = max(length, 0)
    missing = length - len(text)
    if missing <= 0 or not pad:
        return text[:length]
    filling = (pad * (missing // len(pad) + 1))[:missing]
    return filling + text if left else text + filling


def _joined(separator: str | None, *parts: str | None) -> str | None:
    """NULL parts are left out; only a NULL separator gives NULL."""
    return None if separator is None else separator.join(part for part in parts if part is not None)


def _split_part(text: str, delimiter: str, place: int) -> str:
    """Places count from 1, or from the end with -1; beyond the parts there is the empty text."""
    if not place:
        raise EvaluationError("split_part counts places from 1, or from the end with -1")
    parts = text.split(delimiter) if delimiter else [text]
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if 0 <= at < len(parts) else ""


def _translated(text: str, characters: str, replacements: str) -> str:
    """Each character by the one at its place; those without one are left out. The first mention counts."""
    table: dict[int, str | None] = {}
    for place, character in enumerate(characters):
        table.setdefault(ord(character), replacements[place] if place < len(replacements) else None)
    return text.translate(table)


def _digest(name: str) -> Function:
    return Function(takes(BINARY, returns=STRING), lambda data: hashlib.new(name, data).hexdigest())


def _test(test: Callable[[str, str], bool]) -> Function:
    return Function(takes(STRING, STRING, returns=BOOLEAN), test)


DIGESTS = {224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
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
    "lpad": Function(
        takes(STRING, INT, STRING, returns=STRING), lambda a, n, pad: _padded(a, n, pad, left=True)
    ),
    "rpad": Function(
        takes(STRING, INT, STRING, returns=STRING), lambda a, n, pad: _padded(a, n, pad, left=False)
    ),
    "concat_ws": Function(_strings, _joined, strict=False),
    "split_part": Function(takes(STRING, STRING, INT, returns=STRING), _split_part),
    "translate": Function(takes(STRING, STRING, STRING, returns=STRING), _translated),
    "repeat": Function(takes(STRING, INT, returns=STRING), lambda a, n: a * n),
    "reverse": Function(takes(STRING, returns=STRING), lambda a: a[::-1]),
    "instr": Function(takes(STRING, STRING, returns=INT), lambda a, part: a.find(part) + 1),
    "startswith": _test(str.startswith),
    "endswith": _test(str.endswith),
    "contains": _test(str.__contains__),
    "md5": _digest("md5"),
    "sha1": _digest("sha1"),
    **{name: _digest(name) for name in DIGESTS.values()},
}
