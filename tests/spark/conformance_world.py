"""Expressions over values of every type: every function, every cast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any

from conformance_values import (
    ARITHMETIC,
    COMPARISONS,
    DECIMALS,
    EXTREMES,
    MIXED,
    PATTERNS,
    TEXTS,
    VALUES,
    utc,
)

from stillframe.algebra import EvaluationError, Literal, Ref, Scalar, Type, TypeMismatch, call, case, cast
from stillframe.algebra import evaluate_scalar as evaluated
from stillframe.algebra.functions import EXACT, FUNCTIONS, castable
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    DATE,
    INT,
    STRING,
    TIMESTAMP,
    decimal,
)
from stillframe.sql.functions import BUILDERS
from stillframe.sql.truncation import date_trunc, trunc, weekday


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
        yield _alone(type_)
        pair = (type_, type_)
        yield _group(
            f"two {type_}",
            pair,
            (*ARITHMETIC, "div", *COMPARISONS, "coalesce", "concat", "and", "or", *EXTREMES),
        )
    for left, right in MIXED:
        yield _group(
            f"{left} with {right}", (left, right), (*ARITHMETIC, *COMPARISONS, "coalesce", *EXTREMES)
        )
    yield from _quotients()
    yield from _texts()
    yield from _read_texts()
    yield from _dates()
    yield from _built()
    yield _only()
    yield from _means()
    yield _literals()
    yield _choices()


# Quotients whose digits come at once, in steps, or with more digits after the point than 38 leave.
QUOTIENTS = (
    (decimal(15, 2), decimal(15, 2)),
    (decimal(38, 6), decimal(38, 4)),
    (decimal(25, 2), decimal(25, 2)),
    (decimal(10, 2), decimal(38, 10)),
    (decimal(38, 38), decimal(38, 30)),
    (decimal(38, 20), decimal(38, 0)),
    (decimal(7, 7), decimal(1, 0)),
)


def _quotients() -> Iterator[Group]:
    """Each by each: small and large, whole and broken, ties on either side, both signs."""
    for pair in QUOTIENTS:
        digits = [_of_digits(type_) for type_ in pair]
        yield Group(
            f"quotient of {pair[0]} by {pair[1]}",
            pair,
            tuple(product(*digits)),
            tuple(_calls(("/",), pair)),
        )


def _of_digits(type_: Type) -> list[Any]:
    wholes = {3, -7, 8, 625, -99999, 2 * 10**9 + 1, -(10**14) + 1, 2 * 10**27 + 9, 10**type_.precision - 1}
    fitting = sorted(whole for whole in wholes if abs(whole) < 10**type_.precision)
    return [*(EXACT.scaleb(Decimal(whole), -type_.scale) for whole in (*fitting, 0)), None]


_ONE = ("negative", "abs", "floor", "ceil", "isnull", "isnotnull", "not", "upper", "lower", "length")
_ONE += ("dayofyear", "dayofweek", "weekofyear", "last_day", "sign", "sqrt", "reverse")
_ONE += ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
_ONE += ("trim", "ltrim", "rtrim", "year", "quarter", "month", "day", "hour", "minute", "second")


def _alone(type_: Type) -> Group:
    """Functions of one argument, and casts. From text, only to types any text can be read as: the others
    have rows of their own."""
    targets = [t for t in VALUES if castable(type_, t) and t != type_]
    if type_ == STRING:
        targets = [BINARY]
    casts = tuple((f"cast {type_} to {t}", cast(Ref(0, type_), t)) for t in targets)
    return Group(str(type_), (type_,), _rows(type_), (*_calls(_ONE, (type_,)), *casts))


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
    tests = ("instr", "startswith", "endswith", "contains", "concat_ws")
    searched = ["", "a", "b", "aB", "日", "x", "é", "\\c", None]
    yield Group(
        "searches", (STRING, STRING), tuple(product(texts, searched)), tuple(_calls(tests, (STRING, STRING)))
    )
    some += [" a a", "aXXbXX", "X"]
    counts = [-2147483648, -2, -1, 0, 1, 2, 5, None]
    pads = tuple(product(some, counts, ["", "x", "日y", None]))
    yield Group("padding", (STRING, INT, STRING), pads, tuple(_pads()))
    cuts = tuple(product(some, ["", " ", "XX", "X", None], [*counts[1:], 2147483647]))
    splits = (("split_part", call("split_part", *_args(STRING, STRING, INT))),)
    yield Group("split_part", (STRING, STRING, INT), cuts, splits)
    repeats = tuple(product(some, counts))
    yield Group("repeat", (STRING, INT), repeats, tuple(_calls(("repeat",), (STRING, INT))))
    parts = ["", "a", "ab", "\\", "'", "日", None]
    replace = (("replace", call("replace", *_args(STRING, STRING, STRING))),)
    replace += (
        ("translate", call("translate", *_args(STRING, STRING, STRING))),
        ("concat_ws of three", call("concat_ws", *_args(STRING, STRING, STRING))),
    )
    yield Group("replace", (STRING, STRING, STRING), tuple(product(texts, parts, parts)), replace)


def _pads() -> Iterator[tuple[str, Scalar]]:
    for name in ("lpad", "rpad"):
        yield name, call(name, *_args(STRING, INT, STRING))


def _dates() -> Iterator[Group]:
    days = [0, 1, -1, 365, -400, 3652058, 2147483647, -2147483648, None]
    shifts = tuple(_calls(("date_add", "date_sub"), (DATE, INT)))
    yield Group("days", (DATE, INT), tuple(product([*VALUES[DATE], None], days)), shifts)
    months = [0, 1, -1, 11, -12, 119987, -119987, 2147483647, -2147483648, None]
    ends = [*VALUES[DATE], date(2024, 1, 31), date(2023, 2, 28), None]
    yield Group(
        "months", (DATE, INT), tuple(product(ends, months)), tuple(_calls(("add_months",), (DATE, INT)))
    )
    moments = [*VALUES[TIMESTAMP], utc(2024, 1, 31, 1, 2, 3, 4), None]
    by_months = tuple(_calls(("timestamp_add_months",), (TIMESTAMP, INT)))
    yield Group("months of moments", (TIMESTAMP, INT), tuple(product(moments, months)), by_months)
    micros = [0, 1, -1, 86_400_000_000, -86_400_000_001, 315537897599999999, -315537897599999999]
    micros += [9223372036854775807, -9223372036854775808, None]
    by_micros = tuple(_calls(("timestamp_add_micros",), (TIMESTAMP, BIGINT)))
    yield Group("micros of moments", (TIMESTAMP, BIGINT), tuple(product(moments, micros)), by_micros)
    fields = tuple(
        product([-1, 0, 1, 2023, 2024, 9999, 10000, None], [0, 2, 12, 13], [0, 1, 29, 31, 32, None])
    )
    yield Group("make_date", (INT, INT, INT), fields, tuple(_calls(("make_date",), (INT, INT, INT))))
    yield _group("days between", (DATE, DATE), ("datediff",))
    yield _group("dates with timestamps", (DATE, TIMESTAMP), (*COMPARISONS, "datediff"))
    parts = ("year", "quarter", "month", "day")
    rows = tuple((text,) for text in ("2024-02-29", "0001-01-01", "9999-12-31", None))
    yield Group("parts of text", (STRING,), rows, tuple(_calls(parts, (STRING,))))


def _built() -> Iterator[Group]:
    """What is written with other functions."""
    day, moment = Ref(0, DATE), Ref(0, TIMESTAMP)
    days = [
        *(
            (f"trunc {unit}", trunc(day, Literal(unit, STRING)))
            for unit in ("year", "quarter", "month", "week")
        )
    ]
    days += [("weekday", weekday(day)), ("date_trunc of a date", date_trunc(Literal("week", STRING), day))]
    rows = tuple((value,) for value in [*VALUES[DATE], date(1969, 12, 28), date(2023, 11, 30), None])
    yield Group("parts of days", (DATE,), rows, tuple(days))
    units = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
    moments = tuple((f"date_trunc {unit}", date_trunc(Literal(unit, STRING), moment)) for unit in units)
    yield Group("parts of moments", (TIMESTAMP,), _rows(TIMESTAMP), moments)
    texts = tuple(product(["", "abc", "日本語", None], [-2147483648, -1, 0, 1, 2, 2147483647, None]))
    cuts = tuple((name, BUILDERS[name](*_args(STRING, INT))) for name in ("left", "right"))
    yield Group("ends of text", (STRING, INT), texts, cuts)
    for type_ in DECIMALS:
        rounded = tuple(
            (f"round to {n}", BUILDERS["round"](Ref(0, type_), Literal(n, INT))) for n in (0, 1, 9)
        )
        yield Group(f"round {type_}", (type_,), _rows(type_), rounded)


def _only() -> Group:
    scalar = call("only", *_args(BIGINT, INT))
    rows = tuple(product([0, 1, 2, None], [7, None]))
    return Group("only", (BIGINT, INT), rows, (("only", scalar),))


def _means() -> Iterator[Group]:
    """Sums by counts: ties on either side of zero, rests of all sizes."""
    for total, unit in ((decimal(25, 2), "0.01"), (decimal(38, 4), "0.0001")):
        sums = [Decimal(n) * Decimal(unit) for n in (0, 1, -1, 7, -25, 1234567, 999999999999999)]
        counts = [1, 3, 7, 8, 20_000, 60_000, 10**10]
        rows = (*product(sums, counts), (None, 1), (Decimal(unit), None))
        types = (total, BIGINT)
        yield Group(f"mean of {total}", types, rows, (("mean", call("mean", *_args(*types))),))


def _literals() -> Group:
    """Every value as it is written into the text of a query."""
    written = tuple(
        (f"literal {value!r}", Literal(value, type_))
        for type_, values in VALUES.items()
        for value in [*values, None]
    )
    return Group("literals", (INT,), ((1,),), written)


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
