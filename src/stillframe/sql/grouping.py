"""GROUP BY, aggregates and HAVING.

The expressions of a grouped SELECT are first resolved over the rows of FROM, each aggregate standing for a
column that is not there yet. Then they are moved onto the groups: what equals a key is that key, an aggregate
is its measure, and any other column of FROM has no one value in a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product

from sqlglot import exp

from stillframe.algebra.aggregates import DISTINCT, SPREADS
from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.plan import Aggregate, Measure, Output, Plan, Project, UnionAll
from stillframe.algebra.scalar import Call, Case, Cast, Literal, Ref, Scalar, call, case, cast, map_refs, refs
from stillframe.algebra.types import BIGINT, BOOLEAN, DOUBLE, TINYINT, VOID
from stillframe.sql.complaints import Complaints
from stillframe.sql.expressions import Expressions
from stillframe.sql.functions import boolean
from stillframe.sql.scope import ASKED, FLAGGED, MEASURED, THERE, From

AGGREGATES: dict[str, str] = {
    "count": "count",
    "count_if": "count",
    "sum": "sum",
    "avg": "avg",
    "mean": "avg",
    "min": "min",
    "max": "max",
    "bool_and": "bool_and",
    "every": "bool_and",
    "bool_or": "bool_or",
    "any": "bool_or",
    "some": "bool_or",
    **{name: name for name in SPREADS},
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
}


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


def _is_grouping(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in ("grouping", "grouping_id")


def has_aggregates(node: exp.Expr) -> bool:
    """Whether a SELECT has any of its own: no functions of windows, nor of queries within."""
    places = (*node.expressions, *(node.args.get(clause) for clause in ("having", "qualify", "order")))
    return any(
        is_aggregate(found) and found.find_ancestor(exp.Select) is node and not _is_windowed(found)
        for place in places
        if place is not None
        for found in place.find_all(exp.Anonymous)
    )


def _is_windowed(node: exp.Expr) -> bool:
    """Whether it is the function of a window, and not what that is computed from."""
    above = node.parent
    while isinstance(above, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and above.this is node:
        node, above = above, above.parent
    return isinstance(above, exp.Window) and above.this is node


class _NotGrouped(Exception):
    pass


@dataclass
class Measures:
    """The aggregates met so far, each once."""

    found: list[Measure] = field(default_factory=list)
    keys: tuple[Scalar, ...] = ()  # of GROUP BY, where it has several sets

    def takes(self, node: exp.Expr) -> bool:
        return is_aggregate(node) or isinstance(node, exp.Filter) or _is_grouping(node)

    def of(self, over: Expressions, node: exp.Expr) -> Scalar:
        """The column that an aggregate becomes. `over` resolves what it is computed of."""
        if _is_grouping(node):
            return self._grouping(replace(over, special=(), outputs_first=False), node)
        measure = aggregate(replace(over, special=(), outputs_first=False), node)
        if measure.arg is not None and any(MEASURED <= position < THERE for position in refs(measure.arg)):
            hint = "compute the inner one in a query of its own"
            over.complaints.stop(node, "AGGREGATE", "an aggregate of what is computed later", hint)
        if measure not in self.found:
            self.found.append(measure)
        return Ref(MEASURED + self.found.index(measure), measure.type)

    def _grouping(self, over: Expressions, node: exp.Expr) -> Scalar:
        """1 where a key is not of a row's grouping set, else 0; of several keys, as the digits of a number
        in base 2."""
        keys = [_bare(key) for key in self.keys]
        asked = [_bare(over.scalar(part)) for part in node.expressions] or keys
        whole = node.name.lower() == "grouping_id"
        if not keys or any(key not in keys for key in asked) or (len(asked) != 1 and not whole):
            hint = "name a key of GROUP BY ROLLUP, CUBE or GROUPING SETS"
            over.complaints.stop(node, "GROUPING_SETS", f"{node.name} of no key of grouping sets", hint)
        flags: list[Scalar] = [Ref(FLAGGED + keys.index(key), TINYINT) for key in asked]
        if not whole:
            return flags[0]
        number: Scalar = Literal(0, BIGINT)
        for flag in flags:
            number = call("+", call("*", number, Literal(2, BIGINT)), cast(flag, BIGINT))
        return number


def aggregate(over: Expressions, node: exp.Expr) -> Measure:
    """An aggregate as it is written, FILTER and all. What a filter drops is as if it were NULL."""
    condition: Scalar | None = None
    if isinstance(node, exp.Filter):
        condition = over.condition(node.expression.this, "FILTER")
        node = node.this
    if not is_aggregate(node):
        over.scalar(node)  # which says why not
        over.complaints.stop(node, "AGGREGATE", "FILTER is for aggregates", "write CASE")
    over.complaints.only(node, "this", "expressions")
    function = AGGREGATES[node.name.lower()]
    arg, distinct = _argument(over, node)
    if node.name.lower() == "count_if" and arg is not None:
        counted = boolean(arg, "what count_if counts")
        condition = counted if condition is None else call("and", condition, counted)
        arg = None
    if distinct and function in SPREADS:
        hint = "aggregate a query that selects DISTINCT"
        over.complaints.stop(node, "AGGREGATE", f"{function}(DISTINCT …) is not maintained", hint)
    function = DISTINCT.get(function, function) if distinct else function
    if function in SPREADS and arg is not None:
        if not (arg.type.is_numeric or arg.type == VOID):
            message = f"{function} takes a number, not {arg.type}"
            over.complaints.stop(node, "AGGREGATE_TYPE", message, "write CAST(… AS type)")
        arg = cast(arg, DOUBLE)
    if condition is not None:
        value = arg if arg is not None else Literal(True, BOOLEAN)
        arg = case(((condition, value),), Literal(None, value.type))
    if arg is not None and arg.type == VOID:
        over.complaints.stop(node, "TYPE_MISMATCH", f"{function} of NULL", "write CAST(NULL AS type)")
    measure = Measure("", function, arg)
    try:
        _ = measure.type
    except TypeMismatch as error:
        hint = "write CAST(… AS type) to say what is meant"
        over.complaints.stop(node, "AGGREGATE_TYPE", str(error), hint)
    return measure


def _argument(over: Expressions, node: exp.Expr) -> tuple[Scalar | None, bool]:
    parts = node.expressions
    distinct = len(parts) == 1 and isinstance(parts[0], exp.Distinct)
    parts = parts[0].expressions if distinct else parts
    if len(parts) != 1:
        over.complaints.stop(
            node, "AGGREGATE", "an aggregate of several columns is not maintained", "name one column"
        )
    if isinstance(parts[0], exp.Star):
        if distinct or node.name.lower() != "count":
            over.complaints.stop(node, "AGGREGATE", "* stands in count(*) only", "name a column")
        return None, distinct
    return over.scalar(parts[0]), distinct


@dataclass(frozen=True)
class Groups:
    """What the expressions of a grouped SELECT mean on its groups."""

    complaints: Complaints
    keys: tuple[Scalar, ...]
    measures: Measures
    sets: tuple[frozenset[int], ...] | None = None  # of the keys' numbers, where there are grouping sets

    def plan(self, rows: Plan) -> Plan:
        if self.sets is None:
            return self._groups(rows, range(len(self.keys)))
        return UnionAll(tuple(self._of_set(rows, chosen) for chosen in self.sets))

    def _groups(self, rows: Plan, chosen: Iterable[int], also: tuple[Output, ...] = ()) -> Plan:
        keys = tuple(Output(f"k{i}", self.keys[i]) for i in sorted(chosen))
        measures = tuple(replace(m, name=f"m{i}") for i, m in enumerate(self.measures.found))
        return Aggregate(rows, keys + also, measures)

    def _of_set(self, rows: Plan, chosen: frozenset[int]) -> Plan:
        """Groups by some of the keys, the others NULL. Of no rows there is no group, not even by no key."""
        also = () if chosen else (Output("all", Literal(True, BOOLEAN)),)
        groups = self._groups(rows, chosen, also)
        place = {key: i for i, key in enumerate(sorted(chosen))}
        keys = [
            Ref(place[i], key.type) if i in place else Literal(None, key.type)
            for i, key in enumerate(self.keys)
        ]
        first = len(place) + len(also)
        measures = [Ref(first + i, m.type) for i, m in enumerate(self.measures.found)]
        flags = [Literal(int(i not in chosen), TINYINT) for i in range(len(self.keys))]
        shown = (*keys, *measures, *flags)
        return Project(groups, tuple(Output(f"g{i}", scalar) for i, scalar in enumerate(shown)))

    def moved(self, scalar: Scalar, node: exp.Expr) -> Scalar:
        bare = [_bare(key) for key in self.keys]
        try:
            return self._moved(scalar, bare)
        except _NotGrouped as column:
            hint = "put it into GROUP BY, or into an aggregate"
            self.complaints.stop(node, "NOT_GROUPED", f"{column} has no one value in a group", hint)

    def _moved(self, scalar: Scalar, keys: Sequence[Scalar]) -> Scalar:
        bare = _bare(scalar)
        if bare in keys:
            return Ref(keys.index(bare), scalar.type, scalar.name if isinstance(scalar, Ref) else "")
        match scalar:
            case Ref(position, type_, name):
                if position >= ASKED:
                    return scalar
                if position < MEASURED:
                    raise _NotGrouped(name)
                if position >= FLAGGED:
                    return Ref(len(keys) + len(self.measures.found) + position - FLAGGED, type_)
                return Ref(len(keys) + position - MEASURED, type_)
            case Call(function, args):
                return Call(function, tuple(self._moved(arg, keys) for arg in args))
            case Cast(arg, target):
                return Cast(self._moved(arg, keys), target)
            case Case(branches, otherwise):
                pairs = tuple((self._moved(c, keys), self._moved(v, keys)) for c, v in branches)
                return Case(pairs, self._moved(otherwise, keys))
        return scalar


def _bare(scalar: Scalar) -> Scalar:
    """Without names, which are for people only."""
    return map_refs(scalar, lambda ref: replace(ref, name=""))


@dataclass
class Keys:
    """The keys of a GROUP BY, each once, and the sets it asks for; None where it names no sets."""

    scalars: list[Scalar] = field(default_factory=list)
    sets: tuple[frozenset[int], ...] | None = None

    def number(self, scalar: Scalar) -> int:
        bare = [_bare(known) for known in self.scalars]
        if _bare(scalar) not in bare:
            self.scalars.append(scalar)
            return len(bare)
        return bare.index(_bare(scalar))


def group_keys(
    complaints: Complaints, node: exp.Expr, columns: From | None, outputs: Mapping[str, exp.Expr]
) -> Keys:
    """The expressions of GROUP BY, which may be written as the number or the alias of an output. Several sets
    side by side are all their combinations."""
    keys, clause = Keys(), node.args.get("group")
    if clause is None:
        return keys
    plain = Expressions(complaints, columns)

    def number(key: exp.Expr) -> int:
        return keys.number(plain.scalar(_meant(complaints, key, node.expressions, columns, outputs)))

    factors: list[list[frozenset[int]]] = []
    for key in clause.expressions:
        if isinstance(key, _SETS):
            factors.append(_sets(key, number))
        else:
            factors.append([frozenset({number(key)})])
    for word in ("grouping_sets", "cube", "rollup"):
        for key in clause.args.get(word) or ():
            if not isinstance(key, _SETS) or not key.expressions:
                hint = "write ROLLUP (…), CUBE (…) or GROUPING SETS (…)"
                complaints.stop(clause, "GROUPING_SETS", "this way to write grouping sets is not known", hint)
            factors.append(_sets(key, number))
    if any(isinstance(key, _SETS) for key in clause.expressions) or len(factors) > len(clause.expressions):
        keys.sets = tuple(frozenset().union(*chosen) for chosen in product(*factors))
    return keys


_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def _sets(node: exp.Expr, number: Callable[[exp.Expr], int]) -> list[frozenset[int]]:
    if isinstance(node, exp.GroupingSets):
        found = []
        for item in node.expressions:
            found += _sets(item, number) if isinstance(item, _SETS) else [_together(item, number)]
        return found
    parts = [_together(item, number) for item in node.expressions]
    if isinstance(node, exp.Rollup):
        return [frozenset().union(*parts[:n]) for n in range(len(parts), -1, -1)]
    some = (chosen for n in range(len(parts), -1, -1) for chosen in combinations(parts, n))
    return [frozenset().union(*chosen) for chosen in some]


def _together(item: exp.Expr, number: Callable[[exp.Expr], int]) -> frozenset[int]:
    """One element of a set: a key, or several in parentheses."""
    match item:
        case exp.Tuple():
            return frozenset(number(key) for key in item.expressions)
        case exp.Paren():
            return frozenset({number(item.this)})
    return frozenset({number(item)})


def _meant(
    complaints: Complaints,
    key: exp.Expr,
    items: Sequence[exp.Expr],
    columns: From | None,
    outputs: Mapping[str, exp.Expr],
) -> exp.Expr:
    if isinstance(key, exp.Literal) and key.is_int:
        number = int(key.name)
        if not 1 <= number <= len(items):
            hint = "count the outputs from 1"
            complaints.stop(key, "BAD_ORDINAL", f"GROUP BY {number}, of {len(items)} outputs", hint)
        item = items[number - 1]
        return item.this if isinstance(item, exp.Alias) else item
    if isinstance(key, exp.Column) and not key.args.get("table"):
        known = columns.find(key.name) if columns else ()
        return key if known else outputs.get(key.name.lower(), key)
    return key
