"""The plan of a view as data: what a refresh runs, what it asks of which source, and what that costs beside
the plan not taken.

Costs are estimates: rows that leave the sources. A read by key meets one row where the column is a key, else
as many as there are rows of the one relation to a row of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from stillframe.algebra import Aggregate, Join, Moment, Plan, Ref, Scan, Semi, Window, relations, scans
from stillframe.change import (
    Fetch,
    Keywise,
    Link,
    at,
    body,
    change_of,
    columns_read,
    driver,
    fetches,
    how,
    keyed_inputs,
    terms,
)
from stillframe.change.propagation import Family, choose
from stillframe.engine import Room
from stillframe.errors import StillframeError
from stillframe.lake.frame import ViewState
from stillframe.runtime.checking import operators
from stillframe.runtime.choosing import live_protocol, live_view
from stillframe.runtime.config import SettleBound
from stillframe.runtime.deciding import (
    AUTO,
    FULL,
    INCREMENTAL,
    corrected,
    growth,
    is_clearly_cheaper_anew,
    told,
)
from stillframe.runtime.definitions import Definitions, View
from stillframe.runtime.estimating import (
    UNKNOWN_ROWS,
    Estimate,
    Estimator,
    Sized,
    as_read,
    relation_size,
    sized,
    view_size,
)
from stillframe.runtime.evaluating import MOST_ROWS
from stillframe.runtime.prices import origin, prices
from stillframe.runtime.reads import KEY_LIMIT
from stillframe.runtime.routes import routes
from stillframe.runtime.statistics import Statistics
from stillframe.runtime.status import transactions_behind
from stillframe.sources.base import Source

LAKE = "lake"


@dataclass(frozen=True)
class Situation:
    """What is known when a plan is made: the view's state in the newest frame, the rows of each relation and
    view it reads, and how many changes of each wait. None where nobody can say. `asked` is what all views
    together ask of a relation's changed rows."""

    state: ViewState | None
    rows: Mapping[str, int | None]
    waiting: Mapping[str, int | None]
    statistics: Statistics = field(default_factory=Statistics)
    asked: Mapping[str, str] = field(default_factory=dict)

    def assumed(self) -> dict[str, int]:
        """Changes to reckon with: those that wait, or one row of each relation where none is known to."""
        known = {name: count for name, count in self.waiting.items() if count}
        return known or dict.fromkeys(self.rows, 1)

    def size(self, view: View, name: str) -> Sized:
        known, rows = self.statistics.of(name), self.rows.get(name)
        change = self.assumed().get(name, 0)
        if name in view.upstream:
            return view_size(known, rows or UNKNOWN_ROWS, change)
        return relation_size(known if rows is None else replace(known, rows=rows), change)


def explain(
    view: View,
    situation: Situation,
    sources: Mapping[str, Source],
    engine: str = "spark",
    family: Family = Family.TREE,
    warehouse: Path | None = None,
    settle_rows: float = SettleBound.rows,
    driver_rows: int = MOST_ROWS,
    room: Room | None = None,
) -> dict[str, Any]:
    """The terms are those of all relations: a refresh leaves out the terms whose change is empty. Of a join,
    `propagation` says in which order changes are propagated, by the changes that wait."""
    plans = {"incremental": _incremental(view, situation, sources), "full": _full(view, situation)}
    estimator = Estimator(prices(engine, warehouse), settle_rows, driver_rows, room=room or Room())
    estimate = _estimate(view, situation, estimator)
    upcoming = _next(view, situation, estimate)
    taken = FULL if view.policy == FULL or upcoming["reason"] == "COST" else INCREMENTAL
    plan = plans.pop(taken)
    live = live_protocol(view.algorithm, live_view(view.plan)) if view.conducted else None
    why_not = {FULL: "reads every relation whole", INCREMENTAL: "the view says refresh_policy = 'full'"}
    if upcoming["reason"] == "COST":
        why_not[INCREMENTAL] = upcoming["detail"]
    return {
        "view": view.name,
        "algorithm": view.algorithm,
        "why": view.why,
        "protocol": {"does": live.summary, "routes": routes(live)} if live else None,
        "level": view.level,
        "policy": view.policy,
        "mode": taken,
        "next": upcoming,
        "expression": str(family),
        "propagation": _propagation(view, situation, estimator, family),
        "prices": origin(engine, warehouse),
        "key": [view.schema[i].name for i in sorted(min(view.schema.keys, key=sorted, default=frozenset()))],
        "tree": plan["tree"],
        "queries": plan["queries"],
        "cost": {
            **_cost(plan),
            **_seconds(estimate, taken),
            "pending_changes": situation.waiting,
            "relation_rows": situation.rows,
        },
        "alternatives": [
            {"mode": mode, **_cost(other), **_seconds(estimate, mode), "why_not": why_not[mode]}
            for mode, other in plans.items()
        ],
        "statistics": {name: asdict(situation.statistics.of(name)) for name in view.reads},
        "columns": _columns(view.plan),
        "keywise": _keywise(view.plan),
        "operators": operators(view),
    }


def _estimate(view: View, situation: Situation, estimator: Estimator) -> Estimate:
    """For the changes that wait, as former sessions have learned."""
    rows = situation.state.rows if situation.state is not None else UNKNOWN_ROWS
    known = situation.statistics
    model = estimator.estimate(
        view.plan, lambda name: situation.size(view, name), rows, growth(view.name, known)
    )
    return corrected(model, view.name, known)


def _seconds(estimate: Estimate, mode: str) -> dict[str, float]:
    if mode == FULL:
        return {"seconds": round(estimate.full, 4)}
    return {"seconds": round(estimate.incremental, 4), "settling_seconds": round(estimate.settling, 4)}


def _propagation(
    view: View, situation: Situation, estimator: Estimator, family: Family
) -> list[dict[str, Any]]:
    """One for each join: the expression, how often each input is read, and what the others would cost."""
    changed = frozenset(situation.assumed())
    sizes = as_read(view.plan, lambda name: situation.size(view, name))
    found = []
    for below in _below(view.plan):
        for branch in terms(below):
            join = body(branch)
            if isinstance(join, Join) and len(join.inputs) > 1:
                graph = sized(join, sizes, changed)
                found.append(choose(graph, estimator.model(graph), family).to_json())
    return found


def _below(plan: Plan) -> tuple[Plan, ...]:
    """What a key-wise operator stands on: its change says which keys are touched."""
    return plan.inputs if isinstance(plan, Keywise) else (plan,)


def _keywise(plan: Plan) -> dict[str, Any] | None:
    if not isinstance(plan, Keywise):
        return None
    match plan:
        case Aggregate():
            operator = "aggregate" if plan.measures else "distinct"
        case Window():
            operator = "window" if plan.keep is None else f"first {plan.keep}"
        case Semi():
            operator = "anti-join" if plan.anti else "semi-join"
    first = keyed_inputs(plan)[0]
    keys = [
        key.name or first.plan.schema[key.position].name if isinstance(key, Ref) else "an expression"
        for key in first.keys
    ]
    return {"operator": operator, "keys": keys, "how": how(plan).words}


def _next(view: View, situation: Situation, estimate: Estimate) -> dict[str, str]:
    """What a refresh now would do, as far as this view alone tells."""
    state = situation.state
    if state is None or state.vector is None:
        return {"mode": "full", "reason": "NEW"}
    if state.definition != view.text.select or state.schema != view.schema:
        return {"mode": "full", "reason": "DEFINITION_CHANGED"}
    if view.policy == "full":
        return {"mode": "full", "reason": "POLICY"}
    if all(count == 0 for count in situation.waiting.values()):
        return {"mode": "unchanged", "reason": "NO_CHANGES"}
    if view.policy == AUTO and is_clearly_cheaper_anew(estimate.rows_read, [estimate]):
        return {"mode": FULL, "reason": "COST", "detail": told(True, estimate)[1]}
    return {"mode": "incremental", "reason": "CHANGES"}


def _cost(plan: Mapping[str, Any]) -> dict[str, Any]:
    """`rows` is None where a relation that is read whole has an unknown size."""
    rows = [query["rows"] for query in plan["queries"]]
    return {
        "terms": len(plan["tree"]),
        "reads": sum(len(term["reads"]) for term in plan["tree"]),
        "whole_reads": sum(1 for term in plan["tree"] for read in term["reads"] if read["by"] is None),
        "queries": len(plan["queries"]),
        "rows": None if None in rows else sum(rows),
    }


# -- the two plans


def _full(view: View, situation: Situation) -> dict[str, Any]:
    tree = []
    for part in (term for below in _below(view.plan) for term in terms(at(below, Moment.AFTER, frozenset()))):
        reads = [
            _read(view, scan.relation, Moment.AFTER, situation.rows[scan.relation]) for scan in scans(part)
        ]
        tree.append({"change": None, "join": [_named(scan) for scan in scans(part)], "reads": reads})
    return {"tree": tree, "queries": _state_queries(view, tree)}


def _incremental(view: View, situation: Situation, sources: Mapping[str, Source]) -> dict[str, Any]:
    changes = situation.assumed()
    tree = [
        _term(view, term, situation, changes, sources)
        for below in _below(view.plan)
        for term in terms(change_of(below, frozenset(relations(view.plan))))
    ]
    running = [term for term in tree if term["change"] in changes]
    queries = [
        _query(view, name, "changes", situation.asked.get(name), changes.get(name, 0))
        for name in view.reads
        if name in view.relations
    ]
    return {"tree": tree, "queries": [*queries, *_state_queries(view, running)]}


def _term(
    view: View,
    term: Plan,
    situation: Situation,
    changes: Mapping[str, int],
    sources: Mapping[str, Source],
) -> dict[str, Any]:
    changed = next(scan.relation for scan in scans(term) if scan.at is Moment.CHANGE)
    top = body(term)
    inputs = top.inputs or (top,)
    known: dict[int, int | None] = {driver(top) if isinstance(top, Join) else 0: changes.get(changed, 0)}
    reads = []
    for fetch in fetches(term):
        link = _link(view, fetch, sources)
        rows = _met(fetch, link, inputs, known, situation.rows)
        if link is not None and (known.get(link.known) or 0) > KEY_LIMIT:
            link = None
        known[fetch.place] = rows
        by = _by(fetch, link, inputs) if link else None
        reads.append(_read(view, fetch.scan.relation, fetch.scan.at, rows, by))
    return {
        "change": changed,
        "join": [_named(scan) for plan in inputs for scan in scans(plan)],
        "reads": reads,
        "waiting": situation.waiting.get(changed),
    }


def _link(view: View, fetch: Fetch, sources: Mapping[str, Source]) -> Link | None:
    """The equality a read is restricted by. In the lake, rows are looked up by any but floats."""
    if fetch.scan.relation in view.upstream:
        found = (link for link in fetch.links if fetch.scan.schema[link.column].type.name != "DOUBLE")
        return next(found, None)
    source, table = fetch.scan.relation.split(".", 1)
    for link in fetch.links:
        if sources[source].pushable(table, fetch.scan.schema[link.column].name):
            return link
    return None


def _met(
    fetch: Fetch,
    link: Link | None,
    inputs: Sequence[Plan],
    known: Mapping[int, int | None],
    sizes: Mapping[str, int | None],
) -> int | None:
    """About how many rows a read brings."""
    size = sizes.get(fetch.scan.relation)
    before = known.get(link.known) if link else None
    if link is None or before is None or before > KEY_LIMIT:
        return size
    each = 1.0
    if frozenset({link.column}) not in fetch.scan.schema.keys:
        other = sizes.get(scans(inputs[link.known])[0].relation)
        each = max(1.0, size / other) if size and other else 1.0
    return round(before * each) if size is None else min(size, round(before * each))


def _by(fetch: Fetch, link: Link, inputs: Sequence[Plan]) -> str:
    known = inputs[link.known]
    column = fetch.scan.schema[link.column].name
    return f"{column} = {_named(scans(known)[0])}.{known.schema[link.known_column].name}"


# -- reads and queries


def _read(
    view: View, relation: str, moment: Moment | None, rows: int | None, by: str | None = None
) -> dict[str, Any]:
    place = LAKE if relation in view.upstream else relation.split(".", 1)[0]
    return {"relation": relation, "at": str(moment), "by": by, "from": place, "rows": rows}


def _state_queries(view: View, tree: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What is asked of sources: each thing once, whichever terms need it. The states before and after the
    change are one read; their difference is the change, which is there already."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for read in (read for term in tree for read in term["reads"] if read["from"] != LAKE):
        key = (read["relation"], read["by"])
        found.setdefault(key, _query(view, read["relation"], "state", read["by"], read["rows"]))
    return list(found.values())


def _query(view: View, relation: str, kind: str, by: str | None, rows: int | None) -> dict[str, Any]:
    source, table = relation.split(".", 1)
    columns = _columns(view.plan)[relation]
    return {"source": source, "table": table, "kind": kind, "columns": columns, "by": by, "rows": rows}


def _columns(plan: Plan) -> dict[str, list[str]]:
    schemas = {scan.relation: scan.schema for scan in scans(plan)}
    return {
        name: [schemas[name][i].name for i in sorted(positions)]
        for name, positions in columns_read(plan).items()
    }


def _named(scan: Scan) -> str:
    return f"Δ{scan.relation}" if scan.at is Moment.CHANGE else f"{scan.relation}@{scan.at}"


# -- what is known


def survey(
    view: View,
    definitions: Definitions,
    views: Mapping[str, ViewState],
    sources: Mapping[str, Source],
    statistics: Statistics,
) -> Situation:
    """Asks the sources; `views` are those of the newest frame."""
    state = views.get(view.name)
    rows: dict[str, int | None] = {}
    waiting: dict[str, int | None] = {}
    for name in view.reads:
        if name in view.upstream:
            rows[name] = views[name].rows if name in views else None
            counts = [_waiting(base, state, sources) for base in definitions.base_relations(name)]
            waiting[name] = None if None in counts else sum(filter(None, counts))
        else:
            rows[name] = _rows(name, sources)
            waiting[name] = _waiting(name, state, sources)
    asked = {name: str(rows) for name, rows in definitions.selections(definitions.views.values()).items()}
    return Situation(state, rows, waiting, statistics, asked)


def _rows(relation: str, sources: Mapping[str, Source]) -> int | None:
    source, table = relation.split(".", 1)
    try:
        return sources[source].rows(table)
    except StillframeError:
        return None


def _waiting(relation: str, state: ViewState | None, sources: Mapping[str, Source]) -> int | None:
    if state is None or state.vector is None:
        return None
    return transactions_behind(sources, [relation], state)[relation.split(".", 1)[0]]
