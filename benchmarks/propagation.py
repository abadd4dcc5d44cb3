"""How long the search for a cheapest propagation tree takes, and what the tree saves by the linear metric.

Chains, stars and complete graphs of 4 to 10 relations of very different sizes, all changing. `ratio` is
the cost of the tree found over that of n terms. Then the view of the paper's experiment, at scale 1, with
changes of 0.1 to 10 %.

    python -m benchmarks.propagation        # writes benchmarks/results/propagation.json
"""

from __future__ import annotations

import json
import platform
import time
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from stillframe.change.propagation import (
    Calibration,
    Input,
    JoinGraph,
    Linear,
    Size,
    Spark,
    best_tree,
    choose,
)

RESULTS = Path(__file__).parent / "results"
PRICES = Calibration("example", 0.2, 0.04, 1e-7, 1e-9, 1e-8, 6e-9, 1e-8, 0.02, 10 * 2**20)

EDGES = {
    "chain": lambda count: [(place, place + 1) for place in range(count - 1)],
    "star": lambda count: [(0, place) for place in range(1, count)],
    "complete": lambda count: list(combinations(range(count), 2)),
}

ROWS = {
    "customer": 150_000,
    "orders": 1_500_000,
    "lineitem": 6_001_215,
    "supplier": 10_000,
    "nation": 25,
    "region": 5,
}
REFERENCES = [
    ("orders", "customer"),
    ("lineitem", "orders"),
    ("lineitem", "supplier"),
    ("supplier", "nation"),
    ("nation", "region"),
]


def graph(shape: str, count: int, seed: int = 20) -> JoinGraph:
    """An edge keeps as many rows as the larger of its relations has."""
    random = Random(seed)
    rows = [10 ** random.randint(2, 7) for _ in range(count)]
    inputs = tuple(Input(place, f"R{place + 1}") for place in range(count))
    sizes = tuple(Size(each, each // 100) for each in rows)
    edges = {frozenset({a, b}): 1 / min(rows[a], rows[b]) for a, b in EDGES[shape](count)}
    return JoinGraph(inputs, sizes, edges)


def paper_graph(part: float) -> JoinGraph:
    """The small relations change by at least a row."""
    names = list(ROWS)
    sizes = tuple(Size(rows, max(1, round(rows * part))) for rows in ROWS.values())
    inputs = tuple(Input(place, name) for place, name in enumerate(names))
    edges = {frozenset({names.index(a), names.index(b)}): 1 / ROWS[b] for a, b in REFERENCES}
    return JoinGraph(inputs, sizes, edges)


def timed(shape: str, count: int) -> dict[str, Any]:
    made = graph(shape, count)
    found: dict[str, Any] = {"shape": shape, "relations": count}
    for model in (Linear(made), Spark(made, PRICES)):
        began = time.perf_counter()
        best_tree(made, model)
        found[f"seconds_{model.name}"] = round(time.perf_counter() - began, 4)
    choice = choose(made, Linear(made))
    return {**found, "ratio": round(choice.costs["tree"] / choice.costs["n-term"], 4)}


def paper_view(part: float) -> dict[str, Any]:
    made = paper_graph(part)
    choice = choose(made, Linear(made))
    return {
        "changed": part,
        "tree": str(choice.tree),
        "reads": choice.to_json()["reads"],
        "ratio": round(choice.costs["tree"] / choice.costs["n-term"], 4),
    }


def main() -> None:
    searches = [timed(shape, count) for shape in EDGES for count in range(4, 11)]
    for found in searches:
        print(
            f"{found['shape']:9} {found['relations']:3} relations: {found['seconds_linear']:.3f} s linear, "
            f"{found['seconds_spark']:.3f} s spark; {found['ratio']:.2f} of n terms"
        )
    views = [paper_view(part) for part in (0.001, 0.01, 0.02, 0.1)]
    for view in views:
        print(
            f"{view['changed']:.1%} changed: {view['tree']}, {view['ratio']:.2f} of n terms, {view['reads']}"
        )
    document = {"python": platform.python_version(), "searches": searches, "paper_view": views}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "propagation.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
