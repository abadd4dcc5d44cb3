"""Queries to plans: SELECT, joins, derived tables, WITH, UNION ALL and VALUES, as Spark resolves them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from stillframe.algebra.evaluate import evaluate_scalar
from stillframe.algebra.functions import EvaluationError, TypeMismatch
from stillframe.algebra.plan import (
    Aggregate,
    Filter,
    Measure,
    Output,
    Plan,
    Project,
    Times,
    UnionAll,
    Values,
    walk,
)
from stillframe.algebra.scalar import Literal, Ref, Scalar, call, case, cast, unify
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BIGINT, VOID, common_type
from stillframe.sql.catalog import Catalog
from stillframe.sql.complaints import Complaints, Stop
from stillframe.sql.dialect import parse
from stillframe.sql.expressions import Expressions
from stillframe.sql.from_items import Query
from stillframe.sql.reasons import Operator, Refused, Text
from stillframe.sql.selecting import ORDER, Selecting, each_once

_BAD_IN_NAMES = set(" ,;{}()\n\t=")


def resolve(select: str, catalog: Catalog, view: str = "") -> Plan:
    """The plan of a query, a Project at its top; `Refused` with every reason found where there is none."""
    return resolved(select, catalog, view)[0]


def resolved(select: str, catalog: Catalog, view: str = "") -> tuple[Plan, tuple[Operator, ...]]:
    """The plan, and the operators of the text in its order."""
    complaints = Complaints(select)
    try:
        tree = parse(select)
        query = _Queries(complaints, catalog, {}).query(tree)
        outputs = _published(complaints, query)
    except Stop:
        outputs = ()
    except Refused as refused:
        raise Refused(refused.reasons, view) from None
    except RecursionError:
        hint = "split it into several views"
        reason = Text(select).reason("TOO_DEEP", "the query is nested too deeply", hint, 0, len(select))
        raise Refused([reason], view) from None
    if complaints.reasons:
        raise Refused(sorted(complaints.reasons, key=lambda r: (r.line, r.column)), view)
    operators = sorted(complaints.operators, key=lambda o: (o.line, o.column))
    return Project(query.plan, outputs), tuple(operators)


def can_be_column(name: str) -> bool:
    """Of a Delta table, and of ours: names that begin with two underscores are the runtime's."""
    return not (_BAD_IN_NAMES & set(name) or name.startswith("__"))


def _published(complaints: Complaints, query: Query) -> tuple[Output, ...]:
    """The outputs of the whole view: each with a name and a type that a Delta table can hold."""
    seen: dict[str, str] = {}
    outputs = []
    for position, (name, place) in enumerate(zip(query.names, query.places, strict=True)):
        column = query.plan.schema[position]
        if not name:
            hint = "write … AS name"
            complaints.note(place, "NEEDS_ALIAS", "an expression needs a name", hint)
        elif name.lower() in seen:
            message = f"two columns are called {name}"
            complaints.note(place, "DUPLICATE_COLUMN", message, "give one another name with AS")
        elif not can_be_column(name):
            hint = "give it another name with AS: no spaces, none of ,;{}()=, not two underscores first"
            complaints.note(place, "BAD_COLUMN_NAME", f"{name!r} cannot be a column of a Delta table", hint)
        if column.type == VOID:
            hint = "write CAST(NULL AS type)"
            complaints.note(place, "UNSUPPORTED_TYPE", f"column {name} is NULL and nothing else", hint)
        seen[name.lower()] = name
        outputs.append(Output(name, Ref(position, column.type, name)))
    return tuple(outputs)


class _Queries(Selecting):
    """Resolves queries within the common table expressions they can see."""

    def query(self, node: exp.Expr) -> Query:
        inner = self.scope_of(node)
        match node:
            case exp.Select():
                return inner.select(node)
            case exp.Union():
                return inner.ordered(inner.union(node), node)
            case exp.Subquery() if not node.args.get("alias"):
                self.check_clauses(node, "this", *ORDER)
                return inner.ordered(inner.query(node.this), node)
            case exp.Values():
                return inner.values(node)
            case exp.Except() | exp.Intersect():
                return inner.ordered(inner.counted(node), node)
        return self.complaints.stop(node, "SYNTAX", "this is not a query", "write SELECT …")

    def scope_of(self, node: exp.Expr) -> _Queries:
        clause = node.args.get("with_")
        if clause is None:
            return self
        if clause.args.get("recursive"):
            self.complaints.stop(
                clause, "RECURSION", "recursion is not supported", "write out the levels there are"
            )
        self.complaints.only(clause, "expressions")
        known: dict[str, Query | None] = dict(self.ctes)
        own: set[str] = set()
        for cte in clause.expressions:
            name = cte.alias.lower()
            if name in own:
                self.complaints.stop(
                    cte.args["alias"], "DUPLICATE_NAME", f"{cte.alias} is defined twice in WITH", "rename one"
                )
            own.add(name)
            try:
                self.complaints.only(cte, "this", "alias")
                known[name] = replace(self, ctes=known)._labelled(cte.this, cte.args["alias"])
            except Stop:
                known[name] = None
        return replace(self, ctes=known)

    def _labelled(self, node: exp.Expr, alias: exp.Expr) -> Query:
        query = self.query(node)
        labels = self.labels(alias, len(query.names))
        return replace(query, names=labels) if labels else query

    # Set operations

    def union(self, node: exp.Expr) -> Query:
        parts: list[tuple[exp.Expr, bool]] = []
        first: exp.Expr = node
        while isinstance(first, exp.Union) and (
            first is node or not any(first.args.get(clause) for clause in ORDER)
        ):
            self.check_clauses(first, "this", "expression", "distinct", *(ORDER if first is node else ()))
            parts.append((first.expression, bool(first.args.get("distinct"))))
            first = first.this
        parts.reverse()
        queries = [self._attempt(first), *(self._attempt(part) for part, _ in parts)]
        result = queries[0]
        for other, (part, once) in zip(queries[1:], parts, strict=True):
            if result is not None and other is not None:
                result = self._united(result, other, part)
                result = each_once(result) if once else result
                self.complaints.operator(part, "UNION" if once else "UNION ALL", result.plan)
        if result is None or None in queries:
            raise Stop
        return result

    def counted(self, node: exp.Expr) -> Query:
        """INTERSECT and EXCEPT: how often a row is on either side says how often it is in the result."""
        self.check_clauses(node, "this", "expression", "distinct", *ORDER)
        left, right = self._attempt(node.this), self._attempt(node.expression)
        if left is None or right is None:
            raise Stop
        word = node.key.upper()
        mine, theirs = self._widened(left, right, node.expression, word)
        kept = set_operation(mine, theirs, both=word == "INTERSECT", once=bool(node.args.get("distinct")))
        counted = next(found for found in walk(kept) if isinstance(found, Aggregate))
        self.complaints.operator(node.expression, word, counted)
        return replace(left, plan=kept)

    def _attempt(self, node: exp.Expr) -> Query | None:
        try:
            return self.query(node)
        except Stop:
            return None

    def _united(self, left: Query, right: Query, node: exp.Expr) -> Query:
        mine, theirs = self._widened(left, right, node, "UNION ALL")
        branches = mine.inputs if isinstance(mine, UnionAll) else (mine,)
        return Query(UnionAll((*branches, theirs)), left.names, left.places)

    def _widened(self, left: Query, right: Query, node: exp.Expr, word: str) -> tuple[Plan, Plan]:
        """Both sides, with the types they have in common."""
        if len(left.names) != len(right.names):
            message = f"{word} of {len(left.names)} and {len(right.names)} columns"
            self.complaints.stop(node, "COLUMN_COUNT", message, "make the branches equally wide")
        types = []
        for i, (a, b) in enumerate(zip(left.plan.schema.types, right.plan.schema.types, strict=True)):
            meeting = common_type(a, b)
            if meeting is None:
                message = f"{word} of {a} and {b} in column {i + 1}"
                self.complaints.stop(
                    right.places[i], "TYPE_MISMATCH", message, "write CAST(… AS type) in a branch"
                )
            types.append(meeting)

        def widened(query: Query) -> Plan:
            if query.plan.schema.types == tuple(types):
                return query.plan
            columns = (Ref(i, c.type, c.name) for i, c in enumerate(query.plan.schema))
            scalars = (cast(column, type_) for column, type_ in zip(columns, types, strict=True))
            return Project(query.plan, tuple(Output(n, s) for n, s in zip(left.names, scalars, strict=True)))

        return widened(left), widened(right)

    def values(self, node: exp.Expr) -> Query:
        self.complaints.only(node, "expressions", "alias", "with_")
        plain = Expressions(self.complaints, None)
        rows = []
        for row in node.expressions:
            cells = row.expressions if isinstance(row, exp.Tuple) else [row]
            rows.append([plain.scalar(cell) for cell in cells])
        width = len(rows[0]) if rows else 0
        if not width or any(len(row) != width for row in rows):
            self.complaints.stop(node, "COLUMN_COUNT", "the rows of VALUES differ in width", "")
        try:
            columns = [unify(tuple(row[i] for row in rows)) for i in range(width)]
            values = [[evaluate_scalar(cell, ()) for cell in column] for column in columns]
        except (TypeMismatch, EvaluationError) as error:
            self.complaints.stop(node, "TYPE_MISMATCH", f"VALUES: {error}", "write CAST(… AS type)")
        schema = Schema(tuple(Column(f"col{i + 1}", column[0].type) for i, column in enumerate(columns)))
        plan = Values(schema, tuple(zip(*values, strict=True)))
        return Query(plan, schema.names, (node,) * width)


def set_operation(left: Plan, right: Plan, *, both: bool, once: bool) -> Plan:
    """Rows that are in both, or in the left and not in the right, as SQL counts them: with m copies on the
    left and n on the right, min(m, n) or max(m - n, 0) copies; one or none where each row counts `once`."""
    width, one, none = len(left.schema), Literal(1, BIGINT), Literal(0, BIGINT)

    def marked(plan: Plan, here: Scalar, there: Scalar) -> Plan:
        columns = tuple(Output(c.name, Ref(i, c.type, c.name)) for i, c in enumerate(plan.schema))
        return Project(plan, (*columns, Output("m", here), Output("n", there)))

    sides = UnionAll((marked(left, one, none), marked(right, none, one)))
    keys = tuple(Output(c.name or f"k{i}", Ref(i, c.type)) for i, c in enumerate(left.schema))
    counts = tuple(Measure(name, "sum", Ref(width + i, BIGINT)) for i, name in enumerate("mn"))
    groups: Plan = Aggregate(sides, keys, counts)
    m, n = Ref(width, BIGINT), Ref(width + 1, BIGINT)
    if once:
        met = call(">", n, none) if both else call("=", n, none)
        groups = Filter(groups, call("and", call(">", m, none), met))
    else:
        fewer = case(((call("<", m, n), m),), n)
        groups = Times(groups, fewer if both else call("-", m, n))
    return Project(groups, tuple(Output(key.name, Ref(i, key.scalar.type)) for i, key in enumerate(keys)))
