"""What every store of records shares: what a handle is of, how its records are named, and connections.

A record is named by one text. That of a record of the view is its key as `encoding` spells it; that of one of
another kind is `%K`, the kind, a colon and the key with letters, which no key of the view gives.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from urllib.parse import unquote

from stillframe.algebra.schema import Schema
from stillframe.algebra.types import Type
from stillframe.records.encoding import key_text, key_values, lettered_text, lettered_values, spelled
from stillframe.records.store import ABSENT, Fenced, Key, StoreError, Write

CONNECT_SECONDS = 10
ANSWER_SECONDS = 30
IDLE_SECONDS = 60.0  # a connection that was idle for longer may have been cut off, and is not used again
KIND = "%K"
AGAIN = "nothing is lost: what was not written comes again"


@dataclass(frozen=True)
class Handle:
    """The view `view` of project `name`, whose rows have `schema`; `key` are the places of its key columns.
    What it writes, it writes at `epoch`. Connections belong to the process, not to a handle."""

    url: str = field(repr=False)
    name: str
    view: str
    schema: Schema
    key: tuple[int, ...]
    epoch: int

    @cached_property
    def key_types(self) -> tuple[Type, ...]:
        return tuple(self.schema[place].type for place in self.key)

    @cached_property
    def shape(self) -> str:
        """What a store must have been made for, to be this view's."""
        keys = [self.schema[place].name for place in self.key]
        columns = [[column.name, str(column.type)] for column in self.schema]
        return json.dumps({"columns": columns, "key": keys}, ensure_ascii=False)

    def id_of(self, key: Key) -> str:
        return f"{KIND}{spelled(key.kind)}:{lettered_text(key.values)}" if key.kind else key_text(key.values)

    def key_of(self, id_: str) -> Key:
        if not id_.startswith(KIND):
            return Key(key_values(id_, self.key_types))
        kind, _, values = id_.removeprefix(KIND).partition(":")
        return Key(lettered_values(values), unquote(kind))

    def named(self, writes: Sequence[Write]) -> dict[str, Write]:
        """Writes by the names of their records. What no store could keep is the caller's mistake."""
        found = {self.id_of(write.key): write for write in writes}
        if len(found) < len(writes):
            raise ValueError("a record is written twice in one call")
        for id_, (key, _, record, _) in found.items():
            if record is None:
                continue
            if record.version == ABSENT:
                raise ValueError("a record that is there has a version")
            if (row := record.shown) is None:
                continue
            if key.kind or len(row) != len(self.schema):
                raise ValueError(f"record {id_!r} cannot be shown as a row of view {self.view!r}")
            held = tuple(row[place] for place in self.key)
            if held != key.values and key_text(held) != id_:
                raise ValueError(f"record {id_!r} would be shown with another key")
        return found

    def close(self) -> None:
        """Its connections stay, for the handles after it."""

    # What goes wrong, in the words of any store.

    def refuse(self, epoch: int, newest: int) -> None:
        if epoch < newest:
            raise Fenced(
                f"another session maintains view {self.view!r} by now",
                detail=f"this one began as number {epoch}, the newest is {newest}",
                hint="stop this session; what it had not written, the other one writes",
            )

    def taken(self, place: str, detail: str) -> NoReturn:
        raise StoreError(
            f"view {self.view!r} cannot be kept in {place}",
            detail=detail,
            hint="give another store or another name, or remove what is there if nobody needs it",
            code="STORE_TAKEN",
        )

    def agree(self, place: str, name: str, view: str, shape: str) -> None:
        """What the books of a store say of the view that was made there must be what this handle is of."""
        if (name, view) != (self.name, self.view):
            self.taken(place, f"view {view!r} of project {name!r} is kept there")
        if shape != self.shape:
            self.taken(place, f"it is kept there with other columns: {shape}")

    def not_made(self, place: str) -> NoReturn:
        raise StoreError(
            f"nothing of view {self.view!r} is in {place}",
            detail="it was never made there, or was dropped",
            hint="make the view anew: its records are filled again from the sources",
            code="STORE_NOT_MADE",
        )

    def tampered(self, place: str, detail: str) -> NoReturn:
        raise StoreError(
            f"another program changed view {self.view!r} in {place}",
            detail=detail,
            hint="make the view anew, and let programs only read it",
            code="STORE_CHANGED",
        )


class Closable(Protocol):
    def close(self) -> Any: ...


C = TypeVar("C", bound=Closable)
A = TypeVar("A", bound=Hashable)


class Pool(Generic[A, C]):
    """The connections of a process, by where they lead. One serves one call at a time, so there are as many
    as threads call at once. After a call that failed, it and those idle beside it are thrown away. Those of
    the process that this one was forked from are left alone: not used, not closed, not collected."""

    def __init__(self, connect: Callable[[A], C]) -> None:
        self._connect = connect
        self._idle: dict[tuple[int, A], list[tuple[C, float]]] = {}

    @contextmanager
    def connection(self, where: A) -> Iterator[C]:
        idle = self._idle.setdefault((os.getpid(), where), [])
        con = _rested(idle)
        if con is None:
            con = self._connect(where)
        try:
            yield con
        except BaseException:
            _close(con)
            while (other := _rested(idle)) is not None:
                _close(other)
            raise
        idle.append((con, time.monotonic()))

    def close(self) -> None:
        """The connections of this process that no call uses."""
        for (process, _), idle in list(self._idle.items()):
            while process == os.getpid() and (con := _rested(idle)) is not None:
                _close(con)


def _rested(idle: list[tuple[C, float]]) -> C | None:
    while True:
        try:
            con, since = idle.pop()  # two threads never take one
        except IndexError:
            return None
        if time.monotonic() - since < IDLE_SECONDS:
            return con
        _close(con)


def _close(con: Closable) -> None:
    with suppress(Exception):
        con.close()
