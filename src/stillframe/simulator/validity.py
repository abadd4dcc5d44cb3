"""What makes a scenario one that can happen.

Law: a relation belongs to one source and a source keeps its order, so the sequence of updates that a
relation sees is the same in every merge of the sources' orders. Whether a delete finds its row and whether
a key holds is therefore decided by the written order alone, update by update.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from stillframe.algebra import Row, Type
from stillframe.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING
from stillframe.errors import ProjectError
from stillframe.simulator.yaml_text import flow

if TYPE_CHECKING:
    from stillframe.simulator.scenario import Relation, Scenario, Transaction

FAULTS = ("lose", "repeat", "reorder")
ISOLATIONS = ("serializable", "read-committed")
REPORTS = ("per-source", "coordinator")
ORDERS = ("written", "any")
ALGORITHMS = (
    *("basic", "rv", "sc", "eca", "eca-key", "eca-local", "lca"),
    *("strobe", "t-strobe", "g-strobe", "c-strobe", "c-t-strobe", "tid"),
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SOURCE = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_TYPES: Mapping[type, Type] = {bool: BOOLEAN, int: BIGINT, float: DOUBLE, str: STRING, date: DATE}
_BIGGEST = 1 << 63


class ScenarioError(ProjectError):
    """A scenario that is not written as one, or that cannot happen."""

    code = "BAD_SCENARIO"


def column_type(values: Iterable[Any]) -> Type | None:
    """The one type of all values there are; BIGINT where there are none, None where there is no such type."""
    found = {_TYPES.get(type(value)) for value in values if value is not None}
    if not found:
        return BIGINT
    if found == {BIGINT, DOUBLE}:
        return DOUBLE
    return found.pop() if len(found) == 1 else None


Where = Callable[[], str]


def _entry(number: int, transaction: Transaction) -> Where:
    return lambda: f"entry {number} of updates: {transaction}"


def _row(number: int, relation: Relation, row: Row) -> Where:
    return lambda: f"row {number} of {relation.name}: {flow(row)}"


def check_relations(scenario: Scenario) -> None:
    if not scenario.relations:
        raise ScenarioError("a scenario needs relations", hint="r1: {source: x, columns: [A, B], key: [A]}")
    _distinct("relation", [relation.name for relation in scenario.relations], "relations")
    for relation in scenario.relations:
        where = f"relation {relation.name}"
        if not _SOURCE.fullmatch(relation.source):
            raise ScenarioError(f"{relation.source!r} cannot name a source", detail=where, hint="source: x")
        if not relation.columns:
            raise ScenarioError("a relation needs columns", detail=where, hint="columns: [A, B]")
        _distinct("column", relation.columns, where)
        for column in relation.key:
            if column not in relation.columns:
                columns = ", ".join(relation.columns)
                raise ScenarioError(
                    f"key: there is no column {column}", detail=where, hint=f"columns: {columns}"
                )
        if len(set(relation.key)) < len(relation.key):
            raise ScenarioError("key: a column is there twice", detail=where)
        for number, row in enumerate(relation.rows, 1):
            _check_row(relation, row, _row(number, relation, row))


def check_transactions(scenario: Scenario) -> None:
    """Shapes, names and widths; not yet whether the updates can happen."""
    relations = {relation.name: relation for relation in scenario.relations}
    ids: dict[str, int] = {}
    for number, transaction in enumerate(scenario.transactions, 1):
        where = _entry(number, transaction)
        if not transaction.updates:
            raise ScenarioError("a transaction needs an update", detail=where())
        if transaction.id in ids:
            raise ScenarioError(
                f"the transactions {ids[transaction.id]} and {number} are both called {transaction.id}",
                detail=where(),
                hint="a global transaction needs a name of its own; U1, T1 and so on are given by position",
            )
        ids[transaction.id] = number
        for update in transaction.updates:
            if update.relation not in relations:
                listing = ", ".join(relations)
                raise ScenarioError(
                    f"there is no relation {update.relation}", detail=where(), hint=f"there are: {listing}"
                )
            _check_row(relations[update.relation], update.row, where)
        if transaction.group is None and len(touched := scenario.parts(transaction)) > 1:
            raise ScenarioError(
                f"a transaction of one source writes to {' and '.join(touched)}",
                detail=where(),
                hint="write {global: g1, updates: [...]} for a transaction of several sources",
            )


def check_types(scenario: Scenario) -> None:
    for relation in scenario.relations:
        for position, column in enumerate(relation.columns):
            values = scenario.values_of(relation, position)
            if column_type(values) is None:
                kinds = sorted({str(_TYPES[type(value)]) for value in values if value is not None})
                raise ScenarioError(
                    f"column {relation.name}.{column} mixes {' and '.join(kinds)}",
                    detail=f"its values: {', '.join(dict.fromkeys(map(flow, values)))}",
                    hint='a column holds values of one type; put "quotes" around text',
                )


def check_replay(scenario: Scenario) -> None:
    """The updates in the written order, each on what the ones before it left."""
    states: dict[str, Counter[Row]] = {}
    keyed: dict[str, set[Row]] = {}
    positions = {r.name: tuple(map(r.columns.index, r.key)) for r in scenario.relations}
    for relation in scenario.relations:
        state, keys = Counter[Row](), set[Row]()
        states[relation.name], keyed[relation.name] = state, keys
        for number, row in enumerate(relation.rows, 1):
            _arrive(relation, row, state, keys, positions[relation.name], _row(number, relation, row))
    relations = {relation.name: relation for relation in scenario.relations}
    for number, transaction in enumerate(scenario.transactions, 1):
        for update in transaction.updates:
            name = update.relation
            if update.insert:
                where = _entry(number, transaction)
                _arrive(relations[name], update.row, states[name], keyed[name], positions[name], where)
                continue
            if not states[name][update.row]:
                there = ", ".join(map(flow, states[name].elements())) or "nothing"
                raise ScenarioError(
                    f"{update}: the row is not there",
                    detail=_entry(number, transaction)(),
                    hint=f"{name} then holds: {there}",
                )
            states[name][update.row] -= 1
            keyed[name].discard(_pick(update.row, positions[name]))


def check_settings(scenario: Scenario) -> None:
    _one_of("report", scenario.report, REPORTS)
    _one_of("order", scenario.order, ORDERS)
    _whole("width", scenario.width, 1)
    _whole("crashes", scenario.crashes, 0)
    if not isinstance(scenario.centralised, bool):
        raise ScenarioError(f"centralised is true or false, not {flow(scenario.centralised)}")
    for source, faults in scenario.channels.items():
        _known_source("channels", source, scenario)
        for fault in sorted(faults):
            _one_of(f"channels of {source}", fault, FAULTS)
    for source, isolation in scenario.isolation.items():
        _known_source("isolation", source, scenario)
        _one_of(f"isolation of {source}", isolation, ISOLATIONS)
    for algorithm in scenario.params:
        if algorithm.partition("-published")[0] not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise ScenarioError(f"params: there is no algorithm {algorithm}", hint=f"there are: {known}")


def check_views(scenario: Scenario) -> None:
    """`Refused`, with every reason, for a text that is not a query over the relations."""
    if not scenario.views:
        raise ScenarioError("a scenario needs a view", hint="view: SELECT …, or views: {name: SELECT …}")
    _distinct("view", [name for name, _ in scenario.views], "views")
    for name, _ in scenario.views:
        scenario.plan(name)


def _check_row(relation: Relation, row: Row, where: Where) -> None:
    if len(row) != len(relation.columns):
        raise ScenarioError(
            f"a row of {len(row)} in a relation of {len(relation.columns)} columns",
            detail=where(),
            hint=f"{relation.name} has the columns {', '.join(relation.columns)}",
        )
    for column, value in zip(relation.columns, row, strict=True):
        fits = type(value) is not int or -_BIGGEST <= value < _BIGGEST
        if value is not None and (type(value) not in _TYPES or not fits):
            raise ScenarioError(
                f"{relation.name}.{column} cannot hold {value!r}",
                detail=where(),
                hint="a value is a number (whole ones of 64 bits), text, true, false, null or a date",
            )


def _arrive(
    relation: Relation, row: Row, state: Counter[Row], keys: set[Row], key: tuple[int, ...], where: Where
) -> None:
    if key:
        found = _pick(row, key)
        names = ", ".join(relation.key)
        if None in found:
            raise ScenarioError(f"the key {names} of {relation.name} is never null", detail=where())
        if found in keys:
            raise ScenarioError(
                f"{relation.name} already holds a row with the key {names} = {', '.join(map(flow, found))}",
                detail=where(),
                hint=f"delete that row first, or let {relation.name} have no key",
            )
        keys.add(found)
    state[row] += 1


def _pick(row: Row, positions: tuple[int, ...]) -> Row:
    return tuple(row[position] for position in positions)


def _distinct(kind: str, names: Sequence[str], where: str) -> None:
    """Names differ in more than case: that is how a view's text tells them apart."""
    seen: dict[str, str] = {}
    for name in names:
        if not _IDENTIFIER.fullmatch(name):
            hint = "use letters, digits and _"
            raise ScenarioError(f"{flow(name)} cannot name a {kind}", detail=where, hint=hint)
        if name.lower() in seen:
            both = f"{seen[name.lower()]} and {name}"
            raise ScenarioError(f"two {kind}s of one name: {both}", detail=where, hint="rename one")
        seen[name.lower()] = name


def _one_of(key: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise ScenarioError(f"{key}: there is no {flow(value)}", hint=f"it is one of {', '.join(known)}")


def _whole(key: str, value: object, least: int) -> None:
    if type(value) is not int or value < least:
        raise ScenarioError(f"{key} is a whole number from {least} on, not {flow(value)}")


def _known_source(key: str, source: str, scenario: Scenario) -> None:
    if source not in scenario.sources:
        raise ScenarioError(
            f"{key}: there is no source {source}", hint=f"there are: {', '.join(scenario.sources)}"
        )
