"""What a MariaDB database can be asked however its changes are captured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from stillframe.sources.base import Method, Range, Relation
from stillframe.sources.mariadb import rights
from stillframe.sources.mariadb.catalog import (
    OWN_PREFIX,
    Table,
    quoted,
    read_tables,
    relation_of,
    table_names,
)
from stillframe.sources.mariadb.connect import (
    Connection,
    Server,
    begin_snapshot,
    connected,
    explained,
    redefined,
    retried,
    server_of,
    snapshot,
)
from stillframe.sources.mariadb.queries import columns_of, no_relation
from stillframe.sources.mariadb.read import cuts, pushable

_T = TypeVar("_T")


@dataclass(frozen=True)
class MariadbDatabase:
    """A database, and who we are there."""

    name: str
    url: str = field(repr=False)
    capture_limit: int | None = None

    @property
    def server(self) -> Server:
        return server_of(self.name, self.url)

    @property
    def address(self) -> str:
        return self.server.address

    def methods(self) -> tuple[Method, ...]:
        with connected(self.name, self.server) as con:
            return rights.methods(con, self.server)

    def describe(self) -> dict[str, Relation]:
        with connected(self.name, self.server) as con:
            tables = read_tables(con, table_names(con), linked=True)
            return {name: relation_of(tables[name]) for name in sorted(tables)}

    def ranges(self, relation: str, rows: int) -> tuple[Range, ...]:
        with snapshot(self.name, self.server) as snap:
            table = self._table(snap, relation)
            key = table.identity()
            if not key or not key[0].reading.exact or key[0].reading.type.name == "DATE":
                return ()
            bounds = [None, *cuts(snap, table.name, key[0].name, rows), None]
            return tuple(Range(key[0].name, *pair) for pair in pairwise(bounds))

    def pushable(self, relation: str, column: str) -> bool:
        with connected(self.name, self.server) as con:
            (found,) = columns_of(self.name, self._table(con, relation), [column])
            return pushable(found.reading)

    def rows(self, relation: str) -> int:
        with snapshot(self.name, self.server) as snap:
            return int(snap.value(f"SELECT count(*) FROM {quoted(self._table(snap, relation).name)}"))

    def _read(self, work: Callable[[Connection], _T], before: Callable[[], None] | None = None) -> _T:
        """What `work` finds in one snapshot; another one if a table it reads was defined anew meanwhile."""

        def attempt() -> _T:
            if before:
                before()
            con = Connection(self.server)
            try:
                begin_snapshot(con)
                return work(con)
            finally:
                con.close()

        with explained(self.name, self.server):
            return retried(attempt, when=redefined)

    def _opened(
        self,
        stack: ExitStack,
        prepare: Callable[[Connection], _T],
        before: Callable[[Connection], None] | None = None,
    ) -> tuple[Connection, _T]:
        """A snapshot to go on reading from, and what was prepared in it. A table it has read once cannot be
        defined anew until it ends."""
        stack.enter_context(explained(self.name, self.server))

        def attempt() -> tuple[Connection, _T]:
            con = Connection(self.server)
            try:
                if before:
                    before(con)
                begin_snapshot(con)
                prepared = prepare(con)
            except BaseException:
                con.close()
                raise
            return con, prepared

        con, prepared = retried(attempt, when=redefined)
        stack.callback(con.close)
        return con, prepared

    def _table(self, con: Connection, relation: str) -> Table:
        table = read_tables(con, [relation]).get(relation)
        if table is None or relation.lower().startswith(OWN_PREFIX):
            raise no_relation(self.name, relation, table_names(con))
        return table
