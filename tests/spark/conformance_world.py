"""Values of every type with their extremes, and expressions over them: every function, every cast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

from stillframe.algebra import EvaluationError, Ref, Scalar, Type, TypeMismatch, call, case, cast
from stillframe.algebra import evaluate_scalar as evaluated
from stillframe.algebra.functions import FUNCTIONS, castable
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    decimal,
)

MONEY, FINE, LONG, HUGE = decimal(10, 2), decimal(20, 8), decimal(38, 10), decimal(38, 0)
NINES = Decimal("9" * 38)


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


# What arithmetic and comparison meet; NULL is added to each.
VALUES: dict[Type, list[Any]] = {
    BOOLEAN: [True, False],
    TINYINT: [0, 1, -1, 7, 127, -128],
    SMALLINT: [0, 1, -1, 300, 32767, -32768],
    INT: [0, 1, -1, 7, 2147483647, -2147483648],
    BIGINT: [0, 1, -1, 7, -3, 3037000500, 9223372036854775807, -9223372036854775808],
    MONEY: [Decimal("0.00"), Decimal("1.50"), Decimal("-2.25"), Decimal("0.01"), Decimal("99999999.99")],
    FINE: [Decimal("0"), Decimal("1.00000001"), Decimal("-0.50000000"), Decimal("999999999999.99999999")],
    LONG: [Decimal("0"), Decimal("2.5"), Decimal("-0.3333333333"), NINES.scaleb(-10), -NINES.scaleb(-10)],
    HUGE: [Decimal(0), Decimal(1), Decimal(-7), NINES, -NINES],
    DOUBLE: [0.0, -0.0, 1.5, -2.5, 0.1, 1e10, 1e19, -1e19, 1e308, 5e-324]
    + [float("nan"), float("inf"), float("-inf")],
    STRING: ["", "a", "ab", "A", " aB% ", "a_b\\c", "it's", "line\nbreak", "naïve", "日本", "😀x", "é" * 3],
    BINARY: [b"", b"\x00", b"a", b"\xff\x00"],
    DATE: [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2024, 2, 29), date(1582, 10, 10)],
    TIMESTAMP: [
        _utc(1, 1, 1),
        _utc(9999, 12, 31, 23, 59, 59, 999999),
        _utc(1969, 12, 31, 23, 59, 59, 500000),
        _utc(2024, 2, 29, 13, 45, 59, 123456),
    ],
}
# Text that is read as something else.
TEXTS: dict[Type, list[str]] = {
    TINYINT: ["0", "127", "-128", "128", " 7 ", "+5", "1.5", "", "x", "1e2", "٣"],
    SMALLINT: ["32767", "32768", "-1"],
    INT: ["2147483647", "2147483648", "\t8\n", "-0", "1.0", "0x1"],
    BIGINT: ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "12a", "1 2"],
    MONEY: ["1.5", "1.005", "-2.995", "1e3", ".5", "5.", " 3 ", "123456789", "abc", "", "NaN", "1e-9"],
    LONG: ["1234567890123456789012345678.0123456789", "1e27", "1e28", "0.00000000005"],
    DOUBLE: ["1.5", "-0", "1e400", "1e-400", "NaN", "Infinity", "-inf", " 2 ", "1d", "0x10", "abc", ""],
    BOOLEAN: ["true", "FALSE", " t ", "y", "no", "1", "0", "on", "2", "", "tru"],
    DATE: ["2024-02-29", "2023-02-29", "2024-2-9", "2024", "2024-05", " 2024-05-06 ", "0001-01-01"]
    + ["9999-12-31", "2024-02-29 10:00:00", "2024-02-29T", "24-01-01", "20240101", "x", ""],
    TIMESTAMP: ["2024-02-29 10:11:12", "2024-02-29T10:11:12.123456", "2024-02-29", "2024-02-29 10:11"]
    + ["2024-02-29 10:11:12+02:00", "2024-02-29 10:11:12Z", "2024-02-29 24:00:00", "2024", "x", ""]
    + [
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "2024-02-29 10:11:12.1234567",
        "1969-12-31 1:2:3",
    ],
    STRING: ["", "a\\'b"],
    BINARY: ["", "é", "a\x00b"],
}
PATTERNS = [
    "%",
    "_",
    "a%",
    "%b",
    "",
    "__",
    "a\\_b\\\\c",
    "%\\%%",
    "\\",
    "a\\b",
    "%日%",
    "_x",
    "line_break",
    "%'%",
]
INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
DECIMALS = (MONEY, FINE, LONG, HUGE)
NUMBERS = (*INTEGERS, *DECIMALS, DOUBLE)
MIXED = [(INT, BIGINT), (BIGINT, MONEY), (MONEY, FINE), (LONG, MONEY), (BIGINT, DOUBLE), (DOUBLE, MONEY)]
ARITHMETIC = ("+", "-", "*", "/", "%")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True)
class Group:
    """Expressions over the same columns, and the rows they are evaluated on."""

    name: str
    types: tuple[Type, ...]
    rows: tuple[tuple[Any, ...], ...]
    expressions: tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class Meaning:
    """What an expression gives on each row of its group: a value, or an error."""

    values: dict[int, Any]
    raises: tuple[int, ...]


def meaning(group: Group, scalar: Scalar) -> Meaning:
    values, raises = {}, []
    for number, row in enumerate(group.rows):
        try:
            values[number] = evaluated(scalar, row)
        except EvaluationError:
            raises.append(number)
    return Meaning(values, tuple(raises))


def _args(*types: Type) -> tuple[Ref, ...]:
    return tuple(Ref(position, type_) for position, type_ in enumerate(types))


def _calls(names: tuple[str, ...], types: tuple[Type, ...]) -> Iterator[tuple[str, Scalar]]:
    for name in names:
        try:
            yield f"{name} of {', '.join(map(str, types))}", call(name, *_args(*types))
        except TypeMismatch:
            continue


def _rows(*types: Type) -> tuple[tuple[Any, ...], ...]:
    return tuple(product(*([*VALUES[type_], None] for type_ in types)))


def _group(name: str, types: tuple[Type, ...], names: tuple[str, ...]) -> Group:
    return Group(name, types, _rows(*types), tuple(_calls(names, types)))


def groups() -> Iterator[Group]:
    for type_ in VALUES:
        yield _group(f"one {type_}", (type_,), _ONE)
        pair = (type_, type_)
        yield _group(
            f"two {type_}", pair, (*ARITHMETIC, "div", *COMPARISONS, "coalesce", "concat", "and", "or")
        )
        yield _casts(type_)
    for left, right in MIXED:
        yield _group(f"{left} with {right}", (left, right), (*ARITHMETIC, *COMPARISONS, "coalesce"))
    yield from _texts()
    yield from _read_texts()
    yield from _dates()
    yield _choices()


_ONE = ("negative", "abs", "floor", "ceil", "isnull", "isnotnull", "not", "upper", "lower", "length")
_ONE += ("trim", "ltrim", "rtrim", "year", "quarter", "month", "day", "hour", "minute", "second")


def _casts(source: Type) -> Group:
    """From text, only to types any text can be read as: others have rows of their own."""
    targets = [t for t in VALUES if castable(source, t) and t != source]
    if source == STRING:
        targets = [BINARY]
    expressions = tuple((f"cast {source} to {t}", cast(Ref(0, source), t)) for t in targets)
    return Group(f"casts of {source}", (source,), _rows(source), expressions)


def _read_texts() -> Iterator[Group]:
    for target, texts in TEXTS.items():
        scalar = cast(Ref(0, STRING), target)
        rows = tuple((text,) for text in [*texts, None])
        yield Group(f"text as {target}", (STRING,), rows, ((f"cast STRING to {target}", scalar),))


def _texts() -> Iterator[Group]:
    texts = [*VALUES[STRING], None]
    like = (("like", call("like", *_args(STRING, STRING))),)
    yield Group("like", (STRING, STRING), tuple(product(texts, [*PATTERNS, None])), like)
    places = [-3, -1, 0, 1, 2, 5, 2147483647, -2147483648, None]
    substring = (("substring", call("substring", *_args(STRING, INT, INT))),)
    some = ["", "abc", "日本語", "😀x", None]
    lengths = [-1, 0, 1, 2, 2147483647, None]
    yield Group("substring", (STRING, INT, INT), tuple(product(some, places, lengths)), substring)
    parts = ["", "a", "ab", "\\", "'", "日", None]
    replace = (("replace", call("replace", *_args(STRING, STRING, STRING))),)
    yield Group("replace", (STRING, STRING, STRING), tuple(product(texts, parts, parts)), replace)


def _dates() -> Iterator[Group]:
    days = [0, 1, -1, 365, -400, 3652058, 2147483647, -2147483648, None]
    shifts = tuple(_calls(("date_add", "date_sub"), (DATE, INT)))
    yield Group("days", (DATE, INT), tuple(product([*VALUES[DATE], None], days)), shifts)
    yield _group("days between", (DATE, DATE), ("datediff",))
    yield _group("dates with timestamps", (DATE, TIMESTAMP), (*COMPARISONS, "datediff"))
    parts = ("year", "quarter", "month", "day")
    rows = tuple((text,) for text in ("2024-02-29", "0001-01-01", "9999-12-31", None))
    yield Group("parts of text", (STRING,), rows, tuple(_calls(parts, (STRING,))))


def _choices() -> Group:
    """CASE, AND, OR and COALESCE keep what stands behind a guard from being evaluated."""
    a, b = _args(BIGINT, BIGINT)
    zero = cast(call("-", b, b), BIGINT)
    nonzero = call("<>", b, zero)
    quotient = call("div", a, b)
    expressions = (
        ("case guards", case(((nonzero, quotient),), cast(zero, BIGINT))),
        ("and guards", call("and", nonzero, call(">", quotient, zero))),
        ("or guards", call("or", call("=", b, zero), call(">", quotient, zero))),
        ("coalesce guards", call("coalesce", call("=", a, a), call(">", quotient, zero))),
        ("nested case", case(((call("isnull", a), b), (call("isnull", b), a)), call("negative", a))),
    )
    rows = tuple(product([7, -7, 0, None], [2, -1, 0, None]))
    return Group("choices", (BIGINT, BIGINT), rows, expressions)


def uncovered() -> set[str]:
    """Functions and castable pairs that no group has."""
    seen: set[str] = set()
    pairs: set[tuple[str, str]] = set()

    def note(scalar: Scalar) -> None:
        seen.add(getattr(scalar, "function", ""))
        if hasattr(scalar, "target"):
            pairs.add((scalar.children[0].type.name, scalar.type.name))
        for child in scalar.children:
            note(child)

    for group in groups():
        for _, scalar in group.expressions:
            note(scalar)
    missing = {
        f"cast {a} to {b}"
        for a in VALUES
        for b in VALUES
        if castable(a, b) and a.name != b.name and (a.name, b.name) not in pairs
    }
    return (set(FUNCTIONS) - seen) | missing
