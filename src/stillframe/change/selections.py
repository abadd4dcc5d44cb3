"""Which changed rows of a relation make a difference to some plans, as its source may be told.

Let σ hold of all rows of R that some place of some plan lets through. The change of a plan is linear in that
of R at each place. So it is the same with σ(dR) for dR; and R' − σ(dR), the state before as it is reckoned
then, differs from R by rows that no place lets through.

One law does not bear it: that new keys meet nothing (`places.py`). A row that begins to be wanted comes
alone, without the row that it was; its key looks new, and is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from stillframe.algebra import Call, Cast, EvaluationError, Plan, Ref, Scalar, Schema, evaluate_scalar
from stillframe.algebra.scalar import refs
from stillframe.algebra.selection import (
    COMPARING,
    IS_NOT_NULL,
    IS_NULL,
    Compared,
    Selection,
    comparisons,
    every,
    some,
)
from stillframe.algebra.types import Type
from stillframe.change.places import numbered, places

MOST_COMPARISONS = 100  # that a source is told
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def selections(plans: Iterable[Plan]) -> dict[str, Selection]:
    """By relation; of those that are not named every row may matter."""
    asked: dict[str, list[Selection | None]] = {}
    for plan in plans:
        named, read = numbered(plan)
        for place in places(named, read, {}).values():
            wanted = every(_selection(condition, place.schema) for condition in place.conditions)
            asked.setdefault(place.relation, []).append(wanted)
    found = {relation: some(each) for relation, each in asked.items()}
    return {
        relation: selection
        for relation, selection in found.items()
        if selection is not None and sum(1 for _ in comparisons(selection)) <= MOST_COMPARISONS
    }


def _selection(condition: Scalar, schema: Schema) -> Selection | None:
    """What holds wherever the condition is true."""
    match condition:
        case Call("and", (left, right)):
            return every([_selection(left, schema), _selection(right, schema)])
        case Call("or", (left, right)):
            return some([_selection(left, schema), _selection(right, schema)])
        case Call("isnull", (Ref(position),)):
            return Compared(schema[position].name, IS_NULL)
        case Call("isnotnull", (Ref(position),)):
            return Compared(schema[position].name, IS_NOT_NULL)
        case Ref(position):
            return Compared(schema[position].name, "=", True)
        case Call(word, (left, right)) if word in COMPARING:
            return _compared(left, word, right, schema) or _compared(
                right, _TURNED.get(word, word), left, schema
            )
    return None


def _compared(side: Scalar, word: str, other: Scalar, schema: Schema) -> Selection | None:
    column, value = _column(side), _constant(other)
    if column is None or value is None:
        return None
    return Compared(schema[column].name, word, value)


def _column(side: Scalar) -> int | None:
    """A column whose values are what is compared, perhaps as a wider type."""
    match side:
        case Ref(position):
            return position
        case Cast(Ref(position, type_), target) if _holds(target, type_):
            return position
    return None


def _holds(target: Type, type_: Type) -> bool:
    if type_.is_integer and target.is_integer:
        return type_.bits <= target.bits
    if type_.name == target.name == "DECIMAL":
        whole = type_.precision - type_.scale
        return target.scale >= type_.scale and target.precision - target.scale >= whole
    return False


def _constant(side: Scalar) -> Any:
    """The value of what reads no column, where it is one that databases know, and no NULL or error."""
    if refs(side):
        return None
    try:
        value = evaluate_scalar(side, ())
    except EvaluationError:
        return None
    plain = isinstance(value, bool | int | str | Decimal | date) and not isinstance(value, datetime)
    return value if plain else None
