"""Plans as DuckDB SQL, written for the tests alone: it shares nothing with the engine's own compiler.

Every node becomes one SELECT over derived tables, with columns c0, c1, …; every call is cast to the type
the algebra gives it, so that DuckDB's own typing decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb

from stillframe.algebra import (
    Bag,
    Call,
    Case,
    Cast,
    Filter,
    Join,
    Literal,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    Type,
    UnionAll,
    Values,
)

Name = Callable[[int], str]
_NAMES = {"STRING": "VARCHAR", "INT": "INTEGER", "BINARY": "BLOB"}
_TEMPLATES = {
    "<=>": "({} IS NOT DISTINCT FROM {})",
    "div": "({} // {})",
    "negative": "(-{})",
    "not": "(NOT {})",
    "isnull": "({} IS NULL)",
    "isnotnull": "({} IS NOT NULL)",
    "like": "({} LIKE {} ESCAPE '\\')",
    "concat": "({} || {})",
    "trim": "trim({}, ' ')",
    "ltrim": "ltrim({}, ' ')",
    "rtrim": "rtrim({}, ' ')",
    "date_add": "({} + {})",
    "date_sub": "({} - {})",
    "datediff": "({} - {})",
}


def connect() -> duckdb.DuckDBPyConnection:
    """The optimizer is off: it may evaluate what the query as written never would, and raise."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("PRAGMA disable_optimizer")
    return connection


def type_sql(type_: Type) -> str:
    return str(type_) if type_.is_decimal else _NAMES.get(type_.name, type_.name)


def literal_sql(value: Any, type_: Type) -> str:
    if value is None:
        return f"CAST(NULL AS {type_sql(type_)})"
    text = str(value).replace("'", "''")
    return f"CAST('{text}' AS {type_sql(type_)})"


def scalar_sql(scalar: Scalar, name: Name) -> str:
    match scalar:
        case Ref(position):
            return name(position)
        case Literal(value, type_):
            return literal_sql(value, type_)
        case Cast(arg, target):
            return f"CAST({scalar_sql(arg, name)} AS {type_sql(target)})"
        case Case(branches, otherwise):
            arms = " ".join(f"WHEN {scalar_sql(c, name)} THEN {scalar_sql(v, name)}" for c, v in branches)
            return f"(CASE {arms} ELSE {scalar_sql(otherwise, name)} END)"
        case Call(function, args):
            texts = [_operand(scalar, arg, scalar_sql(arg, name)) for arg in args]
            if function in ("floor", "ceil") and not scalar.type.is_decimal:
                text = _whole_number(function, texts[0], args[0].type)
            elif function in _TEMPLATES:
                text = _TEMPLATES[function].format(*texts)
            elif function.isalpha() and function not in ("and", "or"):
                text = f"{function}({', '.join(texts)})"
            else:
                text = f"({texts[0]} {function} {texts[1]})"
            return f"CAST({text} AS {type_sql(scalar.type)})"
    raise AssertionError(f"no such node: {scalar!r}")


def _whole_number(function: str, text: str, type_: Type) -> str:
    """DuckDB takes integers through DOUBLE, and raises where Spark stops at the ends of BIGINT."""
    if type_.is_integer:
        return text
    low, high = -(2**63), 2**63 - 1
    return (
        f"(CASE WHEN isnan({text}) THEN 0 WHEN {text} >= {high}::DOUBLE THEN {high}"
        f" WHEN {text} <= {low}::DOUBLE THEN {low} ELSE {function}({text})::BIGINT END)"
    )


def _operand(call: Call, arg: Scalar, text: str) -> str:
    """DuckDB does not widen decimals of up to 18 digits beyond 18: it is given more to begin with."""
    if not call.type.is_decimal or call.function not in ("+", "-", "*", "%"):
        return text
    if call.function == "*":
        return f"CAST({text} AS DECIMAL({max(19, arg.type.precision)},{arg.type.scale}))"
    whole = max(a.type.precision - a.type.scale for a in call.args)
    scale = max(a.type.scale for a in call.args)
    return f"CAST({text} AS DECIMAL({max(19, whole + scale + 1)},{scale}))"


def plan_sql(plan: Plan) -> str:
    match plan:
        case Scan(relation):
            return f"SELECT * FROM {relation}"
        case Values(schema, rows):
            return values_sql(schema, list(rows))
        case Filter(source, predicate):
            return f"SELECT * FROM ({plan_sql(source)}) WHERE {scalar_sql(predicate, _column)}"
        case Project(source, outputs):
            columns = ", ".join(f"{scalar_sql(o.scalar, _column)} AS c{i}" for i, o in enumerate(outputs))
            return f"SELECT {columns} FROM ({plan_sql(source)})"
        case Join(sources, conditions):
            places = [f"t{i}.c{j}" for i, source in enumerate(sources) for j in range(len(source.schema))]
            columns = ", ".join(f"{place} AS c{i}" for i, place in enumerate(places))
            tables = ", ".join(f"({plan_sql(source)}) t{i}" for i, source in enumerate(sources))
            where = " AND ".join(scalar_sql(condition, places.__getitem__) for condition in conditions)
            return f"SELECT {columns} FROM {tables} WHERE {where or 'true'}"
        case UnionAll(sources):
            return " UNION ALL ".join(f"(SELECT * FROM ({plan_sql(source)}))" for source in sources)
    raise AssertionError(f"a state has no {type(plan).__name__}")


def _column(position: int) -> str:
    return f"c{position}"


def values_sql(schema: Schema, rows: list[tuple[Any, ...]]) -> str:
    shown = rows or [tuple(None for _ in schema)]
    selects = [
        "SELECT "
        + ", ".join(
            f"{literal_sql(v, c.type)} AS c{i}" for i, (v, c) in enumerate(zip(row, schema, strict=True))
        )
        for row in shown
    ]
    return " UNION ALL ".join(selects) if rows else f"{selects[0]} WHERE false"


def store(connection: duckdb.DuckDBPyConnection, name: str, schema: Schema, bag: Bag) -> None:
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS {values_sql(schema, list(bag.rows()))}")


def answer(connection: duckdb.DuckDBPyConnection, plan: Plan) -> tuple[Bag, list[str]]:
    """The rows and the types of the result's columns."""
    result = connection.execute(plan_sql(plan))
    types = [str(column[1]) for column in result.description]
    return Bag.of(result.fetchall()), types
