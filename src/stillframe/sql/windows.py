"""Window functions: OVER, WINDOW and their frames.

Each call stands for a column that is computed when the rows are complete: after WHERE, grouping and HAVING,
before QUALIFY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from stillframe.algebra.aggregates import DISTINCT
from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.plan import Plan, Window
from stillframe.algebra.scalar import Literal, Ref, Scalar, map_refs, refs, unify
from stillframe.algebra.windows import SO_FAR, WHOLE, Ordering, Span, Windowed
from stillframe.sql.complaints import Complaints
from stillframe.sql.expressions import Expressions
from stillframe.sql.grouping import aggregate, is_aggregate
from stillframe.sql.scope import THERE, WINDOWED

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_VALUES = {
    "lag": "lag",
    "lead": "lead",
    "first_value": "first_value",
    "first": "first_value",
    "last_value": "last_value",
    "last": "last_value",
    "nth_value": "nth_value",
}
Settle = Callable[[Scalar], Scalar]


@dataclass(frozen=True)
class _Over:
    """A window as the text describes it."""

    partition: tuple[Scalar, ...]
    order: tuple[Ordering, ...]
    span: Span | None


@dataclass
class Windows:
    """The window functions met in the expressions of one SELECT. `named` are the windows of its WINDOW."""

    complaints: Complaints
    named: Mapping[str, exp.Expr]
    found: list[tuple[_Over, Windowed, exp.Expr]] = field(default_factory=list)

    @classmethod
    def of_select(cls, complaints: Complaints, node: exp.Expr) -> Windows:
        return cls(complaints, {w.name.lower(): w for w in node.args.get("windows") or ()})

    def takes(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Window)

    def of(self, over: Expressions, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "partition_by", "order", "spec", "over", "alias")
        special = tuple(other for other in over.special if other is not self)
        inner = replace(over, special=special, outputs_first=False)
        window = self._window(inner, node)
        function = self._function(inner, node, window)
        scalars = (*window.partition, *(key.scalar for key in window.order), *function.args)
        if any(WINDOWED <= position < THERE for scalar in scalars for position in refs(scalar)):
            self._refuse(node, "a window over another one", "compute the inner one in a query of its own")
        self.found.append((window, function, node))
        return Ref(WINDOWED + len(self.found) - 1, function.type)

    def over(self, plan: Plan, settle: Settle) -> tuple[Plan, Settle]:
        """The plan with a column for each function, and how expressions read them."""
        places: dict[int, int] = {}
        windows: dict[tuple[tuple[Scalar, ...], tuple[Ordering, ...]], list[int]] = {}
        for number, (window, _, _) in enumerate(self.found):
            partition = tuple(map(settle, window.partition))
            order = tuple(replace(key, scalar=settle(key.scalar)) for key in window.order)
            windows.setdefault((partition, order), []).append(number)
        for (partition, order), numbers in windows.items():
            functions: list[Windowed] = []
            for number in numbers:
                places[number] = len(plan.schema) + len(functions)
                _, function, node = self.found[number]
                moved = replace(function, name=f"w{number}", args=tuple(map(settle, function.args)))
                functions.append(self._definite(Window(plan, partition, order, (moved,)), node))
            plan = Window(plan, partition, order, tuple(functions))
            for number in numbers:
                _, function, node = self.found[number]
                self.complaints.operator(node, f"{function.function} OVER", plan)

        def read(ref: Ref) -> Scalar:
            here = WINDOWED <= ref.position < WINDOWED + len(self.found)
            return replace(ref, position=places[ref.position - WINDOWED]) if here else ref

        return plan, lambda scalar: map_refs(scalar, read)

    def _definite(self, window: Window, node: exp.Expr) -> Windowed:
        """The function of a window, so that its value does not depend on the order of peers. The first and
        the last of a frame that ends with a partition stay where they are when the frame counts rows."""
        (function,) = window.functions
        span = function.span
        if function.function not in ("first_value", "last_value", "nth_value") or span.by_rows:
            return function
        counting = replace(function, span=replace(span, by_rows=True))
        outermost = {"first_value": span.start, "last_value": span.end}.get(function.function, 0) is None
        if outermost or not replace(window, functions=(counting,)).has_ties:
            return counting
        if function.function != "nth_value" and function.args[0] in [key.scalar for key in window.order]:
            return function
        hint = "add columns to ORDER BY until no two rows are alike, or write ROWS BETWEEN …"
        message = f"{function.function} among rows that ORDER BY does not tell apart has no one value"
        return self.complaints.stop(node, "AMBIGUOUS_ORDER", message, hint)

    # What the text says

    def _window(self, over: Expressions, node: exp.Expr) -> _Over:
        base = _Over((), (), None)
        if (name := node.args.get("alias")) is not None:
            known = self.named.get(name.name.lower())
            if known is None:
                hint = f"there are: {', '.join(self.named) or 'none'}"
                self.complaints.stop(node, "WINDOW", f"no window {name.name}", hint)
            base = self._window(over, known)
        partition = tuple(over.scalar(key) for key in node.args.get("partition_by") or ())
        order = (
            tuple(ordering(over, key) for key in node.args["order"].expressions)
            if node.args.get("order")
            else ()
        )
        spec = node.args.get("spec")
        ordered = order or base.order
        span = self._span(spec, bool(ordered)) if spec is not None else base.span
        return _Over(partition or base.partition, ordered, span)

    def _span(self, spec: exp.Expr, ordered: bool) -> Span:
        self.complaints.only(spec, "kind", "start", "start_side", "end", "end_side")
        by_rows = spec.text("kind").upper() == "ROWS"
        if spec.text("kind").upper() not in ("ROWS", "RANGE"):
            self._refuse(spec, f"a frame by {spec.text('kind')} is not maintained", "write ROWS BETWEEN …")
        start = self._bound(spec, "start", by_rows)
        end = self._bound(spec, "end", by_rows) if spec.args.get("end") else 0
        if start is not None and end is not None and start > end:
            self._refuse(spec, "the frame ends before it starts", "exchange its ends")
        return Span(by_rows, start, end) if by_rows or ordered else WHOLE

    def _bound(self, spec: exp.Expr, which: str, by_rows: bool) -> int | None:
        value, side = spec.args.get(which), spec.text(f"{which}_side").upper()
        if value == "CURRENT ROW":
            return 0
        if value == "UNBOUNDED":
            if side == ("FOLLOWING" if which == "start" else "PRECEDING"):
                self._refuse(spec, f"a frame cannot {which} UNBOUNDED {side}", "exchange its ends")
            return None
        if not by_rows:
            hint = "write ROWS, or UNBOUNDED and CURRENT ROW"
            self._refuse(spec, "RANGE with a distance is not maintained", hint)
        number = self._number(spec, value, "a frame's bound")
        return number if side == "FOLLOWING" else -number

    def _number(self, place: exp.Expr, node: object, what: str) -> int:
        sign = -1 if isinstance(node, exp.Neg) else 1
        inner = node.this if isinstance(node, exp.Neg) else node
        if not (isinstance(inner, exp.Literal) and inner.is_int):
            self._refuse(place, f"{what} is not a whole number", "write the number itself")
        return sign * int(inner.name)

    def _refuse(self, node: exp.Expr, message: str, hint: str) -> NoReturn:
        self.complaints.stop(node, "WINDOW", message, hint)

    def _function(self, over: Expressions, node: exp.Expr, window: _Over) -> Windowed:
        called = node.this
        if isinstance(called, exp.RespectNulls):
            called = called.this
        if isinstance(called, exp.IgnoreNulls):
            self._refuse(called, "IGNORE NULLS is not maintained", "filter the rows first")
        default = SO_FAR if window.order else WHOLE
        if is_aggregate(called) or isinstance(called, exp.Filter):
            measure = aggregate(over, called)
            if measure.function in DISTINCT.values():
                self._refuse(called, "there is no DISTINCT in a window", "group first")
            args = () if measure.arg is None else (measure.arg,)
            return Windowed("", measure.function, args, window.span or default)
        name = called.name.lower() if isinstance(called, exp.Anonymous) else ""
        if name not in (*_RANKS, *_VALUES):
            hint = f"there are: {', '.join(sorted({*_RANKS, *_VALUES}))} and the aggregates"
            self._refuse(called, f"{name or called.key} is no function of windows", hint)
        if not window.order:
            self._refuse(node, f"{name} needs an order", "write OVER (PARTITION BY … ORDER BY …)")
        framed = name in _VALUES and _VALUES[name] not in ("lag", "lead")
        if window.span is not None and not framed:
            self._refuse(node, f"{name} takes no frame", "leave out ROWS or RANGE")
        return self._placed(over, called, name, (window.span or default) if framed else WHOLE)

    def _placed(self, over: Expressions, called: exp.Expr, name: str, span: Span) -> Windowed:
        parts = list(called.expressions)
        function = _VALUES.get(name, name)
        least, most = {"lag": (1, 3), "lead": (1, 3), "nth_value": (2, 2), "ntile": (1, 1)}.get(
            function, (1, 1) if name in _VALUES else (0, 0)
        )
        if not least <= len(parts) <= most:
            self._refuse(called, f"{name} does not take {len(parts)} arguments", "see Spark's functions")
        number = 1
        if function == "ntile":
            number = self._number(called, parts[0], "the number of parts")
        elif len(parts) > 1:
            number = self._number(called, parts[1], f"what {name} counts")
        if number < 1 and function in ("ntile", "nth_value"):
            self._refuse(called, f"{name} counts from 1", "write 1 or more")
        args: tuple[Scalar, ...] = ()
        if function not in _RANKS:
            args = (over.scalar(parts[0]), *(over.scalar(part) for part in parts[2:]))
        if len(args) == 2 and isinstance(args[1], Literal) and args[1].value is None:
            args = args[:1]
        try:
            args = unify(args) if args else ()
        except TypeMismatch as error:
            self.complaints.stop(called, "TYPE_MISMATCH", f"{name}: {error}", "write CAST(… AS type)")
        return Windowed("", function, args, span, number)


def ordering(over: Expressions, node: exp.Expr) -> Ordering:
    """One key of an ORDER BY. NULL comes first where it ascends and last where it descends, unless it says
    otherwise."""
    over.complaints.only(node, "this", "desc", "nulls_first")
    descending = bool(node.args.get("desc"))
    nulls_first = node.args.get("nulls_first")
    return Ordering(
        over.scalar(node.this), descending, descending if nulls_first is None else not nulls_first
    )
