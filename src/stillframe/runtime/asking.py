"""How many rows sources are asked for.

A change of one input of a join asks for rows of those that it is joined with, by values of a column, and the
rows that it meets there for rows of those that they are joined with. By more values than a source is asked
for, a relation is read whole.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from stillframe.algebra import Join, Plan, Scan, Semi, relations
from stillframe.algebra.plan import walk
from stillframe.change import Link, links
from stillframe.runtime.reads import KEY_LIMIT

if TYPE_CHECKING:
    from stillframe.runtime.estimating import Sizes


def seconds_asked(plan: Plan, sizes: Sizes) -> tuple[float, float]:
    """What sources take for the rows that can meet the others' changes, and for all."""
    found = {name: sizes(name) for name in relations(plan)}
    everything = sum(each.rows * each.row_seconds for each in found.values())
    met = dict.fromkeys(found, 0.0)
    for node in walk(plan):
        if isinstance(node, Join | Semi) and len(node.inputs) > 1:
            for place, source in enumerate(node.inputs):
                for name in relations(source):
                    if found[name].row_seconds:
                        met[name] += _met(node, place, found[name].rows, sizes)
    by_change = (min(each.rows, met[name]) * each.row_seconds for name, each in found.items())
    return sum(by_change), everything


def counted(plan: Plan, sizes: Sizes) -> dict[int, float]:
    """The values of columns, of which that is known."""
    if not isinstance(plan, Scan):
        return {}
    known = sizes(plan.relation).distinct
    return {i: known[column.name] for i, column in enumerate(plan.schema) if column.name in known}


def _met(node: Join | Semi, place: int, rows: float, sizes: Sizes) -> float:
    """Of so many rows of one input, those that the changes of the others ask for."""
    met = 0.0
    for other in set(range(len(node.inputs))) - {place}:
        change = sum(sizes(name).change for name in relations(node.inputs[other]))
        if change and isinstance(node, Join):
            met += _asked_by(node, other, change, place, rows, sizes)
        else:
            met += rows if change > KEY_LIMIT else change
    return met


def _asked_by(join: Join, changed: int, change: float, place: int, rows: float, sizes: Sizes) -> float:
    """By rows of one input, of those of another; all of them where no equality leads there."""
    met = {changed: change}

    def step(link: Link, there: int) -> tuple[float, float]:
        """Values that are looked for in a column, and the rows that have one of them."""
        here, whole = counted(join.inputs[link.known], sizes), rows if there == place else _rows(there)
        values = min(met[link.known], here.get(link.known_column, inf))
        known = counted(join.inputs[there], sizes).get(link.column)
        return values, min(whole, values * (1.0 if known is None else max(1.0, whole / known)))

    def _rows(there: int) -> float:
        return max((sizes(name).rows for name in relations(join.inputs[there])), default=inf)

    while True:
        near = {
            there: min(steps)
            for there in set(range(len(join.inputs))) - met.keys()
            if (steps := [step(link, there) for link in links(join, there, set(met))])
        }
        if place in near:
            values, found = near[place]
            return rows if values > KEY_LIMIT else found
        if not near:
            return rows
        met |= {there: found for there, (_, found) in near.items()}
