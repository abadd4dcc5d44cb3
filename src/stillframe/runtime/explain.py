"""The change plan of a view as data: the terms a refresh runs, and what each asks of which source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stillframe.algebra import Moment, Plan, Scan, relations, scans
from stillframe.change import Fetch, body, change_of, columns_read, fetches, terms
from stillframe.runtime.definitions import View
from stillframe.sources.base import Source


def explain(view: View, pending: Mapping[str, int | None], sources: Mapping[str, Source]) -> dict[str, Any]:
    """As if every relation had changed: each refresh leaves out the terms whose change is empty."""
    every = frozenset(relations(view.plan))
    parts = terms(change_of(view.plan, every))
    tree = [_term(view, part, sources) for part in parts]
    read_whole = sum(1 for term in tree for fetch in term["reads"] if fetch["by"] is None)
    return {
        "view": view.name,
        "algorithm": view.algorithm,
        "why": "every source keeps a change log, so each state is had from the current rows and the log",
        "level": view.level,
        "expression": "n-term",
        "key": [view.schema[i].name for i in sorted(min(view.schema.keys, key=sorted, default=frozenset()))],
        "tree": tree,
        "cost": {
            "terms": len(tree),
            "reads": sum(len(term["reads"]) for term in tree),
            "whole_reads": read_whole,
            "pending_changes": dict(pending),
        },
        "alternatives": [
            {
                "mode": "full",
                "reads": len(every),
                "whole_reads": len(every),
                "why_not": "reads every relation whole",
            }
        ],
        "columns": {
            name: [_schema(view.plan, name)[i].name for i in sorted(positions)]
            for name, positions in columns_read(view.plan).items()
        },
    }


def _schema(plan: Plan, relation: str) -> Any:
    return next(scan.schema for scan in scans(plan) if scan.relation == relation)


def _term(view: View, term: Plan, sources: Mapping[str, Source]) -> dict[str, Any]:
    changed = next(scan.relation for scan in scans(term) if scan.at is Moment.CHANGE)
    inputs = body(term).inputs or (body(term),)
    return {
        "change": changed,
        "join": [_named(scan) for plan in inputs for scan in scans(plan)],
        "reads": [_fetch(view, term, fetch, sources) for fetch in fetches(term)],
    }


def _named(scan: Scan) -> str:
    return f"Δ{scan.relation}" if scan.at is Moment.CHANGE else f"{scan.relation}@{scan.at}"


def _fetch(view: View, term: Plan, fetch: Fetch, sources: Mapping[str, Source]) -> dict[str, Any]:
    relation = fetch.scan.relation
    described: dict[str, Any] = {"relation": relation, "at": str(fetch.scan.at), "by": None, "from": "lake"}
    if relation in view.upstream:
        return described
    source, table = relation.split(".", 1)
    described["from"] = source
    for link in fetch.links:
        column = fetch.scan.schema[link.column].name
        if sources[source].pushable(table, column):
            known = body(term).inputs[link.known]
            described["by"] = f"{column} = {_named(scans(known)[0])}.{known.schema[link.known_column].name}"
            break
    return described
