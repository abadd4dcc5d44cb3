"""Text read as a value. Which texts are readable is one law for both engines, a pattern a type; the rest
is turned into text that no engine reads, so the cast itself raises.

The text is mentioned once and nothing depends on the order in which an engine evaluates: the value's part
takes the place of a readable text, and an unreadable one keeps the mark put before it.
"""

from __future__ import annotations

from stillframe.algebra import Type

_BLANK = r"[\x00-\x20\x7f]*"
_JAVA_BLANK = r"[\x00-\x20]*"  # what Java drops around a number with a point
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
# Years whose every moment, seen from any zone, lies within 0001 to 9999.
_INNER_YEAR = "(?:000[2-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])"
_MONTH = "-[0-9]{1,2}"
_DAY = f"{_MONTH}{_MONTH}"
_MINUTE = r"[ T][0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2}(?:\.[0-9]*)?)?"
_ZONE = rf"{_JAVA_BLANK}(?:UTC|GMT|UT)?[+-](?:[0-9]{{1,2}}(?::[0-9]{{1,2}})?|[0-9]{{4}})"
_UTC = rf"{_JAVA_BLANK}(?:Z|UTC|GMT|UT)"
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"

# The value is what the first group holds, or the second.
_DATE = rf"({_YEAR}(?:{_MONTH})?)|({_YEAR}{_DAY})(?:[ T].*)?"
_MOMENT = rf"{_YEAR}(?:{_MONTH}|{_DAY}(?:[ T][0-9]{{1,2}}|{_MINUTE}(?:{_UTC})?)?)?"
_TIMESTAMP = f"({_MOMENT})|({_INNER_YEAR}{_DAY}{_MINUTE}{_ZONE})"
_WHOLE = r"([+-]?[0-9]+)"
_DECIMAL = rf"([+-]?{_NUMBER})"


def _words(*words: str) -> str:
    """Any case, letter by letter: folding by a flag would let letters of other scripts in."""
    return "|".join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word) for word in words)


_DOUBLE = rf"([+-]?{_NUMBER}(?:[eE][+-]?[0-9]+)?|{_words('nan')}|[+-]?(?:{_words('inf', 'infinity')}))"
_BOOLEAN = f"({_words('t', 'true', 'y', 'yes', '1', 'f', 'false', 'n', 'no', '0')})"


def readable(text: str, target: Type, *, sail: bool) -> str:
    """SQL for a text that casts to `target` where the law lets it, and otherwise raises in the cast."""
    match target.name:
        case "DATE":
            pattern = _DATE
        case "TIMESTAMP":
            pattern = _TIMESTAMP
        case "DECIMAL" if sail:
            pattern = _DECIMAL
        case "DOUBLE" if sail:
            pattern = _DOUBLE
        case "BOOLEAN" if sail:
            pattern = _BOOLEAN
        case _ if sail and target.is_integer:
            pattern = _WHOLE
        case _:
            return text
    blank = _JAVA_BLANK if target.name in ("DECIMAL", "DOUBLE") else _BLANK
    around = rf"(?s)^\?{blank}(?:{pattern}){blank}\z".replace("\\", "\\\\")
    taken = "$1$2" if target.name in ("DATE", "TIMESTAMP") else "$1"
    return f"regexp_replace(concat('?', {text}), '{around}', '{taken}')"
