"""Random cases from a seed. Expressions come from what Spark, DuckDB and the naive evaluator all mean the
same way and what raises on no row: what differs or raises has tests of its own."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from property_cases import KINDS, Case, Column, FromItem, Select, Session, Table, Transaction, View

STEPS = ("fixed", "staged", "staged", "written")
OTHER = "other"  # a column whose type arithmetic made: passed on, but not computed with again


@dataclass(frozen=True)
class Size:
    """How much a case holds."""

    sessions: tuple[int, int] = (3, 5)
    views: tuple[int, int] = (2, 4)


def random_case(seed: int, size: Size = Size()) -> Case:  # noqa: B008 - a frozen value
    rng = Random(seed)
    tables = _tables(rng)
    count = rng.randint(*size.sessions)
    views = _views(rng, tables, rng.randint(*size.views), count)
    sessions = tuple(_session(rng, tables, views, number) for number in range(count))
    return Case(seed, tables, views, sessions)


# -- tables


def _tables(rng: Random) -> tuple[Table, ...]:
    sources = [f"s{i}" for i in range(1, rng.choice([1, 2, 2, 3, 3]) + 1)]
    count = max(len(sources), rng.randint(2, 4))
    return tuple(
        _table(rng, sources[i] if i < len(sources) else rng.choice(sources), f"t{i}") for i in range(count)
    )


def _table(rng: Random, source: str, name: str) -> Table:
    shape = rng.choice(["none", "none", "rowid", "primary", "unique", "without-rowid"])
    kinds = [rng.choice(["int", "int", "text", *KINDS]) for _ in range(rng.randint(1, 4))]
    if shape == "none":
        columns = tuple(Column(f"c{i}", kind) for i, kind in enumerate(["int", *kinds]))
        return Table(source, name, columns)
    width = 1 if shape == "rowid" else rng.choice([1, 1, 2])
    keys = ["int"] if shape == "rowid" else [rng.choice(["int", "int", "text"]) for _ in range(width)]
    key_columns = tuple(Column(f"k{i}", kind, required=True) for i, kind in enumerate(keys))
    columns = (*key_columns, *(Column(f"c{i}", kind) for i, kind in enumerate(kinds)))
    return Table(source, name, columns, tuple(column.name for column in key_columns), shape)


# -- views


@dataclass(frozen=True)
class Named:
    """A column in scope, as an expression writes it."""

    text: str
    kind: str


Columns = tuple[Column, ...]


def _views(rng: Random, tables: tuple[Table, ...], count: int, sessions: int) -> tuple[View, ...]:
    known: dict[str, Columns] = {table.full_name: table.columns for table in tables}
    views: list[View] = []
    for number in range(count):
        view, columns = _view(rng, f"v{number}", known, views, sessions)
        views.append(view)
        known[view.name] = columns
    return tuple(views)


def _view(
    rng: Random, name: str, known: dict[str, Columns], views: list[View], sessions: int
) -> tuple[View, Columns]:
    relations = dict(known)
    ctes: tuple[tuple[str, Select], ...] = ()
    if rng.random() < 0.15:
        inner, columns = _select(rng, known, width=rng.choice([1, 1, 2]))
        ctes = (("w", inner),)
        relations["w"] = columns
    first, columns = _select(rng, relations, width=_width(rng), prefer="w" if ctes else None)
    branches = [first]
    if rng.random() < 0.25 and all(column.kind in KINDS for column in columns):
        for _ in range(rng.choice([1, 1, 2])):
            branches.append(_select(rng, relations, width=rng.choice([1, 1, 2]), like=columns)[0])
    text = " ".join([*(select.sql for _, select in ctes), *(branch.sql for branch in branches)])
    upstream = tuple(view.name for view in views if f" {view.name} " in f"{text} ")
    since = max([view.since for view in views if view.name in upstream], default=0)
    if rng.random() < 0.15:
        since = max(since, rng.randint(0, sessions - 1))
    return View(name, tuple(branches), ctes, upstream, since), columns


def _width(rng: Random) -> int:
    return rng.choices([1, 2, 3, 4], [25, 40, 25, 10])[0]


def _select(
    rng: Random,
    relations: dict[str, Columns],
    *,
    width: int,
    like: Columns | None = None,
    prefer: str | None = None,
) -> tuple[Select, Columns]:
    inputs: list[FromItem] = []
    scope: list[Named] = []
    where: list[str] = []
    picked: list[str] = []
    for place in range(width):
        relation = prefer if prefer and place == 0 else _relation(rng, relations, picked)
        picked.append(relation)
        item, columns = _input(rng, f"a{place}", relation, relations[relation])
        here = [Named(f"a{place}.{column.name}", column.kind) for column in columns]
        if place:
            item, more = _joined(rng, item, scope, here, inputs, last=place == width - 1)
            where += more
        inputs.append(item)
        scope += here
        for name in item.using:  # Sail does not know the sides of a USING column apart
            kind = next(named.kind for named in here if named.text.split(".")[1] == name)
            scope = [named for named in scope if named.text.split(".")[1] != name] + [Named(name, kind)]
    where += [_filter(rng, scope) for _ in range(rng.choice([0, 0, 0, 1, 1, 2]))]
    if like is not None:
        items = tuple((column.name, _of_kind(rng, scope, column.kind)) for column in like)
        return Select(items, tuple(inputs), tuple(where)), like
    chosen = [_item(rng, scope) for _ in range(rng.randint(1, 4))]
    items = tuple((f"x{i}", named.text) for i, named in enumerate(chosen))
    made = tuple(Column(f"x{i}", named.kind) for i, named in enumerate(chosen))
    return Select(items, tuple(inputs), tuple(where)), made


def _relation(rng: Random, relations: dict[str, Columns], picked: list[str]) -> str:
    if picked and rng.random() < 0.3:
        return rng.choice(picked)  # a self-join
    met = {relation.split(".")[0] for relation in picked}
    elsewhere = [relation for relation in relations if relation.split(".")[0] not in met]
    return rng.choice(elsewhere if elsewhere and rng.random() < 0.6 else [*relations])


def _input(rng: Random, alias: str, relation: str, columns: Columns) -> tuple[FromItem, Columns]:
    if rng.random() >= 0.15:
        return FromItem(alias, relation), columns
    scope = [Named(f"d.{column.name}", column.kind) for column in columns]
    chosen = [_item(rng, scope) for _ in range(rng.randint(1, 3))]
    made = tuple(Column(f"y{i}", named.kind) for i, named in enumerate(chosen))
    items = tuple((f"y{i}", named.text) for i, named in enumerate(chosen))
    where = (_filter(rng, scope),) if rng.random() < 0.5 else ()
    return FromItem(alias, Select(items, (FromItem("d", relation),), where)), made


def _joined(
    rng: Random,
    item: FromItem,
    scope: list[Named],
    here: list[Named],
    inputs: list[FromItem],
    *,
    last: bool,
) -> tuple[FromItem, list[str]]:
    """The input as it follows the others, and what its join puts into WHERE."""
    names = {named.text.split(".")[1]: named.kind for named in here}
    before = [(named.text.split(".")[1], named.kind) for named in scope]
    shared = [n for n, kind in names.items() if before.count((n, kind)) == 1 and kind in KINDS]
    shared = [n for n in shared if sum(name == n for name, _ in before) == 1]
    # A comma binds less than JOIN: ON and USING do not see beyond it.
    comma = any(other.join == "," for other in inputs[1:])
    if shared and last and not comma and rng.random() < 0.25:
        return FromItem(item.alias, item.relation, "JOIN", using=(rng.choice(shared),)), []
    pairs = [(a, b) for a in scope for b in here if a.kind == b.kind and a.kind in KINDS]
    if not pairs or rng.random() < 0.07:
        return FromItem(item.alias, item.relation, rng.choice([",", "CROSS JOIN"])), []
    easy = [pair for pair in pairs if pair[0].kind in ("int", "text")] or pairs
    conditions = [_meeting(rng, *rng.choice(easy if rng.random() < 0.8 else pairs))]
    if rng.random() < 0.2:
        conditions.append(_meeting(rng, *rng.choice(pairs)))
    if comma or rng.random() < 0.25:
        return FromItem(item.alias, item.relation, ","), conditions
    return FromItem(item.alias, item.relation, "JOIN", tuple(conditions)), []


def _meeting(rng: Random, a: Named, b: Named) -> str:
    sides = [a.text, b.text]
    rng.shuffle(sides)
    left, right = sides
    ways = [f"{left} = {right}"] * 8 + [f"{left} IS NOT DISTINCT FROM {right}"]
    if a.kind in ("int", "text", "date"):
        ways.append(f"{left} <= {right}")
    if a.kind == "int":
        ways += [f"{left} + 1 = {right}", f"coalesce({left}, 0) = {right}"]
    return rng.choice(ways)


def _item(rng: Random, scope: list[Named]) -> Named:
    named = rng.choice(scope)
    if rng.random() < 0.65:
        return named
    return _computed(rng, named, scope)


def _computed(rng: Random, named: Named, scope: list[Named]) -> Named:
    x = named.text
    alike = rng.choice([other.text for other in scope if other.kind == named.kind])
    match named.kind:
        case "int":
            texts = [f"{x} + 1", f"{x} * {alike}", f"abs({x} - {alike})", f"-{x}", f"{x} % 3"]
            texts += [f"coalesce({x}, {alike}, 7)", f"CASE WHEN {x} > 0 THEN {alike} ELSE {x} END"]
            if rng.random() < 0.2:
                return Named(f"{x} / 4", "real")
            # Products of products would leave 64 bits some day.
            text = rng.choice(texts)
            return Named(text, OTHER if "*" in text or "+" in text or "-" in text else "int")
        case "text":
            if rng.random() < 0.2:
                return Named(f"length({x})", OTHER)
            texts = [f"{x} || {alike}", f"upper({x})", f"lower({x})", f"substring({x}, 1, 1)", f"trim({x})"]
            return Named(rng.choice([*texts, f"coalesce({x}, 'none')", f"replace({x}, 'a', 'zz')"]), "text")
        case "real":
            texts = [f"{x} * -1", f"-{x}", f"abs({x})", f"coalesce({x}, {alike})"]
            return Named(rng.choice(texts), "real")
        case "money":
            texts = [f"{x} + {alike}", f"{x} * {alike}", f"{x} * 2", f"-{x}", f"coalesce({x}, 0)"]
            return Named(rng.choice(texts), OTHER)
        case "date":
            return rng.choice(
                [Named(f"year({x})", OTHER), Named(f"coalesce({x}, DATE '2000-01-01')", "date")]
            )
        case "flag":
            return Named(rng.choice([f"NOT {x}", f"{x} OR {alike}", f"{x} AND {alike}"]), "flag")
    return Named(f"CASE WHEN {x} IS NULL THEN 1 ELSE 2 END", OTHER)


def _of_kind(rng: Random, scope: list[Named], kind: str) -> str:
    here = [named.text for named in scope if named.kind == kind]
    if here and rng.random() < 0.9:
        return rng.choice(here)
    if kind == "blob" or kind == "stamp" or rng.random() < 0.3:
        return f"CAST(NULL AS {KINDS[kind].type})"
    literal = {"int": "2", "wide": "5", "text": "'a'", "real": "CAST(1.5 AS DOUBLE)", "flag": "TRUE"}
    literal |= {"money": "CAST(1.5 AS DECIMAL(10,2))", "date": "DATE '2024-02-29'"}
    return literal[kind]


def _filter(rng: Random, scope: list[Named]) -> str:
    named = rng.choice(scope)
    x = named.text
    alike = rng.choice([other.text for other in scope if other.kind == named.kind])
    texts = [f"{x} IS NULL", f"{x} IS NOT NULL"]
    match named.kind:
        case "int":
            texts = [
                f"{x} IS NOT NULL",
                f"{x} > 0",
                f"{x} <= {alike}",
                f"{x} IN (1, 2, 3)",
                f"{x} BETWEEN 0 AND 2",
            ]
            texts += [f"({x} = 1 OR {alike} IS NULL)", f"NOT {x} = 2", f"{x} <> 1"]
        case "text":
            texts = [
                f"{x} IS NOT NULL",
                f"{x} LIKE 'a%'",
                f"{x} LIKE '_'",
                f"{x} <> 'a'",
                f"{x} >= 'a'",
                f"length({x}) < 2",
            ]
        case "real":
            texts += [f"{x} > -1", f"{x} = 0", f"{x} <> {alike}"]
        case "money":
            texts += [f"{x} > 0", f"{x} < 1.5", f"{x} = {alike}"]
        case "wide":
            texts += [f"{x} > 5", f"{x} <= {alike}"]
        case "date":
            texts += [f"{x} > DATE '2000-01-01'", f"{x} <= {alike}"]
        case "flag":
            texts += [x, f"NOT {x}"]
    return rng.choice(texts)


# -- transactions and sessions


def _session(rng: Random, tables: tuple[Table, ...], views: tuple[View, ...], number: int) -> Session:
    if number == 0:
        before = tuple(
            Transaction(t.source, (_insert(rng, t, rng.choice([1, 4, 6, 8, 12])),)) for t in tables
        )
    else:
        before = tuple(_transaction(rng, tables) for _ in range(rng.choice([0, 1, 2, 3, 4])))
    amid = tuple((rng.choice(STEPS), _transaction(rng, tables)) for _ in range(rng.choice([0, 0, 1, 2])))
    there = [view.name for view in views if view.since <= number]
    some = number > 0 and len(there) > 1 and rng.random() < 0.3
    return Session(
        before,
        amid,
        tuple(rng.sample(there, rng.randint(1, len(there) - 1))) if some else (),
        full=number > 0 and rng.random() < 0.08,
        settle=rng.random() < 0.25,
        verify=rng.random() < 0.08,
    )


def _transaction(rng: Random, tables: tuple[Table, ...]) -> Transaction:
    source = rng.choice([table.source for table in tables])
    there = [table for table in tables if table.source == source]
    statements = [_statement(rng, rng.choice(there)) for _ in range(rng.choice([1, 1, 2, 3]))]
    if rng.random() < 0.1:
        statements = ["SAVEPOINT p", *statements, "ROLLBACK TO p", _statement(rng, rng.choice(there))]
    return Transaction(source, tuple(statements), commit=rng.random() > 0.08)


def _statement(rng: Random, table: Table) -> str:
    ways = (
        ["insert"] * 4
        + ["update"] * 4
        + ["delete"] * 3
        + ["copy", "copy"]
        + ["delete all"] * (rng.random() < 0.3)
    )
    if table.key:
        ways += ["replace"] * 2 + ["upsert"] * 2 + ["update or replace", "ignore", "move key"]
    match rng.choice(ways):
        case "insert":
            return _insert(rng, table, rng.randint(1, 3))
        case "update":
            return f"UPDATE {table.name} SET {_assignments(rng, table)} WHERE {_rows(rng, table)}"
        case "delete":
            return f"DELETE FROM {table.name} WHERE {_rows(rng, table)}"
        case "delete all":
            return f"DELETE FROM {table.name}"
        case "replace":
            return _insert(rng, table, rng.randint(1, 2)).replace("INSERT", "INSERT OR REPLACE", 1)
        case "ignore":
            return _insert(rng, table, rng.randint(1, 2)).replace("INSERT", "INSERT OR IGNORE", 1)
        case "upsert":
            action = f"DO UPDATE SET {_assignments(rng, table)}"
            return f"{_insert(rng, table, 1)} ON CONFLICT ({', '.join(table.key)}) {action}"
        case "update or replace":
            return f"UPDATE OR REPLACE {table.name} SET {_new_key(rng, table)} WHERE {_rows(rng, table)}"
        case "move key":
            return f"UPDATE {table.name} SET {_new_key(rng, table)} WHERE {_rows(rng, table)}"
    # Copies of rows: duplicates where there is no key, nothing where there is one.
    return f"INSERT OR IGNORE INTO {table.name} SELECT * FROM {table.name} LIMIT 2"


def _insert(rng: Random, table: Table, count: int) -> str:
    rows = [f"({', '.join(_value(rng, column, table) for column in table.columns)})" for _ in range(count)]
    verb = "INSERT OR IGNORE" if table.key and count > 2 else "INSERT"
    return f"{verb} INTO {table.name} VALUES {', '.join(rows)}"


def _value(rng: Random, column: Column, table: Table) -> str:
    if column.name in table.key and column.kind == "int":
        return str(rng.randint(0, 8))
    if not column.required and rng.random() < 0.2:
        return "NULL"
    return rng.choice(KINDS[column.kind].literals)


def _assignments(rng: Random, table: Table) -> str:
    free = [column for column in table.columns if column.name not in table.key]
    chosen = rng.sample(free, rng.randint(1, min(2, len(free))))
    return ", ".join(f"{column.name} = {_value(rng, column, table)}" for column in chosen)


def _new_key(rng: Random, table: Table) -> str:
    column = next(column for column in table.columns if column.name == table.key[0])
    return f"{column.name} = {_value(rng, column, table)}"


def _rows(rng: Random, table: Table) -> str:
    column = rng.choice(table.columns)
    value = _value(rng, column, table)
    test = f"{column.name} IS {value}"
    if table.shape != "without-rowid" and rng.random() < 0.3:
        return f"rowid = (SELECT max(rowid) FROM {table.name} WHERE {test})"
    return rng.choices([test, f"{column.name} <> {value}", "TRUE"], [16, 3, 1])[0]
