"""What is taken out of an OR means the same, whatever is NULL."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from stillframe.algebra import Call, Literal, Ref, Scalar, call
from stillframe.algebra.evaluate import evaluate_scalar
from stillframe.algebra.scalar import conjuncts, joined
from stillframe.algebra.types import BOOLEAN, INT

A, B, C = (Call("=", (Ref(i, BOOLEAN), Literal(True, BOOLEAN))) for i in range(3))
leaves: st.SearchStrategy[Scalar] = st.sampled_from((A, B, C))
predicates = st.recursive(
    leaves,
    lambda below: st.builds(Call, st.sampled_from(("and", "or")), st.tuples(below, below)),
    max_leaves=12,
)


@given(predicates)
def test_the_parts_together_are_the_predicate(predicate: Scalar) -> None:
    whole = joined("and", conjuncts(predicate))
    for row in product((True, False, None), repeat=3):
        assert evaluate_scalar(whole, row) is evaluate_scalar(predicate, row)


def test_what_every_side_asks_for_is_a_part() -> None:
    sides = [joined("and", side) for side in ([B, A], [A, C], [A, Call("not", (B,))])]
    first, rest = conjuncts(joined("or", sides))
    assert first == A and rest == joined("or", [B, C, Call("not", (B,))])
    assert conjuncts(Call("or", (Call("and", (A, B)), A))) == (A,)
    assert len(conjuncts(Call("or", (A, B)))) == 1


def test_what_may_be_guarded_stays_behind_its_guard() -> None:
    x = Ref(3, INT)
    raises = call(">", call("div", Literal(10, INT), x), Literal(2, INT))
    guards = (call(">", x, Literal(0, INT)), call("<", x, Literal(0, INT)))
    predicate = joined("or", [joined("and", [guard, raises]) for guard in guards])
    assert conjuncts(predicate) == (predicate,)
