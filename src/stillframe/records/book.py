"""What a store says of the records in it: whose they are, and which session wrote them last. It is a record
of its own kind, beside them; so a store that lost its records, or was set back, lost or set back its book,
too."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from stillframe.records.store import Key, Record, RecordStore, StoreError, Write

_KEY = Key((), "book")


class Book(NamedTuple):
    """`done` says that the session came to its end."""

    owner: str
    session: int
    done: bool


def read_book(store: RecordStore) -> Book | None:
    ((_, kept),) = store.kept([_KEY])
    return Book(*json.loads(kept)) if kept else None


def write_book(store: RecordStore, book: Book) -> None:
    ((version, _),) = store.kept([_KEY])
    new = Record((int.from_bytes(os.urandom(8)) >> 2) + 1, None, json.dumps(book).encode())
    if store.test_and_set([Write(_KEY, version, new)]) != [True]:
        raise StoreError("another session writes these records", hint="try again when it is done")
