"""Views are made once however often they are made, and dropped alone."""

from __future__ import annotations

from contextlib import suppress

from stillframe.records.conformance.world import (
    EVERY_TYPE,
    NEIGHBOUR,
    ONE_ROW,
    ORDERS,
    THREADS,
    VERSIONS,
    Check,
    Maker,
    at_once,
    key_of,
    made,
    put,
    record,
)
from stillframe.records.store import ABSENT, NOTHING, Key, Record, StoreError, Write


def check_made_twice_and_dropped(make: Maker) -> None:
    make(1).drop()
    store = made(make)
    neighbours = [made(make, NEIGHBOUR), made(make, ONE_ROW)]
    first = record(key_of(1))
    put(store, Write(key_of(1), ABSENT, first, "tag"))
    put(neighbours[0], Write(key_of(1), ABSENT, first, "tag"))
    put(neighbours[1], Write(Key(()), ABSENT, Record(next(VERSIONS), (1, None)), "tag"))
    store.create()
    make(2).create()
    assert store.read([key_of(1)]) == [first], "made again, a view is empty"
    store.drop()
    store.drop()
    with suppress(StoreError):
        assert not store.test_and_set([Write(key_of(1), first.version, record(key_of(1)))])[0]
    store.create()
    assert store.read([key_of(1)]) == [NOTHING], "a dropped view has records"
    assert list(store.scan()) == store.tagged("tag") == []
    put(store, Write(key_of(1), ABSENT, record(key_of(1))))
    for neighbour, key in zip(neighbours, (key_of(1), Key(())), strict=True):
        assert neighbour.tagged("tag") == [key]
        assert len(list(neighbour.scan())) == 1, "another view was dropped too"


def check_other_columns_are_refused(make: Maker) -> None:
    store, first = made(make), record(key_of(1))
    put(store, Write(key_of(1), ABSENT, first))
    for other in (ORDERS._replace(schema=EVERY_TYPE.schema), ORDERS._replace(key=(0,))):
        try:
            make(1, other).create()
        except StoreError as error:
            assert error.hint
        else:
            raise AssertionError("a view with other columns took the place of one that is there")
    assert store.read([key_of(1)]) == [first]


def check_many_make_it_at_once(make: Maker) -> None:
    def work(n: int) -> None:
        store = made(make)
        put(store, Write(key_of(n), ABSENT, record(key_of(n))))

    at_once(work)
    assert len(list(make(1).scan())) == THREADS


CHECKS: tuple[Check, ...] = (
    check_made_twice_and_dropped,
    check_other_columns_are_refused,
    check_many_make_it_at_once,
)
