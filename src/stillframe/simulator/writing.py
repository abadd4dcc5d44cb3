"""Scenarios to scenario files. Law: `read(write(s)) == s.renumbered()`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from stillframe.simulator.scenario import ONLY_VIEW, Relation, Scenario
from stillframe.simulator.validity import FAULTS
from stillframe.simulator.yaml_text import block, flow, line

_PLAIN = ("report", "centralised", "width", "order", "crashes")
_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Scenario)}


def write(scenario: Scenario) -> str:
    """What a file would say; what it need not say is left out."""
    return "".join(_parts(scenario))


def _parts(scenario: Scenario) -> Iterator[str]:
    yield f"name: {line(scenario.name)}\n"
    yield "relations:\n"
    for relation in scenario.relations:
        yield f"  {flow(relation.name)}: {_relation(relation)}\n"
    if [name for name, _ in scenario.views] == [ONLY_VIEW]:
        yield f"view: {block(scenario.views[0][1], 2)}"
    else:
        yield "views:\n"
        for name, text in scenario.views:
            yield f"  {flow(name)}: {block(text, 4)}"
    if scenario.transactions:
        yield "updates:\n"
    for transaction in scenario.transactions:
        text = str(transaction)
        yield f"  - {text if text.startswith(('[', '{')) else line(text)}\n"
    if scenario.params:
        yield f"params: {flow(scenario.params)}\n"
    if scenario.channels:
        faults = {s: [f for f in FAULTS if f in given] for s, given in scenario.channels.items()}
        yield f"channels: {flow(faults)}\n"
    if scenario.isolation:
        yield f"isolation: {flow(scenario.isolation)}\n"
    for key in _PLAIN:
        if getattr(scenario, key) != _DEFAULTS[key]:
            yield f"{key}: {flow(getattr(scenario, key))}\n"


def _relation(relation: Relation) -> str:
    document: dict[str, Any] = {"source": relation.source, "columns": relation.columns}
    if relation.key:
        document["key"] = relation.key
    return flow({**document, "rows": relation.rows})
