"""Records in a Redis server: any client reads the results.

    stillframe:NAME:VIEW:KEY        a row: a hash with a field for each column that is not NULL, spelled as
                                    `encoding` says; one whose every column is NULL has a field of no name
    stillframe~:NAME:VIEW           the view: what columns it was made for, the epoch it is written from
    stillframe~:NAME:VIEW:r:ID      what managers keep of a record: version, kept, shown, tag
    stillframe~:NAME:VIEW:t:TAG     the records that have a tag, a set

NAME and VIEW are spelled as parts of keys are. So who scans stillframe:NAME:VIEW:* sees rows only.

Both parts of a record, its tag and the epoch are looked at and written by one script, which Redis runs alone.
It takes one server, with replicas or not, and no cluster: what a script touches lies in several slots. What
was acknowledged is as durable as the server's settings make it (appendonly, appendfsync).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

from redis import Redis
from redis.exceptions import ResponseError

from stillframe.records.encoding import spelled, text_of, value_of
from stillframe.records.store import NOTHING, Key, Record, Write
from stillframe.records.stores.redis_scripts import DROPPING, FENCE, FENCED, KEPT, MAKE, READ, WRITE
from stillframe.records.stores.redis_session import answers, connected, place_of
from stillframe.records.stores.shared import Handle

_AT_ONCE = 50  # records of one run of a script, while which the server serves nobody else
_SCANNED = 1000
_NO_COLUMN = ""  # the field of a row that has no other
_GLOB = re.compile(r"([*?\[\]\\])")
T = TypeVar("T")


@dataclass(frozen=True)
class RedisStore(Handle):
    @cached_property
    def place(self) -> str:
        return place_of(self)

    @cached_property
    def book(self) -> str:
        return f"stillframe~:{spelled(self.name)}:{spelled(self.view)}"

    @cached_property
    def rows(self) -> str:
        return f"stillframe:{spelled(self.name)}:{spelled(self.view)}:"

    @cached_property
    def fields(self) -> list[str]:
        return [*self.schema.names, _NO_COLUMN]

    def create(self) -> None:
        with connected(self) as client:
            self._refuse_forgetful(client)
            if client.hget(self.book, "dropping"):
                self._clear(client)
            if not client.exists(self.book):
                stray = next(self._keys(client, self.rows, f"{self.book}:"), None)
                if stray is not None and not client.exists(self.book):
                    told = stray.decode(errors="replace")
                    self.taken(self.place, f"key {told!r} is there, and Stillframe did not make it")
            shape: Any = client.eval(MAKE, 1, self.book, self.shape)
            self.agree(self.place, self.name, self.view, shape.decode())

    def drop(self) -> None:
        with connected(self) as client:
            if client.eval(DROPPING, 1, self.book):
                self._clear(client)

    def fence(self, epoch: int) -> None:
        with connected(self) as client:
            (answer,) = answers(client, FENCE, [([self.book], [epoch])])
            self._refuse(epoch, answer)

    def fenced(self) -> int:
        with connected(self) as client:
            found: Any = client.hget(self.book, "epoch")
        return self.not_made(self.place) if found is None else int(found)

    def read(self, keys: Sequence[Key]) -> list[Record]:
        ids = [(self.id_of(key), key.kind) for key in keys]
        calls = [(self._places(part), self.fields) for part in _parts(ids, _AT_ONCE)]
        found = []
        with connected(self) as client:
            for answer in answers(client, READ, calls):
                self._refuse(self.epoch, answer)
                found += answer
        return [self._record(id_, each) for (id_, _), each in zip(ids, found, strict=True)]

    def kept(self, keys: Sequence[Key]) -> list[tuple[int, bytes]]:
        places = [f"{self.book}:r:{self.id_of(key)}" for key in keys]
        calls: list[Any] = [([self.book, *part], []) for part in _parts(places, _AT_ONCE)]
        found: list[tuple[int, bytes]] = []
        with connected(self) as client:
            for answer in answers(client, KEPT, calls):
                self._refuse(self.epoch, answer)
                found += zip(map(int, answer[::2]), answer[1::2], strict=True)
        return found

    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        calls = []
        for part in _parts(self.named(writes).items(), _AT_ONCE):
            places = self._places([(id_, write.key.kind) for id_, write in part])
            told = [word for id_, write in part for word in self._told(id_, write)]
            calls.append((places, [self.epoch, f"{self.book}:t:", *told]))
        done = []
        with connected(self) as client:
            for answer in answers(client, WRITE, calls):
                self._refuse(self.epoch, answer)
                done += [each == 1 for each in answer]
        return done

    def tagged(self, tag: str) -> list[Key]:
        with connected(self) as client:
            found: Any = client.smembers(f"{self.book}:t:{tag}")
        return [self.key_of(id_.decode()) for id_ in found]

    def scan(self) -> Iterator[tuple[Any, ...]]:
        seen: set[bytes] = set()  # Redis may tell a key twice
        with connected(self) as client:
            if not client.exists(self.book):
                self.not_made(self.place)
            for keys in _parts(self._keys(client, self.rows), _SCANNED):
                pipe = client.pipeline(transaction=False)
                for key in dict.fromkeys(key for key in keys if key not in seen):
                    pipe.hmget(key, self.fields)
                seen.update(keys)
                for values in pipe.execute():
                    if values.count(None) < len(values):  # else it went meanwhile
                        yield self._row(values)

    def _places(self, ids: Iterable[tuple[str, str]]) -> list[str]:
        """The book, and of each record the keys of what is kept and of what is shown: the same key twice for
        a kind that never is."""
        places = [self.book]
        for id_, kind in ids:
            kept = f"{self.book}:r:{id_}"
            places += (kept, kept if kind else self.rows + id_)
        return places

    def _told(self, id_: str, write: Write) -> list[Any]:
        _, expected, record, tag = write
        if record is None:
            return [id_, expected, "", "", "", 0]
        row = []
        if record.shown is not None:
            cells = zip(self.schema.names, record.shown, strict=True)
            row = [word for name, value in cells if value is not None for word in (name, text_of(value))]
            row = row or [_NO_COLUMN, ""]
        told = "" if tag is None else f"={tag}"
        return [id_, expected, record.version, record.kept, told, len(row) // 2, *row]

    def _record(self, id_: str, found: Any) -> Record:
        if found is None:
            return NOTHING
        version, kept, row = found
        if row is None:
            return Record(int(version), None, kept)
        if row.count(None) == len(row):
            self.tampered(self.place, f"the row of record {id_!r} is gone")
        return Record(int(version), self._row(row), kept)

    def _row(self, values: Sequence[bytes | None]) -> tuple[Any, ...]:
        return tuple(
            None if value is None else value_of(value.decode(), type_)
            for value, type_ in zip(values[:-1], self.schema.types, strict=True)
        )

    def _refuse(self, epoch: int, answer: Any) -> None:
        if isinstance(answer, bytes):
            if answer.startswith(FENCED):
                self.refuse(epoch, int(answer.removeprefix(FENCED)))
            self.not_made(self.place)

    def _keys(self, client: Redis, *beginnings: str) -> Iterator[bytes]:
        for beginning in beginnings:
            yield from client.scan_iter(match=_GLOB.sub(r"\\\1", beginning) + "*", count=_SCANNED)

    def _clear(self, client: Redis) -> None:
        for keys in _parts(self._keys(client, self.rows, f"{self.book}:"), _SCANNED):
            client.unlink(*keys)
        client.delete(self.book)

    def _refuse_forgetful(self, client: Redis) -> None:
        memory: Any = {}
        with suppress(ResponseError):  # an account may not be told
            memory = client.info("memory")
        policy = str(memory.get("maxmemory_policy", ""))
        if memory.get("maxmemory") and policy.startswith("allkeys"):
            self.taken(self.place, f"the server forgets keys when it is full (maxmemory-policy {policy})")


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
