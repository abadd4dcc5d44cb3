"""Plans as Spark SQL text. Every SELECT gives the columns c0, c1, … and the signed count of each row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from stillframe.algebra import (
    Aggregate,
    Call,
    Distinct,
    Filter,
    Join,
    KeyDelete,
    Literal,
    Monus,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Semi,
    Times,
    Type,
    UnionAll,
    Values,
    Window,
    Windowed,
)
from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.scalar import refs
from stillframe.algebra.types import BOOLEAN
from stillframe.algebra.windows import WINDOW_AGGREGATES
from stillframe.change import is_driven, join_order
from stillframe.engine.gathering import gathered
from stillframe.engine.sail_sql import sail_aggregate
from stillframe.engine.scalar_sql import ScalarWriter
from stillframe.engine.words import ONE_TASK, identifier, literal

Leaf = Callable[[Scan], str]


def select_sql(plan: Plan, leaf: Leaf, writer: ScalarWriter) -> str:
    """`leaf` names what a scan reads: a table or a parenthesised query with the columns it uses and COUNT."""
    match plan:
        case Scan():
            return f"SELECT {_all(plan)} FROM {leaf(plan)}"
        case Values(schema, rows):
            if not rows:
                nothing = [literal(None, c.type) for c in schema]
                return _row(nothing) + " WHERE FALSE"
            return " UNION ALL ".join(
                _row([literal(v, c.type) for v, c in zip(row, schema, strict=True)]) for row in rows
            )
        case Filter() | Project() | Join():
            return _block(plan, leaf, writer)
        case UnionAll(inputs):
            return " UNION ALL ".join(f"({select_sql(part, leaf, writer)})" for part in inputs)
        case Negate(source):
            return f"SELECT {_all(source, f'-{COUNT}')} FROM ({select_sql(source, leaf, writer)})"
        case KeyDelete():
            return _key_delete(plan, leaf, writer)
        case Distinct(source):
            once = _all(source, "CAST(1 AS BIGINT)")
            return f"SELECT {once} FROM ({_netted(source, leaf, writer)}) WHERE {COUNT} > 0"
        case Times(source, repeated):
            inner = Project(source, (*_columns(source), Output("n", repeated)))
            times = internal_name(len(source.schema))
            shown = _all(source, f"{COUNT} * {times}")
            return f"SELECT {shown} FROM ({select_sql(inner, leaf, writer)}) WHERE {times} > 0"
        case Semi():
            return _semi(plan, leaf, writer)
        case Aggregate():
            return _aggregate(plan, leaf, writer)
        case Window():
            return _window(plan, leaf, writer)
        case Monus(left, right):
            difference = UnionAll((left, Negate(right)))
            return f"SELECT {_all(plan)} FROM ({_netted(difference, leaf, writer)}) WHERE {COUNT} > 0"
    raise AssertionError(f"no such node: {type(plan).__name__}")


def _columns(plan: Plan) -> tuple[Output, ...]:
    return tuple(Output(c.name, Ref(i, c.type, c.name)) for i, c in enumerate(plan.schema))


def _row(values: list[str]) -> str:
    columns = [f"{value} AS {internal_name(i)}" for i, value in enumerate(values)]
    return f"SELECT {', '.join([*columns, f'CAST(1 AS BIGINT) AS {COUNT}'])}"


def _all(plan: Plan, count: str = COUNT) -> str:
    names = [internal_name(i) for i in range(len(plan.schema))]
    return ", ".join([*names, COUNT if count == COUNT else f"{count} AS {COUNT}"])


def _netted(plan: Plan, leaf: Leaf, writer: ScalarWriter) -> str:
    """What is not linear in a bag must see it as a bag: each row once, with its net count."""
    rows = canonical_sql(select_sql(plan, leaf, writer), plan.schema.types)
    return consolidated_sql(rows, len(plan.schema), one_task=writer.one_task)


def _semi(plan: Semi, leaf: Leaf, writer: ScalarWriter) -> str:
    width = len(plan.left.schema)

    def column(position: int) -> str:
        return (
            f"t{int(position >= width)}.{internal_name(position - width if position >= width else position)}"
        )

    there = select_sql(plan.right, leaf, writer) if writer.plain else _netted(plan.right, leaf, writer)
    kept = [f"{_first_table(i)} AS {internal_name(i)}" for i in range(width)]
    hint = "/*+ SHUFFLE_HASH(t1) */ " if writer.one_task else ""
    return (
        f"SELECT {hint}{', '.join([*kept, f't0.{COUNT} AS {COUNT}'])}"
        f" FROM {_table(plan.left, leaf, writer)} AS t0"
        f" LEFT {'ANTI' if plan.anti else 'SEMI'} JOIN (SELECT * FROM ({there}) WHERE {COUNT} > 0) AS t1"
        f" ON {writer.conjunction(plan.conditions, column) if plan.conditions else 'TRUE'}"
    )


_AGGREGATES = {
    "count_distinct": "COUNT(DISTINCT {0}){1}",
    "sum_distinct": "SUM(DISTINCT {0}){1}",
    "avg_distinct": "AVG(DISTINCT {0}){1}",
    "bool_and": "BOOL_AND({0}){1}",
    "bool_or": "BOOL_OR({0}){1}",
}


def _aggregate(plan: Aggregate, leaf: Leaf, writer: ScalarWriter) -> str:
    """The engine's own aggregates over every row as often as it is there."""
    read = plan.read or (Literal(True, BOOLEAN),)
    inner = Project(plan.input, tuple(Output(str(i), scalar) for i, scalar in enumerate(read)))
    width = len(inner.schema)
    rows = canonical_sql(select_sql(inner, leaf, writer), inner.schema.types)
    if not writer.plain:
        rows = repeated_sql(consolidated_sql(rows, width, one_task=writer.one_task), width)
    arguments = iter(range(len(plan.keys), width))
    shown = [internal_name(i) for i in range(len(plan.keys))]
    for measure in plan.measures:
        taken = None if measure.arg is None else measure.arg.type
        text = aggregate_sql(measure.function, taken, writer)
        argument = "*" if measure.arg is None else internal_name(next(arguments))
        shown.append(f"CAST({text.format(argument, '')} AS {measure.type})")
    columns = [f"{text} AS {internal_name(i)}" for i, text in enumerate(shown)]
    grouped = f" GROUP BY {', '.join(shown[: len(plan.keys)])}" if plan.keys else ""
    return f"SELECT {', '.join([*columns, f'CAST(1 AS BIGINT) AS {COUNT}'])} FROM ({rows}){grouped}"


def aggregate_sql(function: str, taken: Type | None, writer: ScalarWriter) -> str:
    """The text around an aggregate's argument and, behind every call in it, the window it is over."""
    text = _AGGREGATES.get(function, f"{function.upper()}({{0}}){{1}}")
    return (sail_aggregate(function, taken) if writer.sail else None) or text


def _window(plan: Window, leaf: Leaf, writer: ScalarWriter) -> str:
    """The engine's own functions over every row as often as it is there. What counts places is given an
    order without ties."""
    rows = canonical_sql(select_sql(plan.input, leaf, writer), plan.input.schema.types)
    width = len(plan.input.schema)
    if not writer.plain:
        rows = repeated_sql(consolidated_sql(rows, width, one_task=writer.one_task), width)
    keys = [writer.text(scalar, internal_name) for scalar in plan.partition]
    if any(not isinstance(scalar, Ref) for scalar in plan.partition):
        # Sail sorts by what an expression is equal to, and then does not find it sorted.
        named = [f"{text} AS k{i}" for i, text in enumerate(keys)]
        rows = f"SELECT {', '.join([*map(internal_name, range(width)), *named])} FROM ({rows})"
        keys = [f"k{i}" for i in range(len(keys))]
    partition = ", ".join(keys)
    order = [
        f"{writer.text(key.scalar, internal_name)} {'DESC' if key.descending else 'ASC'}"
        f" NULLS {'LAST' if key.nulls_last else 'FIRST'}"
        for key in plan.order
    ]
    settled = [*order, *(f"{internal_name(i)} ASC NULLS FIRST" for i in range(width))]

    def over(chosen: list[str], span: str = "") -> str:
        parts = [f"PARTITION BY {partition}"] if partition else []
        parts += [f"ORDER BY {', '.join(chosen)}"] if chosen else []
        return f"OVER ({' '.join([*parts, *([span] if span else [])])})"

    shown = [internal_name(i) for i in range(width)]
    for function in plan.functions:
        chosen = settled if function.counts_places else order
        text = _windowed(function, writer, over(chosen, _span(function)))
        shown.append(f"CAST({text} AS {function.type})")
    columns = [f"{text} AS {internal_name(i)}" for i, text in enumerate(shown)]
    counted = f"CAST(1 AS BIGINT) AS {COUNT}"
    if plan.keep is None:
        return f"SELECT {', '.join([*columns, counted])} FROM ({rows})"
    place = internal_name(len(shown))
    numbered = f"SELECT {', '.join([*columns, f'ROW_NUMBER() {over(settled)} AS {place}'])} FROM ({rows})"
    return f"SELECT {_all(plan, 'CAST(1 AS BIGINT)')} FROM ({numbered}) WHERE {place} <= {plan.keep}"


def _windowed(function: Windowed, writer: ScalarWriter, over: str) -> str:
    args = [writer.text(arg, internal_name) for arg in function.args]
    match function.function:
        case "lag" | "lead":
            args.insert(1, str(function.number))
        case "nth_value" | "ntile":
            args.append(str(function.number))
    if function.function not in WINDOW_AGGREGATES:
        return f"{function.function.upper()}({', '.join(args)}) {over}"
    taken = function.args[0].type if args else None
    text = aggregate_sql(function.function, taken, writer)
    return text.format(args[0] if args else "*", f" {over}")


def _span(function: Windowed) -> str:
    """The frame, where the function has one."""
    if function.function not in (*WINDOW_AGGREGATES, "first_value", "last_value", "nth_value"):
        return ""

    def bound(offset: int | None, unbounded: str) -> str:
        if offset is None:
            return f"UNBOUNDED {unbounded}"
        if not offset:
            return "CURRENT ROW"
        return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"

    span = function.span
    kind = "ROWS" if span.by_rows else "RANGE"
    return f"{kind} BETWEEN {bound(span.start, 'PRECEDING')} AND {bound(span.end, 'FOLLOWING')}"


def _key_delete(plan: KeyDelete, leaf: Leaf, writer: ScalarWriter) -> str:
    """An anti-join by bag identity: values are compared by `<=>`, each in its one spelling. A row whose
    copies cancel is not there and deletes nothing, whatever else has its key."""
    types, width = (*plan.input.schema.types, *plan.rows.schema.types), len(plan.input.schema)

    def column(position: int) -> str:
        if position >= width:
            return f"t1.{internal_name(position - width)}"
        name = _first_table(position)
        return _canonical(name) if types[position].name == "DOUBLE" else name

    agree = [
        Call("<=>", (Ref(here, types[here]), Ref(width + there, types[width + there])))
        for here, there in plan.on
    ]
    kept = [f"{_first_table(i)} AS {internal_name(i)}" for i in range(width)]
    hint = "/*+ SHUFFLE_HASH(t1) */ " if agree and writer.one_task else ""
    return (
        f"SELECT {hint}{', '.join([*kept, f't0.{COUNT} AS {COUNT}'])} "
        f"FROM {_table(plan.input, leaf, writer)} AS t0 "
        f"LEFT ANTI JOIN ({_netted(plan.rows, leaf, writer)}) AS t1 "
        f"ON {writer.conjunction(agree, column) if agree else 'TRUE'}"
    )


def _block(plan: Plan, leaf: Leaf, writer: ScalarWriter) -> str:
    """Projection over filters over a join, as one SELECT."""
    outputs: list[Scalar] | None = None
    top, where = plan, []
    if isinstance(top, Project):
        outputs = [output.scalar for output in top.outputs]
        top = top.input
    while isinstance(top, Filter):
        where.append(top.predicate)
        top = top.input
    if isinstance(top, Join) and writer.rows is not None and not is_driven(top):
        top = gathered(top, writer.rows)
    if isinstance(top, Join) and writer.light is not None and is_driven(top):
        source, column, constants = _outward(top, leaf, writer)
        where += constants
        count = f"t0.{COUNT}"
    elif isinstance(top, Join):
        source, column, constants = _from(top, leaf, writer)
        where += constants
        count = " * ".join(f"t{place}.{COUNT}" for place in range(len(top.inputs)))
    else:
        source, column, count = f"{_table(top, leaf, writer)} AS t0", _first_table, f"t0.{COUNT}"
    shown = (
        [column(i) for i in range(len(top.schema))]
        if outputs is None
        else [writer.text(scalar, column) for scalar in outputs]
    )
    columns = [f"{text} AS {internal_name(i)}" for i, text in enumerate(shown)]
    hint = ""
    if isinstance(top, Join) and writer.one_task:
        hint = f"/*+ SHUFFLE_HASH({', '.join(f't{place}' for place in range(len(top.inputs)))}) */ "
    sql = f"SELECT {hint}{', '.join([*columns, f'{count} AS {COUNT}'])} FROM {source}"
    if where:
        sql += " WHERE " + writer.conjunction(where[::-1], column)
    return sql


def _first_table(position: int) -> str:
    return f"t0.{internal_name(position)}"


def _table(plan: Plan, leaf: Leaf, writer: ScalarWriter) -> str:
    return leaf(plan) if isinstance(plan, Scan) else f"({select_sql(plan, leaf, writer)})"


def _from(join: Join, leaf: Leaf, writer: ScalarWriter) -> tuple[str, Callable[[int], str], list[Scalar]]:
    """Inputs in join order; each condition stands at the first join where its columns are all there.
    Conditions that read no column are handed back."""

    def column(position: int) -> str:
        place = join.input_of(position)
        return f"t{place}.{internal_name(position - join.offsets[place])}"

    text, joined, pending = "", set[int](), list(join.conditions)
    for place in join_order(join):
        joined.add(place)
        table = f"{_table(join.inputs[place], leaf, writer)} AS t{place}"
        if not text:
            text = table
            continue
        ready = [c for c in pending if refs(c) and all(join.input_of(p) in joined for p in refs(c))]
        pending = [c for c in pending if c not in ready]
        text += f" JOIN {table} ON {writer.conjunction(ready, column)}" if ready else f" CROSS JOIN {table}"
    return text, column, pending


def _outward(join: Join, leaf: Leaf, writer: ScalarWriter) -> tuple[str, Callable[[int], str], list[Scalar]]:
    """From the change outward, one input at a time, and what there is so far sent to every task, or the next
    input where it is light: Spark would take what there is for as large as all that is joined to it, and
    shuffle both sides."""

    def column(position: int) -> str:
        return f"t0.{internal_name(position)}"

    first, *others = join_order(join)
    known, pending = _positions(join, first), list(join.conditions)
    shown = [f"t0.{internal_name(i)} AS {internal_name(p)}" for i, p in enumerate(known)]
    table = f"{_table(join.inputs[first], leaf, writer)} AS t0"
    text = f"SELECT {', '.join([*shown, f't0.{COUNT} AS {COUNT}'])} FROM {table}"
    for place in others:
        here = {p: f"t1.{internal_name(i)}" for i, p in enumerate(_positions(join, place))}
        both = {p: f"t0.{internal_name(p)}" for p in known} | here
        ready = [c for c in pending if refs(c) and refs(c) <= both.keys()]
        pending = [c for c in pending if c not in ready]
        shown = [f"{name} AS {internal_name(p)}" for p, name in both.items()]
        count = f"t0.{COUNT} * t1.{COUNT} AS {COUNT}"
        table = f"{_table(join.inputs[place], leaf, writer)} AS t1"
        joined = f"({text}) AS t0 {'' if ready else 'CROSS '}JOIN {table}"
        on = f" ON {writer.conjunction(ready, both.__getitem__)}" if ready else ""
        sent = "t1" if _is_light(join.inputs[place], writer) else "t0"
        text = f"SELECT /*+ BROADCAST({sent}) */ {', '.join([*shown, count])} FROM {joined}{on}"
        known += here
    return f"({text}) AS t0", column, pending


def _is_light(plan: Plan, writer: ScalarWriter) -> bool:
    return isinstance(plan, Scan) and writer.light is not None and plan.relation in writer.light


def _positions(join: Join, place: int) -> list[int]:
    return list(range(join.offsets[place], join.offsets[place] + len(join.inputs[place].schema)))


def canonical_sql(query: str, types: Sequence[Type]) -> str:
    """Rows with one spelling for equal values: 0.0 for -0.0, and one NaN. Grouping and joining then agree
    with bag identity on every engine."""
    if not any(type_.name == "DOUBLE" for type_ in types):
        return query
    names = [internal_name(i) for i in range(len(types))]
    columns = [
        f"{_canonical(name)} AS {name}" if type_.name == "DOUBLE" else name
        for name, type_ in zip(names, types, strict=True)
    ]
    return f"SELECT {', '.join([*columns, COUNT])} FROM ({query})"


def _canonical(column: str) -> str:
    zero, nan = "CAST('0' AS DOUBLE)", "CAST('NaN' AS DOUBLE)"
    return f"CASE WHEN isnan({column}) THEN {nan} WHEN {column} = {zero} THEN {zero} ELSE {column} END"


def consolidated_sql(
    query: str, width: int, *, one_task: bool = False, together: Collection[int] = ()
) -> str:
    """Equal rows added up; rows that cancel are gone. Of rows that agree in the columns `together` there are
    few, and they are brought to one task first: Spark would add up in every task what it has, where hardly
    two rows are equal, before it sends it on."""
    if one_task:
        query = f"SELECT {ONE_TASK}* FROM ({query})"
    elif together:
        hint = f"/*+ REPARTITION({', '.join(map(internal_name, together))}) */"
        query = f"SELECT {hint} * FROM ({query})"
    names = [internal_name(i) for i in range(width)]
    grouped = f" GROUP BY {', '.join(names)}" if names else ""
    return (
        f"SELECT {', '.join([*names, f'net AS {COUNT}'])} FROM "
        f"(SELECT {', '.join([*names, f'SUM({COUNT}) AS net'])} FROM ({query}){grouped}) WHERE net <> 0"
    )


def named_sql(query: str, names: tuple[str, ...], *, count: bool) -> str:
    """The user's column names instead of the internal ones."""
    columns = [f"{internal_name(i)} AS {identifier(name)}" for i, name in enumerate(names)]
    return f"SELECT {', '.join([*columns, *([COUNT] if count else [])])} FROM ({query})"


def repeated_sql(query: str, width: int) -> str:
    """Each row as often as its count says; a row that lacks (a negative count) is an error. The first column
    depends on the number of the copy, as a whole row does: Sail takes the columns that rows were grouped by
    for a key of their copies, too, and then drops a DISTINCT over them, or all but one partner in a join."""
    first, *others = map(internal_name, range(width))
    columns = ", ".join([f"CASE WHEN k > 0 THEN {first} END AS {first}", *others])
    times = f"CASE WHEN {COUNT} > 0 THEN {COUNT} ELSE CAST(raise_error('a state lacks a row') AS BIGINT) END"
    return (
        f"SELECT {columns} FROM ({query}) LATERAL VIEW explode(sequence(CAST(1 AS BIGINT), {times})) e AS k"
    )
