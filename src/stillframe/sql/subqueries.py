"""EXISTS and IN with a query, as conditions of a WHERE.

Each is a semi-join: a row stays if some row of the query meets it, and with NOT an anti-join. NOT IN is true
only of values that are known to differ: what is NULL on either side drops a row, unless the query is empty.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.plan import Filter, Plan, Semi, Values, is_nullable
from stillframe.algebra.scalar import Ref, Scalar, call, refs, shift
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BOOLEAN
from stillframe.sql.expressions import Expressions
from stillframe.sql.from_items import FromItems
from stillframe.sql.grouping import has_aggregates
from stillframe.sql.scope import From, Visible

ONE_ROW = Values(Schema((Column("one", BOOLEAN, False),)), ((True,),))
_GROUPS = ("group", "having", "distinct", "limit", "order", "qualify")


@dataclass(frozen=True)
class Asked:
    """`value IN (query)`, or EXISTS (query) where there is no value."""

    place: exp.Expr
    query: exp.Expr
    value: exp.Expr | None
    negated: bool

    @property
    def simple(self) -> bool:
        """Whether the query's own rows and conditions are what is asked about."""
        if not isinstance(self.query, exp.Select) or has_aggregates(self.query):
            return False
        return not any(self.query.args.get(clause) for clause in _GROUPS)


def conditions(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of an AND, in order."""
    bare = _bare(node)
    if isinstance(bare, exp.And):
        yield from conditions(bare.this)
        yield from conditions(bare.expression)
    else:
        yield node


def asked(node: exp.Expr) -> Asked | None:
    bare = _bare(node)
    negated = isinstance(bare, exp.Not)
    inner = _bare(bare.this) if negated else bare
    if isinstance(inner, exp.Exists):
        return Asked(node, _bare(inner.this), None, negated)
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        return Asked(node, _bare(inner.args["query"]), inner.this, negated)
    return None


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Subquery) and not node.args.get("alias")):
        node = node.this
    return node


@dataclass(frozen=True, slots=True)
class Within(From):
    """The columns of a query inside another one: its own first, then those around it."""

    around: From

    def find(self, name: str, qualifier: tuple[str, ...] = ()) -> tuple[Visible, ...]:
        own = tuple(column for column in self.columns if column.answers_to(name, qualifier))
        return own or self.around.find(name, qualifier)


def equals(value: Scalar, other: Scalar, both: Schema, *, negated: bool) -> Scalar:
    """That two values meet. Where they must not, what may be equal meets already."""
    same = call("=", value, other)
    if not negated:
        return same
    for side in (value, other):
        if is_nullable(side, both):
            same = call("or", same, call("isnull", side))
    return same


@dataclass(frozen=True)
class Subqueries(FromItems, ABC):
    """Resolves conditions with queries in them."""

    def kept(self, plan: Plan, source: From | None, where: exp.Expr) -> Plan:
        """The rows of which a condition is true. Queries in it come last, each a semi-join."""
        parts = list(conditions(where))
        queries = [found for part in parts if (found := asked(part)) is not None]
        if not queries or source is None:
            return Filter(plan, Expressions(self.complaints, source).condition(where, "WHERE"))
        for part in parts:
            if asked(part) is None:
                plan = Filter(plan, Expressions(self.complaints, source).condition(part, "WHERE"))
        for query in queries:
            plan = self._met(plan, source, query)
        return plan

    def _met(self, plan: Plan, source: From, question: Asked) -> Plan:
        """The rows that the rows of a query meet, or do not."""
        width = len(plan.schema)
        if question.simple:
            there, scope, on = self._inside(source, question.query, width)
        else:
            found = self.query(question.query)
            there, on = found.plan, []
            scope = Within(there, From(there, found.shown().columns).shifted(width), source)
        if question.value is not None:
            on.append(self._equated(plan, there, source, scope, question))
        elif question.simple:
            for item in question.query.expressions:  # nobody looks at them, but they must be there
                if not item.find(exp.Star):
                    Expressions(self.complaints, scope).scalar(
                        item.this if isinstance(item, exp.Alias) else item
                    )
        return Semi(plan, there, tuple(on), question.negated)

    def _inside(self, source: From, node: exp.Expr, width: int) -> tuple[Plan, Within, list[Scalar]]:
        """A query's own rows, what is seen in it, and the conditions that tie it to the rows around it."""
        inner = self.scope_of(node)
        self.check_clauses(node, "expressions", "from_", "joins", "where", "with_", "hint")
        own = inner.from_clause(node) or From(ONE_ROW, ())
        scope = Within(own.plan, own.shifted(width), source)
        there, ties = own.plan, list[Scalar]()
        where = node.args.get("where")
        for part in conditions(where.this) if where is not None else ():
            if (question := asked(part)) is not None:
                there = inner._met(there, own, question)
                continue
            condition = Expressions(self.complaints, scope).condition(part, "WHERE")
            if refs(condition) and min(refs(condition)) >= width:
                there = Filter(there, shift(condition, -width))
            else:
                ties.append(condition)
        return there, scope, ties

    def _equated(self, plan: Plan, there: Plan, source: From, scope: Within, question: Asked) -> Scalar:
        assert question.value is not None
        value = Expressions(self.complaints, source).scalar(question.value)
        items = list(question.query.expressions) if question.simple else []
        if len(items or there.schema.columns) != 1 or any(item.find(exp.Star) for item in items):
            hint = "name one column"
            self.complaints.stop(question.query, "COLUMN_COUNT", "IN takes a query of one column", hint)
        other: Scalar = Ref(len(plan.schema), there.schema[0].type)
        if items:
            other = Expressions(self.complaints, scope).scalar(_unnamed(items[0]))
        both = Schema((*plan.schema, *there.schema))
        try:
            return equals(value, other, both, negated=question.negated)
        except TypeMismatch as error:
            self.complaints.stop(question.place, "TYPE_MISMATCH", str(error), "write CAST(… AS type)")


def _unnamed(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item
