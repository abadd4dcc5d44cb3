"""Queries to plans: SELECT, joins, derived tables, WITH, UNION ALL and VALUES, as Spark resolves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    Window,
    walk,
)
from stillframe.algebra.scalar import Literal, Ref, Scalar, call, case, cast, unify
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BIGINT, BOOLEAN, VOID, common_type
from stillframe.algebra.windows import Ordering
from stillframe.sql.catalog import Catalog
from stillframe.sql.complaints import Complaints, Stop, refused_column
from stillframe.sql.dialect import parse
from stillframe.sql.expressions import Expressions, Special
from stillframe.sql.from_items import Query
from stillframe.sql.grouping import Groups, Measures, group_keys, has_aggregates
from stillframe.sql.limits import limited, limits
from stillframe.sql.reasons import Operator, Refused, Text
from stillframe.sql.scope import From
from stillframe.sql.subqueries import ONE_ROW, Questions, Subqueries
from stillframe.sql.windows import Windows, ordering

_SELECT = ("expressions", "from_", "joins", "where", "group", "having", "qualify", "windows", "distinct")
_ORDER = ("with_", "hint", "order", "limit", "offset")
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
        elif _BAD_IN_NAMES & set(name) or name.startswith("__"):
            hint = "give it another name with AS: no spaces, none of ,;{}()=, not two underscores first"
            complaints.note(place, "BAD_COLUMN_NAME", f"{name!r} cannot be a column of a Delta table", hint)
        if column.type == VOID:
            hint = "write CAST(NULL AS type)"
            complaints.note(place, "UNSUPPORTED_TYPE", f"column {name} is NULL and nothing else", hint)
        seen[name.lower()] = name
        outputs.append(Output(name, Ref(position, column.type, name)))
    return tuple(outputs)


class _Queries(Subqueries):
    """Resolves queries within the common table expressions they can see."""

    def query(self, node: exp.Expr) -> Query:
        inner = self.scope_of(node)
        match node:
            case exp.Select():
                return inner.select(node)
            case exp.Union():
                return inner._ordered(inner.union(node), node)
            case exp.Subquery() if not node.args.get("alias"):
                self.check_clauses(node, "this", *_ORDER)
                return inner._ordered(inner.query(node.this), node)
            case exp.Values():
                return inner.values(node)
            case exp.Except() | exp.Intersect():
                return inner._ordered(inner.counted(node), node)
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
            first is node or not any(first.args.get(clause) for clause in _ORDER)
        ):
            self.check_clauses(first, "this", "expression", "distinct", *(_ORDER if first is node else ()))
            parts.append((first.expression, bool(first.args.get("distinct"))))
            first = first.this
        parts.reverse()
        queries = [self._attempt(first), *(self._attempt(part) for part, _ in parts)]
        result = queries[0]
        for other, (part, once) in zip(queries[1:], parts, strict=True):
            if result is not None and other is not None:
                result = self._united(result, other, part)
                result = _once(result) if once else result
                self.complaints.operator(part, "UNION" if once else "UNION ALL", result.plan)
        if result is None or None in queries:
            raise Stop
        return result

    def counted(self, node: exp.Expr) -> Query:
        """INTERSECT and EXCEPT: how often a row is on either side says how often it is in the result."""
        self.check_clauses(node, "this", "expression", "distinct", *_ORDER)
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

    # SELECT

    def select(self, node: exp.Expr) -> Query:
        """Every expression is resolved before the plan that computes it is there, in the order of the text;
        then the plan grows step by step, and the expressions are moved onto it."""
        self.check_clauses(node, *_SELECT, *_ORDER)
        limit, offset = limits(self.complaints, node, single=_is_single(node))
        source = self.from_clause(node)
        plan: Plan = source.plan if source else ONE_ROW
        if (where := node.args.get("where")) is not None:
            with suppress(Stop):  # what else is wrong is looked for
                plan = self.kept(plan, source, where.this)
                self.complaints.operator(where, "WHERE", Filter(plan, Literal(True, BOOLEAN)))
        groups = self._groups(node, source)
        questions, windows = Questions(self, source), Windows.of_select(self.complaints, node)
        special: tuple[Special, ...] = (windows, questions, *((groups.measures,) if groups else ()))
        outputs = self._outputs(node, source, special)
        aliases = {name.lower(): [scalar] for name, scalar, _ in outputs if name}
        over = Expressions(self.complaints, source, aliases, special)
        having, qualify = (
            None if (clause := node.args.get(word)) is None else over.condition(clause.this, word.upper())
            for word in ("having", "qualify")
        )
        order = self._order(node, over, [scalar for _, scalar, _ in outputs], aliases)
        if groups and not groups.keys and not groups.measures.found:
            if having is not None:
                groups.moved(having, node.args["having"])
            hint = "write WHERE, or GROUP BY a column"
            self.complaints.stop(node, "AGGREGATE", "HAVING without groups or aggregates", hint)
        if groups:
            plan = groups.plan(plan)
            self._list_groups(node, plan)

        def grouped(scalar: Scalar, place: exp.Expr = node) -> Scalar:
            return groups.moved(scalar, place) if groups else scalar

        plan, answer = questions.answered(plan, grouped)
        if having is not None:
            plan = Filter(plan, answer(grouped(having, node.args["having"])))
        plan, read = windows.over(plan, lambda scalar: answer(grouped(scalar)))
        if qualify is not None:
            plan = Filter(plan, read(answer(grouped(qualify, node.args["qualify"]))))
        shown = [(name, read(answer(grouped(scalar, place))), place) for name, scalar, place in outputs]
        scalars = tuple(Output(name, scalar) for name, scalar, _ in shown)
        names, places = tuple(name for name, _, _ in shown), tuple(place for _, _, place in shown)
        keys = [replace(key, scalar=read(answer(grouped(key.scalar)))) for key in order]
        query = Query(Project(plan, scalars), names, places)
        distinct = node.args.get("distinct")
        if distinct is not None:
            if distinct.args.get("on"):
                self.complaints.stop(distinct, "SYNTAX", "Spark has no DISTINCT ON", "use GROUP BY")
            query = _once(query)
            self.complaints.operator(distinct, "DISTINCT", query.plan)
        if order and limit is None and not offset:
            self.complaints.operator(node.args["order"], "ORDER BY", None)
        if limit is None and not offset:
            return query
        if distinct is not None:
            found = [output.scalar for output in scalars]
            for key in keys:
                if key.scalar not in found:
                    hint = "select it, too"
                    message = "ORDER BY of what SELECT DISTINCT does not show"
                    self.complaints.stop(node.args["order"], "ORDER_BY", message, hint)
            kept = [replace(key, scalar=_at(query.plan, found.index(key.scalar))) for key in keys]
            return self._limited(node, query, query.plan, kept, limit, offset)
        wide = Project(plan, (*scalars, *(Output(f"o{i}", key.scalar) for i, key in enumerate(keys))))
        kept = [replace(key, scalar=_at(wide, len(names) + i)) for i, key in enumerate(keys)]
        return self._limited(node, query, wide, kept, limit, offset)

    def _limited(
        self,
        node: exp.Expr,
        query: Query,
        rows: Plan,
        order: Sequence[Ordering],
        limit: int | None,
        offset: int,
    ) -> Query:
        kept = limited(rows, order, limit, offset, len(query.names))
        place = node.args.get("limit") or node.args["offset"]
        self.complaints.operator(place, "LIMIT", next(n for n in walk(kept) if isinstance(n, Window)))
        return replace(query, plan=kept)

    def _list_groups(self, node: exp.Expr, plan: Plan) -> None:
        groups = next(found for found in walk(plan) if isinstance(found, Aggregate))
        clause = node.args.get("group")
        self.complaints.operator(clause or node, "GROUP BY" if clause else "aggregates", groups)

    def _ordered(self, query: Query, node: exp.Expr) -> Query:
        """A query whose ORDER BY and LIMIT stand behind it."""
        limit, offset = limits(self.complaints, node)
        columns = query.shown()
        over = Expressions(self.complaints, columns)
        scalars = [_at(query.plan, i) for i in range(len(query.names))]
        order = self._order(node, over, scalars, {})
        if limit is None and not offset:
            if order:
                self.complaints.operator(node.args["order"], "ORDER BY", None)
            return query
        return self._limited(node, query, query.plan, order, limit, offset)

    def _order(
        self,
        node: exp.Expr,
        over: Expressions,
        outputs: Sequence[Scalar],
        aliases: Mapping[str, Sequence[Scalar]],
    ) -> list[Ordering]:
        """The keys of an ORDER BY: numbers and names of outputs before all else."""
        keys = []
        for item in node.args["order"].expressions if node.args.get("order") else ():
            key = item.this
            if isinstance(key, exp.Literal) and key.is_int:
                number = int(key.name)
                if not 1 <= number <= len(outputs):
                    message = f"ORDER BY {number}, of {len(outputs)} outputs"
                    self.complaints.stop(key, "BAD_ORDINAL", message, "count the outputs from 1")
                chosen = outputs[number - 1]
            elif isinstance(key, exp.Column) and not key.args.get("table") and key.name.lower() in aliases:
                chosen = aliases[key.name.lower()][-1]
            else:
                keys.append(ordering(over, item))
                continue
            plain = exp.Ordered(**{**item.args, "this": exp.true()})
            keys.append(replace(ordering(over, plain), scalar=chosen))
        return keys

    def _groups(self, node: exp.Expr, source: From | None) -> Groups | None:
        if not (node.args.get("group") or node.args.get("having") or has_aggregates(node)):
            return None
        named = {item.alias.lower(): item.this for item in node.expressions if isinstance(item, exp.Alias)}
        keys = group_keys(self.complaints, node, source, named)
        scalars = tuple(keys.scalars)
        measures = Measures(keys=scalars if keys.sets is not None else ())
        return Groups(self.complaints, scalars, measures, keys.sets)

    def _outputs(
        self, node: exp.Expr, source: From | None, special: tuple[Special, ...]
    ) -> list[tuple[str, Scalar, exp.Expr]]:
        outputs: list[tuple[str, Scalar, exp.Expr]] = []
        aliases: dict[str, list[Scalar]] = {}
        failed = False
        for item in node.expressions:
            try:
                if isinstance(item, exp.Star) or (
                    isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
                ):
                    outputs += self._star(item, source)
                    continue
                value = item.this if isinstance(item, exp.Alias) else item
                scalar = Expressions(self.complaints, source, aliases, special).scalar(value)
                outputs.append((_output_name(item), scalar, item))
                if isinstance(item, exp.Alias):
                    aliases.setdefault(item.alias.lower(), []).append(scalar)
            except Stop:
                failed = True
        if failed:
            raise Stop
        if not outputs:
            self.complaints.stop(node, "SYNTAX", "the SELECT list is empty", "name the columns, or write *")
        return outputs

    def _star(self, item: exp.Expr, source: From | None) -> list[tuple[str, Scalar, exp.Expr]]:
        star = item if isinstance(item, exp.Star) else item.this
        self.complaints.only(star)
        qualifier = tuple(item.args[p].name for p in ("catalog", "db", "table") if item.args.get(p))
        columns = source.star(qualifier[-1:]) if source else ()
        if any(not column.within(qualifier) for column in columns):
            columns = ()
        if not columns:
            listing = source.listing if source else "none, for there is no FROM"
            label = ".".join((*qualifier, "*"))
            self.complaints.stop(item, "UNKNOWN_COLUMN", f"no columns for {label}", f"there are: {listing}")
        for column in columns:
            if column.refused:
                refused_column(self.complaints, item, column.name, column.refused)
        return [(column.name, column.ref, item) for column in columns]


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


def _is_single(node: exp.Expr) -> bool:
    """Whether a SELECT has at most one row, whatever it reads."""
    grouped = has_aggregates(node) or node.args.get("having")
    return bool(grouped or not node.args.get("from_")) and not node.args.get("group")


def _at(plan: Plan, position: int) -> Ref:
    column = plan.schema[position]
    return Ref(position, column.type, column.name)


def _once(query: Query) -> Query:
    """Each row once: groups by all columns."""
    columns = enumerate(query.plan.schema)
    keys = tuple(Output(c.name or f"k{i}", Ref(i, c.type, c.name)) for i, c in columns)
    return replace(query, plan=Aggregate(query.plan, keys))


def _output_name(item: exp.Expr) -> str:
    """The alias, or the column's own name as the query spells it; "" for an expression."""
    if isinstance(item, exp.Alias):
        return item.alias
    while isinstance(item, exp.Paren):
        item = item.this
    return item.name if isinstance(item, exp.Column) else ""
