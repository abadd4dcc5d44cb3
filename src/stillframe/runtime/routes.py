"""What a live protocol asks when a relation changes: which source is asked about which relations, in turn."""

from __future__ import annotations

from typing import Any

from stillframe.algebra import Scan
from stillframe.protocol import JoinView, Protocol
from stillframe.protocol.asking import next_source
from stillframe.protocol.terms import Part, Term, bind


def routes(protocol: Protocol[Any]) -> list[dict[str, Any]]:
    """For a change of each slot, the steps of a question about it. A protocol may leave steps out (deletes by
    key), or add some (compensation)."""
    view = protocol.asked_view
    found = []
    for number, slot in enumerate(view.slots):
        change = bind(view, Term(), {number: Scan("change", slot.schema)})
        steps = [
            {"source": source, "relations": [view.slots[s].relation for s in new]}
            for source, new in _steps(view, change)
        ]
        found.append({"change": slot.relation, "asks": steps})
    return found


def _steps(view: JoinView, term: Term) -> list[tuple[str, list[int]]]:
    steps = []
    while term.bound != view.everything:
        source, covers = next_source(view, term)
        steps.append((source, sorted(frozenset(covers) - term.bound)))
        columns = view.needed(frozenset(covers))
        rows = Scan("answer", view.slots[0].schema)
        term = Term((Part(covers, columns, rows, checked=True),))
    return steps
