"""View texts over the chain r1(A, B), r2(B, C), r3(C, D), of every kind that algorithms tell apart: keys
shown or hidden, other columns hidden, selections, computed columns, comparisons across relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from stillframe.simulator.scenario import Relation

JOINED = {
    2: "SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B",
    3: "SELECT r1.A, r1.B, r2.C, r3.D FROM r1 JOIN r2 ON r1.B = r2.B JOIN r3 ON r2.C = r3.C",
}


@dataclass(frozen=True)
class _Use:
    alias: str
    relation: Relation

    @property
    def text(self) -> str:
        return self.alias if self.alias == self.relation.name else f"{self.relation.name} {self.alias}"

    @property
    def columns(self) -> list[str]:
        return [f"{self.alias}.{column}" for column in self.relation.columns]

    @property
    def key(self) -> list[str]:
        return [f"{self.alias}.{column}" for column in self.relation.key]


def draw_view(rng: Random, relations: Mapping[str, Relation], names: Sequence[str]) -> str:
    """The text of a view that joins the relations named, each to the one before it: the last column of one
    is the first of the next."""
    again = {name for name in names if names.count(name) > 1}
    aliases = iter("ab")
    uses = [_Use(next(aliases) if name in again else name, relations[name]) for name in names]
    links = [(left.columns[-1], right.columns[0]) for left, right in pairwise(uses)]
    conditions = []
    if rng.random() < 0.25:
        conditions.append(_selection(rng, uses))
    if rng.random() < 0.2:
        conditions.append(_comparison(rng, uses))
        if rng.random() < 0.2:
            links.pop(rng.randrange(len(links)))
    outputs = _outputs(_shown(rng, uses, links))
    if rng.random() < 0.2:
        if len(outputs) > 1 and rng.random() < 0.3:
            outputs.pop(rng.randrange(len(outputs)))
        left, right = rng.choice(uses[0].columns), rng.choice(uses[-1].columns)
        outputs.append(f"{left} {rng.choice('+-*')} {right} AS E")
    return f"SELECT {', '.join(outputs)} FROM {_from(rng, uses, links, conditions)}"


def _selection(rng: Random, uses: Sequence[_Use]) -> str:
    column = rng.choice(rng.choice(uses).columns)
    return f"{column} {rng.choice(('> 1', '<> 2', '<= 2', 'IN (1, 3)'))}"


def _comparison(rng: Random, uses: Sequence[_Use]) -> str:
    return f"{uses[0].columns[0]} {rng.choice(('<', '<=', '<>'))} {uses[-1].columns[-1]}"


def _shown(rng: Random, uses: Sequence[_Use], links: Sequence[tuple[str, str]]) -> list[str]:
    """Which columns the view shows. Columns that a link makes equal are shown or hidden together: either
    of them tells the other."""
    keys = {column for use in uses for column in use.key}
    second = {right: left for left, right in links}
    alike: dict[str, list[str]] = {}
    for use in uses:
        for column in use.columns:
            alike.setdefault(second.get(column, column), []).append(column)
    groups = list(alike.values())
    with_key = [group for group in groups if keys.intersection(group)]
    without = [group for group in groups if group not in with_key]
    match rng.choices(("all", "keys", "hidden"), (35, 30, 35))[0]:
        case "keys" if with_key and without:
            hidden = rng.choice(without)
            groups = [g for g in groups if g in with_key or (g != hidden and rng.random() < 0.4)]
        case "hidden" if with_key:
            hidden = rng.choice(with_key)
            kept = [group for group in groups if group != hidden]
            groups = [group for group in kept if rng.random() < 0.7] or kept[:1]
    shown = [group if rng.random() < 0.25 else [rng.choice(group)] for group in groups]
    columns = [column for group in shown for column in group]
    return rng.sample(columns, len(columns)) if rng.random() < 0.15 else columns


def _outputs(columns: Sequence[str]) -> list[str]:
    """Each under its own name, or with a number where that is taken."""
    taken: dict[str, int] = {}
    outputs = []
    for column in columns:
        name = column.partition(".")[2]
        taken[name] = taken.get(name, 0) + 1
        outputs.append(column if taken[name] == 1 else f"{column} AS {name}{taken[name]}")
    return outputs


def _from(
    rng: Random, uses: Sequence[_Use], links: Sequence[tuple[str, str]], conditions: Sequence[str]
) -> str:
    equalities = [" = ".join(link) for link in links]
    if len(links) < len(uses) - 1 or rng.random() < 0.3:
        return f"{', '.join(use.text for use in uses)} WHERE {' AND '.join((*equalities, *conditions))}"
    joins = "".join(f" JOIN {u.text} ON {link}" for u, link in zip(uses[1:], equalities, strict=True))
    return uses[0].text + joins + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
