"""The functions of Spark SQL a view may call, by name, and why others are refused.

Every entry says what a call means in the algebra; casts and types follow there.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from stillframe.algebra.functions import DIGESTS, TypeMismatch
from stillframe.algebra.scalar import Literal, Scalar, call, case, cast
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_PRECISION,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    Type,
    decimal,
)
from stillframe.sql.truncation import date_trunc, trunc, weekday

Builder = Callable[..., Scalar]

LONGEST = 2147483647


def boolean(scalar: Scalar, what: str) -> Scalar:
    """A condition is BOOLEAN or a bare NULL; nothing else becomes one by itself."""
    if scalar.type not in (BOOLEAN, VOID):
        raise TypeMismatch(f"{what} is BOOLEAN, not {scalar.type}")
    return cast(scalar, BOOLEAN)


def if_(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    return case(((boolean(condition, "a condition"), then),), otherwise)


def _nullif(value: Scalar, other: Scalar) -> Scalar:
    return case(((call("=", value, other), Literal(None, value.type)),), value)


def _coalesce(*args: Scalar) -> Scalar:
    return call("coalesce", *args)


def _exactly_two(first: Scalar, second: Scalar) -> Scalar:
    return call("coalesce", first, second)


def _nvl2(value: Scalar, there: Scalar, missing: Scalar) -> Scalar:
    return if_(call("isnotnull", value), there, missing)


def _concat(*args: Scalar) -> Scalar:
    if not args:
        raise TypeMismatch("concat takes at least one argument")
    return call("concat", *args)


def substring(text: Scalar, start: Scalar, length: Scalar | None = None) -> Scalar:
    return call("substring", text, start, length if length is not None else Literal(LONGEST, INT))


def _replace(text: Scalar, search: Scalar, replacement: Scalar | None = None) -> Scalar:
    return call("replace", text, search, replacement if replacement is not None else Literal("", STRING))


def _left(text: Scalar, length: Scalar) -> Scalar:
    return call("substring", text, Literal(1, INT), length)


def _right(text: Scalar, length: Scalar) -> Scalar:
    nothing = (call("<=", length, Literal(0, INT)), Literal("", STRING))
    missing = (call("isnull", text), Literal(None, STRING))
    return case((missing, nothing), call("substring", text, call("negative", length), Literal(LONGEST, INT)))


def _padding(function: str) -> Builder:
    def build(text: Scalar, length: Scalar, pad: Scalar | None = None) -> Scalar:
        return call(function, text, length, pad if pad is not None else Literal(" ", STRING))

    return build


def locate(part: Scalar, text: Scalar) -> Scalar:
    return call("instr", text, part)


def _concat_ws(separator: Scalar, *parts: Scalar) -> Scalar:
    return call("concat_ws", separator, *parts)


def _sha2(text: Scalar, bits: Scalar) -> Scalar:
    name = DIGESTS.get((bits.value or 256) if isinstance(bits, Literal) and bits.type == INT else -1)
    if name is None or not isinstance(bits, Literal) or bits.value is None:
        raise TypeMismatch(f"the bits are a number: 0, {', '.join(map(str, DIGESTS))}")
    return digest(name)(text)


def digest(name: str) -> Builder:
    def build(text: Scalar) -> Scalar:
        return call(name, cast(text, BINARY) if text.type == STRING else text)

    return build


def _round(value: Scalar, places: Scalar | None = None) -> Scalar:
    """Half up, which is what a cast does. A whole number has nothing to round."""
    many = Literal(0, INT) if places is None else places
    if not isinstance(many, Literal) or many.type != INT or many.value is None or many.value < 0:
        raise TypeMismatch("the places are a whole number, 0 or more")
    if value.type.is_integer:
        return value
    if not value.type.is_decimal:
        raise TypeMismatch(f"takes a whole number or a DECIMAL, not {value.type}: cast it first")
    scale = min(many.value, value.type.scale)
    whole = value.type.precision - value.type.scale + 1
    return cast(value, decimal(min(MAX_PRECISION, whole + scale), scale))


def _arguments(function: str) -> Builder:
    def build(*args: Scalar) -> Scalar:
        return call(function, *args)

    return build


def ilike(text: Scalar, pattern: Scalar) -> Scalar:
    return call("like", call("lower", text), call("lower", pattern))


def _cast_to(target: Type) -> Builder:
    def build(value: Scalar) -> Scalar:
        return cast(value, target)

    return build


def _same(function: str, arity: int) -> Builder:
    def build(*args: Scalar) -> Scalar:
        if len(args) != arity:
            raise TypeMismatch(f"takes {arity} argument{'s' if arity != 1 else ''}, not {len(args)}")
        return call(function, *args)

    return build


_NAMED: dict[str, tuple[str, int]] = {
    **dict.fromkeys(("upper", "ucase"), ("upper", 1)),
    **dict.fromkeys(("lower", "lcase"), ("lower", 1)),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), ("length", 1)),
    **dict.fromkeys(("ceil", "ceiling"), ("ceil", 1)),
    **dict.fromkeys(("day", "dayofmonth"), ("day", 1)),
    **dict.fromkeys(("datediff", "date_diff"), ("datediff", 2)),
    **dict.fromkeys(("date_add", "dateadd"), ("date_add", 2)),
    **{name: (name, 1) for name in ("abs", "floor", "negative", "ltrim", "rtrim", "isnull", "isnotnull")},
    **{name: (name, 1) for name in ("year", "quarter", "month", "hour", "minute", "second")},
    **{name: (name, 1) for name in ("dayofyear", "dayofweek", "weekofyear", "last_day", "reverse", "sqrt")},
    **dict.fromkeys(("sign", "signum"), ("sign", 1)),
    **{name: (name, 2) for name in ("date_sub", "add_months", "instr", "repeat")},
    **{name: (name, 2) for name in ("startswith", "endswith", "contains")},
    **{name: (name, 3) for name in ("split_part", "translate", "make_date")},
    "mod": ("%", 2),
    "equal_null": ("<=>", 2),
    "like": ("like", 2),
    "btrim": ("trim", 1),
}

BUILDERS: dict[str, Builder] = {
    **{name: _same(function, arity) for name, (function, arity) in _NAMED.items()},
    "coalesce": _coalesce,
    "nvl": _exactly_two,
    "ifnull": _exactly_two,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "if": if_,
    "concat": _concat,
    "replace": _replace,
    "left": _left,
    "right": _right,
    "lpad": _padding("lpad"),
    "rpad": _padding("rpad"),
    "locate": locate,
    "position": locate,
    "concat_ws": _concat_ws,
    "md5": digest("md5"),
    **dict.fromkeys(("sha", "sha1"), digest("sha1")),
    "sha2": _sha2,
    "round": _round,
    "greatest": _arguments("greatest"),
    "least": _arguments("least"),
    "nullifzero": lambda value: _nullif(value, Literal(0, INT)),
    "zeroifnull": lambda value: call("coalesce", value, Literal(0, INT)),
    "weekday": weekday,
    "trunc": trunc,
    "date_trunc": date_trunc,
    "to_date": _cast_to(DATE),
    "ilike": ilike,
    "boolean": _cast_to(BOOLEAN),
    "tinyint": _cast_to(TINYINT),
    "smallint": _cast_to(SMALLINT),
    "int": _cast_to(INT),
    "bigint": _cast_to(BIGINT),
    "double": _cast_to(DOUBLE),
    "decimal": _cast_to(decimal(10, 0)),
    "string": _cast_to(STRING),
    "binary": _cast_to(BINARY),
    "date": _cast_to(DATE),
    "timestamp": _cast_to(TIMESTAMP),
}

# EXTRACT(field FROM value). SECOND is left out: it is a DECIMAL with the fraction, not second().
FIELDS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "year"),
    **dict.fromkeys(("QUARTER", "QTR"), "quarter"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "month"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "day"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "weekofyear"),
    "DOY": "dayofyear",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "hour"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "minute"),
}

_KINDS: dict[str, tuple[str, str]] = {
    "NON_DETERMINISTIC": (
        "its value is not determined by its arguments, so the view could not be maintained",
        "put the value into a column of a source, or compute it when you read the view",
    ),
    "AGGREGATE": (
        "this aggregate is not maintained, or not here",
        "SELECT and HAVING take count, count_if, sum, avg, min, max, bool_and, bool_or, var_… and stddev_…",
    ),
    "WINDOW": ("window functions are not maintained", "compute it when you read the view"),
    "GENERATOR": (
        "functions that make rows are not supported",
        "put one row per element into a table of a source",
    ),
}

_NAMES: dict[str, str] = {
    "NON_DETERMINISTIC": """
        rand random randn randstr uniform uuid now current_date curdate current_timestamp localtimestamp
        current_timezone current_time current_user user session_user current_database current_schema
        current_catalog monotonically_increasing_id spark_partition_id input_file_name
        input_file_block_start input_file_block_length unix_timestamp shuffle version
        current_path sysdate getdate""",
    "AGGREGATE": """
        count sum avg mean min max first first_value last last_value any_value any some every bool_and
        bool_or collect_list collect_set array_agg count_if count_distinct approx_count_distinct
        approx_percentile percentile percentile_approx percentile_cont percentile_disc median mode stddev
        stddev_pop stddev_samp std variance var_pop var_samp corr covar_pop covar_samp skewness kurtosis
        max_by min_by bit_and bit_or bit_xor listagg string_agg grouping grouping_id regr_avgx regr_avgy
        regr_count regr_slope regr_intercept regr_r2 regr_sxx regr_sxy regr_syy try_sum try_avg
        histogram_numeric hll_sketch_agg bitmap_construct_agg product""",
    "WINDOW": """
        row_number rank dense_rank percent_rank ntile lag lead cume_dist nth_value window session_window""",
    "GENERATOR": "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple",
}

_KIND_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def refusal(name: str) -> tuple[str, str, str]:
    """Code, message and hint for a function there is no builder for."""
    kind = _KIND_OF.get(name)
    if kind:
        why, hint = _KINDS[kind]
        return kind, f"{name}: {why}", hint
    near = difflib.get_close_matches(name, BUILDERS, 3)
    hint = f"near it: {', '.join(near)}" if near else f"functions are: {', '.join(sorted(BUILDERS))}"
    return "UNSUPPORTED_FUNCTION", f"function {name} is not supported", hint
