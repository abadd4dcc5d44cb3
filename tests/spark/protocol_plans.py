"""The expressions the protocols ask for in small worlds, each with the bags it read and the bag it meant; and
a choice of few among them that leaves no trait of any unseen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from stillframe.algebra import (
    Bag,
    Distinct,
    Join,
    KeyDelete,
    Monus,
    Plan,
    Scan,
    UnionAll,
    evaluate,
    scans,
)
from stillframe.algebra.plan import walk
from stillframe.engine import ScalarWriter, select_sql
from stillframe.protocol import ALGORITHMS, NotApplicable
from stillframe.protocol.registry import PUBLISHED
from stillframe.simulator.battery import scenarios
from stillframe.simulator.explore import sample
from stillframe.simulator.outcome import simulation_of
from stillframe.simulator.reading import read
from stillframe.simulator.scenario import Scenario
from stillframe.simulator.telling import telling_scenarios

SEED = 3
_TEXTS = (
    """
name: text, numbers that are no numbers and truth values
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [["", 0.5], ["b", .nan]]}
  r2: {source: y, columns: [B, C], key: [B], rows: [[0.5, true], [.nan, false]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates:
  - insert r1 ['c', -0.0]
  - ["insert r2 [0.0, null]", "delete r2 [.nan, false]"]
  - delete r1 ['c', 0.0]
""",
    """
name: the same at one source
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [["", 0.5], ["b", .nan]]}
  r2: {source: x, columns: [B, C], key: [B], rows: [[0.5, true], [.nan, false]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r1 ['c', -0.0]", "insert r2 [0.0, null]", "delete r2 [.nan, false]"]
""",
    """
name: NULL agrees with NULL
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, null], [2, 5]]}
  r2: {source: y, columns: [B, C], key: [C], rows: [[null, 3]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B <=> r2.B
updates:
  - insert r2 [5, 4]
  - ["delete r1 [1, null]", "insert r1 [1, 5]"]
  - ["insert r1 [6, null]", "delete r1 [2, 5]"]
""",
    """
name: nothing of one relation is shown
relations:
  r1: {source: x, columns: [A], rows: [[1], [1]]}
  r2: {source: y, columns: [B], rows: [[null], [2]]}
view: SELECT r2.B FROM r1 CROSS JOIN r2
updates: ["insert r2 [2]", "delete r1 [1]", "insert r1 [3]"]
""",
)


def worlds() -> Iterator[Scenario]:
    yield from telling_scenarios()
    yield from scenarios(SEED, 16)
    yield from (read(text) for text in _TEXTS)


@dataclass(frozen=True)
class Asked:
    """`shape` is the plan's text, whatever it reads."""

    plan: Plan
    read: tuple[tuple[Scan, Bag], ...]
    value: Bag
    algorithm: str
    shape: str


def asked(worlds: Iterable[Scenario], schedules: int) -> list[Asked]:
    """What every protocol asks for, each once, on random schedules of every world it accepts."""
    found: dict[tuple[object, ...], Asked] = {}
    for scenario in worlds:
        for algorithm in (*ALGORITHMS, *PUBLISHED):
            try:
                simulation = simulation_of(scenario, algorithm)
            except NotApplicable:
                continue
            known, plain = set[object](), simulation.bags.value

            def watched(plan: Plan, relations: Any = None, *, known=known, plain=plain, of=algorithm) -> Bag:
                value = plain(plan, relations)
                contents = tuple((scan, plain(scan, relations)) for scan in dict.fromkeys(scans(plan)))
                if (plan, contents) not in known:
                    known.add((plan, contents))
                    each = Asked(plan, contents, value, of, _shape(plan))
                    found.setdefault((each.shape, tuple(bag for _, bag in contents)), each)
                return value

            simulation.bags.value = watched
            for _ in sample(simulation, schedules, SEED):
                pass
    return list(found.values())


def _shape(plan: Plan) -> str:
    numbers = {scan: number for number, scan in enumerate(dict.fromkeys(scans(plan)))}
    return select_sql(plan, lambda scan: f"<{numbers[scan]}>", ScalarWriter())


def chosen(every: Sequence[Asked], count: int) -> list[Asked]:
    """As many as show every trait, those first that show most new ones for their size; then others at
    random, up to `count`, of shapes not seen yet while there are any."""
    traits_of = {number: traits(each) for number, each in enumerate(every)}
    missing = set[str]().union(*traits_of.values())
    kept = dict[int, None]()
    while missing:
        best = max(traits_of, key=lambda number: len(traits_of[number] & missing) / len(every[number].shape))
        missing -= traits_of[best]
        kept[best] = None
    others = [number for number in traits_of if number not in kept]
    Random(SEED).shuffle(others)
    shapes = {every[number].shape for number in kept}
    others.sort(key=lambda number: every[number].shape in shapes)
    kept |= dict.fromkeys(others[: max(0, count - len(kept))])
    return [every[number] for number in kept]


def traits(asked: Asked) -> set[str]:
    """What may tell a right reading of a plan from a wrong one: which nodes meet, and on what."""
    contents = dict(asked.read)
    found = {f"asked by {asked.algorithm}"}
    for node in walk(asked.plan):
        kind = type(node).__name__
        found |= {f"{type(child).__name__} in {kind}" for child in node.inputs}
        found |= {f"{kind} {trait}" for trait in _node_traits(node, contents)}
    return found


def _node_traits(node: Plan, contents: Mapping[Scan, Bag]) -> Iterator[str]:
    value = evaluate(node, contents.__getitem__)
    yield from (f"has {type_}" for type_ in node.schema.types)
    yield from _counts(value)
    if not node.schema.types:
        yield "has no column"
    if any(None in row for row in value):
        yield "has NULL"
    match node:
        case Scan():
            yield f"reads {node.at}"
        case Join(inputs) | UnionAll(inputs):
            yield f"of {min(len(inputs), 3)} inputs"
        case KeyDelete(source, rows, on):
            deleted = evaluate(source, contents.__getitem__) - value
            yield f"on {len(on)} columns"
            if deleted and value:
                yield "deletes some"
            if any(row[here] is None for row in deleted for here, _ in on):
                yield "deletes by NULL"
            yield from (f"by {trait}" for trait in _counts(evaluate(rows, contents.__getitem__)))
        case Distinct() | Monus():
            sources = [evaluate(source, contents.__getitem__) for source in node.inputs]
            yield from (f"of {trait}" for source in sources for trait in _counts(source))


def _counts(bag: Bag) -> Iterator[str]:
    """How often rows are there."""
    counts = set(bag.values())
    yield from ("nothing",) if not counts else ()
    yield from ("copies",) if any(abs(count) > 1 for count in counts) else ()
    yield from ("rows that went",) if any(count < 0 for count in counts) else ()
