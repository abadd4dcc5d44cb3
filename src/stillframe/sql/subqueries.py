"""Queries inside expressions.

EXISTS and IN between the ANDs of a WHERE are semi-joins: a row stays if some row of the query meets it, and
with NOT an anti-join. NOT IN is true only of values that are known to differ: what is NULL on either side
drops a row, unless the query is empty.

Everywhere else a query is a question whose answer is a column more: the rows are split by what the answer is
(true, false, unknown), or joined to the one value the query has for them.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.plan import (
    Filter,
    Join,
    Output,
    Plan,
    Project,
    Semi,
    UnionAll,
    Values,
    walk,
)
from stillframe.algebra.scalar import Cast, Literal, Ref, Scalar, call, map_refs, refs, shift
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BOOLEAN, Type
from stillframe.sql.complaints import Complaints
from stillframe.sql.decorrelation import Value, rejects_null, with_value
from stillframe.sql.expressions import Expressions
from stillframe.sql.from_items import FromItems
from stillframe.sql.grouping import Measures, has_aggregates
from stillframe.sql.scope import ASKED, COUNTED, MEASURED, THERE, WINDOWED, From, Visible

ONE_ROW = Values(Schema((Column("one", BOOLEAN, False),)), ((True,),))
_GROUPS = ("group", "having", "distinct", "limit", "offset", "order", "qualify")


PERHAPS_IN = "IN, of what may be NULL"  # its answer is true, false or unknown


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
        return _is_plain(self.query) and not has_aggregates(self.query)


def _is_plain(query: exp.Expr) -> bool:
    if not isinstance(query, exp.Select) or any(query.args.get(clause) for clause in _GROUPS):
        return False
    return not any(window.find_ancestor(exp.Select) is query for window in query.find_all(exp.Window))


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


@dataclass(frozen=True)
class Meeting:
    """What a row must meet: the rows of a query, under conditions on both. `equal`, if it is there, is the
    condition of IN, `mine` and `theirs` the sides of it that may be NULL."""

    there: Plan
    ties: tuple[Scalar, ...]
    equal: Scalar | None = None
    mine: Scalar | None = None
    theirs: Scalar | None = None

    def moved(self, mapping: Callable[[Scalar], Scalar]) -> Meeting:
        """With what is around it moved; the query's own columns stay."""
        equal, mine, theirs = (
            None if s is None else mapping(s) for s in (self.equal, self.mine, self.theirs)
        )
        return Meeting(self.there, tuple(map(mapping, self.ties)), equal, mine, theirs)

    def kept(self, plan: Plan, *, anti: bool) -> Plan:
        """The rows that are met for sure; with `anti`, those that are surely not: they meet no equal row,
        none of which nothing is known, and nothing is missing in themselves where there is a row at all."""
        kept = Semi(plan, self.there, self._on(plan, self.equal), anti)
        if not anti or self.equal is None:
            return kept
        rest: Plan = kept
        if self.theirs is not None:
            unknown = call("isnull", self.theirs)
            if all(position >= THERE for position in refs(unknown)):
                there = Filter(self.there, shift(unknown, -THERE))
                rest = Semi(rest, there, self._on(plan, None), anti=True)
            else:
                rest = Semi(rest, self.there, self._on(plan, unknown), anti=True)
        if self.mine is None:
            return rest
        missing = call("isnull", self.mine)
        lacking = Semi(Filter(rest, missing), self.there, self._on(plan, None), anti=True)
        return UnionAll((Filter(rest, call("not", missing)), lacking))

    def answered(self, plan: Plan) -> Plan:
        """All rows, and whether they are met: true, false, or unknown."""
        branches = [_marked(self.kept(plan, anti=False), True), _marked(self.kept(plan, anti=True), False)]
        sides = [call("isnull", side) for side in (self.mine, self.theirs) if side is not None]
        if sides:
            unmet = Semi(plan, self.there, self._on(plan, self.equal), anti=True)
            unsure = sides[0] if len(sides) == 1 else call("or", *sides)
            branches.append(_marked(Semi(unmet, self.there, self._on(plan, unsure)), None))
        return UnionAll(tuple(branches))

    def _on(self, plan: Plan, also: Scalar | None) -> tuple[Scalar, ...]:
        conditions = (*self.ties, *(() if also is None else (also,)))
        return tuple(_beside(condition, len(plan.schema)) for condition in conditions)


def _beside(scalar: Scalar, width: int) -> Scalar:
    """With the columns of the query inside right behind those around it."""

    def beside(ref: Ref) -> Ref:
        return replace(ref, position=ref.position - THERE + width) if ref.position >= THERE else ref

    return map_refs(scalar, beside)


def _marked(plan: Plan, truth: bool | None) -> Plan:
    columns = tuple(Output(f"j{i}", Ref(i, c.type, c.name)) for i, c in enumerate(plan.schema))
    return Project(plan, (*columns, Output("met", Literal(truth, BOOLEAN))))


@dataclass
class Questions:
    """The queries met in the expressions of one SELECT, in the order of their answers. `around` are the
    columns they can see there."""

    queries: Subqueries
    around: From | None
    may_lack: bool = False  # whether any of these columns may be NULL, as the keys of grouping sets
    found: list[Meeting | Value] = field(default_factory=list)
    places: list[exp.Expr] = field(default_factory=list)

    def takes(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.In):
            return node.args.get("query") is not None
        return isinstance(node, exp.Subquery | exp.Exists)

    def of(self, over: Expressions, node: exp.Expr) -> Scalar:
        around = self.around or From(ONE_ROW, ())
        type_: Type = BOOLEAN
        found: Meeting | Value
        if isinstance(node, exp.Subquery):
            found = self.queries.value(around, node)
            type_ = found.type
        else:
            question = asked(node)
            assert question is not None
            found = self.queries.meeting(around, question, over, may_lack=self.may_lack)
        self.found.append(found)
        self.places.append(node)
        return Ref(ASKED + len(self.found) - 1, type_)

    def answered(
        self, plan: Plan, moved: Callable[[Scalar], Scalar], condition: Scalar | None = None
    ) -> tuple[Plan, Callable[[Scalar], Scalar]]:
        """The plan with a column for each answer, and how expressions read them. Rows of which `condition`
        cannot be true may be missing."""
        first = len(plan.schema)

        def read(ref: Ref) -> Scalar:
            here = ASKED <= ref.position < ASKED + len(self.found)
            return replace(ref, position=ref.position - ASKED + first) if here else ref

        def settled(scalar: Scalar) -> Scalar:  # what one asks with may be the answer of one before
            return map_refs(moved(scalar), read)

        for place, found in enumerate(self.found):
            if isinstance(found, Meeting):
                plan = found.moved(settled).answered(plan)
                unknown = found.mine is not None or found.theirs is not None
                name = PERHAPS_IN if unknown else "IN" if found.equal is not None else "EXISTS"
                self.queries.complaints.operator(self.places[place], name, _first(plan, Semi))
            else:
                needed = condition is not None and rejects_null(condition, ASKED + place)
                plan = with_value(plan, found.moved(settled), lonely=not needed)
                self.queries.complaints.operator(self.places[place], "query for a value", _first(plan, Join))

        return plan, lambda scalar: map_refs(scalar, read)


@dataclass(frozen=True)
class Subqueries(FromItems, ABC):
    """Resolves conditions with queries in them."""

    def kept(self, plan: Plan, source: From | None, where: exp.Expr) -> Plan:
        """The rows of which a condition is true. Queries in it come last."""
        if where.find(exp.Query) is None:
            return Filter(plan, Expressions(self.complaints, source).condition(where, "WHERE"))
        parts = list(conditions(where))
        questions = [found for part in parts if (found := asked(part)) is not None]
        asking: list[exp.Expr] = []
        for part in parts:
            if asked(part) is None:
                if part.find(exp.Query) is not None:
                    asking.append(part)
                else:
                    plan = Filter(plan, Expressions(self.complaints, source).condition(part, "WHERE"))
        around = source or From(ONE_ROW, ())
        for question in questions:
            over = Expressions(self.complaints, source)
            plan = self.meeting(around, question, over).kept(plan, anti=question.negated)
            word = "EXISTS" if question.value is None else "IN"
            self.complaints.operator(question.place, f"NOT {word}" if question.negated else word, plan)
        for part in asking:
            inside = Questions(self, source)
            condition = Expressions(self.complaints, source, special=(inside,)).condition(part, "WHERE")
            plan, read = inside.answered(plan, lambda scalar: scalar, condition)
            plan = Filter(plan, read(condition))
        return plan

    def meeting(self, around: From, question: Asked, over: Expressions, *, may_lack: bool = False) -> Meeting:
        """`over` resolves the value that is looked for, which `may_lack` whatever its column says."""
        if question.simple:
            there, scope, ties = self.inside(around, question.query)
        else:
            found = self.query(question.query)
            there, ties = found.plan, []
            scope = Within(there, From(there, found.shown().columns).shifted(THERE), around)
        if question.value is not None:
            value = over.scalar(question.value)
            if any(WINDOWED <= position < THERE for position in refs(value)):
                hint = "compute it in a query of its own"
                self.complaints.stop(question.place, "WINDOW", "a window function beside IN (query)", hint)
            equal, mine, theirs = self._equated(around, there, scope, question, value)
            return Meeting(there, tuple(ties), equal, value if may_lack else mine, theirs)
        if question.simple:
            for item in question.query.expressions:  # nobody looks at them, but they must be there
                if not _is_star(item):
                    Expressions(self.complaints, scope).scalar(_unnamed(item))
        return Meeting(there, tuple(ties))

    def inside(self, around: From, node: exp.Expr) -> tuple[Plan, Within, list[Scalar]]:
        """A query's own rows, what is seen in it, and the conditions that tie it to the rows around it."""
        inner = self.scope_of(node)
        self.check_clauses(node, "expressions", "from_", "joins", "where", "with_", "hint")
        own = inner.from_clause(node) or From(ONE_ROW, ())
        scope = Within(own.plan, own.shifted(THERE), around)
        there, ties = own.plan, list[Scalar]()
        where = node.args.get("where")
        for part in conditions(where.this) if where is not None else ():
            if part.find(exp.Query) is not None:
                there = inner.kept(there, own, part)
                continue
            condition = Expressions(self.complaints, scope).condition(part, "WHERE")
            if refs(condition) and min(refs(condition)) >= THERE:
                there = Filter(there, shift(condition, -THERE))
            else:
                ties.append(condition)
        return there, scope, ties

    def value(self, around: From, node: exp.Expr) -> Value:
        """A query in the place of a value."""
        query = _bare(node)
        if not _is_plain(query) or not self._is_tied(around, query):
            found = self.query(query)
            if len(found.names) != 1:
                hint = "select one column"
                message = f"a query of {len(found.names)} columns stands for a value"
                self.complaints.stop(node, "COLUMN_COUNT", message, hint)
            single = isinstance(query, exp.Select) and has_aggregates(query) and not query.args.get("group")
            single = single and not any(query.args.get(c) for c in ("having", "qualify", "limit", "offset"))
            return Value(found.plan, (), Ref(THERE, found.plan.schema[0].type), single=single)
        there, scope, ties = self.inside(around, query)
        if len(query.expressions) != 1 or _is_star(query.expressions[0]):
            hint = "select one column"
            self.complaints.stop(node, "COLUMN_COUNT", "a query that stands for a value has one", hint)
        measures = Measures()
        special = (measures,) if has_aggregates(query) else ()
        item = Expressions(self.complaints, scope, special=special).scalar(_unnamed(query.expressions[0]))
        item = map_refs(
            item, lambda r: replace(r, position=r.position - MEASURED + COUNTED) if _measured(r) else r
        )
        if special and any(THERE <= position < COUNTED for position in refs(item)):
            hint = "put it into an aggregate"
            self.complaints.stop(node, "NOT_GROUPED", "a column beside an aggregate has no one value", hint)
        return Value(there, tuple(ties), item, tuple(measures.found) if special else None)

    def _is_tied(self, around: From, query: exp.Expr) -> bool:
        """Whether some column in it is of the rows around it."""
        inner = self.scope_of(query)
        silent = replace(inner, complaints=Complaints(self.complaints.text))
        own = silent.from_clause(query) or From(ONE_ROW, ())

        def outer(column: exp.Expr) -> bool:
            parts = tuple(column.args[p].name for p in ("catalog", "db", "table") if column.args.get(p))
            return not own.find(column.name, parts) and bool(around.find(column.name, parts))

        return any(
            outer(column)
            for column in query.find_all(exp.Column)
            if column.find_ancestor(exp.Select) is query and not isinstance(column.this, exp.Star)
        )

    def _equated(
        self, around: From, there: Plan, scope: Within, question: Asked, value: Scalar
    ) -> tuple[Scalar, Scalar | None, Scalar | None]:
        """When a value and the query's are equal, and those of the two that may be NULL."""
        items = list(question.query.expressions) if question.simple else []
        if len(items or there.schema.columns) != 1 or any(map(_is_star, items)):
            hint = "name one column"
            self.complaints.stop(question.query, "COLUMN_COUNT", "IN takes a query of one column", hint)
        other: Scalar = Ref(THERE, there.schema[0].type)
        if items:
            other = Expressions(self.complaints, scope).scalar(_unnamed(items[0]))
        try:
            equal = call("=", value, other)
        except TypeMismatch as error:
            self.complaints.stop(question.place, "TYPE_MISMATCH", str(error), "write CAST(… AS type)")
        mine, theirs = (side if self._may_be_null(side, around, there) else None for side in (value, other))
        return equal, mine, theirs

    @classmethod
    def _may_be_null(cls, scalar: Scalar, around: From, there: Plan) -> bool:
        if isinstance(scalar, Cast):
            return cls._may_be_null(scalar.arg, around, there)
        if isinstance(scalar, Ref) and scalar.position >= THERE:
            return there.schema[scalar.position - THERE].nullable
        if isinstance(scalar, Ref):
            width = len(around.plan.schema)
            return scalar.position >= width or around.plan.schema[scalar.position].nullable
        return not isinstance(scalar, Literal) or scalar.value is None


def _first(plan: Plan, kind: type[Plan]) -> Plan:
    return next(found for found in walk(plan) if isinstance(found, kind))


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def _measured(ref: Ref) -> bool:
    return MEASURED <= ref.position < ASKED


def _unnamed(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item
