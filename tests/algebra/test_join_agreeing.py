"""A join is the product of its inputs, filtered. The evaluator looks only at rows that agree in equated
columns; these are the values for which agreeing and being `=` could come apart."""

from __future__ import annotations

from decimal import Decimal
from itertools import product

import pytest

from stillframe.algebra import Bag, Column, Join, Ref, Scan, Schema, call, evaluate, evaluate_scalar
from stillframe.algebra.types import BIGINT, DOUBLE, STRING, decimal

NAN = float("nan")
VALUES = {
    DOUBLE: [None, NAN, float("inf") - float("inf"), 0.0, -0.0, 1.0],
    BIGINT: [None, 0, 1, 2],
    STRING: [None, "", "a", "A"],
    decimal(9, 2): [None, Decimal("1.0"), Decimal("1.00"), Decimal("-0"), Decimal("0.00")],
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@pytest.mark.parametrize("function", ["=", "<=>", "<"])
def test_a_join_is_a_filtered_product(type_, function):
    scans = [Scan(name, Schema((Column("k", type_), Column("n", BIGINT)))) for name in ("r", "s", "t")]
    bags = {
        scan.relation: Bag(((value, n % 2), 1 - 2 * (n % 3)) for n, value in enumerate(VALUES[type_]))
        for scan in scans
    }
    conditions = tuple(
        call(function, Ref(there, type_, "k"), Ref(here, type_, "k")) for here, there in ((0, 2), (4, 2))
    )
    filtered = Bag(
        (a + b + c, m * n * o)
        for (a, m), (b, n), (c, o) in product(*(bags[scan.relation].items() for scan in scans))
        if all(evaluate_scalar(condition, a + b + c) is True for condition in conditions)
    )
    assert evaluate(Join(tuple(scans), conditions), lambda scan: bags[scan.relation]) == filtered
    assert filtered
