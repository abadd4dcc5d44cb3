"""SQL expressions to scalars: names to positions, and types as Spark's ANSI mode derives them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from sqlglot import exp

from stillframe.algebra.casts import cast_value
from stillframe.algebra.functions import EvaluationError, TypeMismatch, castable, like_pattern
from stillframe.algebra.scalar import Literal, Ref, Scalar, call, case, cast, unify
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    Type,
    decimal,
)
from stillframe.sql.complaints import Complaints, described, refused_column
from stillframe.sql.dialect import TYPED_LITERAL, UNARY_PLUS, span
from stillframe.sql.functions import BUILDERS, FIELDS, boolean, if_, ilike, locate, refusal, substring
from stillframe.sql.intervals import HINT, interval, shifted
from stillframe.sql.literals import hexadecimal, number
from stillframe.sql.scope import From

T = exp.DType
_TYPES: dict[T, Type] = {
    T.BOOLEAN: BOOLEAN,
    T.TINYINT: TINYINT,
    T.SMALLINT: SMALLINT,
    T.INT: INT,
    T.BIGINT: BIGINT,
    T.DOUBLE: DOUBLE,
    T.TEXT: STRING,
    T.BINARY: BINARY,
    T.DATE: DATE,
    T.TIMESTAMP: TIMESTAMP,
    T.TIMESTAMPTZ: TIMESTAMP,
    T.TIMESTAMPLTZ: TIMESTAMP,
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "<=>",
}
_LOOSE = (
    *_COMPARISONS,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    exp.Escape,
    exp.Is,
    exp.Not,
    exp.And,
    exp.Or,
)
_CAST_HINT = "write CAST(… AS type) to say what is meant"


class Special(Protocol):
    """Gives a place to what is not computed from a row: aggregates, window functions, queries."""

    def takes(self, node: exp.Expr) -> bool: ...

    def of(self, over: Expressions, node: exp.Expr) -> Scalar: ...


@dataclass(frozen=True)
class Expressions:
    """Resolves the expressions of one SELECT; `aliases` are the outputs named before. A name means a column
    before it means an output, but where outputs come first, as in ORDER BY and in QUALIFY."""

    complaints: Complaints
    columns: From | None
    aliases: Mapping[str, Sequence[Scalar]] = field(default_factory=dict)
    special: tuple[Special, ...] = ()
    outputs_first: bool = False

    def condition(self, node: exp.Expr, what: str) -> Scalar:
        scalar = self.scalar(node)
        if scalar.type != BOOLEAN:
            message = f"{what} is BOOLEAN, not {scalar.type}"
            self.complaints.stop(node, "TYPE_MISMATCH", message, "write a comparison")
        return scalar

    def scalar(self, node: exp.Expr) -> Scalar:
        for special in self.special:
            if special.takes(node):
                return special.of(self, node)
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node)
        if type(node) in _COMPARISONS:
            return self._comparison(node)
        return self._refuse(node)

    # What cannot be

    def _refuse(self, node: exp.Expr) -> NoReturn:
        stop = self.complaints.stop
        if isinstance(node, exp.Query | exp.Exists | exp.Any | exp.All):
            stop(
                node,
                "SUBQUERY",
                "a query is not supported here",
                "queries stand in WHERE, HAVING and the SELECT list; or write a join",
            )
        if isinstance(node, exp.Window):
            code, message, hint = refusal("window")
            stop(node, code, message.partition(": ")[2], hint)
        if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
            stop(node, "PARAMETER", "parameters are not supported", "write the value")
        if isinstance(node, exp.TryCast):
            stop(node, "UNSUPPORTED_CAST", "TRY_CAST is not supported", "use CAST")
        if isinstance(node, exp.Interval):
            stop(node, "UNSUPPORTED_TYPE", "an interval is only added to or subtracted from a date", HINT)
        if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous):
            code, message, hint = refusal(node.sql_names()[0].lower())
            stop(node, code, message, hint)
        hint = "use arithmetic, comparisons, CASE, CAST, LIKE and the supported functions"
        stop(node, "UNSUPPORTED_SYNTAX", f"{described(node)} is not supported here", hint)

    def _typed(self, node: exp.Expr, build: Callable[[], Scalar], code: str = "TYPE_MISMATCH") -> Scalar:
        try:
            return build()
        except TypeMismatch as error:
            self.complaints.stop(node, code, str(error), _CAST_HINT)

    def _operand(self, node: exp.Expr) -> Scalar:
        """An operand of a comparison or predicate. Spark and the parser used here group unparenthesised
        chains of these differently, so a chain is refused rather than guessed."""
        if isinstance(node, _LOOSE):
            hint = "put the inner comparison into parentheses"
            self.complaints.stop(node, "AMBIGUOUS_PRECEDENCE", "comparisons are chained", hint)
        return self.scalar(node)

    # Leaves

    def _column(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "table", "db", "catalog")
        if not isinstance(node.this, exp.Identifier):
            hint = "* stands alone in the SELECT list"
            self.complaints.stop(node, "UNSUPPORTED_SYNTAX", "* is not supported here", hint)
        name = node.this.name
        qualifier = tuple(node.args[p].name for p in ("catalog", "db", "table") if node.args.get(p))
        if self.outputs_first and not qualifier and name.lower() in self.aliases:
            return self._alias(node, name, self.aliases[name.lower()])
        found = self.columns.find(name, qualifier[-1:]) if self.columns else ()
        found = tuple(column for column in found if column.within(qualifier)) if len(found) == 1 else found
        label = ".".join((*qualifier, name))
        if not found:
            return self._alias(node, label, () if qualifier else self.aliases.get(name.lower(), ()))
        if len(found) > 1:
            of = ", ".join(".".join((*c.qualifier, c.name)) for c in found)
            hint = "qualify it with a table's alias"
            self.complaints.stop(node, "AMBIGUOUS_COLUMN", f"{label} could be any of {of}", hint)
        (column,) = found
        if column.refused:
            refused_column(self.complaints, node, label, column.refused)
        if column.hidden and self.columns is not None and self.columns.find(qualifier[-1]):
            hint = "give the table another alias"
            message = f"{qualifier[-1]} is also a column"
            self.complaints.stop(node, "AMBIGUOUS_COLUMN", message, hint)
        return Ref(column.position, column.type, name)

    def _alias(self, node: exp.Expr, label: str, aliases: Sequence[Scalar]) -> Scalar:
        if aliases and len(aliases) == 1:
            return aliases[0]
        if aliases:
            hint = "give the aliases different names"
            self.complaints.stop(node, "AMBIGUOUS_COLUMN", f"{label} names several outputs", hint)
        listing = self.columns.listing if self.columns else "none"
        return self.complaints.stop(node, "UNKNOWN_COLUMN", f"no column {label}", f"there are: {listing}")

    def _number(self, node: exp.Expr, sign: str = "") -> Literal:
        try:
            return number(sign + node.name)
        except ValueError as error:
            self.complaints.stop(node, "BAD_LITERAL", str(error), "write another number")

    def _literal(self, node: exp.Expr) -> Scalar:
        return Literal(node.name, STRING) if node.is_string else self._number(node)

    def _bytes(self, node: exp.Expr) -> Scalar:
        written = self.complaints.text[span(node)[0] :][:2].upper()
        try:
            return hexadecimal(node.name if written in ("X'", 'X"') else "not one")
        except ValueError:
            self.complaints.stop(node, "BAD_LITERAL", "this is not a literal of Spark", "write X'1F'")

    # Operators

    def _arithmetic(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "expression", "typed", "safe")
        for side in (node.this, node.expression):
            if isinstance(side, exp.Not):
                self._operand(side)
        moved = self._moved(node) if isinstance(node, exp.Add | exp.Sub) else None
        if moved is not None:
            return moved
        left, right = self.scalar(node.this), self.scalar(node.expression)
        return self._typed(node, lambda: _calculate(_ARITHMETIC[type(node)], left, right))

    def _moved(self, node: exp.Add | exp.Sub) -> Scalar | None:
        """A moment and an interval beside it, if there is one."""
        moment, by = node.this, interval(self.complaints, node.expression)
        if by is None and isinstance(node, exp.Add):
            moment, by = node.expression, interval(self.complaints, node.this)
        if by is None:
            return None
        scalar, move = self.scalar(moment), -by if isinstance(node, exp.Sub) else by
        return self._typed(node, lambda: shifted(scalar, move))

    def _comparison(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "expression")
        left, right = self._operand(node.this), self._operand(node.expression)
        compared = self._typed(node, lambda: call(_COMPARISONS[type(node)], left, right))
        return call("not", compared) if isinstance(node, exp.NullSafeNEQ) else compared

    def _logical(self, node: exp.Expr) -> Scalar:
        word = "and" if isinstance(node, exp.And) else "or"
        parts = [self.scalar(part) for part in _flat(node, type(node))]
        return self._typed(
            node, lambda: _balanced(word, [boolean(p, f"a side of {word.upper()}") for p in parts])
        )

    def _not(self, node: exp.Expr) -> Scalar:
        arg = self.scalar(node.this)
        return self._typed(node, lambda: call("not", boolean(arg, "NOT's operand")))

    def _negative(self, node: exp.Expr) -> Scalar:
        inner = node.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return self._number(inner, "-")
        colons = isinstance(inner, exp.Cast) and "start" not in inner.meta
        if colons and isinstance(inner.this, exp.Literal) and not inner.this.is_string:
            return self._cast_to(inner, self._number(inner.this, "-"))  # -1::STRING casts the number -1
        arg = self.scalar(inner)
        return self._typed(node, lambda: call("negative", arg))

    def _is(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "expression")
        arg, what = self._operand(node.this), node.expression
        if isinstance(what, exp.Null):
            return call("isnull", arg)
        if isinstance(what, exp.Boolean):
            truth = Literal(bool(what.this), BOOLEAN)
            return self._typed(node, lambda: call("<=>", boolean(arg, "IS TRUE's operand"), truth))
        return self._refuse(node)

    def _between(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "low", "high")
        arg, low, high = (self._operand(node.args[part]) for part in ("this", "low", "high"))
        return self._typed(node, lambda: call("and", call(">=", arg, low), call("<=", arg, high)))

    def _in(self, node: exp.Expr) -> Scalar:
        if node.args.get("query"):
            return self._refuse(node.args["query"])
        self.complaints.only(node, "this", "expressions")
        scalars = (self._operand(node.this), *(self.scalar(e) for e in node.expressions))
        if len(scalars) == 1:
            self.complaints.stop(node, "SYNTAX", "the list of IN is empty", "list at least one value")

        def build() -> Scalar:
            first, *others = unify(scalars)
            return _balanced("or", [call("=", first, other) for other in others])

        return self._typed(node, build)

    def _like(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "expression", "negate")
        if isinstance(node.expression, exp.Any | exp.All):
            self.complaints.stop(
                node, "UNSUPPORTED_SYNTAX", "LIKE ANY and LIKE ALL are not supported", "use OR"
            )
        text, pattern = self._operand(node.this), self._operand(node.expression)
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            try:
                like_pattern(pattern.value)
            except EvaluationError as error:
                hint = "the escape \\ stands before %, _ or itself; in a string, write it twice"
                self.complaints.stop(node.expression, "BAD_LITERAL", str(error), hint)
        build = (
            (lambda: ilike(text, pattern))
            if isinstance(node, exp.ILike)
            else lambda: call("like", text, pattern)
        )
        found = self._typed(node, build)
        return call("not", found) if node.args.get("negate") else found

    def _escape(self, node: exp.Expr) -> Scalar:
        escape = node.expression
        if not (isinstance(escape, exp.Literal) and escape.name == "\\"):
            hint = "use the backslash, which needs no ESCAPE"
            self.complaints.stop(escape, "UNSUPPORTED_SYNTAX", "only the backslash can be ESCAPE", hint)
        return self.scalar(node.this)

    def _pipes(self, node: exp.Expr) -> Scalar:
        parts = [self.scalar(part) for part in _flat(node, exp.DPipe)]
        return self._typed(node, lambda: call("concat", *parts))

    def _adjacent(self, node: exp.Expr) -> Scalar:
        """Neighbouring string literals are one."""
        return Literal("".join(part.name for part in node.expressions), STRING)

    # CASE, CAST and calls

    def _case(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "ifs", "default")
        subject = self.scalar(node.this) if node.this is not None else None
        pairs: list[tuple[Scalar, Scalar]] = []
        for branch in node.args["ifs"]:
            self.complaints.only(branch, "this", "true")
            test = self._case_test(branch.this, subject)
            pairs.append((test, self.scalar(branch.args["true"])))
        default = node.args.get("default")
        otherwise = self.scalar(default) if default is not None else Literal(None, VOID)
        return self._typed(node, lambda: case(tuple(pairs), otherwise))

    def _case_test(self, node: exp.Expr, subject: Scalar | None) -> Scalar:
        if subject is None:
            return self.condition(node, "a CASE condition")
        value = self.scalar(node)
        return self._typed(node, lambda: call("=", subject, value))

    def _if(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "true", "false")
        parts = [node.args.get(part) for part in ("this", "true", "false")]
        scalars = [self.scalar(part) for part in parts if part is not None]
        if len(scalars) != 3:
            self.complaints.stop(
                node, "SYNTAX", "IF takes three arguments", "write IF(condition, then, else)"
            )
        return self._typed(node, lambda: if_(*scalars))

    def _cast(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "to")
        if "start" in node.meta:
            return self._cast_to(node, self.scalar(node.this))
        if node.meta.get(TYPED_LITERAL) and not isinstance(node.this, exp.Literal):
            hint = "put the literal into parentheses"  # Spark casts the date, the parser the string
            self.complaints.stop(node, "AMBIGUOUS_PRECEDENCE", "a typed literal is followed by ::", hint)
        arg = self.scalar(node.this)
        target = self.type_of(node.args["to"])
        if node.meta.get(TYPED_LITERAL) and not (arg.type == STRING and target in (DATE, TIMESTAMP)):
            message = f"there are no literals of type {target}"
            self.complaints.stop(node, "BAD_LITERAL", message, "write CAST('…' AS type)")
        if isinstance(arg, Literal) and arg.type == STRING and target in (DATE, TIMESTAMP):
            try:
                return Literal(cast_value(arg.value, STRING, target), target)
            except EvaluationError as error:
                hint = "write DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:59:59'"
                self.complaints.stop(node, "BAD_LITERAL", str(error), hint)
        return self._cast_to(node, arg)

    def _cast_to(self, node: exp.Expr, arg: Scalar) -> Scalar:
        target = self.type_of(node.args["to"])
        if not castable(arg.type, target):
            message = f"there is no cast from {arg.type} to {target}"
            hint = "cast through STRING" if castable(arg.type, STRING) else "leave the column as it is"
            self.complaints.stop(node, "UNSUPPORTED_CAST", message, hint)
        return cast(arg, target)

    def type_of(self, node: exp.Expr) -> Type:
        if isinstance(node, exp.DataType) and node.this == T.DECIMAL:
            return self._decimal_type(node)
        type_ = _TYPES.get(node.this) if isinstance(node, exp.DataType) and not node.expressions else None
        if type_ is None:
            what = node.this.value if isinstance(node.this, T) else described(node)
            known = ", ".join(dict.fromkeys(map(str, (*_TYPES.values(), "DECIMAL(p,s)"))))
            self.complaints.stop(
                node, "UNSUPPORTED_TYPE", f"type {what} is not supported", f"types are: {known}"
            )
        return type_

    def _decimal_type(self, node: exp.Expr) -> Type:
        try:
            numbers = [int(parameter.name) for parameter in node.expressions]
            precision, scale = (*numbers, *(10, 0)[len(numbers) :])
            return decimal(precision, scale)
        except ValueError:
            hint = "DECIMAL(p,s) has 1 to 38 digits, s of them after the point"
            self.complaints.stop(node, "UNSUPPORTED_TYPE", "there is no such decimal", hint)

    def _call(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "expressions")
        name = node.name.lower()
        if name == UNARY_PLUS:
            self.complaints.stop(
                node, "UNSUPPORTED_SYNTAX", "a plus before a value is not supported", "leave it out"
            )
        builder = BUILDERS.get(name)
        if builder is None:
            code, message, hint = refusal(name)
            self.complaints.stop(node, code, message, hint)
        args = [self.scalar(arg) for arg in node.expressions]
        return self._built(node, name, builder, args)

    def _built(self, node: exp.Expr, name: str, builder: Callable[..., Scalar], args: list[Scalar]) -> Scalar:
        def build() -> Scalar:
            try:
                inspect.signature(builder).bind(*args)
            except TypeError:
                raise TypeMismatch(f"{name} does not take {len(args)} arguments") from None
            try:
                return builder(*args)
            except TypeMismatch as error:
                raise TypeMismatch(f"{name}: {error}") from None

        return self._typed(node, build)

    def _extract(self, node: exp.Expr) -> Scalar:
        function = FIELDS.get(node.this.name.upper())
        if function is None:
            hint = f"fields are: {', '.join(f.upper() for f in sorted(set(FIELDS.values())))}"
            self.complaints.stop(
                node, "UNSUPPORTED_FUNCTION", f"EXTRACT of {node.this.name} is not supported", hint
            )
        return self._built(node, "EXTRACT", BUILDERS[function], [self.scalar(node.expression)])

    def _substring(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "start", "length")
        parts = [node.args.get(part) for part in ("this", "start", "length")]
        return self._built(node, "substring", substring, [self.scalar(p) for p in parts if p is not None])

    def _position(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "substr")
        parts = [node.args.get("substr"), node.this]
        return self._built(node, "position", locate, [self.scalar(p) for p in parts if p is not None])

    def _trim(self, node: exp.Expr) -> Scalar:
        self.complaints.only(node, "this", "position", "expression")
        what = node.args.get("expression")
        if what is not None and not (isinstance(what, exp.Literal) and what.name == " "):
            hint = "only spaces are trimmed"
            self.complaints.stop(
                what, "UNSUPPORTED_SYNTAX", "TRIM of other characters is not supported", hint
            )
        function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper(), "trim")
        arg = self.scalar(node.this)
        return self._typed(node, lambda: call(function, arg))


def _calculate(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """Arithmetic on numbers; a date plus or minus whole days is a date."""
    if operator == "+" and right.type == DATE and left.type != DATE:
        left, right = right, left
    if left.type == DATE and operator in ("+", "-") and right.type.is_integer:
        return call("date_add" if operator == "+" else "date_sub", left, right)
    return call(operator, left, right)


def _balanced(function: str, parts: list[Scalar]) -> Scalar:
    """AND and OR associate: a balanced tree of them stays shallow however long the list is."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return call(function, _balanced(function, parts[:middle]), _balanced(function, parts[middle:]))


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a left-deep chain of one operator, in order."""
    parts: list[exp.Expr] = []
    while type(node) is kind:
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


_HANDLERS: dict[type[exp.Expr], Callable[[Expressions, exp.Expr], Scalar]] = {
    exp.Paren: lambda self, node: self.scalar(node.this),
    exp.Column: Expressions._column,
    exp.Literal: Expressions._literal,
    exp.RawString: lambda self, node: Literal(node.name, STRING),
    exp.Null: lambda self, node: Literal(None, VOID),
    exp.Boolean: lambda self, node: Literal(bool(node.this), BOOLEAN),
    exp.HexString: Expressions._bytes,
    exp.And: Expressions._logical,
    exp.Or: Expressions._logical,
    exp.Not: Expressions._not,
    exp.Neg: Expressions._negative,
    exp.Is: Expressions._is,
    exp.Between: Expressions._between,
    exp.In: Expressions._in,
    exp.Like: Expressions._like,
    exp.ILike: Expressions._like,
    exp.Escape: Expressions._escape,
    exp.DPipe: Expressions._pipes,
    exp.Concat: Expressions._adjacent,
    exp.Case: Expressions._case,
    exp.If: Expressions._if,
    exp.Cast: Expressions._cast,
    exp.Anonymous: Expressions._call,
    exp.Extract: Expressions._extract,
    exp.Substring: Expressions._substring,
    exp.Trim: Expressions._trim,
    exp.StrPosition: Expressions._position,
}
