"""The judge of seen histories tells a state that its level allows from one that it does not."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest

from records.histories import Base, Order, judged
from stillframe.records.entry import STREAMS
from stillframe.records.keeping import bytes_of
from stillframe.records.requests import State
from stillframe.records.signature import Signature
from stillframe.records.store import Key, Record

SESSION = 2
BEFORE = Base({1: Order("EU", 7, 10), 2: Order("EU", 7, 30)}, {7: "ann"})
AFTER = Base({1: Order("EU", 7, 20), 2: Order("EU", 7, 30)}, {7: "ann!"})
STREAM = crc32(b"1") % STREAMS


def shown(*rows: tuple[Any, ...] | None) -> list[Record]:
    return [Record(version, row) for version, row in enumerate(rows, start=1)]


def summed(mark: int | None, count: int, total: int) -> Record:
    marks = () if mark is None else ((STREAM, mark),)
    return Record(1, None, bytes_of(State(Signature(SESSION, marks), (count, ((total, count),)))))


def wrong(view: str, key: object, records: list[Record]) -> int:
    return judged(view, {Key((key,)): records}, BEFORE, AFTER, SESSION)


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([summed(None, 2, 40), summed(0, 2, 50)], 0),
        ([summed(0, 2, 40)], 1),  # the state before, under the name of the one after
        ([summed(None, 2, 50)], 1),
        ([summed(0, 2, 50), summed(None, 2, 40)], 1),  # back again
    ],
)
def test_a_sum_is_that_of_the_state_it_names(records: list[Record], found: int) -> None:
    assert wrong("summed", "EU", records) == found


@pytest.mark.parametrize(
    ("least", "found"), [((10, 20), 0), ((20, 10), 0), ((30,), 1), ((15,), 1), ((None,), 1)]
)
def test_a_minimum_is_that_of_some_state(least: tuple[int | None, ...], found: int) -> None:
    records = shown(*(None if one is None else ("EU", one) for one in least))
    assert wrong("least", "EU", records) == found


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([(1, 10, "ann"), (1, 20, "ann"), (1, 20, "ann!")], 0),
        ([(1, 10, "ann!"), (1, 20, "ann!")], 0),
        ([(1, 20, "ann"), (1, 10, "ann!")], 1),  # the order goes back
        ([(1, 10, "ann!"), (1, 10, "ann")], 1),  # the name goes back
        ([(1, 15, "ann")], 1),
        ([None], 1),
    ],
)
def test_joined_rows_are_those_of_states_in_order(rows: list[tuple[Any, ...] | None], found: int) -> None:
    assert wrong("named", 1, shown(*rows)) == found
