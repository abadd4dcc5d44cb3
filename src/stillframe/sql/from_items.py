"""The FROM clause: relations, views, derived tables and joins, and which columns they show."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from sqlglot import exp

from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.plan import Join, Output, Plan, Project, Scan, Semi, UnionAll, walk
from stillframe.algebra.scalar import Literal, Ref, Scalar, call, map_refs
from stillframe.sql.catalog import Catalog, Spelled
from stillframe.sql.complaints import Complaints, Stop, refused_column
from stillframe.sql.dialect import COMMA_JOIN
from stillframe.sql.expressions import Expressions
from stillframe.sql.scope import From, Visible

_LATER = "compute it when you read the view"
_CLAUSES: dict[str, tuple[str, str, str]] = {
    "order": ("ORDER_BY", "an order is of no use here", "leave it out"),
    "sort": ("ORDER_BY", "a view has no order", "order when you read the view"),
    "cluster": ("ORDER_BY", "a view has no order", "order when you read the view"),
    "distribute": ("ORDER_BY", "a view has no order", "order when you read the view"),
    "limit": ("LIMIT", "LIMIT is not maintained here", _LATER),
    "offset": ("LIMIT", "OFFSET is not maintained here", _LATER),
    "qualify": ("WINDOW", "QUALIFY is not maintained here", _LATER),
    "windows": ("WINDOW", "WINDOW is not maintained here", _LATER),
    "laterals": ("LATERAL", "LATERAL is not supported", "put one row per element into a table of a source"),
    "sample": ("SAMPLE", "TABLESAMPLE is not deterministic", "use a condition in WHERE"),
    "pivots": ("PIVOT", "PIVOT is not supported", "write CASE expressions"),
}


@dataclass(frozen=True)
class Query:
    """A plan with the names its columns go by ("" where the text gives none) and the places they are from."""

    plan: Plan
    names: tuple[str, ...]
    places: tuple[exp.Expr, ...]

    def shown(self) -> From:
        return From(
            self.plan,
            tuple(
                Visible(name, (), position, column.type)
                for position, (name, column) in enumerate(zip(self.names, self.plan.schema, strict=True))
            ),
        )


@dataclass(frozen=True)
class FromItems(ABC):
    """Resolves what FROM can hold. `ctes` are the common table expressions in sight; None is one that
    was refused."""

    complaints: Complaints
    catalog: Catalog
    ctes: Mapping[str, Query | None]

    @abstractmethod
    def query(self, node: exp.Expr) -> Query: ...

    @abstractmethod
    def values(self, node: exp.Expr) -> Query: ...

    @abstractmethod
    def scope_of(self, node: exp.Expr) -> Self:
        """With the node's own WITH in sight."""

    def labels(self, alias: exp.Expr | None, width: int) -> tuple[str, ...]:
        """The names of `alias(a, b, …)`, or none."""
        if alias is None:
            return ()
        self.complaints.only(alias, "this", "columns")
        if not alias.name:
            self.complaints.stop(alias, "SYNTAX", "names for columns need an alias", "write AS t(a, b)")
        labels = tuple(column.name for column in alias.args.get("columns") or ())
        if labels and len(labels) != width:
            hint = "name every column, or none"
            self.complaints.stop(alias, "COLUMN_COUNT", f"{len(labels)} names for {width} columns", hint)
        return labels

    def check_clauses(self, node: exp.Expr, *understood: str) -> None:
        """Note each clause that is not maintained; what is left over beyond those stops."""
        for clause, (code, message, hint) in _CLAUSES.items():
            value = None if clause in understood else node.args.get(clause)
            place = value[0] if isinstance(value, list) and value else value
            if isinstance(place, exp.Expr):
                self.complaints.note(place, code, message, hint)
        self.complaints.only(node, *understood, *_CLAUSES)

    def from_clause(self, node: exp.Expr) -> From | None:
        """Commas and JOINs bind alike, from the left: each joins to all that stands before it."""
        clause = node.args.get("from_")
        return None if clause is None else self._joined(clause.this, node.args.get("joins") or [])

    def _joined(self, first: exp.Expr, joins: list[exp.Expr]) -> From:
        """Every item is looked at before any is joined, so that each one's reasons are found."""
        sources: list[From] = []
        for node in (first, *(join.this for join in joins)):
            with contextlib.suppress(Stop):
                sources.append(self.source(node))
        for join in joins:
            with contextlib.suppress(Stop):
                self._join_kind(join)
                continue
            sources.clear()
        if len(sources) <= len(joins):
            raise Stop
        result = sources[0]
        for join, right in zip(joins, sources[1:], strict=True):
            result = self._join(join, result, right)
        return result

    def _join_kind(self, join: exp.Expr) -> None:
        side, kind, method = (join.text(part).upper() for part in ("side", "kind", "method"))
        kinds = ("", "OUTER", "SEMI", "ANTI") if side == "LEFT" else ("", "OUTER")
        if kind not in (kinds if side else ("", "INNER", "CROSS", "SEMI", "ANTI")):
            self.complaints.stop(join, "UNSUPPORTED_SYNTAX", f"{side} {kind} join is not supported", "")
        if method not in ("", "NATURAL") or side not in ("", "LEFT", "RIGHT", "FULL"):
            self.complaints.stop(join, "UNSUPPORTED_SYNTAX", f"{method} {side} join is not supported", "")
        if (side or kind in ("SEMI", "ANTI")) and not (
            method or join.args.get("using") or join.args.get("on")
        ):
            self.complaints.stop(join, "SYNTAX", f"{side or kind} JOIN needs ON", "write ON condition")
        self.check_clauses(join, "this", "on", "using", "side", "kind", "method")

    def _join(self, join: exp.Expr, left: From, right: From) -> From:
        both = _side_by_side(left, right)
        using = [name.name for name in join.args.get("using") or ()]
        if join.text("method").upper() == "NATURAL":
            theirs = {column.name.lower() for column in right.star()}
            using = [column.name for column in left.star() if column.name.lower() in theirs]
        if using:
            both = self._using(join, left, right, using)
        elif (on := join.args.get("on")) is not None and on != exp.true():
            condition = Expressions(self.complaints, both).condition(on, "ON")
            both = From(Join((left.plan, right.plan), (condition,)), both.columns)
        if join.text("kind").upper() in ("SEMI", "ANTI"):
            assert isinstance(both.plan, Join)
            anti = join.text("kind").upper() == "ANTI"
            semi = Semi(left.plan, right.plan, both.plan.conditions, anti)
            self.complaints.operator(join, f"{join.text('kind').upper()} JOIN", semi)
            return From(semi, left.columns)
        if side := join.text("side").upper():
            assert isinstance(both.plan, Join)
            joined = outer(both.plan, left=side != "RIGHT", right=side != "LEFT")
            lonely = next(found for found in walk(joined) if isinstance(found, Semi))
            self.complaints.operator(join, f"{side} JOIN", lonely)
            shown = From(joined, both.columns)
            return shown if side == "LEFT" or not using else _either_side(shown, len(using))
        self.complaints.operator(join, "JOIN", both.plan)
        return both

    def _using(self, join: exp.Expr, left: From, right: From, names: list[str]) -> From:
        """The columns of USING come first and once, from the left; the right's are hidden behind it."""
        width = len(left.plan.schema)
        theirs = right.shifted(width)
        shown: list[Visible] = []
        hidden: list[Visible] = []
        conditions = []
        for name in names:
            mine = self._one(join, name, left.find(name))
            other = self._one(join, name, From(right.plan, theirs).find(name))
            try:
                conditions.append(call("=", mine.ref, other.ref))
            except TypeMismatch as error:
                self.complaints.stop(join, "TYPE_MISMATCH", f"USING ({name}): {error}", "use ON with a CAST")
            shown.append(mine)
            hidden.append(other)
        rest_left = [column for column in left.columns if column not in shown]
        rest_right = [column for column in theirs if column not in hidden]
        columns = (*shown, *rest_left, *rest_right, *(replace(column, hidden=True) for column in hidden))
        return From(Join((left.plan, right.plan), tuple(conditions)), columns)

    def _one(self, join: exp.Expr, name: str, found: tuple[Visible, ...]) -> Visible:
        if not found:
            self.complaints.stop(join, "UNKNOWN_COLUMN", f"USING: no column {name} on one side", "use ON")
        if len(found) > 1:
            self.complaints.stop(
                join, "AMBIGUOUS_COLUMN", f"USING: {name} is there twice on one side", "use ON"
            )
        if found[0].refused:
            refused_column(self.complaints, join, name, found[0].refused)
        return found[0]

    def source(self, node: exp.Expr) -> From:
        """One item of FROM, with its alias and the joins nested in it."""
        joins = node.args.get("joins") or []
        match node:
            case exp.Table():
                self.check_clauses(node, "this", "db", "catalog", "alias", "joins")
                here = self._table(node)
            case exp.Subquery():
                self.check_clauses(node, "this", "alias", "joins", "with_")
                here = self._parenthesised(node)
            case exp.Values():
                here = self._aliased(self.values(node).shown(), node)
            case exp.Lateral():
                code, message, hint = _CLAUSES["laterals"]
                self.complaints.stop(node, code, message, hint)
            case _:
                hint = "FROM takes relations, views, and queries in parentheses"
                self.complaints.stop(node, "UNSUPPORTED_SYNTAX", f"{node.key} in FROM is not supported", hint)
        if not joins:
            return here
        return self._joined_to(here, joins)

    def _joined_to(self, first: From, joins: list[exp.Expr]) -> From:
        result = first
        for join in joins:
            if join.meta.get(COMMA_JOIN):
                self.complaints.stop(join, "SYNTAX", "a comma is not a join here", "write CROSS JOIN")
            self._join_kind(join)
            result = self._join(join, result, self.source(join.this))
        return result

    def _parenthesised(self, node: exp.Expr) -> From:
        if isinstance(node.this, exp.Select | exp.SetOperation | exp.Values):
            return self._aliased(self.scope_of(node).query(node.this).shown(), node)
        return self._aliased(self.source(node.this), node)

    def _aliased(self, here: From, node: exp.Expr) -> From:
        """Under the alias of the node; without one, what is inside keeps the names it has."""
        alias = node.args.get("alias")
        if alias is None or not (alias.name or alias.args.get("columns")):
            return here
        shown = here.star()
        labels = self.labels(alias, len(shown))
        for column in shown if labels else ():
            if column.refused:
                refused_column(self.complaints, node, column.name, column.refused)
        return here.renamed(alias.name, labels)

    def _table(self, node: exp.Expr) -> From:
        if not isinstance(node.this, exp.Identifier):
            hint = "FROM takes relations, views, and queries in parentheses"
            self.complaints.stop(node, "TABLE_FUNCTION", "functions in FROM are not supported", hint)
        parts = [node.args[p].name for p in ("catalog", "db", "this") if node.args.get(p)]
        if len(parts) > 2:
            hint = "name a relation as source.table"
            self.complaints.stop(node, "UNKNOWN_RELATION", f"{'.'.join(parts)} has three parts", hint)
        try:
            here = self._relation(*parts) if len(parts) == 2 else self._view(parts[0])
        except KeyError as error:
            message = str(error.args[0]) if error.args else f"no relation {'.'.join(parts)}"
            hint = "name a relation as source.table, a view by its name alone"
            self.complaints.stop(node, "UNKNOWN_RELATION", message, hint)
        return self._aliased(here, node)

    def _relation(self, source: str, table: str) -> From:
        relation = self.catalog.relation(source, table)
        schema = relation.schema
        scan = Scan(self._spelling(source, relation.name), schema)
        columns = (Visible(c.name, (source, table), i, c.type) for i, c in enumerate(schema))
        refused = (Visible(name, (source, table), refused=why) for name, why in relation.refused.items())
        return From(scan, (*columns, *refused))

    def _view(self, name: str) -> From:
        if name.lower() in self.ctes:
            query = self.ctes[name.lower()]
            if query is None:
                raise Stop
            return query.shown().renamed(name)
        schema = self.catalog.view(name)
        scan = Scan(self._spelling(name), schema)
        return From(scan, tuple(Visible(c.name, (name,), i, c.type) for i, c in enumerate(schema)))

    def _spelling(self, *parts: str) -> str:
        return self.catalog.spelling(*parts) if isinstance(self.catalog, Spelled) else ".".join(parts)


def _side_by_side(left: From, right: From) -> From:
    columns = (*left.columns, *right.shifted(len(left.plan.schema)))
    return From(Join((left.plan, right.plan)), columns)


def _either_side(joined: From, common: int) -> From:
    """The columns in common, which come first, have a value wherever one of the two sides has a row."""
    width = len(joined.plan.schema)
    left, right = joined.columns[:common], joined.columns[-common:]
    columns = [Ref(i, column.type, column.name) for i, column in enumerate(joined.plan.schema)]
    merged = [call("coalesce", mine.ref, theirs.ref) for mine, theirs in zip(left, right, strict=True)]
    seen = tuple(
        replace(mine, qualifier=(), position=width + i, type=scalar.type)
        for i, (mine, scalar) in enumerate(zip(left, merged, strict=True))
    )
    hidden = tuple(replace(column, hidden=True) for column in left)
    return From(_named(joined.plan, [*columns, *merged]), (*seen, *joined.columns[common:], *hidden))


def outer(join: Join, *, left: bool, right: bool) -> Plan:
    """An outer join of two: the inner one, and the rows that found no partner, with NULL for its columns."""
    first, second = join.inputs
    width = len(first.schema)
    columns = [Ref(i, column.type, column.name) for i, column in enumerate(join.schema)]
    parts: list[Plan] = [_named(join, columns)]
    if left:
        lonely = Semi(first, second, join.conditions, anti=True)
        parts.append(
            _named(lonely, [c if i < width else Literal(None, c.type) for i, c in enumerate(columns)])
        )
    if right:
        turned = tuple(
            map_refs(condition, lambda ref: _turned(ref, width, len(columns)))
            for condition in join.conditions
        )
        lonely = Semi(second, first, turned, anti=True)
        shown = [
            Literal(None, c.type) if i < width else _turned(c, width, len(columns))
            for i, c in enumerate(columns)
        ]
        parts.append(_named(lonely, shown))
    return UnionAll(tuple(parts))


def _named(plan: Plan, scalars: Sequence[Scalar]) -> Plan:
    return Project(plan, tuple(Output(f"j{i}", scalar) for i, scalar in enumerate(scalars)))


def _turned(ref: Ref, width: int, total: int) -> Ref:
    """A column of two inputs side by side, after they changed places."""
    by = total - width if ref.position < width else -width
    return replace(ref, position=ref.position + by)
