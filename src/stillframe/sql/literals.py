"""Number and byte literals, with the types Spark gives them."""

from __future__ import annotations

import re
from decimal import Decimal

from stillframe.algebra.scalar import Literal
from stillframe.algebra.types import BIGINT, BINARY, DOUBLE, INT, SMALLINT, TINYINT, Type, decimal

_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))(e[+-]?\d+)?([a-z]*)", re.IGNORECASE)
_WHOLE = {"L": BIGINT, "S": SMALLINT, "Y": TINYINT}


def number(text: str) -> Literal:
    """`text` with its sign and its suffix. ValueError where Spark reads no such number."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is not a number")
    digits, exponent, suffix = found[1], found[2] or "", found[3].upper()
    if suffix == "BD":
        return _decimal(Decimal(digits + exponent))
    if suffix == "D" or (exponent and not suffix):
        return Literal(float(digits + exponent), DOUBLE)
    if suffix in _WHOLE and re.fullmatch(r"-?\d+", digits) and not exponent:
        if not _fits(int(digits), _WHOLE[suffix]):
            raise ValueError(f"{digits} does not fit {_WHOLE[suffix]}")
        return Literal(int(digits), _WHOLE[suffix])
    if suffix:
        raise ValueError(f"{text} is not a number of a supported type")
    if "." in digits:
        return _decimal(Decimal(digits))
    fitting = next((type_ for type_ in (INT, BIGINT) if _fits(int(digits), type_)), None)
    return Literal(int(digits), fitting) if fitting else _decimal(Decimal(digits))


def hexadecimal(digits: str) -> Literal:
    return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), BINARY)


def _fits(value: int, type_: Type) -> bool:
    return -(1 << (type_.bits - 1)) <= value < 1 << (type_.bits - 1)


def _decimal(value: Decimal) -> Literal:
    """The narrowest decimal that holds the digits as written."""
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    precision = max(len(digits) + max(int(exponent), 0), scale)
    if precision > 38:
        raise ValueError(f"{value} has more than 38 digits")
    return Literal(Decimal(f"{value:f}"), decimal(precision, scale))
