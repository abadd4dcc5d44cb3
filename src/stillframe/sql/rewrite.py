"""Small edits of the user's text, by the places of tokens: everything else stays to the character."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from stillframe.sql.dialect import parse, tokenize
from stillframe.sql.reasons import Refused

Edit = tuple[int, int, str]


def retarget(select: str, names: Mapping[str, str]) -> str:
    """The query with the relations it names replaced (`shop.orders` by another table's name), under the
    alias they had or the name they were called by."""
    lowered = {name.lower(): target for name, target in names.items()}
    tree = parse(select)
    edits: list[Edit] = []
    for table in tree.find_all(exp.Table):
        parts = [part for part in (table.args.get("db"), table.this) if isinstance(part, exp.Identifier)]
        name = ".".join(part.name for part in parts).lower()
        if name not in lowered or (len(parts) == 1 and _is_local(table, name)):
            continue
        alias = "" if table.alias else f" AS {_quoted(parts[-1].name)}"
        edits.append((parts[0].meta["start"], parts[-1].meta["end"] + 1, lowered[name] + alias))
    for column in tree.find_all(exp.Column):
        database = column.args.get("db")
        if isinstance(database, exp.Identifier):  # shop.orders.id: the table is called orders from here on
            edits.append((database.meta["start"], column.args["table"].meta["start"], ""))
    return _edited(select, edits)


def sources_named(select: str) -> frozenset[str]:
    """The sources whose relations a query names, in lower case; none of a text that cannot be parsed."""
    try:
        tables = parse(select).find_all(exp.Table)
    except Refused:
        return frozenset()
    databases = (table.args.get("db") for table in tables)
    return frozenset(database.name.lower() for database in databases if isinstance(database, exp.Identifier))


def relations_named(select: str) -> frozenset[str]:
    """The relations (`source.table`) and views that a query names anywhere, in lower case; also in queries of
    a WITH that nobody reads."""
    found = set()
    for table in parse(select).find_all(exp.Table):
        parts = [part for part in (table.args.get("db"), table.this) if isinstance(part, exp.Identifier)]
        name = ".".join(part.name for part in parts).lower()
        if len(parts) == 2 or not _is_local(table, name):
            found.add(name)
    return frozenset(found)


def _is_local(table: exp.Table, name: str) -> bool:
    """Whether a name means a query of a WITH around it: one written before the place that names it."""
    inner: object = table
    outer = table.parent
    while outer is not None:
        if isinstance(outer, exp.With):
            before = outer.expressions[: next(i for i, cte in enumerate(outer.expressions) if cte is inner)]
        else:
            clause = outer.args.get("with_") or outer.args.get("with")
            before = clause.expressions if isinstance(clause, exp.With) and clause is not inner else []
        if any(cte.alias_or_name.lower() == name for cte in before):
            return True
        inner, outer = outer, outer.parent
    return False


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def rename_view(text: str, name: str, new: str) -> str:
    """A definitions file in which one view has another name."""
    for start, _, name_start, name_end, found in _statements(text):
        if found == name:
            plain = [token.token_type for token in tokenize(new)] == [TokenType.VAR]
            return _edited(text, [(name_start, name_end, new if plain else _quoted(new))])
        assert start <= name_start
    return text


def remove_view(text: str, name: str) -> str:
    """A definitions file without one of its views."""
    for start, end, _, _, found in _statements(text):
        if found == name:
            return _edited(text, [(start, end, "")])
    return text


def _statements(text: str) -> list[tuple[int, int, int, int, str]]:
    """Start and end of each statement, and start, end and spelling of the name it creates."""
    found, start, at_name = [], None, 0
    name: tuple[int, int, str] | None = None
    for token in tokenize(text):
        if start is None:
            start, at_name, name = token.start, 0, None
        if at_name == 1:
            name = (token.start, token.end + 1, token.text)
            at_name = 2
        elif at_name == 0 and token.token_type == TokenType.VIEW:
            at_name = 1
        if token.token_type == TokenType.SEMICOLON:
            if name is not None:
                found.append((start, token.end + 1, *name))
            start = None
    if start is not None and name is not None:
        found.append((start, len(text), *name))
    return found


def _edited(text: str, edits: list[Edit]) -> str:
    for start, end, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text
