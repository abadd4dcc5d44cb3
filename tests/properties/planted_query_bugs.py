"""Bugs to plant in the rules of operators: each changes one function of Stillframe for as long as its context
lasts. `operators` are those whose views show it, where they have one of the `words`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from planted_bugs import replaced

import stillframe.change.invertible
import stillframe.runtime.compiling
import stillframe.sql.decorrelation
import stillframe.sql.from_items
import stillframe.sql.grouping
import stillframe.sql.query
import stillframe.sql.selecting
import stillframe.sql.windows
from stillframe.algebra import (
    Aggregate,
    Call,
    Filter,
    Join,
    Literal,
    Measure,
    Monus,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Schema,
    Semi,
    UnionAll,
    Values,
)
from stillframe.algebra.plan import Window
from stillframe.algebra.scalar import conjuncts
from stillframe.algebra.types import BOOLEAN
from stillframe.change.keywise import Keyed
from stillframe.runtime.compiling import Compiler
from stillframe.sql.expressions import Expressions
from stillframe.sql.grouping import Groups
from stillframe.sql.subqueries import Meeting

Planting = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Bug:
    name: str
    operators: tuple[str, ...]
    plant: Planting
    words: tuple[str, ...] = ("",)


def together(*bugs: Planting) -> Planting:
    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for bug in bugs:
                stack.enter_context(bug())
            yield

    return planted


_compiling, _query, _grouping = stillframe.runtime.compiling, stillframe.sql.query, stillframe.sql.grouping
_selecting, _inverting = stillframe.sql.selecting, stillframe.change.invertible


def _null_is_no_key(touched_groups: Any) -> Any:
    def mutant(plan: Aggregate, former: Any) -> Plan:
        found = touched_groups(plan, former)
        if isinstance(found, Semi):
            plain = tuple(Call("=", c.args) for c in found.conditions if isinstance(c, Call))
            return replace(found, conditions=plain)
        return found

    return mutant


def _empty_groups_stay(brought_forward: Any) -> Any:
    def mutant(plan: Aggregate, former: Any) -> Plan:
        found = brought_forward(plan, former)
        inner = found.input
        return replace(found, input=inner.input) if isinstance(inner, Filter) else found

    return mutant


def _never_unknown(brought_forward: Any) -> Any:
    def mutant(plan: Aggregate, former: Any) -> Plan:
        found = brought_forward(plan, former)
        last = Output(found.outputs[-1].name, Literal(False, BOOLEAN))
        return replace(found, outputs=(*found.outputs[:-1], last))

    return mutant


def _sums_only_grow(columns: Any) -> Any:
    def mutant(measure: Measure, old: Ref, new: Ref | None) -> Any:
        found = columns(measure, old, new)
        if measure.function == "sum":
            return [found[0], replace(found[1], went=Literal(None, found[1].went.type))]
        return found

    return mutant


class _Deaf(Keyed):
    """An input that never changes."""

    def change(self, changed: frozenset[str], order: Any = None) -> Plan | None:
        return None


class _OneSided(Keyed):
    """An input of which only rows that come touch anything."""


def _windows_one_sided(keyed_inputs: Any) -> Any:
    def mutant(plan: Any) -> tuple[Keyed, ...]:
        found = keyed_inputs(plan)
        if isinstance(plan, Window) and plan.partition:
            return tuple(_OneSided(each.plan, each.keys, each.read) for each in found)
        return found

    return mutant


def _of_sign(sign: str, of: type[Keyed] = Keyed) -> Callable[[Any], Any]:
    """Only rows that come (`>`) or go (`<`) touch what an operator shows."""

    def make(net_change: Any) -> Any:
        def mutant(self: Compiler, looked_at: Keyed, changed: frozenset[str]) -> Plan | None:
            change = net_change(self, looked_at, changed)
            if change is None or not isinstance(looked_at, of):
                return change
            nothing = Values(Schema(change.schema.columns), ())
            return Monus(change, nothing) if sign == ">" else Negate(Monus(Negate(change), nothing))

        return mutant

    return make


def _partners_unheard(anti: bool) -> Callable[[Any], Any]:
    def make(keyed_inputs: Any) -> Any:
        def mutant(plan: Any) -> tuple[Keyed, ...]:
            found = keyed_inputs(plan)
            if isinstance(plan, Semi) and plan.anti is anti:
                return (found[0], _Deaf(found[1].plan, found[1].keys, found[1].read))
            return found

        return mutant

    return make


def _null_differs(kept: Any) -> Any:
    return lambda self, plan, *, anti: kept(
        replace(self, mine=None, theirs=None) if anti else self, plan, anti=anti
    )


def _counted_once(of_both: bool) -> Callable[[Any], Any]:
    return lambda set_operation: (
        lambda left, right, *, both, once: set_operation(left, right, both=both, once=once or both is of_both)
    )


def _clause_dropped(word: str) -> Callable[[Any], Any]:
    def make(condition: Any) -> Any:
        def mutant(self: Expressions, node: Any, what: str) -> Any:
            found = condition(self, node, what)
            return Literal(True, BOOLEAN) if what == word else found

        return mutant

    return make


def _first_condition(outer: Any) -> Any:
    def mutant(join: Join, *, left: bool, right: bool) -> Plan:
        found = outer(join, left=left, right=right)
        first = tuple(part for each in join.conditions for part in conjuncts(each))[:1]
        careless = outer(replace(join, conditions=first), left=left, right=right)
        return UnionAll((found.inputs[0], *careless.inputs[1:]))

    return mutant


def _nothing_gives_nothing(groups: Any) -> Any:
    def mutant(self: Groups, rows: Plan, chosen: Any, also: tuple[Output, ...] = ()) -> Plan:
        if also or tuple(chosen):
            return groups(self, rows, chosen, also)
        found = groups(self, rows, (), (Output("all", Literal(True, BOOLEAN)),))
        columns = enumerate(found.schema.columns[1:], 1)
        return Project(found, tuple(Output(c.name, Ref(i, c.type)) for i, c in columns))

    return mutant


def _last_set_lost(group_keys: Any) -> Any:
    def mutant(*args: Any) -> Any:
        keys = group_keys(*args)
        keys.sets = keys.sets and keys.sets[:-1]
        return keys

    return mutant


def _nulls_at_the_other_end(ordering: Any) -> Any:
    def mutant(over: Expressions, node: Any) -> Any:
        found = ordering(over, node)
        return type(found)(found.scalar, found.descending, not found.nulls_last)

    return mutant


def _ranks_without_ties(windowed: Any) -> Any:
    def mutant(name: str, function: str, *rest: Any) -> Any:
        return windowed(name, "row_number" if function in ("rank", "dense_rank") else function, *rest)

    return mutant


def _null_over_nothing(over_nothing: Any) -> Any:
    return lambda value: Literal(None, value.type)


def _none_unknown(unknown_partitions: Any) -> Any:
    return lambda plan, former: Filter(unknown_partitions(plan, former), Literal(False, BOOLEAN))


_NETTED = (Compiler, "_net_change")
_GROUPS = ("GROUP BY", "DISTINCT", "GROUPING SETS")

BUGS = (
    Bug(
        "a NULL group is forgotten",
        _GROUPS,
        together(
            replaced(_inverting, "touched_groups", _null_is_no_key),
            replaced(_compiling, "touched_groups", _null_is_no_key),
        ),
    ),
    Bug("an empty group is kept", _GROUPS, replaced(_compiling, "brought_forward", _empty_groups_stay)),
    Bug(
        "the least value that goes is not missed",
        _GROUPS,
        replaced(_compiling, "brought_forward", _never_unknown),
        ("min(", "max("),
    ),
    Bug("sums keep what goes", _GROUPS, replaced(_inverting, "_columns", _sums_only_grow), ("sum(", "avg(")),
    Bug("only rows that come touch anything", ("GROUP BY", "LEFT JOIN"), replaced(*_NETTED, _of_sign(">"))),
    Bug("only rows that go touch anything", ("GROUP BY", "DISTINCT"), replaced(*_NETTED, _of_sign("<"))),
    Bug(
        "a partner changes nothing for an anti join",
        ("LEFT ANTI JOIN", "NOT EXISTS", "LEFT JOIN"),
        replaced(_compiling, "keyed_inputs", _partners_unheard(anti=True)),
    ),
    Bug(
        "a partner changes nothing for a semi join",
        ("LEFT SEMI JOIN", "EXISTS", "IN"),
        replaced(_compiling, "keyed_inputs", _partners_unheard(anti=False)),
    ),
    Bug("NOT IN takes NULL for another value", ("NOT IN",), replaced(Meeting, "kept", _null_differs)),
    Bug(
        "INTERSECT ALL loses duplicates",
        ("INTERSECT ALL",),
        replaced(_query, "set_operation", _counted_once(of_both=True)),
    ),
    Bug(
        "EXCEPT ALL loses duplicates",
        ("EXCEPT ALL",),
        replaced(_query, "set_operation", _counted_once(of_both=False)),
    ),
    Bug(
        "count(DISTINCT) counts duplicates",
        ("GROUP BY", "aggregate of all"),
        replaced(_grouping, "DISTINCT", lambda _: {}),
        ("count(DISTINCT",),
    ),
    Bug("HAVING is dropped", ("HAVING",), replaced(Expressions, "condition", _clause_dropped("HAVING"))),
    Bug(
        "FILTER is dropped",
        ("GROUP BY", "HAVING"),
        replaced(Expressions, "condition", _clause_dropped("FILTER")),
        ("FILTER",),
    ),
    Bug(
        "rows without partner look at one condition only",
        ("LEFT JOIN", "RIGHT JOIN", "FULL JOIN"),
        replaced(stillframe.sql.from_items, "outer", _first_condition),
    ),
    Bug(
        "a FULL JOIN is a LEFT JOIN",
        ("FULL JOIN",),
        replaced(
            stillframe.sql.from_items,
            "outer",
            lambda outer: lambda join, *, left, right: outer(join, left=left, right=right and not left),
        ),
    ),
    Bug(
        "an aggregate of nothing has no row",
        ("aggregate of all", "scalar subquery"),
        replaced(Groups, "_groups", _nothing_gives_nothing),
    ),
    Bug("a grouping set is lost", ("GROUPING SETS",), replaced(_selecting, "group_keys", _last_set_lost)),
    Bug(
        "UNION and DISTINCT keep duplicates",
        ("UNION", "DISTINCT"),
        together(
            replaced(_query, "each_once", lambda _: lambda q: q),
            replaced(_selecting, "each_once", lambda _: lambda q: q),
        ),
    ),
    Bug(
        "the partition that a row left is not touched",
        ("window", "QUALIFY"),
        together(
            replaced(_compiling, "keyed_inputs", _windows_one_sided),
            replaced(*_NETTED, _of_sign(">", _OneSided)),
        ),
    ),
    Bug(
        "a LIMIT is not filled up again",
        ("LIMIT",),
        replaced(_compiling, "unknown_partitions", _none_unknown),
    ),
    Bug(
        "NULL stands at the other end of an order",
        ("LIMIT", "window"),
        together(
            replaced(stillframe.sql.windows, "ordering", _nulls_at_the_other_end),
            replaced(_selecting, "ordering", _nulls_at_the_other_end),
        ),
    ),
    Bug(
        "ranks do not know ties",
        ("window", "QUALIFY"),
        replaced(stillframe.sql.windows, "Windowed", _ranks_without_ties),
        ("rank()",),
    ),
    Bug(
        "a tied query over nothing is NULL",
        ("correlated scalar subquery",),
        replaced(stillframe.sql.decorrelation, "_over_nothing", _null_over_nothing),
        ("count",),
    ),
)
