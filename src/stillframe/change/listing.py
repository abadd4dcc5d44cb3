"""How each operator of a text is maintained, in a word and a sentence; or why it is not, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stillframe.algebra import Aggregate, Join, Plan, Semi, Window
from stillframe.algebra.aggregates import DISTINCT
from stillframe.change.first_rows import keeps_first
from stillframe.change.invertible import stored
from stillframe.change.keywise import shown_keys

LINEAR, PRODUCT, KEYWISE, RECOMPUTED, NOTHING = "linear", "product", "key-wise", "recomputed", "none"


@dataclass(frozen=True)
class How:
    """`code` says why something is recomputed at every change of its input."""

    rule: str
    words: str
    code: str = ""
    hint: str = ""

    @property
    def incremental(self) -> bool:
        return self.rule != RECOMPUTED


def how(plan: Plan | None) -> How:
    match plan:
        case None:
            return How(NOTHING, "a table has no order; order when you read the view")
        case Aggregate():
            return _groups(plan)
        case Semi():
            if shown_keys(plan):
                return How(KEYWISE, "rows whose key a change touches are compared again")
            hint = "add an equality between a column of either side"
            words = "no equality ties the two sides: all rows are compared again when the inner ones change"
            return How(RECOMPUTED, words, "NO_EQUALITY", hint)
        case Window():
            return _window(plan)
        case Join():
            return How(PRODUCT, "each input's change is joined with the other inputs")
    return How(LINEAR, "changes pass through")


def _groups(plan: Aggregate) -> How:
    """Aggregates of distinct values are plain ones of a grouping of their own."""
    distinct = {word: base for base, word in DISTINCT.items()}
    measures = tuple(replace(m, function=distinct.get(m.function, m.function)) for m in plan.measures)
    plan = replace(plan, measures=measures)
    if stored(plan) is None:
        named = ", ".join(dict.fromkeys(m.function for m in plan.measures if _alone(plan, m.function)))
        if plan.keys:
            return How(KEYWISE, f"groups that a change touches are read again, for {named}")
        words = f"there is one group, read again at every change, for {named}"
        return How(RECOMPUTED, words, "ONE_GROUP", "group by a column")
    words = "groups are brought forward from their own counts and sums"
    if any(measure.function in ("min", "max") for measure in plan.measures):
        words += "; one whose least or greatest value leaves is read again"
    return How(KEYWISE, words)


def _alone(plan: Aggregate, function: str) -> bool:
    """Whether an aggregate keeps its groups from being brought forward."""
    measures = tuple(m for m in plan.measures if m.function == function)
    return stored(Aggregate(plan.input, plan.keys, measures)) is None


def _window(plan: Window) -> How:
    if keeps_first(plan):
        return How(KEYWISE, f"the first {plan.keep} are brought forward; read again where one of them leaves")
    ties = "; among rows that are equal in the order, their other columns decide" if plan.has_ties else ""
    if plan.partition:
        return How(KEYWISE, f"partitions that a change touches are computed again{ties}")
    words = f"all rows are ordered again at every change{ties}"
    return How(RECOMPUTED, words, "NO_PARTITION", "add PARTITION BY")
