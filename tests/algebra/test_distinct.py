"""Values of a column, each once: what a set of them is."""

from __future__ import annotations

from datetime import date
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from stillframe.algebra.arrow import distinct

FAR = [-(2**63), -1, 0, 1, 2**63 - 1]


def some(random: Random, type_: pa.DataType) -> Any:
    if pa.types.is_string(type_):
        return random.choice(["", "a", "b", "é"])
    if pa.types.is_date32(type_):
        return date.fromordinal(random.randrange(1, 3_000_000))
    if pa.types.is_int8(type_):
        return random.randrange(-128, 128)
    return random.choice([random.choice(FAR), random.randrange(40)])


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("type_", [pa.int64(), pa.int8(), pa.date32(), pa.string()], ids=str)
def test_each_value_is_there_once_and_numbers_are_in_order(type_: pa.DataType, seed: int) -> None:
    random = Random(seed)
    chunks = [
        [random.choice([None, some(random, type_)]) for _ in range(random.choice([0, 1, 5, 60]))]
        for _ in range(random.randrange(3))
    ]
    if random.randrange(2):  # close together
        chunks = [[value for value in chunk if value not in FAR] for chunk in chunks]

    found = distinct(pa.chunked_array(chunks, type_))

    expected = sorted({value for chunk in chunks for value in chunk if value is not None})
    assert found.type == type_
    assert sorted(found.to_pylist()) == expected
    if not pa.types.is_string(type_):
        assert found.to_pylist() == expected
