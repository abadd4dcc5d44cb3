"""Batteries of scenarios: random ones for breadth, and all small ones for the hunt.

Random: scenario i of a seed depends on the seed and on i alone, so any one replays by its name. Values are
few, so that joins hit, and an update is drawn so that, given the rows that were ever there, the view would
differ by it: anomalies need updates that meet. Exhaustive: shortest sequences first, so that the first
failure found is a smallest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from random import Random
from typing import Any

from stillframe.algebra import Bag, Plan, Row, evaluate
from stillframe.simulator.battery_views import JOINED, draw_view
from stillframe.simulator.scenario import ONLY_VIEW, Relation, Scenario, Transaction, Update, numbered

EXHAUSTIVELY = 3
_MOST_UPDATES = 5
_COLUMNS = {"r1": ("A", "B"), "r2": ("B", "C"), "r3": ("C", "D")}
_VALUES = (1, 2, 3)


def scenarios(seed: int, count: int) -> Iterator[Scenario]:
    """The first `count` scenarios of a seed."""
    return (scenario(seed, number) for number in range(count))


def scenario(seed: int, number: int) -> Scenario:
    """One scenario of a seed. Its name carries both numbers, and ends in "four" where it has more
    transactions than are explored exhaustively."""
    rng = Random(f"{seed}/{number}")
    count = rng.choices((1, 2, 3, 4), (2, 33, 55, 10))[0]
    uses = _draw_uses(rng)
    bare = _draw_relations(rng, tuple(dict.fromkeys(uses)))
    name = f"battery {seed}/{number}" + (" four" if count > EXHAUSTIVELY else "")
    base = Scenario(name, bare, ((ONLY_VIEW, draw_view(rng, {r.name: r for r in bare}, uses)),))
    rows = _Rows(rng, _draw_witness(rng, base), nulls=rng.random() < 0.28)
    base = replace(base, relations=tuple(replace(r, rows=rows.initial(r)) for r in bare))
    transactions = tuple(numbered(_History(rng, base, rows).transactions(count)))
    several = len(base.sources) > 1
    grouped = any(transaction.group for transaction in transactions)
    return replace(
        base,
        transactions=transactions,
        report="coordinator" if grouped and rng.random() < 0.25 else "per-source",
        order="any" if several and count <= EXHAUSTIVELY and rng.random() < 0.06 else "written",
    )


def is_sampled(scenario: Scenario) -> bool:
    """Whether a scenario of a battery is one to sample schedules of."""
    return len(scenario.transactions) > EXHAUSTIVELY


def _draw_uses(rng: Random) -> tuple[str, ...]:
    """The relations a view joins, one of them twice in a self-join."""
    uses = (("r1", "r2"), ("r1", "r2", "r3"), ("r1", "r1"), ("r1", "r1", "r2"))
    return rng.choices(uses, (44, 44, 5, 7))[0]


def _draw_relations(rng: Random, names: tuple[str, ...]) -> tuple[Relation, ...]:
    sources = min(len(names), rng.choices((1, 2, 3), (36, 30, 34))[0])
    places = list(range(sources)) + [rng.randrange(sources) for _ in range(len(names) - sources)]
    rng.shuffle(places)
    letters = dict(zip(dict.fromkeys(places), "xyz", strict=False))
    keyless = rng.random() < 0.22
    relations = []
    for name, place in zip(names, places, strict=True):
        columns = _COLUMNS[name]
        key: tuple[str, ...] = rng.choices((columns[:1], columns[1:], columns), (50, 20, 30))[0]
        if keyless and rng.random() < 0.7:
            key = ()
        relations.append(Relation(name, letters[place], columns, key))
    return tuple(relations)


def _draw_witness(rng: Random, base: Scenario) -> dict[str, int]:
    """A value for each column such that the view shows the row they make, if a few attempts find one."""
    plan, witness = base.plan(), {}
    for _ in range(20):
        witness = {column: rng.choice(_VALUES) for r in base.relations for column in r.columns}
        bags = {r.name: Bag.of([[witness[column] for column in r.columns]]) for r in base.relations}
        if _shown(plan, bags):
            break
    return witness


def _shown(plan: Plan, bags: Mapping[str, Bag]) -> Bag:
    return evaluate(plan, lambda scan: bags[scan.relation])


def _with(there: Mapping[str, Bag], update: Update, count: int) -> dict[str, Bag]:
    """The same rows, but this one `count` times."""
    return {**there, update.relation: Bag({**there[update.relation], update.row: count})}


@dataclass(frozen=True)
class _Rows:
    """Rows near the witness, so that most of them meet. With `nulls`, some join columns are NULL."""

    rng: Random
    witness: Mapping[str, int]
    nulls: bool

    def initial(self, relation: Relation) -> tuple[Row, ...]:
        rows: list[Row] = []
        for _ in range(self.rng.choices((0, 1, 2), (18, 42, 40))[0]):
            again = rows and not relation.key and self.rng.random() < 0.4
            row = rows[0] if again else self.draw(relation)
            if _fits(relation, row, rows):
                rows.append(row)
        return tuple(rows)

    def draw(self, relation: Relation) -> Row:
        return tuple(self._value(column, column in relation.key) for column in relation.columns)

    def _value(self, column: str, in_key: bool) -> int | None:
        joins = column in "BC"
        if self.nulls and joins and not in_key and self.rng.random() < 0.3:
            return None
        if self.rng.random() < (0.7 if joins else 0.4):
            return self.witness[column]
        return self.rng.choice(_VALUES)


def _fits(relation: Relation, row: Row, rows: Sequence[Row]) -> bool:
    """Whether the key, if there is one, lets the row in."""
    key = [relation.columns.index(column) for column in relation.key]
    return not key or all(any(row[p] != other[p] for p in key) for other in rows)


class _History:
    """What has happened so far, and what may happen next."""

    def __init__(self, rng: Random, base: Scenario, draws: _Rows) -> None:
        self.rng = rng
        self.draws = draws
        self.base = base
        self.plan = base.plan()
        self.rows = {relation.name: list(relation.rows) for relation in base.relations}
        self.ever = {relation.name: dict.fromkeys(relation.rows) for relation in base.relations}
        self.done: list[Update] = []

    def transactions(self, count: int) -> list[Transaction]:
        sources = self.base.sources
        styles = ("single", "local", "global")
        style = self.rng.choices(styles, (42, 33, 25 if len(sources) > 1 else 0))[0]
        special = self.rng.randrange(count)
        found = []
        for place in range(count):
            room = _MOST_UPDATES - len(self.done) - (count - place)
            kind = self._kind(style, place == special) if room > 0 else "single"
            found.append(self._transaction(kind, f"g{place + 1}"))
        return found

    def _kind(self, style: str, special: bool) -> str:
        if style == "single":
            return "single"
        if special:
            return "global" if style == "global" else self.rng.choice(("local", "modify"))
        odds = (5, 2, 2, 3 if style == "global" else 0)
        return self.rng.choices(("single", "local", "modify", "global"), odds)[0]

    def _transaction(self, kind: str, group: str) -> Transaction:
        if kind == "modify" and (updates := self._modification()):
            return Transaction("T", updates)
        first = self._update(self.base.relations)
        if kind == "single":
            return Transaction("U", (first,))
        source = self.base.source_of(first.relation)
        if kind == "global":
            elsewhere = [relation for relation in self.base.relations if relation.source != source]
            return Transaction(group, (first, self._update(elsewhere)), group)
        return Transaction("T", (first, self._update(self.base.relations_of(source))))

    def _update(self, relations: Sequence[Relation]) -> Update:
        """One that can happen, at one of these relations."""
        names = {relation.name for relation in relations}
        if self.rng.random() < 0.08 and (back := [u for u in self._reversals() if u.relation in names]):
            return self._did(self.rng.choice(back))
        for relation in (order := self._turn(relations)):
            kinds = [self._inserts(relation), self._deletes(relation)]
            if self.rng.random() < 0.4:
                kinds.reverse()
            for candidates in kinds:
                if met := self._meeting(candidates):
                    return self._did(met)
        return self._did(next(u for r in order for u in (*self._inserts(r), *self._deletes(r))))

    def _turn(self, relations: Sequence[Relation]) -> list[Relation]:
        """All of them, those first that had no update, most of the time."""
        touched = [update.relation for update in self.done]
        odds = {r.name: 1 if r.name in touched[-1:] else 3 if r.name in touched else 9 for r in relations}
        return sorted(relations, key=lambda r: -(self.rng.random() ** (1 / odds[r.name])))

    def _modification(self) -> tuple[Update, ...]:
        """A row gives way to one of the same key; nothing where no row can."""
        pairs = []
        for relation in self.base.relations:
            rest = [i for i, column in enumerate(relation.columns) if column not in relation.key]
            for old in dict.fromkeys(self.rows[relation.name]) if relation.key else ():
                for place in rest:
                    news = ((*old[:place], value, *old[place + 1 :]) for value in _VALUES)
                    pairs += [(relation.name, old, new) for new in news if new != old]
        if not pairs:
            return ()
        chosen = {Update(name, True, new): old for name, old, new in pairs}
        insert = self._meeting(list(chosen)) or self.rng.choice(list(chosen))
        return self._did(Update(insert.relation, False, chosen[insert])), self._did(insert)

    def _reversals(self) -> list[Update]:
        """Earlier updates undone, where that can happen: rows come back, and go again."""
        undone = (replace(update, insert=not update.insert) for update in self.done)
        return [update for update in dict.fromkeys(undone) if self._possible(update)]

    def _possible(self, update: Update) -> bool:
        rows = self.rows[update.relation]
        return (
            _fits(self.base.relation(update.relation), update.row, rows)
            if update.insert
            else update.row in rows
        )

    def _inserts(self, relation: Relation) -> list[Update]:
        drawn = dict.fromkeys(self.draws.draw(relation) for _ in range(8))
        updates = (Update(relation.name, True, row) for row in drawn)
        fresh = [update for update in updates if self._possible(update)]
        if not relation.key and self.rows[relation.name] and self.rng.random() < 0.3:
            return [Update(relation.name, True, self.rng.choice(self.rows[relation.name]))]
        return fresh

    def _deletes(self, relation: Relation) -> list[Update]:
        return [Update(relation.name, False, row) for row in dict.fromkeys(self.rows[relation.name])]

    def _meeting(self, candidates: Sequence[Update]) -> Update | None:
        """One that the view would show: as things are, or given the rows that were ever there, or in
        another way for an earlier update."""
        shuffled = self.rng.sample(candidates, len(candidates))
        if self.rng.random() < 0.08:
            return next(iter(shuffled), None)
        wish = self.rng.random()
        if self.done and wish < 0.55:
            earlier = self.rng.choice(self.done)
            return next((update for update in shuffled if self._meet(update, earlier)), None)
        world = self.rows if wish < 0.85 else self.ever
        there = {name: Bag.of(rows) for name, rows in world.items()}
        return next((update for update in shuffled if self._shown_by(update, there)), None)

    def _meet(self, one: Update, other: Update) -> bool:
        """Whether what the one does to the view depends on the row of the other."""
        there = {name: Bag.of(rows) for name, rows in self.ever.items()}
        return self._shown_by(one, _with(there, other, 0)) != self._shown_by(one, _with(there, other, 1))

    def _shown_by(self, update: Update, there: Mapping[str, Bag]) -> Bag:
        """What the view shows because the update's row is there."""
        return _shown(self.plan, _with(there, update, 1)) - _shown(self.plan, _with(there, update, 0))

    def _did(self, update: Update) -> Update:
        rows = self.rows[update.relation]
        rows.append(update.row) if update.insert else rows.remove(update.row)
        self.ever[update.relation][update.row] = None
        self.done.append(update)
        return update


def exhaustive(
    relations: int,
    sources: Sequence[str],
    updates: int,
    *,
    domain: Sequence[Any] | Mapping[str, Sequence[Any]] = (1, 2),
    keys: Sequence[Sequence[str]] | None = None,
    view: str | None = None,
    rows: Sequence[Sequence[Row]] | int = 0,
    renaming: bool = False,
) -> Iterator[Scenario]:
    """Every sequence of one to `updates` single updates over the first two or three of r1(A, B), r2(B, C),
    r3(C, D), the shortest first.

    `sources` places each relation. `domain` holds the values of every column, or of each one by name.
    `keys` are one for each relation, () for none; without it, their first columns. `rows` are the rows
    there are at first, or how many each relation may have at most: then every such beginning is taken.
    With `renaming`, of scenarios that are equal up to renaming the values of a column at least one is
    kept; that is sound for views that only compare columns of one name for equality.
    """
    names = tuple(_COLUMNS)[:relations]
    keys = [_COLUMNS[name][:1] for name in names] if keys is None else keys
    bare = [
        Relation(name, source, _COLUMNS[name], tuple(key))
        for name, source, key in zip(names, sources, keys, strict=True)
    ]
    values = domain if isinstance(domain, Mapping) else {c: domain for r in bare for c in r.columns}
    rows_of = {r.name: _all_rows(r, values) for r in bare}
    if isinstance(rows, int):
        starts = list(product(*(_all_states(r, rows_of[r.name], rows) for r in bare)))
    else:
        starts = [tuple(tuple(map(tuple, each)) for each in rows)]
    views = ((ONLY_VIEW, view or JOINED[relations]),)
    number = 0
    for length in range(1, updates + 1):
        for start in starts:
            begun = tuple(replace(r, rows=held) for r, held in zip(bare, start, strict=True))
            for sequence in _sequences(begun, rows_of, length):
                if renaming and not _names_in_order(begun, sequence, values):
                    continue
                number += 1
                done = numbered(Transaction("U", (update,)) for update in sequence)
                yield Scenario(f"exhaustive {number}", begun, views, tuple(done))


def _all_rows(relation: Relation, values: Mapping[str, Sequence[Any]]) -> list[Row]:
    rows = product(*(values[column] for column in relation.columns))
    key = [relation.columns.index(column) for column in relation.key]
    return [row for row in rows if all(row[place] is not None for place in key)]


def _all_states(relation: Relation, rows: Sequence[Row], most: int) -> list[tuple[Row, ...]]:
    """Every content of up to `most` rows, once each."""
    return [
        held
        for size in range(most + 1)
        for held in combinations_with_replacement(rows, size)
        if all(_fits(relation, row, held[:place]) for place, row in enumerate(held))
    ]


def _sequences(
    relations: Sequence[Relation], rows_of: Mapping[str, Sequence[Row]], length: int
) -> Iterator[tuple[Update, ...]]:
    if length == 0:
        yield ()
        return
    for place, relation in enumerate(relations):
        for insert, row in product((True, False), rows_of[relation.name]):
            held = list(relation.rows)
            if insert and _fits(relation, row, held):
                held.append(row)
            elif not insert and row in held:
                held.remove(row)
            else:
                continue
            after = [*relations[:place], replace(relation, rows=tuple(held)), *relations[place + 1 :]]
            for rest in _sequences(after, rows_of, length - 1):
                yield (Update(relation.name, insert, row), *rest)


def _names_in_order(
    relations: Sequence[Relation], updates: Sequence[Update], values: Mapping[str, Sequence[Any]]
) -> bool:
    """Whether the values of each column come up in the order of its domain.

    Law: of all renamings of a scenario, the one least in the lexical order of its rows does so. Where an
    unused smaller value could stand for one that comes up, swapping the two gives a lesser renaming.
    """
    columns = {relation.name: relation.columns for relation in relations}
    rows = [(relation.name, row) for relation in relations for row in relation.rows]
    rows += [(update.relation, update.row) for update in updates]
    seen: dict[str, dict[Any, None]] = {column: {} for column in values}
    for name, row in rows:
        for column, value in zip(columns[name], row, strict=True):
            if value is not None:
                seen[column][value] = None
    ordered = {column: [v for v in domain if v is not None] for column, domain in values.items()}
    return all(list(found) == ordered[column][: len(found)] for column, found in seen.items())
