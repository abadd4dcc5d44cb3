"""Errata 7: how many compensating queries C-Strobe sends for one insert, deletes grouped by relation."""

from __future__ import annotations

import re
from itertools import pairwise
from math import factorial, perm

import pytest

from stillframe.simulator import read
from stillframe.simulator.explore import walk
from stillframe.simulator.world import Simulation


def chain(relations: int) -> str:
    """A chain of relations, one to a source; one insert into the first, then rounds of deletes from all the
    others, enough for every order of them. Every row joins with every other."""
    rounds = range(1, relations)
    names = [f"r{n}" for n in range(1, relations + 1)]
    rows = {name: "[]" if name == "r1" else str([[key, 1, 1] for key in rounds]) for name in names}
    tables = [f"  {n}: {{source: s{n}, columns: [K, L, R], key: [K], rows: {rows[n]}}}" for n in names]
    joins = " ".join(f"JOIN {b} ON {a}.R = {b}.L" for a, b in pairwise(names))
    keys = ", ".join(f"{n}.K AS {n}_k" for n in names)
    deletes = [f"  - delete {name} [{key}, 1, 1]" for key in rounds for name in names[1:]]
    return "\n".join(
        [
            "name: chain",
            "relations:",
            *tables,
            f"view: SELECT {keys} FROM r1 {joins}",
            "updates:",
            "  - insert r1 [1, 1, 1]",
            *deletes,
            "",
        ]
    )


def _rank(label: str) -> tuple[int, int]:
    """Updates first, then their reports in the order written, then answers."""
    kinds = (": U", ": receives U", ": receives the answer", ": answers")
    kind = next(rank for rank, text in enumerate(kinds) if text in label)
    return kind, int(re.findall(r"U(\d+)", label)[0])


def compensating_queries(relations: int) -> int:
    """All updates are received before any query is answered."""
    simulation = Simulation(read(chain(relations), "chain"), "c-strobe")
    asked = set[str]()

    def choose(labels: list[str]) -> int:
        place = min(range(len(labels)), key=lambda number: _rank(labels[number]))
        if ": answers" in labels[place]:
            asked.add(labels[place].split(": answers ")[1].partition(".")[0])
        return place

    walk(simulation, choose)
    return sum(1 for query in asked if query.startswith("Q[U1]/"))


@pytest.mark.parametrize("relations", [2, 3, 4, 5])
def test_queries_at_every_depth_count(relations: int) -> None:
    others = relations - 1
    sent = sum(perm(others, depth) for depth in range(1, others))
    assert compensating_queries(relations) == sent


def test_the_printed_bound_holds_for_three_relations_and_not_for_four() -> None:
    assert compensating_queries(3) <= factorial(2)
    assert compensating_queries(4) == 9 > factorial(3)
