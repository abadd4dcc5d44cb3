"""Values written as text, and the types they are taken for.

A type is taken for a column only if every value is of it, and says the same after: text that a number would
not give back (leading zeros, a plus sign, spaces) stays text. What the values of one export leave open is
chosen so that the next export fits too: decimals have room for twelve digits before the point and six behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.types import MAX_PRECISION, Type

ROOM_BEFORE, ROOM_BEHIND = 12, 6

_PLAIN = r"((0|[1-9][0-9]*)(\.[0-9]+)?|\.[0-9]+)"
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_DECIMAL = rf"^-?{_PLAIN}$"
_DIGITS = r"^-?0?(?P<before>[0-9]*)\.?(?P<behind>[0-9]*)$"
_DOUBLE = r"(?i)^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?$"
# As programs write them: 1E5 by itself is as likely a code.
_WRITTEN_DOUBLE = rf"(?i)^-?({_PLAIN}|[0-9](\.[0-9]+)?e[+-][0-9]+|[0-9]+\.[0-9]+e[0-9]+)$"
_WORD = r"(?i)^(nan|-?inf(inity)?)$"
_BOOLEAN = r"(?i)^(true|false)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIMESTAMP = (
    r"(?i)^[0-9]{4}-[0-9]{2}-[0-9]{2}[ t][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
    r" ?(z|[+-][0-9]{2}:[0-9]{2})?$"
)
_UNSPACED = r"^(.{16,}?) ?(Z|[+-][0-9]{2}:[0-9]{2})?$"
_ZONED = r"(Z|[+-][0-9]{2}:[0-9]{2})$"
_PADDED_INTEGER = r"^-?[0-9]+$"

# The years 0001 to 9999, in microseconds and in days.
_FIRST, _LAST = (
    int((datetime(y, m, d, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000
    for y, m, d in ((1, 1, 1), (9999, 12, 31))
)
_DAY = 86_400_000_000


class BadText(Exception):
    """The text at `index` of a column is not a value of its type."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(index, text)
        self.index = index
        self.text = text


def parsed(texts: pa.Array, type_: Type, *, declared: bool = False) -> pa.Array:
    """Texts as values of the type, or BadText. An empty text is NULL unless the type is text. Who declares
    a type says that padded integers are integers too, and that 1e3 is an exact number."""
    if type_.name == "STRING":
        return texts
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    pattern, convert = _HOW[type_.name]
    if declared and (type_.is_integer or type_.is_decimal):
        pattern = _PADDED_INTEGER if type_.is_integer else _DOUBLE
    fits = pc.match_substring_regex(texts, pattern)
    if type_.name == "DOUBLE":
        fits = pc.or_(fits, pc.match_substring_regex(texts, _WORD))
    index = pc.index(fits, False).as_py()
    if index >= 0:
        raise BadText(index, texts[index].as_py())
    try:
        return convert(texts, type_)
    except (pa.ArrowException, OverflowError):
        index = _first_bad(texts, lambda part: convert(part, type_))
        raise BadText(index, texts[index].as_py()) from None


def _first_bad(texts: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> int:
    low, high = 0, len(texts)  # texts[:low] convert, texts[:high] do not
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(texts.slice(low, middle - low))
            low = middle
        except (pa.ArrowException, OverflowError):
            high = middle
    return low


def _cast(texts: pa.Array, type_: Type) -> pa.Array:
    return texts.cast(arrow_type(type_))


def _boolean(texts: pa.Array, _: Type) -> pa.Array:
    return pc.equal(pc.utf8_lower(texts), "true")


def _double(texts: pa.Array, type_: Type) -> pa.Array:
    values = pc.utf8_lower(texts).cast(arrow_type(type_))
    beyond = pc.and_(pc.is_inf(values), pc.invert(pc.match_substring_regex(texts, _WORD)))
    if pc.any(beyond).as_py():
        raise OverflowError
    return values


def _date(texts: pa.Array, type_: Type) -> pa.Array:
    values = texts.cast(arrow_type(type_))
    _require_years(values.cast(pa.int32()).cast(pa.int64()), _FIRST // _DAY, _LAST // _DAY)
    return values


def _timestamp(texts: pa.Array, type_: Type) -> pa.Array:
    """Without an offset it is UTC."""
    plain = pc.replace_substring_regex(pc.utf8_upper(texts), _UNSPACED, r"\1\2")
    in_utc = pc.binary_join_element_wise(plain, "Z", "")
    zoned = pc.if_else(pc.match_substring_regex(plain, _ZONED), plain, in_utc)
    values = zoned.cast(arrow_type(type_))
    require_years(values)
    return values


def require_years(instants: pa.Array) -> None:
    """OverflowError unless all are in the years 0001 to 9999."""
    _require_years(instants.cast(pa.int64()), _FIRST, _LAST + _DAY - 1)


def _require_years(values: pa.Array, first: int, last: int) -> None:
    if pc.any(pc.or_(pc.less(values, first), pc.greater(values, last))).as_py():
        raise OverflowError


_HOW: dict[str, tuple[str, Callable[[pa.Array, Type], pa.Array]]] = {
    "BOOLEAN": (_BOOLEAN, _boolean),
    "TINYINT": (_INTEGER, _cast),
    "SMALLINT": (_INTEGER, _cast),
    "INT": (_INTEGER, _cast),
    "BIGINT": (_INTEGER, _cast),
    "DECIMAL": (_DECIMAL, _cast),
    "DOUBLE": (_DOUBLE, _double),
    "DATE": (_DATE, _date),
    "TIMESTAMP": (_TIMESTAMP, _timestamp),
}


class Guess:
    """What all values of a column, as many as it was shown, can be taken for."""

    def __init__(self) -> None:
        self._open = ["BOOLEAN", "BIGINT", "DECIMAL", "DOUBLE", "DATE", "TIMESTAMP"]
        self._seen = self._numbers = False
        self._before = self._behind = 0

    def add(self, texts: pa.Array) -> None:
        texts = pc.drop_null(texts.filter(pc.not_equal(texts, "")))
        if len(texts):
            self._seen = True
            self._open = [name for name in self._open if self._can_be(name, texts)]

    def _can_be(self, name: str, texts: pa.Array) -> bool:
        match name:
            case "DECIMAL":
                return self._decimals(texts)
            case "DOUBLE":
                numbers = pc.match_substring_regex(texts, _WRITTEN_DOUBLE)
                self._numbers = self._numbers or pc.any(numbers).as_py()
                if not pc.all(pc.or_(numbers, pc.match_substring_regex(texts, _WORD))).as_py():
                    return False
        try:
            parsed(texts, Type(name))
        except BadText:
            return False
        return True

    def _decimals(self, texts: pa.Array) -> bool:
        if not pc.all(pc.match_substring_regex(texts, _DECIMAL)).as_py():
            return False
        digits = pc.extract_regex(texts, _DIGITS)
        before, behind = (pc.max(pc.utf8_length(pc.struct_field(digits, i))).as_py() for i in (0, 1))
        self._before, self._behind = max(self._before, before), max(self._behind, behind)
        return True

    @property
    def type(self) -> Type:
        """A column of which no value is known is text, which any value fits."""
        if not self._seen or not self._open:
            return t.STRING
        name = self._open[0]
        if name == "DECIMAL":
            return self._decimal()
        return Type(name) if name != "DOUBLE" or self._numbers else t.STRING

    def _decimal(self) -> Type:
        """Numbers of more digits than an exact type has stay text."""
        if self._before + self._behind > MAX_PRECISION:
            return t.STRING
        if not self._behind:
            return t.decimal(MAX_PRECISION, 0)
        before = max(self._before, min(ROOM_BEFORE, MAX_PRECISION - self._behind))
        behind = max(self._behind, min(ROOM_BEHIND, MAX_PRECISION - before))
        return t.decimal(before + behind, behind)


_DECLARED = {
    "boolean": t.BOOLEAN,
    "bool": t.BOOLEAN,
    "tinyint": t.TINYINT,
    "smallint": t.SMALLINT,
    "int": t.INT,
    "integer": t.INT,
    "bigint": t.BIGINT,
    "double": t.DOUBLE,
    "string": t.STRING,
    "text": t.STRING,
    "varchar": t.STRING,
    "date": t.DATE,
    "timestamp": t.TIMESTAMP,
}
DECLARABLE = "boolean, tinyint, smallint, int, bigint, decimal(p,s), double, string, date, timestamp"


def declared_type(text: str) -> Type:
    """The type that a project names; ValueError if it names none."""
    name = " ".join(text.lower().split())
    sized = re.fullmatch(r"(?:decimal|numeric) ?\( ?(\d+) ?(?:, ?(\d+) ?)?\)", name)
    if sized:
        return t.decimal(int(sized[1]), int(sized[2] or 0))
    if name not in _DECLARED:
        raise ValueError(f"no such type: {text}")
    return _DECLARED[name]
