"""One writer: what it writes is what it reads, and what is shown."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal

from stillframe.records.conformance.world import (
    VERSIONS,
    Check,
    Maker,
    key_of,
    made,
    put,
    record,
    same,
    shown,
)
from stillframe.records.store import ABSENT, NOTHING, Key, Record, RecordStore, Write


def check_kept(store: RecordStore, keys: list[Key]) -> None:
    """What is kept is told alike with rows and without."""
    told = [(each.version, each.kept) for each in store.read(keys)]
    assert store.kept(keys) == told
    assert store.kept([]) == []


def check_nothing_is_there(make: Maker) -> None:
    store = made(make)
    assert store.read([key_of(1), Key(("x",), "kind")]) == [NOTHING, NOTHING]
    assert list(store.scan()) == []
    assert store.tagged("tag") == []
    assert store.read([]) == []
    assert store.test_and_set([]) == []
    put(store, Write(key_of(1), ABSENT, None))
    assert store.read([key_of(1)]) == [NOTHING]


def check_what_is_written_is_read(make: Maker) -> None:
    store = made(make)
    first = record(key_of(1), "1.50", b"\0kept\xff")
    put(store, Write(key_of(1), ABSENT, first))
    for handle in (store, make(1)):
        assert handle.read([key_of(1)]) == [first]
        check_kept(handle, [key_of(1), Key(key_of(1).values, "kind"), key_of(2)])
        assert same(handle.scan(), shown([first]))
    second = record(key_of(1), "-0.07")
    put(store, Write(key_of(1), first.version, second))
    assert store.read([key_of(1)]) == [second]
    assert same(store.scan(), shown([second])), "an old row is shown beside the new one"
    put(store, Write(key_of(1), second.version, None))
    assert store.read([key_of(1)]) == [NOTHING]
    assert list(store.scan()) == []


def check_answers_are_in_order(make: Maker) -> None:
    store = made(make)
    records = {key_of(n): record(key_of(n), f"{n}.00") for n in range(50)}
    put(store, *(Write(key, ABSENT, each) for key, each in records.items()))
    keys = [key_of(n) for n in random.Random(7).sample(range(100), 100)]
    keys += keys[:5]
    assert store.read(keys) == [records.get(key, NOTHING) for key in keys]
    check_kept(store, keys)
    writes = [Write(key, ABSENT, record(key)) for key in dict.fromkeys(keys)]
    assert store.test_and_set(writes) == [write.key not in records for write in writes]


def check_another_version_is_refused(make: Maker) -> None:
    store = made(make)
    key, old, new = key_of(1), record(key_of(1)), record(key_of(1), "2.00")
    put(store, Write(key, ABSENT, old))
    for expected in (ABSENT, new.version, old.version + 1, old.version - 1):
        for what in (new, None):
            assert store.test_and_set([Write(key, expected, what, "tag")]) == [False], f"expected {expected}"
    assert store.test_and_set([Write(key_of(2), old.version, record(key_of(2)))]) == [False]
    assert store.read([key, key_of(2)]) == [old, NOTHING]
    assert store.tagged("tag") == []
    assert same(store.scan(), shown([old]))


def check_made_again_is_told_apart(make: Maker) -> None:
    store = made(make)
    key, old = key_of(1), record(key_of(1))
    put(store, Write(key, ABSENT, old))
    put(store, Write(key, old.version, None))
    again = record(key)
    assert store.test_and_set([Write(key, old.version, again)]) == [False], "a removed record was written"
    put(store, Write(key, ABSENT, again))
    assert again.shown == old.shown
    assert store.test_and_set([Write(key, old.version, None)]) == [False], "taken for the one before it"
    assert store.read([key]) == [again]


def check_kept_is_not_shown(make: Maker) -> None:
    store = made(make)
    key, seen = key_of(1), record(key_of(1), kept=b"1")
    hidden = Record(next(VERSIONS), None, b"2")
    put(store, Write(key, ABSENT, seen), Write(key_of(2), ABSENT, hidden))
    put(store, Write(key, seen.version, hidden))
    assert list(store.scan()) == [], "what is only kept is shown"
    assert store.read([key, key_of(2)]) == [hidden, hidden]
    assert store.test_and_set([Write(key, ABSENT, seen)]) == [False]
    put(store, Write(key, hidden.version, seen), Write(key_of(2), hidden.version, None))
    assert store.read([key, key_of(2)]) == [seen, NOTHING]
    assert same(store.scan(), shown([seen]))


def check_kinds_are_never_shown(make: Maker) -> None:
    store = made(make)
    seen = record(key_of(1))
    values = ("north", 1)
    kept = {Key(values, kind): Record(next(VERSIONS), None, kind.encode()) for kind in ("k", "k:", "%", "ö")}
    put(store, *(Write(key, ABSENT, each) for key, each in kept.items()))
    assert list(store.scan()) == []
    assert store.read([key_of(1)]) == [NOTHING], "a record of a kind is taken for one of the view"
    put(store, Write(key_of(1), ABSENT, seen))
    assert store.read([*kept, key_of(1)]) == [*kept.values(), seen]
    assert same(store.scan(), shown([seen]))
    put(store, *(Write(key, each.version, None) for key, each in kept.items()))
    assert store.read([*kept, key_of(1)]) == [NOTHING] * len(kept) + [seen]


def check_tags_follow_writes(make: Maker) -> None:
    store = made(make)
    one, two, kind = key_of(1), key_of(2, None), Key((1, "1", Decimal("1.0"), None, date(1, 1, 1)), "kind")
    first = {key: Record(next(VERSIONS), None) for key in (one, two, kind)}
    put(store, *(Write(key, ABSENT, each, "ö:%*") for key, each in first.items()))
    found = store.tagged("ö:%*")
    assert same([(k.kind, *k.values) for k in found], [(k.kind, *k.values) for k in first])
    assert store.tagged("") == store.tagged("ö:%") == []
    second, third = record(one), record(two)
    put(store, Write(one, first[one].version, second, ""), Write(two, first[two].version, third))
    assert store.tagged("ö:%*") == [kind]
    assert store.tagged("") == [one]
    put(store, Write(one, second.version, None), Write(kind, first[kind].version, None))
    assert store.tagged("") == store.tagged("ö:%*") == [], "a tag outlives its record"


CHECKS: tuple[Check, ...] = (
    check_nothing_is_there,
    check_what_is_written_is_read,
    check_answers_are_in_order,
    check_another_version_is_refused,
    check_made_again_is_told_apart,
    check_kept_is_not_shown,
    check_kinds_are_never_shown,
    check_tags_follow_writes,
)
