"""Scalars as Spark SQL text, in the dialect each engine understands the same way.

Every cast is explicit in the algebra, so the text leaves an engine nothing to coerce. Where Sail differs
from Spark's ANSI mode, `sail_sql` writes text that does not, or refuses. On both engines a date stays
within the years 0001 to 9999, and text is read as a moment only if it says which day it means: Spark
would add today's date to a bare time of day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from stillframe.algebra import Call, Case, Cast, EvaluationError, Literal, Ref, Scalar, Type
from stillframe.algebra.casts import cast_value
from stillframe.algebra.functions import MANY_ROWS
from stillframe.algebra.types import BOOLEAN, DATE, TIMESTAMP, decimal
from stillframe.engine.reading_sql import readable
from stillframe.engine.sail_decimals import quotient
from stillframe.engine.sail_sql import fallible, guarded, sail_call, sail_cast, sail_shift
from stillframe.engine.words import SHIFTS, literal, plain_call, raising

_ENDS: dict[Type, tuple[date, date]] = {
    DATE: (date.min, date.max),
    TIMESTAMP: (datetime.min, datetime.max),
}


@dataclass(frozen=True)
class ScalarWriter:
    """`sail` asks for text that means on Sail what the plain text means on Apache Spark; `one_task` for
    joins that stay in the one task their inputs are in; `plain` says that every row is there once;
    with `light`, what a change joins stays small enough to be sent to every task, and so are these tables;
    with `rows` of tables, small ones are joined to what refers to them first."""

    sail: bool = False
    one_task: bool = False
    plain: bool = False
    light: frozenset[str] | None = None
    rows: Mapping[str, float] | None = None

    def text(self, scalar: Scalar, column: Callable[[int], str]) -> str:
        match scalar:
            case Ref(position):
                return column(position)
            case Literal(value):
                return literal(value, scalar.type)
            case Cast(arg, target):
                return self._cast(arg, target, self.text(arg, column))
            case Case(branches, otherwise):
                return self._case(branches, otherwise, column)
            case Call("and" | "or" as name):
                return self._chain(name, tuple(_links(name, scalar)), column)
            case Call(name, args):
                return self._call(name, scalar.type, args, [self.text(arg, column) for arg in args])
        raise AssertionError(f"no such node: {type(scalar).__name__}")

    def conjunction(self, conditions: Sequence[Scalar], column: Callable[[int], str]) -> str:
        """Conditions of a filter or a join, in order. Those that cannot fail also stand by themselves, where
        an engine finds what to join by."""
        links = [link for condition in conditions for link in _links("and", condition)]
        if not (self.sail and any(map(fallible, links[1:]))):
            return " AND ".join(self.text(link, column) for link in links)
        alone = [links[0], *(link for link in links[1:] if not fallible(link))]
        return " AND ".join([*(self.text(link, column) for link in alone), self._chain("and", links, column)])

    def _chain(self, name: str, links: Sequence[Scalar], column: Callable[[int], str]) -> str:
        parts = [self.text(link, column) for link in links]
        if self.sail and any(map(fallible, links[1:])):
            return guarded(name, parts)
        return f"({f' {name.upper()} '.join(parts)})"

    def _case(
        self,
        branches: Sequence[tuple[Scalar, Scalar]],
        otherwise: Scalar,
        column: Callable[[int], str],
    ) -> str:
        values = [value for _, value in branches] + [otherwise]
        numbers = self.sail and otherwise.type == BOOLEAN and any(map(fallible, values))

        def written(value: Scalar) -> str:
            text = self.text(value, column)
            return f"CAST({text} AS INT)" if numbers else text

        when = " ".join(f"WHEN {self.text(c, column)} THEN {written(value)}" for c, value in branches)
        text = f"CASE {when} ELSE {written(otherwise)} END"
        return f"CAST({text} AS BOOLEAN)" if numbers else text

    def _cast(self, arg: Scalar, target: Type, text: str) -> str:
        if isinstance(arg, Literal) and isinstance(arg.value, str):
            try:
                return literal(cast_value(arg.value, arg.type, target), target)
            except EvaluationError:
                pass  # raised where a row is evaluated, if one is
        if arg.type.name == "STRING":
            text = readable(text, target, sail=self.sail)
        elif self.sail:
            return sail_cast(text, arg.type, target)
        return f"CAST({text} AS {target})"

    def _call(self, name: str, type_: Type, args: tuple[Scalar, ...], parts: list[str]) -> str:
        if name == "only":
            rows, value = parts
            return f"CASE WHEN {rows} > 1 THEN {raising(type_, MANY_ROWS)} ELSE {value} END"
        if name == "mean":
            return self._mean(type_, args[0].type, *parts)
        if self.sail:
            written = sail_call(name, type_, args, parts)
            if written is not None:
                return written
        if name in SHIFTS:
            day = sail_shift(name, parts) if self.sail else plain_call(name, parts)
            first, last = (literal(end, type_) for end in _ENDS[type_])
            return f"CASE WHEN NOT ({day} BETWEEN {first} AND {last}) THEN {raising(type_)} ELSE {day} END"
        return plain_call(name, parts)

    def _mean(self, type_: Type, taken: Type, total: str, count: str) -> str:
        """Rounded once: what the count divides without rest, and the quotient of the rest, which is below
        one and has digits enough."""
        count = f"nullif(CAST({count} AS DECIMAL(20,0)), CAST(0 AS DECIMAL(20,0)))"
        if self.sail:
            text = quotient(type_, taken, decimal(20, 0), total, count)
            assert text is not None
            return text
        rest = f"({total} % {count})"
        parts = (f"CAST(({part} / {count}) AS {type_})" for part in (f"({total} - {rest})", rest))
        return f"CAST(({' + '.join(parts)}) AS {type_})"


def _links(name: str, scalar: Scalar) -> Iterator[Scalar]:
    """The parts of a chain of ANDs or of ORs, flat and in order."""
    if isinstance(scalar, Call) and scalar.function == name:
        for arg in scalar.args:
            yield from _links(name, arg)
    else:
        yield scalar
