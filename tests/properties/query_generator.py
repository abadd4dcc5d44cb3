"""Random queries from a seed, over every operator there is, nested to a depth of four."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from property_cases import Column, Table
from query_cases import QueryCase, QueryView
from query_coverage import EVENTS, KEYED, KEYLESS, operators
from query_expressions import (
    COMPARED,
    KINDS,
    OTHER,
    Named,
    aggregate,
    anything,
    expr,
    in_step,
    of_kind,
    ordering,
    predicate,
    window,
)
from query_text import Expr, Grouping, Input, Query, Select, SetOperation, Subquery, Window, depth, walk
from query_trials import Trials
from query_writers import random_frames, random_start

DEEPEST = 4
OPERATORS = (*KEYED, *KEYLESS)
PATIENCE = 10  # views tried, before less will do
_SETS = [
    ((0,), (1,)),
    ((0, 1), (0,)),
    ((0, 1), ()),
    ((0,), (1,), ()),
    ((0, 1), (1,), (0,), ()),
]  # of two keys
Columns = tuple[Named, ...]  # `text` is the bare name


@dataclass(frozen=True)
class Amount:
    """How much a case holds."""

    views: int = 15
    frames: int = 5
    most: int = 7  # queries in one another
    chained: float = 0.4  # so many views are read by others


def random_case(seed: int, amount: Amount = Amount()) -> QueryCase:  # noqa: B008 - a frozen value
    rng = Random(seed)
    tables = _tables(rng)
    start, frames = random_start(rng, tables), random_frames(rng, tables, amount.frames)
    trials = Trials(tables, (start, *frames))
    try:
        return QueryCase(
            seed, tables, _views(rng, tables, amount, trials, seed * amount.views), start, frames
        )
    finally:
        trials.close()


def _tables(rng: Random) -> tuple[Table, ...]:
    """Each source has a table with a key or one without; every table has a number and a text that join."""
    sources = ["a", "b", "c"][: rng.choice([2, 3])]
    found = []
    for number in range(4):
        shape = (
            rng.choice(["none", "none", "rowid", "rowid", "primary"])
            if number > 1
            else ("rowid", "none")[number]
        )
        more = rng.sample(["int", "money", "date", "flag"], rng.choice([1, 1, 2]))
        columns = [Column("g", "int"), Column("s", "text"), *(Column(f"c{i}", k) for i, k in enumerate(more))]
        key = () if shape == "none" else ("k",)
        if key:
            columns.insert(0, Column("k", "int", required=True))
        found.append(Table(sources[number % len(sources)], f"t{number}", tuple(columns), key, shape))
    return tuple(found)


def _views(
    rng: Random, tables: tuple[Table, ...], amount: Amount, trials: Trials, first: int
) -> tuple[QueryView, ...]:
    """Each with an operator in it whose turn it is, so that none is rare."""
    known = {table.full_name: tuple(Named(c.name, c.kind) for c in table.columns) for table in tables}
    views: list[QueryView] = []
    while len(views) < amount.views:
        operator = OPERATORS[(first + len(views)) % len(OPERATORS)]
        view, columns = _view(rng, f"v{len(views)}", known, operator, amount, trials)
        views.append(view)
        if rng.random() < amount.chained:
            known[view.name] = columns
    return tuple(views)


def _view(
    rng: Random, name: str, known: Mapping[str, Columns], operator: str, amount: Amount, trials: Trials
) -> tuple[QueryView, Columns]:
    """Much happens to its operator; in a case whose changes hardly reach such operators, less will do."""
    tried = 0
    while True:
        query, columns = Maker(rng, known).query(rng.choices([1, 2, 3, 4], [18, 30, 28, 24])[0])
        if depth(query) > DEEPEST or len(list(walk(query))) > amount.most or operator not in operators(query):
            continue
        view, events = QueryView(name, query), (4 if operator in KEYLESS else len(EVENTS)) - tried // PATIENCE
        if trials.worthy(rng, view, operator, events):
            return view, columns
        tried += 1


class Maker:
    """Makes one query over the relations it knows. Aliases are never used twice."""

    def __init__(self, rng: Random, known: Mapping[str, Columns], numbers: count[int] | None = None) -> None:
        self.rng, self.known = rng, dict(known)
        self.numbers = numbers or count()

    def query(self, deep: int, like: tuple[str, ...] | None = None) -> tuple[Query, Columns]:
        """`like`: the kinds of its columns."""
        if deep > 1 and self.rng.random() < 0.15:
            return self._with(deep, like)
        if deep > 1 and self.rng.random() < 0.25:
            return self._set_operation(deep, like)
        return self._select(deep, like)

    def _with(self, deep: int, like: tuple[str, ...] | None) -> tuple[Query, Columns]:
        name = f"w{next(self.numbers)}"
        inner, columns = self.query(deep - 1)
        before, self.known = self.known, {name: columns}
        if self.rng.random() < 0.5:
            self.known |= dict(self.rng.sample(sorted(before.items()), 1))
        query, shown = self._select(deep - 1, like)
        self.known = before
        return replace(query, ctes=((name, inner), *query.ctes)), shown

    def _set_operation(self, deep: int, like: tuple[str, ...] | None) -> tuple[Query, Columns]:
        if like is None:
            like = tuple(
                self.rng.choice(["int", "text", "int", "text", "int", "text", *KINDS])
                for _ in range(self.rng.choice([1, 1, 2, 3]))
            )
        words = ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        left, columns = self.query(deep - 1, like)
        right, _ = self.query(self.rng.randint(1, deep - 1), like)
        return SetOperation(self.rng.choice(words), left, right), columns

    # -- SELECT

    def _select(self, deep: int, like: tuple[str, ...] | None) -> tuple[Query, Columns]:
        rng = self.rng
        inputs, scope = self._inputs(deep)
        where = [predicate(rng, scope) for _ in range(rng.choice([0, 0, 0, 1, 1]))]
        if deep > 1 and rng.random() < 0.4:
            asked = self._asked(deep - 1, scope)
            if rng.random() < 0.15:
                asked = expr("(", predicate(rng, scope, 1), " OR ", asked, ")")
            where.append(asked)
        base = Select((), inputs, tuple(where))
        shape = rng.choices(
            ["plain", "group", "all", "sets", "distinct", "window", "limit"], [22, 30, 7, 8, 12, 16, 9]
        )[0]
        match shape:
            case "group" | "all" | "sets":
                made = self._grouped(base, scope, shape, like)
            case "window":
                made = self._windowed(base, scope, like)
            case _:
                made = self._plain(base, scope, like, deep)
        if shape == "distinct":
            made = replace(made, distinct=True)
        if shape == "limit":
            names = [name for name, _ in made.items]
            rng.shuffle(names)
            limit = str(rng.choice([1, 2, 3, 5])) + (
                f" OFFSET {rng.choice([1, 2])}" if rng.random() < 0.3 else ""
            )
            made = replace(made, order=ordering(rng, names), limit=limit)
        return made, tuple(Named(name, item.kind) for name, item in made.items)

    def _plain(self, base: Select, scope: Columns, like: tuple[str, ...] | None, deep: int) -> Select:
        rng = self.rng
        if like is not None:
            chosen = [of_kind(rng, scope, kind) for kind in like]
        else:
            chosen = [anything(rng, scope) for _ in range(rng.choice([1, 2, 2, 3]))]
            if deep > 1 and rng.random() < 0.25:
                kind = rng.choice(["int", "text", "money"])
                chosen.append(expr(self._scalar(scope, kind), kind=kind))
        return replace(base, items=_named(chosen))

    def _grouped(self, base: Select, scope: Columns, shape: str, like: tuple[str, ...] | None) -> Select:
        rng = self.rng
        keys: tuple[Expr, ...]
        if like is not None:
            width = 0 if shape == "all" else rng.randint(1, len(like))
            keys = tuple(of_kind(rng, scope, kind) for kind in like[:width])
            measures = [aggregate(rng, scope, kind) for kind in like[width:]]
        else:
            width = {"all": 0, "sets": 2}.get(shape, rng.choice([1, 1, 2]))
            keys = tuple(anything(rng, scope) for _ in range(width))
            measures = [aggregate(rng, scope) for _ in range(rng.choice([1, 1, 2, 3]))]
        if shape == "sets" and len(set(keys)) == len(keys) <= 2:
            sets = rng.choice(_SETS if len(keys) > 1 else [((0,), ())])
            grouping = Grouping(keys, rng.choice(["ROLLUP", "CUBE", "sets"]), sets)
        else:
            grouping = Grouping(keys, "ordinals" if keys and rng.random() < 0.2 else "plain")
        if keys and like is None and shape == "group" and rng.random() < 0.12:
            measures.append(window(rng, [Named(each.sql(), each.kind) for each in (*keys, *measures)]))
        having: tuple[Expr, ...] = ()
        if rng.random() < 0.3:
            having = (self._having(scope),)
        return replace(base, items=_named([*keys, *measures]), grouping=grouping, having=having)

    def _having(self, scope: Columns) -> Expr:
        counted = aggregate(self.rng, scope, "int")
        return expr(counted, f" {self.rng.choice(['>', '>=', '<', '<>'])} {self.rng.choice([0, 1, 2, 3])}")

    def _windowed(self, base: Select, scope: Columns, like: tuple[str, ...] | None) -> Select:
        rng = self.rng
        kinds = like or (*(rng.choice(scope).kind for _ in range(rng.choice([1, 2]))), "int")
        chosen = [of_kind(rng, scope, kind) for kind in kinds]
        free = [i for i, kind in enumerate(kinds) if kind != "flag"] if like else [len(kinds) - 1]
        if free:
            place = rng.choice(free)
            chosen[place] = window(rng, scope, kinds[place] if like else None)
        qualify: tuple[Expr, ...] = ()
        if rng.random() < 0.35:
            asked = window(rng, scope, "int").parts
            for shown in (part for each in chosen for part in each.parts if isinstance(part, Window)):
                asked = tuple(in_step(part, shown) if isinstance(part, Window) else part for part in asked)
            qualify = (expr(*asked, f" {rng.choice(['<=', '=', '>'])} {rng.choice([1, 1, 2])}"),)
        return replace(base, items=_named(chosen), qualify=qualify)

    # -- FROM

    def _inputs(self, deep: int) -> tuple[tuple[Input, ...], Columns]:
        rng = self.rng
        width = rng.choices([1, 2, 3], [50, 36, 14])[0]
        inputs: list[Input] = []
        scope: list[Named] = []
        for place in range(width):
            alias, relation, columns = self._relation(deep)
            here = [Named(f"{alias}.{named.text}", named.kind) for named in columns]
            item = Input(alias, relation)
            if place:
                item = self._joined(item, scope, here)
            inputs.append(item)
            if "SEMI" not in item.join and "ANTI" not in item.join:
                scope += here
        return tuple(inputs), tuple(scope)

    def _relation(self, deep: int) -> tuple[str, str | Query, Columns]:
        alias = f"q{next(self.numbers)}"
        if deep > 1 and self.rng.random() < 0.45:
            return alias, *self.query(deep - 1)
        name = self.rng.choice(sorted(self.known))
        return alias, name, self.known[name]

    def _joined(self, item: Input, scope: list[Named], here: list[Named]) -> Input:
        rng = self.rng
        words = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
        word = rng.choices(words, [30, 24, 12, 12, 11, 11])[0]
        pairs = [(a, b) for a in scope for b in here if a.kind == b.kind != OTHER]
        if not pairs:
            return replace(item, join="JOIN")
        best = [pair for pair in pairs if pair[0].kind in ("int", "text")] or pairs
        on = [self._equal(*rng.choice(best))]
        if rng.random() < 0.15:
            on.append(self._equal(*rng.choice(pairs)))
        if rng.random() < 0.3:
            on.append(predicate(rng, rng.choice([scope, here, [*scope, *here]]), 1))
        return replace(item, join=word, on=tuple(on))

    def _equal(self, left: Named, right: Named) -> Expr:
        if self.rng.random() < 0.1 and left.kind == "int":
            return expr(f"{left.text} + 1 = {right.text}")
        return expr(f"{left.text} = {right.text}")

    # -- queries in expressions

    def _asked(self, deep: int, scope: Columns) -> Expr:
        """A condition with a query in it."""
        rng = self.rng
        if rng.random() < 0.25:
            named = rng.choice(
                [named for named in scope if named.kind in ("int", "text")] or [Named("1", "int")]
            )
            return expr(f"{named.text} {rng.choice(COMPARED)} ", self._scalar(scope, named.kind))
        word = rng.choice(["EXISTS", "EXISTS", "NOT EXISTS", "IN", "NOT IN"])
        values = [named for named in scope if named.kind != OTHER]
        if word.endswith("IN") and values:
            named = rng.choice([named for named in values if named.kind in ("int", "text")] or values)
            if rng.random() < 0.3:
                query, _ = self.query(deep, (named.kind,))
            else:
                query = self._inner(deep, scope, named.kind, tied=rng.random() < 0.35)
            return expr(f"{named.text} ", Subquery(word, query))
        word = word if word.endswith("EXISTS") else "EXISTS"
        return expr(Subquery(word, self._inner(deep, scope, None, tied=rng.random() < 0.9)))

    def _inner(self, deep: int, around: Columns, kind: str | None, *, tied: bool) -> Select:
        rng = self.rng
        alias, relation, columns = self._relation(deep)
        scope = [Named(f"{alias}.{named.text}", named.kind) for named in columns]
        where = self._ties(around, scope) if tied else []
        if rng.random() < 0.4:
            where.append(predicate(rng, scope, 1))
        if deep > 1 and rng.random() < 0.25:
            where.append(self._asked(deep - 1, tuple(scope)))
        item = expr("1", kind="int") if kind is None else of_kind(rng, scope, kind)
        return Select((("x0", item),), (Input(alias, relation),), tuple(where))

    def _ties(self, around: Columns, scope: list[Named], *, equal: bool = False) -> list[Expr]:
        rng = self.rng
        pairs = [(a, b) for a in around for b in scope if a.kind == b.kind and a.kind in ("int", "text")]
        if not pairs:
            return []
        outer, inner = rng.choice(pairs)
        ties = [expr(f"{inner.text} = {outer.text}", tie=inner.text)]
        if rng.random() < 0.2 and not equal:
            outer, inner = rng.choice(pairs)
            ties.append(expr(f"{inner.text} {rng.choice(COMPARED)} {outer.text}", tie=inner.text))
        return ties

    def _scalar(self, around: Columns, kind: str) -> Subquery:
        rng = self.rng
        alias, relation, columns = self._relation(1)
        scope = [Named(f"{alias}.{named.text}", named.kind) for named in columns]
        where = self._ties(around, scope, equal=True) if rng.random() < 0.6 else []
        if rng.random() < 0.3:
            where.append(predicate(rng, scope, 1))
        items = (("x0", aggregate(rng, scope, kind)),)
        return Subquery("", Select(items, (Input(alias, relation),), tuple(where), Grouping()))


def _named(chosen: list[Expr]) -> tuple[tuple[str, Expr], ...]:
    return tuple((f"x{i}", item) for i, item in enumerate(chosen))
