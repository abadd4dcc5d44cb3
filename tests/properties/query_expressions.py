"""Random expressions over the columns in sight: what Spark and DuckDB mean alike and what raises on no row.

Nothing is divided, numbers stay far from overflow, and the only floats are averages of integers, which are
passed on but not computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from query_cases import LITERALS
from query_text import Expr, Part, Window

OTHER = "other"  # a column whose type a computation made: passed on, grouped by, not computed with
KINDS = tuple(LITERALS)
COMPARED = ("=", "=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Named:
    """A column in scope, as an expression writes it."""

    text: str
    kind: str


Scope = Sequence[Named]


def expr(*parts: Part | Expr, kind: str = "", tie: str = "") -> Expr:
    flat: list[Part] = []
    for part in parts:
        flat += part.parts if isinstance(part, Expr) else (part,)
    return Expr(tuple(flat), kind, tie)


def column(named: Named) -> Expr:
    return expr(named.text, kind=named.kind)


def literal(rng: Random, kind: str) -> str:
    return rng.choice(LITERALS[kind])


def of_kind(rng: Random, scope: Scope, kind: str) -> Expr:
    """A column of the kind as it is, or something computed of it, or of others."""
    mine = [named for named in scope if named.kind == kind]
    if not mine:
        return expr(_instead(rng, scope, kind), kind=kind)
    text = rng.choice(mine).text
    if kind != OTHER and rng.random() < 0.3:
        text = _computed(rng, kind, text, rng.choice(mine).text)
    return expr(text, kind=kind)


def _instead(rng: Random, scope: Scope, kind: str) -> str:
    texts = [named.text for named in scope if named.kind == "text"]
    ints = [named.text for named in scope if named.kind == "int"]
    dates = [named.text for named in scope if named.kind == "date"]
    if kind == "int" and (texts or dates):
        return f"length({rng.choice(texts)})" if texts else f"month({rng.choice(dates)})"
    if kind == "text" and ints:
        return f"CAST({rng.choice(ints)} AS STRING)"
    if kind == "money" and ints:
        return f"CAST({rng.choice(ints)} AS DECIMAL(12,2))"
    if kind == "flag" and (ints or texts):
        return f"({rng.choice(ints or texts)} IS NULL)"
    return f"CAST({literal(rng, kind)} AS {_TYPE[kind]})"


_TYPE = {"int": "BIGINT", "text": "STRING", "money": "DECIMAL(12,2)", "date": "DATE", "flag": "BOOLEAN"}


def _computed(rng: Random, kind: str, one: str, two: str) -> str:
    value = literal(rng, kind)
    forms = {
        "int": (
            f"({one} + {two})",
            f"({one} - {two})",
            f"({one} % 2)",
            f"abs({one})",
            f"CASE WHEN {one} > {two} THEN {one} ELSE {two} END",
            f"nullif({one}, {value})",
        ),
        "text": (f"upper({one})", f"({one} || {two})", f"substring({one}, 1, 1)", f"nullif({one}, {value})"),
        "money": (f"CAST({one} + {two} AS DECIMAL(12,2))", f"CAST({one} * 2 AS DECIMAL(12,2))"),
        "date": (f"nullif({one}, {value})",),
        "flag": (f"(NOT {one})", f"({one} AND {two})", f"({one} OR {two})"),
    }
    return rng.choice((*forms[kind], f"coalesce({one}, {value})"))


def anything(rng: Random, scope: Scope) -> Expr:
    return of_kind(rng, scope, rng.choice(scope).kind)


def predicate(rng: Random, scope: Scope, deep: int = 2) -> Expr:
    if deep and rng.random() < 0.2:
        word = rng.choice(["AND", "OR", "OR"])
        left, right = predicate(rng, scope, deep - 1), predicate(rng, scope, deep - 1)
        negated = "NOT " if rng.random() < 0.2 else ""
        return expr(negated, "(", left, f" {word} ", right, ")")
    named = rng.choice(scope)
    if named.kind == OTHER or rng.random() < 0.15:
        return expr(f"{named.text} IS {rng.choice(['', 'NOT '])}NULL")
    kind, text = named.kind, named.text
    if kind == "flag" and rng.random() < 0.5:
        return expr(rng.choice([text, f"NOT {text}"]))
    if kind == "text" and rng.random() < 0.2:
        return expr(f"{text} {rng.choice(['', 'NOT '])}LIKE 'a%'")
    if rng.random() < 0.2:
        return expr(f"{text} {rng.choice(['', 'NOT '])}IN ({literal(rng, kind)}, {literal(rng, kind)})")
    others = [other.text for other in scope if other.kind == kind and other != named]
    other = rng.choice(others) if others and rng.random() < 0.3 else literal(rng, kind)
    if rng.random() < 0.06:
        return expr(f"{text} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {other}")
    return expr(f"{text} {rng.choice(COMPARED)} {other}")


# -- aggregates


def aggregate(rng: Random, scope: Scope, kind: str | None = None) -> Expr:
    """An aggregate, perhaps computed with, whose value is of a kind."""
    kind = kind or rng.choice(["int", "int", "int", "int", "text", "money", "date", "flag", "flag", OTHER])
    found = _aggregate(rng, scope, kind)
    if kind == "int" and rng.random() < 0.2:
        wrapped = (("(", " * 2 + 1)"), ("coalesce(", ", 0)"), ("(", " - count(*))"), ("(", " % 3)"))
        before, after = rng.choice(wrapped)
        return expr(before, found, after, kind=kind)
    return found


def _aggregate(rng: Random, scope: Scope, kind: str) -> Expr:
    where = expr(" FILTER (WHERE ", predicate(rng, scope, 1), ")") if rng.random() < 0.2 else expr()
    if kind == "int" and rng.random() < 0.65:
        form = rng.choice(["count(*)", "count", "DISTINCT", "count_if"])
        if form == "count(*)":
            return expr(form, where, kind=kind)
        if form == "count_if":
            return expr("count_if(", predicate(rng, scope, 1), ")", kind=kind)
        distinct = "DISTINCT " if form == "DISTINCT" else ""
        return expr(f"count({distinct}", anything(rng, scope), ")", where, kind=kind)
    if kind == OTHER:
        numbers = [named.kind for named in scope if named.kind == "money"]
        if numbers and rng.random() < 0.5:
            return expr("sum(", of_kind(rng, scope, "money"), ")", where, kind=kind)
        return expr("avg(", of_kind(rng, scope, "int"), ")", where, kind=kind)
    if kind == "flag":
        return expr(
            f"{rng.choice(['bool_and', 'bool_or'])}(", predicate(rng, scope, 1), ")", where, kind=kind
        )
    function = rng.choice(["min", "max", "sum"] if kind in ("int", "money") else ["min", "max"])
    value = expr(f"{function}(", of_kind(rng, scope, kind), ")", where, kind=kind)
    if function == "sum" and kind == "money":
        return expr("CAST(", value, " AS DECIMAL(12,2))", kind=kind)
    return value


# -- windows

NULLS = ("", "", "", " NULLS LAST", " NULLS FIRST")
FRAMES = (
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)


def ordering(rng: Random, texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{text}{rng.choice(['', '', ' DESC'])}{rng.choice(NULLS)}" for text in texts)


def window(rng: Random, scope: Scope, kind: str | None = None) -> Expr:
    """A window function over parts of the rows. Where rows of one place in the order would be told apart,
    the order names every column: rows that are still alike are alike in all that is shown of them."""
    partition = tuple(anything(rng, scope) for _ in range(rng.choice([1, 1, 1, 2])))
    texts = [named.text for named in scope]
    rng.shuffle(texts)
    total = ordering(rng, texts)
    some = ordering(rng, texts[: rng.choice([1, 1, 2])])
    kind = kind or rng.choice(["int", "int", "int", "text", "money", "date"])
    value = of_kind(rng, scope, kind)
    forms = ["lag", "value", "extreme"]
    if kind == "int":
        forms += ["number", "number", "rank", "rank", "ntile", "count", "sum"]
    form = rng.choice(forms)
    if form == "number":
        return _over(expr("row_number()"), partition, total, kind=kind)
    if form == "ntile":
        return _over(expr(f"ntile({rng.choice([2, 3])})"), partition, total, kind=kind)
    if form == "rank":
        return _over(expr(rng.choice(["rank()", "dense_rank()"])), partition, some, kind=kind)
    if form == "lag":
        word, rest = rng.choice(["lag", "lead"]), rng.choice(["", ", 1", ", 2", f", 1, {literal(rng, kind)}"])
        return _over(expr(f"{word}(", value, f"{rest})"), partition, total, kind=kind)
    if form == "value":
        call = expr(f"{rng.choice(['first_value', 'last_value'])}(", value, ")")
        return _over(call, partition, total, rng.choice(FRAMES), kind)
    call = (
        expr("count(*)")
        if form == "count"
        else expr(f"{'sum' if form == 'sum' else rng.choice(['min', 'max'])}(", value, ")")
    )
    how = rng.choice(["whole", "running", "framed"])
    if how == "whole":
        return _over(call, partition, (), kind=kind)
    if how == "running":
        return _over(call, partition, some, kind=kind)
    return _over(call, partition, total, rng.choice(FRAMES), kind)


def in_step(window: Window, other: Window) -> Window:
    """The window, telling rows apart as another one of its query does. Of two that each do so in an order of
    their own, no query says which of two rows that are alike gets which value of the one with which of the
    other."""
    if not (_tells_apart(window) and _tells_apart(other)):
        return window
    return replace(window, partition=other.partition, order=other.order)


def _tells_apart(window: Window) -> bool:
    name = window.call.sql().partition("(")[0]
    return bool(window.frame) or name in ("row_number", "ntile", "lag", "lead")


def _over(
    call: Expr, partition: tuple[Expr, ...], order: tuple[str, ...], frame: str = "", kind: str = ""
) -> Expr:
    return expr(Window(call, partition, order, frame), kind=kind)
