"""The definitions of the levels, read word by word: all assignments of cuts, all orders of transactions.

Nothing here comes from the checker. Worlds are tiny, so whatever can be enumerated is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import groupby, permutations, product

Cut = tuple[int, ...]
Part = tuple[int, int]
History = list[str]


@dataclass
class World:
    """A course with the content of every cut. `orders` has, for each serial order, the cuts it passes."""

    lengths: tuple[int, ...]
    groups: list[set[Part]]
    depends: set[tuple[Part, Part]]
    content: dict[Cut, str]
    cuts: list[Cut] = field(init=False)
    orders: list[list[Cut]] = field(init=False)

    def __post_init__(self) -> None:
        self.cuts = every_cut(self.lengths)
        needs = self._needs()
        orders = permutations(self._blocks(needs))
        self.orders = [self._cuts_along(order) for order in orders if legal(order, needs)]

    def parts_of(self, cut: Cut) -> set[Part]:
        return {(source, number) for source, taken in enumerate(cut) for number in range(1, taken + 1)}

    def is_closed(self, cut: Cut) -> bool:
        inside = self.parts_of(cut)
        whole = all(group <= inside or not group & inside for group in self.groups)
        return whole and all(earlier in inside for later, earlier in self.depends if later in inside)

    def _needs(self) -> set[tuple[Part, Part]]:
        """All (part, part it cannot be without), followed through to the end."""
        parts = self.parts_of(self.lengths)
        needs = {(p, q) for p in parts for q in parts if p[0] == q[0] and q[1] <= p[1]} | self.depends
        needs |= {(p, q) for group in self.groups for p in group for q in group}
        for middle, p, q in product(parts, parts, parts):
            if (p, middle) in needs and (middle, q) in needs:
                needs.add((p, q))
        return needs

    def _blocks(self, needs: set[tuple[Part, Part]]) -> list[frozenset[Part]]:
        """A transaction alone, or those that can only come together."""
        parts = self.parts_of(self.lengths)
        return sorted(
            {frozenset(q for q in parts if (p, q) in needs and (q, p) in needs) for p in parts}, key=sorted
        )

    def _cuts_along(self, order: tuple[frozenset[Part], ...]) -> list[Cut]:
        cut = [0] * len(self.lengths)
        passed = [tuple(cut)]
        for block in order:
            for source, _ in block:
                cut[source] += 1
            passed.append(tuple(cut))
        return passed


def legal(order: tuple[frozenset[Part], ...], needs: set[tuple[Part, Part]]) -> bool:
    place = {part: at for at, block in enumerate(order) for part in block}
    return all(place[q] <= place[p] for p, q in needs)


def every_cut(lengths: tuple[int, ...]) -> list[Cut]:
    return list(product(*(range(length + 1) for length in lengths)))


def without_repeats(states: History) -> History:
    return [state for state, _ in groupby(states)]


def holds(world: World, history: History) -> tuple[bool, bool, bool, bool, bool]:
    states = without_repeats(history)
    n = len(states)
    cuts = [[cut for cut in world.cuts if world.content[cut] == state] for state in states]
    closed = [[cut for cut in each if world.is_closed(cut)] for each in cuts]
    return (
        history[-1] == world.content[world.lengths],
        all(cuts),
        all(closed)
        and all(
            any(is_below(a, b) for a in closed[i] for b in closed[j])
            for i in range(n)
            for j in range(i + 1, n)
        ),
        any(ascends(chain) for chain in product(*closed)),
        any(without_repeats([world.content[cut] for cut in order]) == states for order in world.orders),
    )


def holds_with_vectors(
    world: World, history: History, vectors: list[Cut]
) -> tuple[bool, bool, bool, bool, bool]:
    weak = all(world.content.get(cut) == state for cut, state in zip(vectors, history, strict=True))
    chain = weak and ascends(vectors) and all(map(world.is_closed, vectors))
    complete = chain and any(
        set(vectors) <= set(order)
        and without_repeats([world.content[cut] for cut in order]) == without_repeats(history)
        for order in world.orders
    )
    return history[-1] == world.content[world.lengths], weak, chain, chain, complete


def is_below(a: Cut, b: Cut) -> bool:
    return all(a[source] <= b[source] for source in range(len(a)))


def ascends(chain: tuple[Cut, ...] | list[Cut]) -> bool:
    return all(is_below(chain[at], chain[at + 1]) for at in range(len(chain) - 1))


def level(held: tuple[bool, bool, bool, bool, bool]) -> str:
    convergence, weak, _, consistency, completeness = held
    if not convergence:
        return "none"
    if not weak:
        return "convergent"
    if not consistency:
        return "weak"
    return "complete" if completeness else "strong"


# Random worlds, and histories made to be right, nearly right, or wrong.

SHAPES = (
    (),
    (0,),
    (3,),
    (1, 1),
    (2, 1),
    (2, 2),
    (2, 2),
    (3, 1),
    (3, 2),
    (3, 2),
    (1, 1, 1),
    (2, 1, 1),
    (2, 2, 1),
)


def random_world(rng: random.Random) -> World:
    lengths = rng.choice(SHAPES)
    parts = [(source, number) for source, most in enumerate(lengths) for number in range(1, most + 1)]
    groups: list[set[Part]] = []
    depends: set[tuple[Part, Part]] = set()
    if len(parts) >= 2:
        free = rng.sample(parts, len(parts))
        while len(free) >= 2 and rng.random() < 0.45:
            groups.append({free.pop() for _ in range(rng.choice([2, 2, 3])) if free})
        while rng.random() < 0.3:
            later, earlier = rng.sample(parts, 2)
            depends.add((later, earlier))
    cuts = every_cut(lengths)
    letters = "abcdefghijklmnopqrstuvwxyz"[: rng.randint(2, max(2, len(cuts)))]
    return World(lengths, groups, depends, {cut: rng.choice(letters) for cut in cuts})


def random_history(rng: random.Random, world: World) -> tuple[History, list[Cut]]:
    """A history with the cuts its maker had in mind, which need not be right."""
    cuts = list(rng.choice(world.orders))
    states = [world.content[cut] for cut in cuts]
    for _ in range(rng.choice([0, 1, 2, 2, 3, 4])):
        at = rng.randrange(len(cuts))
        match rng.choice(
            ["drop", "repeat", "any cut", "any cut", "nonsense", "nonsense", "swap", "end", "free"]
        ):
            case "drop" if len(cuts) > 1:
                del cuts[at], states[at]
            case "end" if len(cuts) > 1:
                del cuts[-1], states[-1]
            case "repeat" if len(cuts) < 7:
                cuts.insert(at, cuts[at])
                states.insert(at, states[at])
            case "any cut":
                cuts[at] = rng.choice(world.cuts)
                states[at] = world.content[cuts[at]]
            case "nonsense":
                states[at] = rng.choice(["?", "?", "!", *states])
            case "swap" if len(cuts) > 2:
                other = rng.randrange(len(cuts) - 1)
                cuts[at], cuts[other] = cuts[other], cuts[at]
                states[at], states[other] = states[other], states[at]
            case "free":
                cuts = [rng.choice(world.cuts) for _ in range(rng.randint(1, 5))] + [world.lengths]
                states = [world.content[cut] for cut in cuts]
            case _:
                pass
    return states, cuts
