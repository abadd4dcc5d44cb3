"""Records in a PostgreSQL database (14 or later): any client reads the results, as a table like any other.

The rows of a view are a table of the view's name, with the view's columns and nothing else, in the schema
that the url's options name (?options=-csearch_path%3Dname), else in `public`. Beside it `VIEW~` holds what
managers keep, and `stillframe~` what views there are and the epoch from which each is written.

A row is found by a hash of its key (an index on an expression, so no column of its own), then compared: NULL
equals NULL, and a key may be long and have many columns, for which PostgreSQL's indexes are too narrow. The
unique index on the key itself is for readers; it goes when a key comes that is too long for it.

A call that writes is one transaction. Every writer first locks the records that are there, then makes new
ones, both in one order: writers wait for each other, never in a circle. It holds a lock on `VIEW~` that a
fence waits for, and reads the epoch when it has it: when `fence` returns, no write of a lower epoch is under
way, and none begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from psycopg import Cursor
from psycopg import errors as e

from stillframe.postgres_url import place_of
from stillframe.records.store import ABSENT, NOTHING, Key, Record, StoreError, Write
from stillframe.records.stores.postgres_session import Session, connected, parts_of, transaction
from stillframe.records.stores.postgres_sql import (
    bare,
    digest,
    given,
    hashed,
    is_there,
    quoted,
    turned,
    type_name,
)
from stillframe.records.stores.shared import Handle

_MAKING = 7461836113  # the lock of those who make or drop views
_LONGEST_NAME, _WIDEST_INDEX = 63, 32
_BATCH = 2000
_STATE = ("id bytea", "key text", "version bigint", "shown boolean", "tag text", "kept bytea")


@dataclass(frozen=True)
class PostgresStore(Handle):
    @cached_property
    def place(self) -> str:
        return place_of(parts_of(self))

    @cached_property
    def columns(self) -> list[str]:
        return [quoted(name) for name in self.schema.names]

    @cached_property
    def types(self) -> list[str]:
        return [type_name(type_) for type_ in self.schema.types]

    def create(self) -> None:
        for name in (f"{self.view}~", *self.schema.names):
            if len(name.encode()) > _LONGEST_NAME:
                self.taken(self.place, f"PostgreSQL has no names as long as {name!r}")
        with transaction(self) as session:
            session.run("SELECT pg_advisory_xact_lock(%s)", _MAKING)
            books, rows, state = self._tables(session)
            if not is_there(session, books):
                session.run(
                    f"CREATE TABLE {books} (view text PRIMARY KEY, project text NOT NULL,"
                    " shape text NOT NULL, epoch bigint NOT NULL)"
                )
            made = session.one(f"SELECT project, view, shape FROM {books} WHERE view = %s", self.view)
            if made is not None:
                return self.agree(self.place, *made)
            for table in (rows, state):
                if is_there(session, table):
                    self.taken(self.place, f"{table} is there, and Stillframe did not make it")
            listed = ", ".join(map(" ".join, zip(self.columns, self.types, strict=True)))
            session.run(f"CREATE TABLE {rows} ({listed})")
            keys = [self.columns[place] for place in self.key]
            if keys:
                session.run(f"CREATE INDEX ON {rows} ({hashed(keys)})")
            if 0 < len(keys) <= _WIDEST_INDEX:
                session.run(f"CREATE UNIQUE INDEX ON {rows} ({', '.join(keys)})")
            session.run(f"CREATE TABLE {state} ({', '.join(_STATE)}, PRIMARY KEY (id))")
            session.run(f"CREATE INDEX ON {state} (md5(tag)) WHERE tag IS NOT NULL")
            session.run(f"INSERT INTO {books} VALUES (%s, %s, %s, 0)", self.view, self.name, self.shape)
        return None

    def drop(self) -> None:
        with transaction(self) as session:
            session.run("SELECT pg_advisory_xact_lock(%s)", _MAKING)
            books, rows, state = self._tables(session)
            ours = f"DELETE FROM {books} WHERE view = %s AND project = %s RETURNING view"
            if is_there(session, books) and session.one(ours, self.view, self.name):
                session.run(f"DROP TABLE IF EXISTS {state}")  # first, as writers lock them
                session.run(f"DROP TABLE IF EXISTS {rows}")

    def fence(self, epoch: int) -> None:
        with transaction(self) as session:
            books, _, state = self._tables(session)
            session.run(f"LOCK TABLE {state} IN SHARE ROW EXCLUSIVE MODE")
            self.refuse(epoch, self._epoch(self._book(session)))
            session.run(f"UPDATE {books} SET epoch = %s WHERE view = %s", epoch, self.view)

    def fenced(self) -> int:
        with connected(self) as session:
            return self._epoch(self._book(session))

    def read(self, keys: Sequence[Key]) -> list[Record]:
        """In one statement: it sees both parts of a record as they were at one moment."""
        if not keys:
            return []
        ids = [self.id_of(key) for key in keys]
        empty = (None,) * len(self.key)
        values = turned([empty if key.kind else key.values for key in keys])
        found = [NOTHING] * len(keys)
        with connected(self) as session:
            _, rows, state = self._tables(session)
            columns = "".join(f", r.{column}" for column in self.columns)
            sought = given(["n integer", "id bytea", *self._named(self.key)])
            cursor = session.run(
                f"SELECT v.n, s.version, s.kept, s.shown, r.ctid IS NULL{columns}"
                f" FROM {sought} JOIN {state} AS s ON s.id = v.id"
                f" LEFT JOIN {rows} AS r ON s.shown AND {self._at_key}",
                *(list(range(len(keys))), [digest(id_) for id_ in ids], *values),
            )
            for n, version, kept, shown, missing, *row in cursor:
                if shown and missing:
                    self.tampered(self.place, f"the row of record {ids[n]!r} is gone")
                found[n] = Record(version, tuple(row) if shown else None, kept)
        return found

    def kept(self, keys: Sequence[Key]) -> list[tuple[int, bytes]]:
        if not keys:
            return []
        found: list[tuple[int, bytes]] = [(ABSENT, b"")] * len(keys)
        with connected(self) as session:
            *_, state = self._tables(session)
            sought = given(["n integer", "id bytea"])
            cursor = session.run(
                f"SELECT v.n, s.version, s.kept FROM {sought} JOIN {state} AS s ON s.id = v.id",
                *(list(range(len(keys))), [digest(self.id_of(key)) for key in keys]),
            )
            for n, version, kept in cursor:
                found[n] = version, kept
        return found

    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        named = self.named(writes)
        if not named:
            return []
        try:
            done = self._write(named)
        except StoreError as error:  # after which nothing of the call is done
            match error.__cause__:
                case e.DeadlockDetected() | e.SerializationFailure():
                    done = set()
                case e.ProgramLimitExceeded() if self._widened():
                    done = self._write(named)
                case _:
                    raise
        return [id_ in done for id_ in named]

    def tagged(self, tag: str) -> list[Key]:
        with connected(self) as session:
            state = self._tables(session)[2]
            found = session.run(f"SELECT key FROM {state} WHERE md5(tag) = md5(%s) AND tag = %s", tag, tag)
            return [self.key_of(key) for (key,) in found]

    def scan(self) -> Iterator[tuple[Any, ...]]:
        with connected(self) as session:
            session.run("BEGIN READ ONLY")
            session.run("SET LOCAL idle_in_transaction_session_timeout = 0")  # as slowly as they are read
            with session.con.cursor(name="stillframe") as cursor:
                cursor.itersize = _BATCH
                rows = self._tables(session)[1]
                yield from cursor.execute(f"SELECT {', '.join(self.columns)} FROM {rows}", ())
            session.run("COMMIT")

    def _write(self, named: dict[str, Write]) -> set[str]:
        """The names of the records whose writes were done."""
        ids = sorted((digest(name), name) for name in named)
        with transaction(self) as session:
            _, _, state = self._tables(session)
            session.run(f"LOCK TABLE {state} IN ROW EXCLUSIVE MODE")
            book = self._book(session)
            sql = f"SELECT key, version, shown FROM {state} WHERE id = ANY (%s) ORDER BY id FOR UPDATE"
            found = session.run(sql, [id_ for id_, _ in ids])
            self.refuse(self.epoch, self._epoch(book))
            there = {name: (version, shown) for name, version, shown in found}
            due = [
                (id_, name, named[name])
                for id_, name in ids
                if there.get(name, (ABSENT, False))[0] == named[name].expected
            ]
            held = [
                (id_, name, record.version, record.shown is not None, write.tag, record.kept)
                for id_, name, write in due
                if (record := write.record) is not None
            ]
            done = {name for _, name, _ in due}
            if new := [each for each in held if each[1] not in there]:
                sql = f"INSERT INTO {state} SELECT * FROM {given(_STATE)} ON CONFLICT DO NOTHING"
                made = {name for (name,) in session.run(f"{sql} RETURNING key", *turned(new))}
                done -= {each[1] for each in new} - made  # those that another writer made first
            if changed := [each for each in held if each[1] in there]:
                to = ", ".join(f"{each} = v.{each}" for each in ("version", "shown", "tag", "kept"))
                sql = f"UPDATE {state} AS s SET {to} FROM {given(_STATE)} WHERE s.id = v.id"
                session.run(sql, *turned(changed))
            if removed := [id_ for id_, name, write in due if write.record is None and name in there]:
                session.run(f"DELETE FROM {state} WHERE id = ANY (%s)", removed)
            self._show(session, [(named[name], name in there and there[name][1]) for name in done])
        return done

    def _show(self, session: Session, done: Iterable[tuple[Write, bool]]) -> None:
        """Of each write, and of whether the record was shown before it."""
        rows = self._tables(session)[1]
        hidden: list[tuple[Any, ...]] = []
        altered: list[tuple[Any, ...]] = []
        added: list[tuple[Any, ...]] = []
        for (key, _, record, _), was in done:
            row = record.shown if record else None
            if row is not None:
                (altered if was else added).append(row)
            elif was:
                hidden.append(key.values)
        every = self._named(range(len(self.schema)))
        if hidden:
            sql = f"DELETE FROM {rows} AS r USING {given(['n integer', *self._named(self.key)])}"
            session.run(f"{sql} WHERE {self._at_key}", [0] * len(hidden), *turned(hidden))
        if altered and len(self.key) < len(self.schema):
            to = ", ".join(f"{column} = v.c{place}" for place, column in enumerate(self.columns))
            sql = f"UPDATE {rows} AS r SET {to} FROM {given(every)} WHERE {self._at_key}"
            session.run(sql, *turned(altered))
        if added:
            session.run(f"INSERT INTO {rows} SELECT * FROM {given(every)}", *turned(added))

    def _widened(self) -> bool:
        """Whether there was an index that a long key does not fit into; it is no more."""
        with transaction(self) as session:
            rows = self._tables(session)[1]
            sql = "SELECT indexrelid::regclass::text FROM pg_index WHERE indisunique AND indrelid ="
            found = session.one(f"{sql} %s::regclass", bare(rows))
            if found is not None:
                session.run(f"DROP INDEX {found[0].replace('%', '%%')}")
        return found is not None

    def _book(self, session: Session) -> Cursor[tuple[Any, ...]]:
        sql = f"SELECT epoch FROM {self._tables(session)[0]} WHERE view = %s AND project = %s"
        return session.run(sql, self.view, self.name)

    def _epoch(self, book: Cursor[tuple[Any, ...]]) -> int:
        found = book.fetchone()
        return int(found[0]) if found else self.not_made(self.place)

    def _tables(self, session: Session) -> tuple[str, str, str]:
        """The books, the rows, and what managers keep."""
        names = ("stillframe~", self.view, f"{self.view}~")
        books, rows, state = (f"{quoted(session.schema)}.{quoted(name)}" for name in names)
        return books, rows, state

    def _named(self, places: Iterable[int]) -> list[str]:
        return [f"c{place} {self.types[place]}" for place in places]

    @cached_property
    def _at_key(self) -> str:
        if not self.key:
            return "true"
        rows, values = [f"r.{self.columns[p]}" for p in self.key], [f"v.c{p}" for p in self.key]
        same = (f"{row} IS NOT DISTINCT FROM {value}" for row, value in zip(rows, values, strict=True))
        return " AND ".join((f"{hashed(rows)} = {hashed(values)}", *same))
