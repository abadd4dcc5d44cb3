"""Functions at their extremes, as tables. What is expected is what Spark SQL 4.2 answers in ANSI mode."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from stillframe.algebra import (
    Bag,
    EvaluationError,
    Literal,
    Ref,
    Scalar,
    Type,
    TypeMismatch,
    call,
    case,
    evaluate_scalar,
)
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
    VOID,
    adjusted_decimal,
    common_type,
    decimal,
)

NAN, INF = float("nan"), float("inf")
INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
RAISES = object()


def apply(function: str, *args: tuple[Any, Type]) -> Any:
    """The function on columns (not literals, which may type otherwise), or RAISES."""
    try:
        return evaluate_scalar(
            typed(function, *(type_ for _, type_ in args)), tuple(value for value, _ in args)
        )
    except EvaluationError:
        return RAISES


def typed(function: str, *types: Type) -> Scalar:
    return call(function, *(Ref(i, type_) for i, type_ in enumerate(types)))


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and Bag.of([(one,)]) == Bag.of([(other,)])


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_integers_overflow_at_their_own_width(type_: Type) -> None:
    low, high = -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1

    def on(function: str, *values: int) -> Any:
        return apply(function, *((value, type_) for value in values))

    assert on("+", high, 1) is on("-", low, 1) is on("*", low, -1) is on("negative", low) is RAISES
    assert on("abs", low) is RAISES
    assert on("+", high - 1, 1) == on("abs", high) == on("negative", -high) == high
    assert on("-", low + 1, 1) == on("*", low, 1) == low
    assert on("+", high, low) == -1
    assert on("%", low, -1) == 0
    assert typed("+", type_, type_).type == typed("%", type_, type_).type == type_
    # `div` is a BIGINT for every width, so only the widest overflows.
    assert on("div", low, -1) == (RAISES if type_ == BIGINT else -low)


@pytest.mark.parametrize("narrow", INTEGERS, ids=str)
@pytest.mark.parametrize("wide", INTEGERS, ids=str)
def test_integers_meet_at_the_wider(narrow: Type, wide: Type) -> None:
    wider = max(narrow, wide, key=lambda type_: type_.bits)
    assert typed("+", narrow, wide).type == wider
    assert common_type(narrow, wide) == wider
    assert typed("/", narrow, wide).type == DOUBLE


@pytest.mark.parametrize(
    ("function", "left", "right", "expected"),
    [
        ("+", (10, 2), (12, 4), (13, 4)),
        ("-", (10, 2), (12, 4), (13, 4)),
        ("+", (38, 10), (38, 10), (38, 9)),
        ("+", (38, 0), (38, 10), (38, 6)),
        ("+", (38, 2), (38, 2), (38, 2)),
        ("+", (38, 38), (1, 0), (38, 36)),
        ("*", (10, 2), (12, 4), (23, 6)),
        ("*", (38, 10), (38, 10), (38, 6)),
        ("*", (20, 10), (18, 9), (38, 18)),
        ("*", (38, 0), (38, 0), (38, 0)),
        ("/", (10, 2), (10, 2), (23, 13)),
        ("/", (38, 18), (38, 18), (38, 6)),
        ("/", (5, 0), (1, 0), (11, 6)),
        ("%", (10, 2), (12, 4), (12, 4)),
        ("%", (3, 1), (38, 0), (3, 1)),
    ],
)
def test_decimal_types(
    function: str, left: tuple[int, int], right: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert typed(function, decimal(*left), decimal(*right)).type == decimal(*expected)


def test_scale_gives_way_to_integer_digits() -> None:
    assert adjusted_decimal(38, 20) == decimal(38, 20)
    assert adjusted_decimal(39, 20) == decimal(38, 19)
    assert adjusted_decimal(77, 20) == decimal(38, 6)
    assert adjusted_decimal(77, 3) == decimal(38, 3)
    assert common_type(decimal(38, 0), decimal(38, 10)) == decimal(38, 0)
    assert common_type(decimal(38, 18), decimal(20, 0)) == decimal(38, 18)
    assert common_type(decimal(10, 2), TINYINT) == decimal(10, 2)
    assert common_type(decimal(10, 2), BIGINT) == decimal(22, 2)
    for impossible in ((0, 0), (39, 0), (5, 6), (5, -1)):
        with pytest.raises(ValueError, match="no such type"):
            decimal(*impossible)


@pytest.mark.parametrize(
    ("literal", "expected"), [(1, decimal(11, 2)), (100, decimal(11, 2)), (123456789, decimal(12, 2))]
)
def test_a_whole_literal_beside_a_decimal_counts_its_digits(literal: int, expected: Type) -> None:
    assert call("+", Ref(0, decimal(10, 2)), Literal(literal, INT)).type == expected
    assert call("+", Ref(0, decimal(10, 2)), Ref(1, BIGINT)).type == decimal(23, 2)
    assert call("*", Ref(0, decimal(10, 2)), Literal(100, BIGINT)).type == decimal(14, 2)


NINES = Decimal("9" * 38)


@pytest.mark.parametrize(
    ("function", "left", "right", "expected"),
    [
        ("+", (NINES, decimal(38, 0)), (Decimal(1), decimal(1, 0)), RAISES),
        ("*", (NINES, decimal(38, 0)), (Decimal(1), decimal(1, 0)), NINES),
        ("*", (NINES, decimal(38, 0)), (Decimal(2), decimal(1, 0)), RAISES),
        ("-", (NINES.copy_negate(), decimal(38, 0)), (Decimal(1), decimal(1, 0)), RAISES),
        ("/", (Decimal(1), decimal(10, 2)), (Decimal(3), decimal(10, 2)), Decimal("0.3333333333333")),
        ("/", (Decimal(2), decimal(38, 18)), (Decimal(3), decimal(38, 18)), Decimal("0.666667")),
        ("/", (Decimal(-2), decimal(38, 18)), (Decimal(3), decimal(38, 18)), Decimal("-0.666667")),
        ("%", (Decimal("-7.5"), decimal(3, 1)), (Decimal(2), decimal(3, 1)), Decimal("-1.5")),
        ("%", (Decimal("7.5"), decimal(3, 1)), (Decimal(-2), decimal(3, 1)), Decimal("1.5")),
        ("%", (NINES, decimal(38, 0)), (Decimal("0.07"), decimal(3, 2)), Decimal("0.02")),
        ("*", (Decimal("0.1234567"), decimal(38, 7)), (Decimal("1"), decimal(38, 7)), Decimal("0.123457")),
        ("floor", (Decimal("-1.5"), decimal(4, 1)), None, Decimal(-2)),
        ("ceil", (Decimal("-1.5"), decimal(4, 1)), None, Decimal(-1)),
        ("ceil", (Decimal("9.9"), decimal(2, 1)), None, Decimal(10)),
        ("negative", (NINES, decimal(38, 0)), None, RAISES),  # rounded to 34 digits first
        ("abs", (NINES.copy_negate(), decimal(38, 0)), None, RAISES),
        ("abs", (NINES, decimal(38, 0)), None, NINES),
    ],
)
def test_decimals_are_exact(function: str, left: Any, right: Any, expected: Any) -> None:
    found = apply(function, left) if right is None else apply(function, left, right)
    assert found is RAISES if expected is RAISES else found == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [(decimal(4, 1), decimal(4, 0)), (decimal(10, 0), decimal(10, 0)), (decimal(38, 2), decimal(37, 0)),
     (decimal(38, 0), decimal(38, 0)), (decimal(5, 5), decimal(1, 0)), (INT, BIGINT), (DOUBLE, BIGINT)],
    ids=str,
)  # fmt: skip
def test_types_of_whole_numbers(given: Type, expected: Type) -> None:
    assert typed("floor", given).type == typed("ceil", given).type == expected


@pytest.mark.parametrize(
    "zero", [(0, INT), (0, BIGINT), (0.0, DOUBLE), (-0.0, DOUBLE), (Decimal(0), decimal(5, 2))]
)
@pytest.mark.parametrize("function", ["/", "%"])
def test_division_by_zero(function: str, zero: tuple[Any, Type]) -> None:
    one = {INT: 1, BIGINT: 1, DOUBLE: 1.0}.get(zero[1], Decimal(1))
    assert apply(function, (one, zero[1]), zero) is RAISES
    assert apply(function, (None, zero[1]), zero) is None
    assert apply(function, zero, (None, zero[1])) is None
    assert apply(function, zero, (one, zero[1])) == 0


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("%", (-7, 3), -1), ("%", (7, -3), 1), ("%", (-7, -3), -1), ("%", (6, -3), 0),
        ("div", (-7, 2), -3), ("div", (7, -2), -3), ("div", (-7, -2), 3), ("div", (1, 0), RAISES),
        ("div", (2**63 - 1, 1), 2**63 - 1), ("div", (2**63 - 1, -1), -(2**63) + 1),
    ],
)  # fmt: skip
def test_signs_of_remainders_and_quotients(function: str, values: tuple[int, int], expected: Any) -> None:
    assert apply(function, *((value, BIGINT) for value in values)) == expected


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("+", (1e308, 1e308), INF), ("-", (INF, INF), NAN), ("*", (0.0, INF), NAN), ("/", (1.0, INF), 0.0),
        ("/", (1e308, 1e-10), INF), ("%", (-7.5, 2.0), -1.5), ("%", (7.5, INF), 7.5), ("%", (INF, 2.0), NAN),
        ("%", (1.0, NAN), NAN), ("/", (NAN, 1.0), NAN), ("negative", (0.0,), 0.0), ("abs", (-INF,), INF),
        ("floor", (-0.5,), -1), ("ceil", (-0.5,), 0), ("floor", (1e300,), 2**63 - 1), ("floor", (NAN,), 0),
        ("ceil", (-INF,), -(2**63)), ("ceil", (INF,), 2**63 - 1), ("floor", (9.3e18,), 2**63 - 1),
        ("=", (NAN, NAN), True), (">", (NAN, INF), True), ("<", (INF, NAN), True), ("<>", (NAN, NAN), False),
        ("=", (0.0, -0.0), True), ("<", (-0.0, 0.0), False), ("<=>", (NAN, NAN), True),
        ("<=", (NAN, 1.0), False),
        ("<=>", (NAN, None), False), ("<=>", (None, None), True), ("=", (None, None), None),
    ],
)  # fmt: skip
def test_doubles(function: str, values: tuple[Any, ...], expected: Any) -> None:
    assert same(apply(function, *((value, DOUBLE) for value in values)), expected)


TRUTH = (True, False, None)


@pytest.mark.parametrize("a", TRUTH)
@pytest.mark.parametrize("b", TRUTH)
def test_three_valued_logic(a: bool | None, b: bool | None) -> None:
    """AND is the least, OR the greatest of false < unknown < true; NOT turns the order round."""
    order = [False, None, True]
    sides = ((a, BOOLEAN), (b, BOOLEAN))
    assert apply("and", *sides) is min(a, b, key=order.index)
    assert apply("or", *sides) is max(a, b, key=order.index)
    assert apply("not", (a, BOOLEAN)) is order[2 - order.index(a)]
    assert apply("isnull", (a, BOOLEAN)) is (a is None)
    assert apply("isnotnull", (a, BOOLEAN)) is (a is not None)
    assert apply("coalesce", *sides) is (b if a is None else a)
    assert apply("=", *sides) is (None if a is None or b is None else a is b)
    assert apply("<=>", *sides) is (a is b)
    chosen = case(((Ref(0, BOOLEAN), Literal(1, INT)), (Ref(1, BOOLEAN), Literal(2, INT))), Literal(3, INT))
    assert evaluate_scalar(chosen, (a, b)) == (1 if a else 2 if b else 3)


def test_guards_keep_errors_away() -> None:
    bad = call("=", call("/", Ref(0, DOUBLE), Literal(0.0, DOUBLE)), Literal(1.0, DOUBLE))
    yes, no = Literal(True, BOOLEAN), Literal(False, BOOLEAN)
    assert evaluate_scalar(call("and", no, bad), (1.0,)) is False
    assert evaluate_scalar(call("or", yes, bad), (1.0,)) is True
    assert evaluate_scalar(call("coalesce", yes, bad), (1.0,)) is True
    assert evaluate_scalar(case(((no, bad),), yes), (1.0,)) is True
    assert evaluate_scalar(case(((yes, no),), bad), (1.0,)) is False
    for unguarded in (call("and", yes, bad), call("or", no, bad), call("and", Literal(None, BOOLEAN), bad)):
        with pytest.raises(EvaluationError):
            evaluate_scalar(unguarded, (1.0,))


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("a%b", r"a\%b", True), ("axb", r"a\%b", False), ("a_b", r"a\_b", True), ("axb", r"a\_b", False),
        ("a\\b", r"a\\b", True), ("a\\\\b", r"a\\b", False), ("ab", r"a\b", RAISES), ("a", "a\\", RAISES),
        ("a\nb", "a_b", True), ("a\nb", "a%", True), ("a\n", "a", False), ("😀", "_", True),
        ("", "%", True), ("", "_", False),
        ("", "", True), ("a", "", False), ("A", "a", False), ("a.c", "a.c", True), ("abc", "a.c", False),
        ("[a]", "[a]", True), ("aaab", "%a_b", True), ("%", r"\%", True), (None, "%", None),
        ("a", None, None),
    ],
)  # fmt: skip
def test_like(text: str | None, pattern: str | None, expected: Any) -> None:
    assert apply("like", (text, STRING), (pattern, STRING)) is expected


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (1, 2, "he"), (0, 2, "he"), (-2, 2, "lo"), (-7, 3, "h"), (-7, 1, ""), (-5, 5, "hello"), (6, 2, ""),
        (2, -1, ""), (2, 0, ""), (2, 2**31 - 1, "ello"), (-(2**31), 2**31 - 1, "hell"), (2**31 - 1, 1, ""),
        (-1, 9, "o"),
    ],
)  # fmt: skip
def test_substring(start: int, length: int, expected: str) -> None:
    assert apply("substring", ("hello", STRING), (start, INT), (length, INT)) == expected


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("replace", ("abcabc", "b", ""), "acac"), ("replace", ("abc", "", "x"), "abc"),
        ("replace", ("aaa", "aa", "b"), "ba"),
        ("length", ("😀é",), 2), ("length", ("",), 0), ("upper", ("straße",), "STRASSE"),
        ("lower", ("ÀÉ",), "àé"),
        ("trim", ("\t a ",), "\t a"), ("ltrim", ("  a ",), "a "), ("rtrim", (" a  ",), " a"),
        ("trim", ("  ",), ""),
        ("concat", ("a", None), None), ("concat", ("a", "", "b"), "ab"), ("substring", ("a😀b", 2, 1), "😀"),
        ("<", ("Z", "a"), True), ("<", ("", "a"), True), ("=", ("a", "a "), False),
        ("<", ("\uffff", "😀"), True),
    ],
)  # fmt: skip
def test_text(function: str, values: tuple[Any, ...], expected: Any) -> None:
    given = ((value, INT if isinstance(value, int) else STRING) for value in values)
    assert apply(function, *given) == expected


FIRST, LAST = date(1, 1, 1), date(9999, 12, 31)


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("year", (FIRST,), 1), ("year", (LAST,), 9999), ("quarter", (FIRST,), 1), ("quarter", (LAST,), 4),
        ("quarter", (date(2024, 3, 31),), 1), ("quarter", (date(2024, 4, 1),), 2), ("month", (LAST,), 12),
        ("day", (LAST,), 31),
        ("datediff", (LAST, FIRST), 3652058), ("datediff", (FIRST, LAST), -3652058),
        ("date_add", (FIRST, 3652058), LAST),
        ("date_sub", (LAST, 3652058), FIRST), ("date_add", (LAST, 1), RAISES),
        ("date_sub", (FIRST, 1), RAISES),
        ("date_add", (date(2024, 2, 28), 1), date(2024, 2, 29)),
        ("date_add", (date(1900, 2, 28), 1), date(1900, 3, 1)),
        ("date_add", (FIRST, 2**31 - 1), RAISES), ("date_sub", (LAST, -(2**31)), RAISES),
        ("date_add", (None, 1), None),
        ("add_months", (date(2024, 1, 31), 1), date(2024, 2, 29)),
        ("add_months", (date(2024, 2, 29), 12), date(2025, 2, 28)),
        ("add_months", (date(2024, 2, 29), -1), date(2024, 1, 29)),
        ("add_months", (date(2024, 12, 31), -10), date(2024, 2, 29)),
        ("add_months", (FIRST, 119987), date(9999, 12, 1)), ("add_months", (LAST, 1), RAISES),
        ("add_months", (FIRST, -1), RAISES), ("add_months", (FIRST, 2**31 - 1), RAISES),
        ("add_months", (None, 1), None),
    ],
)  # fmt: skip
def test_dates(function: str, values: tuple[Any, ...], expected: Any) -> None:
    assert (
        apply(function, *((value, INT if isinstance(value, int) else DATE) for value in values)) == expected
    )


@pytest.mark.parametrize(
    ("function", "values", "expected"),
    [
        ("lpad", ("ab", 5, "xyz"), "xyzab"), ("rpad", ("ab", 6, "xyz"), "abxyzx"),
        ("lpad", ("ab", 1, "x"), "a"),
        ("rpad", ("ab", -1, "x"), ""), ("lpad", ("ab", 9, ""), "ab"),
        ("concat_ws", ("-", "a", None, "b"), "a-b"),
        ("concat_ws", (None, "a"), None), ("split_part", ("a,b,c", ",", -1), "c"),
        ("split_part", ("a,b", ",", 3), ""), ("split_part", ("a", "a", 2), ""),
        ("split_part", ("a", "", 0), RAISES),
        ("translate", ("abcab", "aba", "x"), "xcx"), ("repeat", ("ab", -1), ""),
        ("reverse", ("日本x",), "x本日"),
        ("instr", ("banana", "an"), 2), ("instr", ("", ""), 1), ("instr", ("a", "b"), 0),
        ("startswith", ("abc", ""), True), ("endswith", ("abc", "bc"), True),
        ("contains", ("abc", "ac"), False),
        ("greatest", (1, None, 3), 3), ("least", ("b", "B", "é"), "B"), ("greatest", (None, None), None),
        ("make_date", (2024, 2, 29), date(2024, 2, 29)), ("make_date", (2023, 2, 29), RAISES),
        ("make_date", (10000, 1, 1), RAISES), ("last_day", (date(2024, 2, 1),), date(2024, 2, 29)),
        ("dayofweek", (date(2024, 3, 3),), 1), ("dayofyear", (date(2024, 12, 31),), 366),
        ("weekofyear", (date(2021, 1, 3),), 53), ("sign", (-2.5,), -1.0), ("sqrt", (-1.0,), NAN),
    ],
)  # fmt: skip
def test_other_functions(function: str, values: tuple[Any, ...], expected: Any) -> None:
    kinds = {str: STRING, int: INT, float: DOUBLE, date: DATE}
    found = next((kinds[type(value)] for value in values if value is not None), INT)
    given = ((value, found if value is None else kinds[type(value)]) for value in values)
    assert same(apply(function, *given), expected)


def test_timestamps_keep_their_time_of_day() -> None:
    def shifted(unit: str, moment: datetime, by: int) -> Any:
        return apply(f"timestamp_add_{unit}", (moment, TIMESTAMP), (by, INT if unit == "months" else BIGINT))

    moment, last = datetime(2024, 1, 31, 23, 59, 59, 999_999, UTC), datetime.max.replace(tzinfo=UTC)
    assert shifted("months", moment, 1) == moment.replace(month=2, day=29)
    assert shifted("micros", moment, 1) == datetime(2024, 2, 1, tzinfo=UTC)
    assert shifted("months", last, 1) is shifted("micros", last, 1) is RAISES
    assert shifted("micros", moment, -(2**63)) is RAISES


def test_parts_of_timestamps() -> None:
    moment = (datetime(2020, 1, 2, 3, 4, 59, 900_000, tzinfo=UTC), TIMESTAMP)
    assert [apply(part, moment) for part in ("hour", "minute", "second")] == [3, 4, 59]
    assert [apply(part, moment) for part in ("year", "month", "day", "quarter")] == [2020, 1, 2, 1]
    assert apply("hour", (date(2020, 1, 2), DATE)) == 0
    assert apply("year", ("0001-02-03", STRING)) == 1
    assert apply("<", (date(2020, 1, 2), DATE), moment) is True


@pytest.mark.parametrize(
    ("function", "types"),
    [
        ("+", (STRING, INT)), ("+", (BOOLEAN, INT)), ("+", (INT,)), ("=", (STRING, INT)),
        ("=", (BOOLEAN, INT)),
        ("and", (INT, BOOLEAN)), ("not", (INT,)), ("like", (INT, STRING)), ("concat", (STRING, INT)),
        ("length", (INT,)),
        ("substring", (STRING, STRING, INT)), ("date_add", (DATE, BIGINT)), ("year", (INT,)),
        ("coalesce", ()),
        ("coalesce", (INT, STRING)), ("div", (DOUBLE, INT)), ("=", (BINARY, STRING)),
        ("no such function", (INT,)),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_type_is_refused(function: str, types: tuple[Type, ...]) -> None:
    with pytest.raises(TypeMismatch):
        typed(function, *types)


@pytest.mark.parametrize("function", ["+", "-", "*", "/", "%", "=", "<", "<=>"])
def test_a_bare_null_takes_the_other_type(function: str) -> None:
    for type_ in (INT, DOUBLE, decimal(10, 2)):
        null = call(function, Ref(0, type_), Literal(None, VOID))
        assert evaluate_scalar(null, (None,)) is (True if function == "<=>" else None)
