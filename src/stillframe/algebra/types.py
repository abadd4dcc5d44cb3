"""Column types, and how two of them meet: Spark SQL's rules in ANSI mode.

Types are values; equal types compare equal. `VOID` is the type of a bare NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_PRECISION = 38
MIN_ADJUSTED_SCALE = 6


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})" if self.name == "DECIMAL" else self.name

    @property
    def is_integer(self) -> bool:
        return self.name in _INTEGER_BITS

    @property
    def is_decimal(self) -> bool:
        return self.name == "DECIMAL"

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_decimal or self.name == "DOUBLE"

    @property
    def bits(self) -> int:
        """Width of an integer type."""
        return _INTEGER_BITS[self.name]


_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 20}

VOID = Type("VOID")
BOOLEAN = Type("BOOLEAN")
TINYINT = Type("TINYINT")
SMALLINT = Type("SMALLINT")
INT = Type("INT")
BIGINT = Type("BIGINT")
DOUBLE = Type("DOUBLE")
STRING = Type("STRING")
BINARY = Type("BINARY")
DATE = Type("DATE")
TIMESTAMP = Type("TIMESTAMP")


def decimal(precision: int, scale: int) -> Type:
    if not (1 <= precision <= MAX_PRECISION and 0 <= scale <= precision):
        raise ValueError(f"no such type: DECIMAL({precision},{scale})")
    return Type("DECIMAL", precision, scale)


def adjusted_decimal(precision: int, scale: int) -> Type:
    """The decimal Spark settles on when an exact result would need more than 38 digits:
    integer digits are kept, scale gives way down to six."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    integer_digits = precision - scale
    return decimal(MAX_PRECISION, max(MAX_PRECISION - integer_digits, min(scale, MIN_ADJUSTED_SCALE)))


def as_decimal(type_: Type) -> Type:
    """The decimal that holds every value of an integer type."""
    return type_ if type_.is_decimal else decimal(_INTEGER_DIGITS[type_.name], 0)


def wider_decimal(left: Type, right: Type) -> Type:
    """The decimal that holds both; where 38 digits do not, fractional digits give way to integer ones."""
    digits = max(left.precision - left.scale, right.precision - right.scale)
    scale = min(max(left.scale, right.scale), MAX_PRECISION - digits)
    return decimal(digits + scale, scale)


def common_type(left: Type, right: Type) -> Type | None:
    """The type both sides are cast to before they are compared, united or chosen between.

    None where Stillframe asks for an explicit CAST. Spark would turn text into a number here;
    text meeting a date or a timestamp is read as one, which is what people rely on.
    """
    if left == right:
        return left
    if left == VOID:
        return right
    if right == VOID:
        return left
    if left.is_numeric and right.is_numeric:
        if "DOUBLE" in (left.name, right.name):
            return DOUBLE
        if left.is_integer and right.is_integer:
            return left if left.bits >= right.bits else right
        return wider_decimal(as_decimal(left), as_decimal(right))
    pair = {left.name, right.name}
    if pair == {"DATE", "TIMESTAMP"}:
        return TIMESTAMP
    if pair == {"STRING", "DATE"}:
        return DATE
    if pair == {"STRING", "TIMESTAMP"}:
        return TIMESTAMP
    return None
