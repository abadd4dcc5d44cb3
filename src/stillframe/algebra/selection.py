"""Which rows of a relation are wanted, in words that every database has.

There is no word for "not" here. So a part that a database cannot say may be left out: what is left holds of
all rows that the whole holds of, and perhaps of more.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Any

IS_NULL, IS_NOT_NULL = "IS NULL", "IS NOT NULL"
_NULLS = frozenset({IS_NULL, IS_NOT_NULL})
_MEANING: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
COMPARING = frozenset(_MEANING)


@dataclass(frozen=True, slots=True)
class Compared:
    """A column beside a value of its kind, by a word of COMPARING, which holds of no NULL; or beside
    nothing, with IS_NULL and IS_NOT_NULL."""

    column: str
    word: str
    value: Any = None

    def __str__(self) -> str:
        said = f"{self.column} {self.word}"
        return said if self.value is None else f"{said} {_written(self.value)}"


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Selection, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, Some) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Selection, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({part})" if isinstance(part, Every) else str(part) for part in self.parts)


Selection = Compared | Every | Some
Said = tuple[str, tuple[Any, ...]]  # SQL and its parameters


def _written(value: Any) -> str:
    """As SQL writes it, for people to read."""
    if isinstance(value, date):
        return f"DATE '{value}'"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).upper()


def every(parts: Iterable[Selection | None]) -> Selection | None:
    """None asks for nothing in particular."""
    said = _flat(Every, (part for part in parts if part is not None))
    return (said[0] if len(said) == 1 else Every(said)) if said else None


def some(parts: Iterable[Selection | None]) -> Selection | None:
    found = list(parts)
    told = [part for part in found if part is not None]
    if not told or len(told) < len(found):
        return None
    said = _flat(Some, told)
    return said[0] if len(said) == 1 else Some(said)


def _flat(kind: type[Every] | type[Some], parts: Iterable[Selection]) -> tuple[Selection, ...]:
    inner = (part.parts if isinstance(part, kind) else (part,) for part in parts)
    return tuple(dict.fromkeys(chain.from_iterable(inner)))


def comparisons(selection: Selection) -> Iterator[Compared]:
    if isinstance(selection, Compared):
        yield selection
    else:
        for part in selection.parts:
            yield from comparisons(part)


def meets(selection: Selection, row: Mapping[str, Any]) -> bool:
    """Whether it holds of a row, as SQL has it: nothing that is NULL compares."""
    match selection:
        case Every(parts):
            return all(meets(part, row) for part in parts)
        case Some(parts):
            return any(meets(part, row) for part in parts)
        case Compared(column, word, value):
            found = row[column]
            if word in _NULLS:
                return (found is None) is (word == IS_NULL)
            return found is not None and bool(_MEANING[word](found, value))


def said(selection: Selection, say: Callable[[Compared], Said | None]) -> Said | None:
    """The selection in a database's own words, as far as it has them: `say` is None for what it has none
    for."""
    if isinstance(selection, Compared):
        return say(selection)
    found = [said(part, say) for part in selection.parts]
    told = [each for each in found if each is not None]
    if not told or (isinstance(selection, Some) and len(told) < len(found)):
        return None
    word = " AND " if isinstance(selection, Every) else " OR "
    return "(" + word.join(text for text, _ in told) + ")", tuple(v for _, values in told for v in values)
