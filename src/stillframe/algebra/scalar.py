"""Scalar expressions over one row. Columns are referred to by position; every implicit cast of SQL is
explicit here, so a node means the same to the naive evaluator and to the engine.

Build calls with `call`, which inserts the casts Spark's ANSI mode would and refuses what does not type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from stillframe.algebra.functions import FUNCTIONS, TypeMismatch, castable
from stillframe.algebra.types import BOOLEAN, Type, common_type, decimal


class Scalar:
    """Base of all scalar nodes."""

    @property
    def type(self) -> Type:
        raise AssertionError("every node has a type")

    @property
    def children(self) -> tuple[Scalar, ...]:
        return ()


@dataclass(frozen=True)
class Ref(Scalar):
    """The column at a position of the input row. The name is for people only."""

    position: int
    column_type: Type
    name: str = ""

    @property
    def type(self) -> Type:
        return self.column_type


@dataclass(frozen=True)
class Literal(Scalar):
    value: Any
    literal_type: Type

    @property
    def type(self) -> Type:
        return self.literal_type


@dataclass(frozen=True)
class Call(Scalar):
    """A function whose arguments already have the types it takes."""

    function: str
    args: tuple[Scalar, ...]

    @cached_property
    def _result(self) -> Type:
        taken, result = FUNCTIONS[self.function].signature(tuple(arg.type for arg in self.args))
        if taken != tuple(arg.type for arg in self.args):
            raise TypeMismatch(f"{self.function} takes {taken}, not {[str(a.type) for a in self.args]}")
        return result

    def __post_init__(self) -> None:
        _ = self._result

    @property
    def type(self) -> Type:
        return self._result

    @property
    def children(self) -> tuple[Scalar, ...]:
        return self.args


@dataclass(frozen=True)
class Cast(Scalar):
    arg: Scalar
    target: Type

    def __post_init__(self) -> None:
        if not castable(self.arg.type, self.target):
            raise TypeMismatch(f"there is no cast from {self.arg.type} to {self.target}")

    @property
    def type(self) -> Type:
        return self.target

    @property
    def children(self) -> tuple[Scalar, ...]:
        return (self.arg,)


@dataclass(frozen=True)
class Case(Scalar):
    """The value of the first branch whose condition is true, else `otherwise`. All values share a type."""

    branches: tuple[tuple[Scalar, Scalar], ...]
    otherwise: Scalar

    def __post_init__(self) -> None:
        for condition, value in self.branches:
            if condition.type != BOOLEAN:
                raise TypeMismatch(f"a CASE condition is BOOLEAN, not {condition.type}")
            if value.type != self.otherwise.type:
                raise TypeMismatch(f"CASE branches differ: {value.type} and {self.otherwise.type}")

    @property
    def type(self) -> Type:
        return self.otherwise.type

    @property
    def children(self) -> tuple[Scalar, ...]:
        return (*(part for branch in self.branches for part in branch), self.otherwise)


def cast(scalar: Scalar, target: Type) -> Scalar:
    """The scalar as `target`; a NULL literal simply takes the type, and nothing is cast to itself."""
    if scalar.type == target:
        return scalar
    if isinstance(scalar, Literal) and scalar.value is None:
        return Literal(None, target)
    return Cast(scalar, target)


def call(function: str, *args: Scalar) -> Scalar:
    """A call with the casts that Spark's rules insert. TypeMismatch where there is no such function
    for these types."""
    known = FUNCTIONS.get(function)
    if known is None:
        raise TypeMismatch(f"no function {function!r}")
    types = tuple(_literal_decimal(arg, args) if known.arithmetic else arg.type for arg in args)
    taken, _ = known.signature(types)
    return Call(function, tuple(cast(arg, type_) for arg, type_ in zip(args, taken, strict=True)))


def _literal_decimal(arg: Scalar, args: tuple[Scalar, ...]) -> Type:
    """A whole-number literal beside a decimal counts only the digits it has, as in Spark."""
    if (
        isinstance(arg, Literal)
        and arg.type.is_integer
        and arg.value is not None
        and any(a.type.is_decimal for a in args)
    ):
        return decimal(len(str(abs(arg.value))), 0)
    return arg.type


def unify(scalars: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    """All cast to the one type they have in common."""
    target = scalars[0].type
    for scalar in scalars[1:]:
        wider = common_type(target, scalar.type)
        if wider is None:
            raise TypeMismatch(f"{target} and {scalar.type} have no common type")
        target = wider
    return tuple(cast(scalar, target) for scalar in scalars)


def case(branches: tuple[tuple[Scalar, Scalar], ...], otherwise: Scalar) -> Case:
    values = unify((*(value for _, value in branches), otherwise))
    conditions = tuple(cast(condition, BOOLEAN) for condition, _ in branches)
    return Case(tuple(zip(conditions, values[:-1], strict=True)), values[-1])


def walk(scalar: Scalar) -> Iterator[Scalar]:
    yield scalar
    for child in scalar.children:
        yield from walk(child)


def refs(scalar: Scalar) -> frozenset[int]:
    """The positions a scalar reads."""
    return frozenset(node.position for node in walk(scalar) if isinstance(node, Ref))


def map_refs(scalar: Scalar, mapping: Callable[[Ref], Scalar]) -> Scalar:
    """The scalar with every column reference replaced."""
    match scalar:
        case Ref():
            return mapping(scalar)
        case Call(function, args):
            return Call(function, tuple(map_refs(arg, mapping) for arg in args))
        case Cast(arg, target):
            return Cast(map_refs(arg, mapping), target)
        case Case(branches, otherwise):
            pairs = tuple((map_refs(c, mapping), map_refs(v, mapping)) for c, v in branches)
            return Case(pairs, map_refs(otherwise, mapping))
    return scalar


def shift(scalar: Scalar, by: int) -> Scalar:
    return map_refs(scalar, lambda ref: replace(ref, position=ref.position + by))


def conjuncts(predicate: Scalar) -> tuple[Scalar, ...]:
    """The parts of an AND, flat. What every side of an OR asks for is a part of its own, so that joins see
    it: (a ∧ b) ∨ (a ∧ c) is a ∧ (b ∨ c), and a ∨ (a ∧ b) is a, with NULLs too. Only what never raises is
    taken out: b and c may guard a."""
    match predicate:
        case Call("and", args):
            return tuple(part for arg in args for part in conjuncts(arg))
        case Call("or"):
            sides = [conjuncts(side) for side in _disjuncts(predicate)]
            common = tuple(part for part in sides[0] if _simple(part) and all(part in s for s in sides[1:]))
            if common:
                rest = [[part for part in side if part not in common] for side in sides]
                return common if not all(rest) else (*common, joined("or", [joined("and", s) for s in rest]))
    return (predicate,)


def _simple(predicate: Scalar) -> bool:
    """A comparison of columns and literals."""
    return (
        isinstance(predicate, Call)
        and predicate.function in ("=", "<=>", "<>", "<", "<=", ">", ">=")
        and all(isinstance(arg, Ref | Literal) for arg in predicate.args)
    )


def _disjuncts(predicate: Scalar) -> tuple[Scalar, ...]:
    if isinstance(predicate, Call) and predicate.function == "or":
        return tuple(part for arg in predicate.args for part in _disjuncts(arg))
    return (predicate,)


def joined(function: str, parts: Sequence[Scalar]) -> Scalar:
    """AND or OR of any number of parts, as a tree that is no deeper than it must be."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Call(function, (joined(function, parts[:middle]), joined(function, parts[middle:])))
