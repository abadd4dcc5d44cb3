"""SELECT: its clauses become a plan, step by step."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from sqlglot import exp

from stillframe.algebra.plan import Aggregate, Filter, Output, Plan, Project, Window, walk
from stillframe.algebra.scalar import Literal, Ref, Scalar
from stillframe.algebra.types import BOOLEAN
from stillframe.algebra.windows import Ordering
from stillframe.sql.complaints import Stop, refused_column
from stillframe.sql.expressions import Expressions, Special
from stillframe.sql.from_items import Query
from stillframe.sql.grouping import Groups, Measures, group_keys, has_aggregates
from stillframe.sql.limits import limited, limits
from stillframe.sql.scope import From
from stillframe.sql.subqueries import ONE_ROW, Questions, Subqueries
from stillframe.sql.windows import Windows, ordering

_SELECT = ("expressions", "from_", "joins", "where", "group", "having", "qualify", "windows", "distinct")
ORDER = ("with_", "hint", "order", "limit", "offset")


@dataclass(frozen=True)
class Selecting(Subqueries, ABC):
    """Resolves a SELECT, and what may stand behind any query."""

    def select(self, node: exp.Expr) -> Query:
        """Every expression is resolved before the plan that computes it is there, in the order of the text;
        then the plan grows step by step, and the expressions are moved onto it."""
        self.check_clauses(node, *_SELECT, *ORDER)
        limit, offset = limits(self.complaints, node, single=_is_single(node))
        source = self.from_clause(node)
        plan: Plan = source.plan if source else ONE_ROW
        if (where := node.args.get("where")) is not None:
            with suppress(Stop):  # what else is wrong is looked for
                plan = self.kept(plan, source, where.this)
                self.complaints.operator(where, "WHERE", Filter(plan, Literal(True, BOOLEAN)))
        groups = self._groups(node, source)
        lacking = groups is not None and groups.sets is not None
        questions, windows = Questions(self, source, lacking), Windows.of_select(self.complaints, node)
        special: tuple[Special, ...] = (windows, questions, *((groups.measures,) if groups else ()))
        outputs = self._outputs(node, source, special)
        aliases: dict[str, list[Scalar]] = {}
        for name, scalar, _ in outputs:
            known = aliases.setdefault(name.lower(), []) if name else [scalar]
            if scalar not in known:
                known.append(scalar)
        over = Expressions(self.complaints, source, aliases, special)
        last = replace(over, outputs_first=True)
        having, qualify = (
            None if (clause := node.args.get(word)) is None else seen.condition(clause.this, word.upper())
            for word, seen in (("having", over), ("qualify", last))
        )
        order = self._order(node, last, [scalar for _, scalar, _ in outputs], aliases)
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
            query = each_once(query)
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

    def ordered(self, query: Query, node: exp.Expr) -> Query:
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


def _is_single(node: exp.Expr) -> bool:
    """Whether a SELECT has at most one row, whatever it reads."""
    grouped = has_aggregates(node) or node.args.get("having")
    return bool(grouped or not node.args.get("from_")) and not node.args.get("group")


def _at(plan: Plan, position: int) -> Ref:
    column = plan.schema[position]
    return Ref(position, column.type, column.name)


def each_once(query: Query) -> Query:
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
