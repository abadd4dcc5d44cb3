"""What is known of relations and views from the sessions so far: how large they are, how fast they change,
how long reading them at their sources takes, and how far estimates of their cost were off.

It is kept in the warehouse beside the frames, and is a hint: every plan that is chosen by it is right, so a
file that is gone, old or unreadable costs time and nothing else.

Law of ageing: of what is known, the newest session counts NEW_WEIGHT and all before it the rest. After a turn
of things, five sessions leave less than a quarter of what was.
Law of distance: what was learned from changes of one size says half as much of changes ten times as large or
as small.
Law of doubt: where what was learned of a view overrules what prices and sizes say, a tenth of what the view
should take is set aside; when that pays for the other way, it is tried, and what it shows replaces what was
believed. So no belief outlives its reason, and trials take about a tenth: the dearer, the more seldom.
Law of prices: what was learned corrects the prices that it was learned beside, and is dropped with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import blake2b
from math import exp, log, log10
from pathlib import Path
from typing import Any

from stillframe.runtime.prices import prices

FILE = "statistics.json"
GROWTH = "growth"
NEW_WEIGHT = 0.25
FARTHEST = log(30)  # no estimate is believed to be further off than that
LARGEST = 1e15  # number that is believed


def aged(before: float | None, now: float) -> float:
    return now if before is None else before + NEW_WEIGHT * (now - before)


@dataclass(frozen=True)
class Relation:
    """A relation of a source, or a view. Of a session: `changed` rows; `read_seconds` and `read_rows` of its
    state at the source, for views that met a change; `sessions` counts those that this was measured in.
    `row_seconds` is what a row takes that is read there. `distinct` counts the values of columns that are
    joined, and `text_bytes` says how long texts that are read are on average, when it had `counted_at`
    rows; `changed_since` then so many changed."""

    rows: float | None = None
    changed: float | None = None
    read_seconds: float | None = None
    read_rows: float | None = None
    row_seconds: float | None = None
    distinct: Mapping[str, float] = field(default_factory=dict)
    text_bytes: Mapping[str, float] = field(default_factory=dict)
    counted_at: float | None = None
    changed_since: float = 0.0
    sessions: int = 0


@dataclass(frozen=True)
class Experience:
    """How far estimates of one kind were off for a view: by decade of the rows that they rest on, the
    logarithm of measured by estimated."""

    by_decade: Mapping[int, float] = field(default_factory=dict)

    def factor(self, rows: float) -> float:
        """By what an estimate for so many rows is to be multiplied."""
        if not self.by_decade:
            return 1.0
        here = _decade(rows)
        nearest = min(self.by_decade, key=lambda decade: (abs(decade - here), decade))
        return exp(self.by_decade[nearest] * 0.5 ** abs(nearest - here))

    def with_measure(
        self, rows: float, estimated: float, measured: float, *, trial: bool = False
    ) -> Experience:
        if estimated <= 0 or measured <= 0:
            return self
        off = max(-FARTHEST, min(FARTHEST, log(measured / estimated)))
        here = _decade(rows)
        if not trial:
            # The first one counts half: an engine that has just started is slow once.
            off = aged(self.by_decade[here], off) if here in self.by_decade else off / 2
        return Experience({**self.by_decade, here: off})


def _decade(rows: float) -> int:
    return round(log10(max(1.0, rows)))


@dataclass(frozen=True)
class Statistics:
    """Of relations and views by name; of views, experience by the way they were maintained, and of how many
    rows a change makes (`GROWTH`); of views, seconds set aside."""

    relations: Mapping[str, Relation] = field(default_factory=dict)
    experience: Mapping[str, Mapping[str, Experience]] = field(default_factory=dict)
    set_aside: Mapping[str, float] = field(default_factory=dict)

    def of(self, name: str) -> Relation:
        return self.relations.get(name, Relation())

    def factor(self, view: str, way: str, rows: float) -> float:
        return self.experience.get(view, {}).get(way, Experience()).factor(rows)

    def with_relation(self, name: str, **known: Any) -> Statistics:
        return replace(self, relations={**self.relations, name: replace(self.of(name), **known)})

    def with_measure(
        self, view: str, way: str, rows: float, estimated: float, measured: float, *, trial: bool = False
    ) -> Statistics:
        known = self.experience.get(view, {})
        learned = known.get(way, Experience()).with_measure(rows, estimated, measured, trial=trial)
        return replace(self, experience={**self.experience, view: {**known, way: learned}})

    def with_set_aside(self, seconds: Mapping[str, float]) -> Statistics:
        return replace(self, set_aside={**self.set_aside, **seconds})

    def only(self, names: Iterable[str]) -> Statistics:
        """Without what is of no use any more."""
        kept = frozenset(names)
        return Statistics(
            {name: known for name, known in self.relations.items() if name in kept},
            {name: known for name, known in self.experience.items() if name in kept},
            {name: known for name, known in self.set_aside.items() if name in kept},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "relations": {name: asdict(known) for name, known in self.relations.items()},
            "experience": {
                name: {way: dict(each.by_decade) for way, each in known.items()}
                for name, known in self.experience.items()
            },
            "set_aside": dict(self.set_aside),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Statistics:
        return cls(
            {name: _relation(known) for name, known in found["relations"].items()},
            {
                name: {
                    way: Experience({int(d): _number(off, -FARTHEST, FARTHEST) for d, off in each.items()})
                    for way, each in known.items()
                }
                for name, known in found["experience"].items()
            },
            {name: _number(value) for name, value in found.get("set_aside", {}).items()},
        )


def _number(value: Any, least: float = 0.0, most: float = LARGEST) -> float:
    """A number that a sum may be made of; NaN, too, is out of bounds."""
    found = float(value)
    if not least <= found <= most:
        raise ValueError(f"no number to go by: {value}")
    return found


def _relation(found: Mapping[str, Any]) -> Relation:
    numbers = {each.name for each in fields(Relation)} - {"distinct", "text_bytes", "sessions"}
    return Relation(
        **{name: _number(found[name]) for name in numbers if found.get(name) is not None},
        distinct={column: _number(values, 1.0) for column, values in found.get("distinct", {}).items()},
        text_bytes={column: _number(each) for column, each in found.get("text_bytes", {}).items()},
        sessions=int(_number(found.get("sessions", 0))),
    )


def read_statistics(warehouse: Path, engine: str) -> Statistics:
    """What sessions on one engine have learned; relations are as large on any."""
    try:
        document = json.loads((warehouse / FILE).read_text(encoding="utf-8"))
        learned = document["engines"].get(priced(engine, warehouse), {})
        return Statistics.from_json({**document, "experience": learned})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return Statistics()


def priced(engine: str, warehouse: Path) -> str:
    """An engine at the prices that it has now."""
    known = json.dumps(prices(engine, warehouse).to_json(), sort_keys=True)
    return f"{engine} {blake2b(known.encode(), digest_size=8).hexdigest()}"


def write_statistics(warehouse: Path, engine: str, statistics: Statistics) -> None:
    path = warehouse / FILE
    document = statistics.to_json()
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8"))["engines"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        before = {}
    others = {each: learned for each, learned in before.items() if each.split(" ")[0] != engine}
    document["engines"] = {**others, priced(engine, warehouse): document.pop("experience")}
    draft = path.with_name(f".{FILE}")
    draft.write_text(json.dumps(document), encoding="utf-8")
    draft.replace(path)
