"""Many writers at once: no update is lost, none is done twice, none comes after the fence."""

from __future__ import annotations

import random
import time
from collections import Counter
from threading import Event

from stillframe.records.conformance.world import (
    THREADS,
    TURNS,
    Check,
    Maker,
    at_once,
    key_of,
    made,
    put,
    record,
    shown,
)
from stillframe.records.store import ABSENT, NOTHING, Fenced, Key, Record, RecordStore, Write


def check_no_update_is_lost(make: Maker) -> None:
    store, key = made(make), key_of(1)

    def work(n: int) -> None:
        mine, rng = make(1), random.Random(n)
        for _ in range(TURNS):
            while not _increment(mine, [key])[0]:
                time.sleep(rng.uniform(0, 0.002))

    at_once(work)
    (held,) = store.read([key])
    assert _count(held) == THREADS * TURNS, f"{_count(held)} of {THREADS * TURNS} updates are there"


def check_one_of_many_makes_it(make: Maker) -> None:
    keys = [key_of(n) for n in range(25)]
    store = made(make)

    def work(n: int) -> dict[Key, int]:
        mine, won = make(1), {}
        for key in keys if n % 2 else keys[::-1]:
            new = record(key, f"{n}.00")
            if mine.test_and_set([Write(key, ABSENT, new)]) == [True]:
                won[key] = new.version
        return won

    wins = at_once(work)
    for key, held in zip(keys, store.read(keys), strict=True):
        winners = [won[key] for won in wins if key in won]
        assert winners == [held.version], f"{len(winners)} writers made a record that was not there"
    assert len(list(store.scan())) == len(keys)


def check_overlapping_batches(make: Maker) -> None:
    """In opposite and in random order, of records that are there and of some that are not."""
    keys = [key_of(n) for n in range(60)]
    store = made(make)
    put(store, *(Write(key, ABSENT, record(key, "0.00", bytes(8))) for key in keys[::2]))

    def work(n: int) -> Counter[Key]:
        mine, rng, done = make(1), random.Random(n), Counter[Key]()
        for turn in range(12):
            order = [keys, keys[::-1], rng.sample(keys, 40)][(n + turn) % 3]
            done.update(key for key, ok in zip(order, _increment(mine, order), strict=True) if ok)
        return done

    done = sum(at_once(work), Counter[Key]())
    found = store.read(keys)
    assert {key: _count(held) for key, held in zip(keys, found, strict=True)} == {k: done[k] for k in keys}
    assert sum(done.values()) > 0, "nobody ever wins"


def check_made_and_removed_at_once(make: Maker) -> None:
    keys = [key_of(n) for n in range(20)]
    store = made(make)

    def work(n: int) -> Counter[Key]:
        mine, rng, balance = make(1), random.Random(n), Counter[Key]()
        for _ in range(12):
            order = rng.sample(keys, len(keys))
            writes = [
                Write(key, held.version, None if held.version else record(key), "there")
                for key, held in zip(order, mine.read(order), strict=True)
            ]
            for write, ok in zip(writes, mine.test_and_set(writes), strict=True):
                balance[write.key] += ok * (1 if write.record else -1)
        return balance

    balance = Counter[Key]()
    for each in at_once(work):
        balance.update(each)
    there = [key for key, held in zip(keys, store.read(keys), strict=True) if held != NOTHING]
    assert {key: n for key, n in balance.items() if n} == dict.fromkeys(there, 1)
    assert set(store.tagged("there")) == set(there)
    assert {row[0] for row in store.scan()} == {key.values[1] for key in there}


def check_fence(make: Maker) -> None:
    old, new, key = made(make), make(10), key_of(1)
    first = record(key)
    put(make(9), Write(key, ABSENT, first))
    assert old.fenced() == 0
    new.fence(10)
    new.fence(10)
    for writer in (old, make(9)):
        writes = [Write(key, first.version, None), Write(key_of(2), ABSENT, record(key_of(2)), "tag")]
        _must_be_fenced(writer, writes)
        assert writer.read([key, key_of(2)]) == [first, NOTHING], "a part of a refused call was done"
    for late in (9, 2):
        try:
            make(late).fence(late)
        except Fenced:
            continue
        raise AssertionError(f"epoch {late} fenced off epoch 10")
    old.create()
    assert old.fenced() == make(100).fenced() == 10
    _must_be_fenced(make(9), [Write(key, first.version, None)])
    second = record(key, "2.00")
    put(new, Write(key, first.version, second))
    put(make(100), Write(key_of(2), ABSENT, record(key_of(2))))
    assert len(list(old.scan())) == 2, "who may not write may still read"


def check_fence_among_writers(make: Maker) -> None:
    """When it returns, no write of a lower epoch takes effect any more."""
    made(make)
    going, over = Event(), Event()
    keys = [key_of(n) for n in range(THREADS * 10)]

    def work(n: int) -> list[Record]:
        if n == 0:
            try:
                going.wait(60)
                make(2).fence(2)
                return make(2).read(keys)
            finally:
                over.set()
        mine, own, left = make(1), keys[n * 10 : n * 10 + 10], 20
        while left:
            try:
                _increment(mine, own)
            except Fenced:
                return []
            left -= over.is_set()
            going.set()
        raise AssertionError("a writer of a lower epoch is never refused")

    then, *_ = at_once(work)
    after = make(2)
    assert after.read(keys) == then, "a write of a lower epoch took effect after the fence"
    assert shown(then), "nobody wrote anything before the fence"
    assert _increment(after, keys) == [True] * len(keys)


def _increment(store: RecordStore, keys: list[Key]) -> list[bool]:
    """Both parts of a record say how often it was incremented."""
    writes = []
    for key, held in zip(keys, store.read(keys), strict=True):
        n = _count(held) + 1
        writes.append(Write(key, held.version, record(key, f"{n}.00", n.to_bytes(8))))
    return store.test_and_set(writes)


def _count(held: Record) -> int:
    n = int.from_bytes(held.kept)
    told = held.shown[2] if held.shown else 0
    assert told == n, f"a record is read half old, half new: {told} is shown, {n} is kept"
    return n


def _must_be_fenced(store: RecordStore, writes: list[Write]) -> None:
    try:
        done = store.test_and_set(writes)
    except Fenced as fenced:
        assert fenced.hint
        return
    raise AssertionError(f"a writer of a lower epoch was not refused: {done}")


CHECKS: tuple[Check, ...] = (
    check_no_update_is_lost,
    check_one_of_many_makes_it,
    check_overlapping_batches,
    check_made_and_removed_at_once,
    check_fence,
    check_fence_among_writers,
)
