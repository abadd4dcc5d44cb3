"""What Sail answers otherwise than Apache Spark, each as one question asked in plain SQL, and the same
question as a view would ask it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

from conformance_bench import RAISES
from conformance_values import FINE, HUGE, LONG, MONEY, NINES, TIE

from stillframe.algebra import Literal, Ref, Scalar, Type, call, case, cast
from stillframe.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, TINYINT
from stillframe.sql.functions import BUILDERS
from stillframe.sql.truncation import trunc, weekday

TODAY = object()  # a moment of the day the query runs


class Outcome(Enum):
    CLOSED = "closed"  # a view means on Sail what it means on Spark
    STOPS = "stops"  # the view stops on Sail with EVALUATION_FAILED, where Spark has a value
    REFUSED = "refused"  # the view is refused on Sail with ENGINE_DIFFERS


@dataclass(frozen=True)
class Difference:
    """`name` is how docs/engines.md calls it; `sql` asks about the columns c0, c1, … of the first row."""

    name: str
    sql: str
    scalar: Scalar
    rows: tuple[tuple[Any, ...], ...]
    spark: Any
    sail: Any
    outcome: Outcome

    @property
    def types(self) -> tuple[Type, ...]:
        found: dict[int, Type] = {}
        pending = [self.scalar]
        while pending:
            node = pending.pop()
            pending += node.children
            if isinstance(node, Ref):
                found[node.position] = node.type
        return tuple(found[i] for i in range(len(found)))


def _call(function: str, *types: Type) -> Scalar:
    return call(function, *(Ref(i, type_) for i, type_ in enumerate(types)))


def _read(target: Type) -> Scalar:
    return cast(Ref(0, STRING), target)


_WRAP, _DIGITS, _SCALE, _SIGN = "integers wrap", "38 digits", "digits after the point", "sign of a decimal"
_NULL, _TEXT, _JAVA, _BLANKS = "NULL by zero", "text as a value", "text only Java reads", "blanks around text"
_SUBSTRING, _LIKE, _GUARDS = "substring", "LIKE escapes", "what AND, OR and CASE guard"
_FROM_DOUBLE, _TO_DOUBLE, _TO_BOOLEAN, _TYPE = (
    "DOUBLE to DECIMAL",
    "DECIMAL to DOUBLE",
    "DECIMAL to BOOLEAN",
    "type of datediff",
)
_MAX, _MIN = (1 << 63) - 1, -(1 << 63)
_A, _B = Ref(0, BIGINT), Ref(1, BIGINT)
_ZERO = call("-", _B, _B)
_POSITIVE, _NONZERO = call(">", call("div", _A, _B), _ZERO), call("<>", _B, _ZERO)
_ROWS = ((7, 0), (7, 2))
_C, _S, _R = Outcome.CLOSED, Outcome.STOPS, Outcome.REFUSED
_D = Decimal

DIFFERENCES = (
    Difference(_WRAP, "c0 + c1", _call("+", BIGINT, BIGINT), ((_MAX, 1),), RAISES, _MIN, _C),
    Difference(_WRAP, "c0 - c1", _call("-", INT, INT), ((-(1 << 31), 1),), RAISES, (1 << 31) - 1, _C),
    Difference(_WRAP, "c0 * c1", _call("*", TINYINT, TINYINT), ((127, 2),), RAISES, -2, _C),
    Difference(_DIGITS, "c0 + c1", _call("+", HUGE, HUGE), ((_D(NINES), _D(1)),), RAISES, _D(10**38), _C),
    Difference(_DIGITS, "c0 + c1", _call("+", HUGE, HUGE), ((_D(NINES), _D(0)),), _D(NINES), _D(NINES), _S),
    Difference(
        _SCALE,
        "c0 + c1",
        _call("+", LONG, LONG),
        ((_D("0.3333333333"), _D(0)),),
        _D("0.333333333"),
        _D("0.3333333333"),
        _C,
    ),
    Difference(
        _SCALE,
        "c0 * c1",
        _call("*", FINE, FINE),
        ((_D("1.00000001"), _D("1.00000001")),),
        _D("1.00000002"),
        _D("1.0000000200000001"),
        _C,
    ),
    Difference(
        _SCALE,
        "c0 / c1",
        _call("/", MONEY, MONEY),
        ((_D(10), _D(7)),),
        _D("1.4285714285714"),
        _D("1.428571"),
        _C,
    ),
    Difference(
        _SIGN, "- c0", _call("negative", HUGE), ((_D(TIE),),), _D("-" + TIE[:34] + "0000"), _D("-" + TIE), _R
    ),
    Difference(
        _FROM_DOUBLE,
        "CAST(c0 AS DECIMAL(10,2))",
        cast(Ref(0, DOUBLE), MONEY),
        ((0.285,),),
        _D("0.29"),
        _D("0.28"),
        _R,
    ),
    Difference(
        _FROM_DOUBLE,
        "CAST(c0 AS DECIMAL(10,2))",
        cast(Ref(0, DOUBLE), MONEY),
        ((float("nan"),),),
        None,
        RAISES,
        _R,
    ),
    Difference(
        _TO_DOUBLE,
        "CAST(c0 AS DOUBLE)",
        cast(Ref(0, LONG), DOUBLE),
        ((_D("-9e27"),),),
        -9e27,
        -8.999999999999999e27,
        _C,
    ),
    Difference(
        _TO_BOOLEAN, "CAST(c0 AS BOOLEAN)", cast(Ref(0, MONEY), BOOLEAN), ((_D("0.01"),),), True, RAISES, _C
    ),
    Difference(_NULL, "c0 / c1", _call("/", DOUBLE, DOUBLE), ((None, 0.0),), None, RAISES, _C),
    Difference(_NULL, "c0 % c1", _call("%", MONEY, MONEY), ((None, _D(0)),), None, RAISES, _C),
    Difference(_NULL, "c0 DIV c1", _call("div", BIGINT, BIGINT), ((None, 0),), None, RAISES, _C),
    Difference(_TEXT, "CAST(c0 AS BOOLEAN)", _read(BOOLEAN), (("on",),), RAISES, True, _C),
    Difference(_TEXT, "CAST(c0 AS DATE)", _read(DATE), (("2024 0101",),), RAISES, date(2024, 1, 1), _C),
    Difference(_TEXT, "CAST(c0 AS DATE)", _read(DATE), (("2024-02-29T",),), date(2024, 2, 29), RAISES, _C),
    Difference(_TEXT, "CAST(c0 AS DOUBLE)", _read(DOUBLE), (("+nan",),), RAISES, float("nan"), _C),
    Difference(_JAVA, "CAST(c0 AS DECIMAL(10,2))", _read(MONEY), (("1e3",),), _D(1000), RAISES, _S),
    Difference(_JAVA, "CAST(c0 AS DECIMAL(10,2))", _read(MONEY), (("٣",),), _D(3), RAISES, _S),
    Difference(_JAVA, "CAST(c0 AS DOUBLE)", _read(DOUBLE), (("1d",),), 1.0, RAISES, _S),
    Difference(_BLANKS, "CAST(c0 AS INT)", _read(INT), (("\x007",),), 7, RAISES, _C),
    Difference(_BLANKS, "CAST(c0 AS DECIMAL(10,2))", _read(MONEY), (("\u00a07.5",),), RAISES, _D("7.5"), _C),
    Difference(
        _SUBSTRING,
        "substring(c0, c1, c2)",
        _call("substring", STRING, INT, INT),
        (("hello", -7, 3),),
        "h",
        "hel",
        _C,
    ),
    Difference(
        _SUBSTRING,
        "substring(c0, c1, c2)",
        _call("substring", STRING, INT, INT),
        (("hello", 1, -1),),
        "",
        RAISES,
        _C,
    ),
    Difference(
        _SUBSTRING,
        "substring(c0, c1, c2)",
        _call("substring", STRING, INT, INT),
        (("hello", None, 2),),
        None,
        "he",
        _C,
    ),
    Difference(_LIKE, "c0 LIKE c1", _call("like", STRING, STRING), (("ab", "a\\b"),), RAISES, True, _C),
    Difference("weekdays", "weekday(c0)", weekday(Ref(0, DATE)), ((date(1969, 12, 28),),), 6, -1, _C),
    Difference(
        "truncation",
        "trunc(c0, 'MM')",
        trunc(Ref(0, DATE), Literal("MM", STRING)),
        ((date(1582, 10, 10),),),
        date(1582, 10, 1),
        RAISES,
        _C,
    ),
    Difference(
        "left, right",
        "right(c0, c1)",
        BUILDERS["right"](Ref(0, STRING), Ref(1, INT)),
        (("hello", -2),),
        "",
        "llo",
        _C,
    ),
    Difference(
        _TYPE,
        "typeof(datediff(c0, c1))",
        _call("datediff", DATE, DATE),
        ((date(2024, 1, 2), date(2024, 1, 1)),),
        "int",
        "bigint",
        _C,
    ),
    Difference(
        _GUARDS, "c1 <> 0 AND c0 DIV c1 > 0", call("and", _NONZERO, _POSITIVE), _ROWS, False, RAISES, _C
    ),
    Difference(
        _GUARDS,
        "CASE WHEN c1 <> 0 THEN c0 DIV c1 > 0 ELSE FALSE END",
        case(((_NONZERO, _POSITIVE),), _NONZERO),
        _ROWS,
        False,
        RAISES,
        _C,
    ),
)

# Where the engines agree, and a view stops on both: it would mean another thing tomorrow, or hold a date
# that some reader cannot.
BEYOND = (
    ("the day is missing", "CAST(c0 AS TIMESTAMP)", _read(TIMESTAMP), ("10:11:12",), TODAY),
    ("years", "CAST(CAST(c0 AS DATE) AS STRING)", _read(DATE), ("10000-01-01",), "+10000-01-01"),
    (
        "years",
        "CAST(date_add(c0, c1) AS STRING)",
        _call("date_add", DATE, INT),
        (date(9999, 12, 31), 1),
        "+10000-01-01",
    ),
    (
        "zone names",
        "CAST(CAST(c0 AS TIMESTAMP) AS STRING)",
        _read(TIMESTAMP),
        ("2024-02-29 10:11:12 Europe/Berlin",),
        "2024-02-29 09:11:12",
    ),
)
