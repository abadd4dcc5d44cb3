"""The change of a join of n inputs: a sum of terms, in the order that a propagation tree gives.

Law: with R' = R + dR,
    R1' ⋈ … ⋈ Rn'  −  R1 ⋈ … ⋈ Rn  =  Σ_i  R1' ⋈ … ⋈ R(i-1)' ⋈ dRi ⋈ R(i+1) ⋈ … ⋈ Rn
The sum telescopes: term i turns the i-th factor from before to after. Each factor may itself be a join, whose
change the same law gives: that is a tree, and n terms are the tree of one level. Inputs are told apart by
their place, so a self-join needs nothing special: each occurrence of a relation is a factor of its own.
Terms whose change is empty are left out before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable

from stillframe.algebra import Join, Plan
from stillframe.change.linear import through, total
from stillframe.change.propagation import Tree, join_inputs, n_term, nested, planned, propagated

Order = Callable[[Join, frozenset[str]], Tree]  # the tree by which a join's change is computed


def in_order_written(join: Join, changed: frozenset[str]) -> Tree:
    return n_term(join_inputs(join, changed))


def join_change(
    join: Join, changed: frozenset[str], change_of: Callable[[Plan], Plan | None], order: Order
) -> Plan | None:
    if len(join.inputs) == 1:
        return through(lambda term: Join((term,), join.conditions), change_of(join.inputs[0]))
    expression = propagated(order(join, changed))
    return total(nested(planned(join, expression, changed, change_of)))
