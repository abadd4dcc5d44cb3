"""Relations made with the parameters of the performance study (ECA paper, example 6 and table 1).

r1(W, X), r2(X, Y) and r3(Y, Z) at one source; the view shows W and Z of joined rows with W > Z. Updates take
the relations in turn.

The closed forms assume that every value has exactly J partners, that exactly half of any product passes, and
that no update changes that. No instance has all of it at once: a pair t1, t3 of rows joins with J rows of r2
only if these are equal, and t1 joins with every row ever inserted into r2 only if it then has more than J
partners. So rows come in groups that join within the group only, r2's rows of a group are all equal, an
update brings a row or takes the same row away, and there are two instances:

*meeting*, for queries answered at the end: all updates are of one group, and every row brought is taken away
in the end, so that queries see exactly C rows and J partners. Updates of r1 and r3 together pass all or none
of J equal rows; of an even number of such pairs half pass, of an odd number one half pair too many.

*apart*, for queries answered at once: each relation's updates are of a group of their own, so that no
update changes what another reads. A relation has C rows or one less.

Three groups are needed to keep updates apart, J must be even and divide C; with other numbers the counts
are off by what does not fit. Random relations draw join values from C / J, so that J partners are expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count, pairwise
from random import Random

from stillframe.algebra import Row
from stillframe.simulator.formulas import Parameters, updates_in_turn
from stillframe.simulator.scenario import ONLY_VIEW, Frozen, Relation, Scenario, Transaction, Update

NAMES = ("r1", "r2", "r3")
VIEW = "SELECT r1.W, r3.Z FROM r1 JOIN r2 ON r1.X = r2.X JOIN r3 ON r2.Y = r3.Y WHERE r1.W > r3.Z"
KEYED_VIEW = (
    "SELECT r1.A, r2.B, r3.D, r1.W, r3.Z"
    " FROM r1 JOIN r2 ON r1.X = r2.X JOIN r3 ON r2.Y = r3.Y WHERE r1.W > r3.Z"
)
_COLUMNS = (("W", "X"), ("X", "Y"), ("Y", "Z"))
_KEYS = ("A", "B", "D")
_SHOWN = 2  # columns of the view
_VALUES = 1000  # W and Z of random rows

# Each W lies between the Z of its group's lower and upper half, and half of them on either side of 50.
_LOW, _BELOW, _MIDDLE, _ABOVE, _HIGH = 10, 40, 50, 60, 90

Rows = list[Row]


def meeting(p: Parameters, k: int) -> Scenario:
    """Exact when all k updates have happened."""
    first = updates_in_turn(k)[0]
    turns: tuple[Callable[[int], Row], ...] = (
        lambda n: (_MIDDLE if n == first - 1 and n % 2 == 0 else (_ABOVE, _BELOW)[n % 2], 0),
        lambda n: (0, 0),
        lambda n: (0, (_MIDDLE - 1, _MIDDLE + 1)[n % 2]),
    )
    drawn = [(n, turns[n % 3](n // 3)) for n in range(k)]
    present = set[tuple[int, Row]]()
    updates = list[Update]()
    for number, row in reversed(drawn):
        which = (number % 3, row)
        updates.append(Update(NAMES[number % 3], which in present, row))
        present ^= {which}
    tables = _groups(p)
    for relation, row in sorted(present):
        tables[relation].append(row)
    return _scenario("updates that meet", tables, updates[::-1], p, k)


def apart(p: Parameters, k: int) -> Scenario:
    """Exact for each update as it happens, and for what it changes of the view."""
    tables = _groups(p)
    groups = max(1, p.C // p.J)
    homes = [min(place, groups - 1) for place in range(3)]
    rows: tuple[Row, ...] = ((_BELOW, homes[0]), (homes[1], homes[1]), (homes[2], _MIDDLE))
    home = [row for row in tables[2] if row[0] == homes[2]]
    tables[2] = [row for row in tables[2] if row[0] != homes[2]]
    tables[2] += [(homes[2], _MIDDLE)] * len(home) if homes[2] else [*home[1:], (0, _MIDDLE)]
    for table, row in zip(tables, rows, strict=True):
        table.remove(row)
    updates = [Update(NAMES[n % 3], n // 3 % 2 == 0, rows[n % 3]) for n in range(k)]
    return _scenario("updates apart", tables, updates, p, k)


def _groups(p: Parameters) -> list[Rows]:
    """C rows of each relation in groups of J, the last of what is left over."""
    tables: list[Rows] = [[], [], []]
    for group, start in enumerate(range(0, p.C, p.J)):
        size = min(p.J, p.C - start)
        tables[0] += [(_BELOW if n < size / 2 else _ABOVE, group) for n in range(size)]
        tables[1] += [(group, group)] * size
        tables[2] += [(group, _LOW if n < size / 2 else _HIGH) for n in range(size)]
    return tables


def random(p: Parameters, k: int, seed: int, *, steady: bool) -> Scenario:
    """Inserts only; or, `steady`, inserts and deletes in turn, so that C stays what it is."""
    rng = Random(f"{seed}/{p.C}/{p.J}")
    draw = _draws(p, rng)
    tables = [[draw[place]() for _ in range(p.C)] for place in range(3)]
    there = [list(table) for table in tables]
    updates = list(_random_updates(k, rng, there, draw, steady=steady))
    name = "random inserts and deletes" if steady else "random inserts"
    return _scenario(name, tables, updates, p, k)


def _draws(p: Parameters, rng: Random) -> tuple[Callable[[], Row], ...]:
    values = max(1, p.C // p.J)
    return (
        lambda: (rng.randrange(_VALUES), rng.randrange(values)),
        lambda: (rng.randrange(values), rng.randrange(values)),
        lambda: (rng.randrange(values), rng.randrange(_VALUES)),
    )


def _random_updates(
    k: int, rng: Random, there: list[Rows], draw: tuple[Callable[[], Row], ...], *, steady: bool
) -> Iterator[Update]:
    for n in range(k):
        place = n % 3
        if steady and n // 3 % 2:
            yield Update(NAMES[place], False, there[place].pop(rng.randrange(len(there[place]))))
        else:
            row = draw[place]()
            there[place].append(row)
            yield Update(NAMES[place], True, row)


def keyed(p: Parameters, k: int, *, sources: int) -> Scenario:
    """The groups again, with a key for each relation, at one source or each at its own; the view also shows
    the keys. All updates are of one group: inserts of new rows and deletes of old ones in turn, so that
    every update meets every other and the relations keep their size."""
    serial = count(1)
    tables = [[(next(serial), *row) for row in table] for table in _groups(p)]
    updates = list[Update]()
    old = [list(table) for table in tables]
    for n in range(k):
        place, turn = n % 3, n // 3
        if turn % 2:
            updates.append(Update(NAMES[place], False, old[place].pop(0)))
            continue
        row = ((_ABOVE, _BELOW)[turn // 2 % 2], 0), (0, 0), (0, (_HIGH, _LOW)[turn // 2 % 2])
        updates.append(Update(NAMES[place], True, (next(serial), *row[place])))
        old[place].insert(min(p.J, p.C), updates[-1].row)
    places = "xyz" if sources > 1 else "xxx"
    relations = tuple(
        Relation(name, place, (key, *columns), (key,), tuple(table))
        for name, place, key, columns, table in zip(NAMES, places, _KEYS, _COLUMNS, tables, strict=True)
    )
    view = ((ONLY_VIEW, KEYED_VIEW),)
    return Scenario("keyed", relations, view, _transactions(updates), width=p.S // _SHOWN)


def rounds_of_deletes(relations: int) -> Scenario:
    """One insert into the first of some relations, each at its own source, and then deletes from each of
    the others, round after round: whatever order of relations C-Strobe puts rows back in, each has deletes
    behind those of the one before."""
    names = [f"r{n}" for n in range(1, relations + 1)]
    rounds = range(1, max(1, relations - 2) + 1)
    rows = tuple((key, 1) for key in (0, *rounds))
    made = tuple(Relation(name, f"s{n}", ("A", "B"), ("A",), rows) for n, name in enumerate(names, 1))
    keys = ", ".join(f"{name}.A AS A{n}" for n, name in enumerate(names, 1))
    joins = " AND ".join(f"{a}.B = {b}.B" for a, b in pairwise(names))
    view = ((ONLY_VIEW, f"SELECT {keys} FROM {', '.join(names)} WHERE {joins}"),)
    updates = [Update("r1", True, (9, 1))]
    updates += [Update(name, False, (key, 1)) for key in rounds for name in names[1:]]
    return Scenario(f"deletes at {relations} sources", made, view, _transactions(updates))


def _transactions(updates: Iterable[Update]) -> tuple[Transaction, ...]:
    return tuple(Transaction(f"U{n}", (update,)) for n, update in enumerate(updates, 1))


def _scenario(name: str, tables: list[Rows], updates: list[Update], p: Parameters, k: int) -> Scenario:
    """With `rv` recomputing once, after the last update."""
    relations = tuple(
        Relation(name_, "x", columns, (), tuple(table))
        for name_, columns, table in zip(NAMES, _COLUMNS, tables, strict=True)
    )
    view = ((ONLY_VIEW, VIEW),)
    params = Frozen({"rv": Frozen({"s": k})})
    return Scenario(name, relations, view, _transactions(updates), params, width=p.S // _SHOWN)


def recomputing_every_time(scenario: Scenario) -> Scenario:
    return replace(scenario, params=Frozen({"rv": Frozen({"s": 1})}))


def partners(scenario: Scenario) -> tuple[int, int]:
    """In how many rows of r3 a value of Y that r2 has stands: the fewest and the most."""
    there = Counter(row[0] for row in scenario.relation("r3").rows)
    found = [there[row[1]] for row in scenario.relation("r2").rows]
    return min(found), max(found)


def joined_and_passing(scenario: Scenario) -> tuple[int, int]:
    """Rows the three relations join to at first, and how many of them pass the condition."""
    r1, r2, r3 = (scenario.relation(name).rows for name in NAMES)
    found = [(w, z) for w, x in r1 for x2, y in r2 if x == x2 for y2, z in r3 if y == y2]
    return len(found), sum(w > z for w, z in found)
