"""The change of a join of n inputs, in n terms.

Law: with R' = R + dR,
    R1' ⋈ … ⋈ Rn'  −  R1 ⋈ … ⋈ Rn  =  Σ_i  R1' ⋈ … ⋈ R(i-1)' ⋈ dRi ⋈ R(i+1) ⋈ … ⋈ Rn
The sum telescopes: term i turns the i-th factor from before to after. Inputs are told apart by their
place, so a self-join needs nothing special: each occurrence of a relation is a factor of its own.
Terms whose change is empty are left out before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable

from stillframe.algebra import Join, Moment, Plan
from stillframe.change.linear import terms, total
from stillframe.change.states import at


def join_change(join: Join, changed: frozenset[str], change_of: Callable[[Plan], Plan | None]) -> Plan | None:
    def term(place: int, change: Plan) -> Plan:
        after = tuple(at(plan, Moment.AFTER, changed) for plan in join.inputs[:place])
        before = tuple(at(plan, Moment.BEFORE, changed) for plan in join.inputs[place + 1 :])
        return Join((*after, change, *before), join.conditions)

    return total(
        term(place, change) for place, plan in enumerate(join.inputs) for change in terms(change_of(plan))
    )
