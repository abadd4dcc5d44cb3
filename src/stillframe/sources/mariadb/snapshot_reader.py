"""A MariaDB database of which snapshots are taken: nothing is installed, and the right to read is enough.

InnoDB's snapshot holds all tables at one moment. A table that is emptied or rewritten after the snapshot was
taken cannot be read in it any more: the server says so, and the whole is read again. There is no cheap sign
of the state that any account may ask for. Tables of engines without transactions are refused: they are of no
one moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pymysql

from stillframe.errors import SourceError
from stillframe.sources.base import Relation
from stillframe.sources.mariadb.catalog import CASCADE, Table, quoted, read_tables, relation_of, table_names
from stillframe.sources.mariadb.connect import (
    CHANGED_DEFINITION,
    connected,
    error_number,
    server_of,
    snapshot,
)
from stillframe.sources.mariadb.queries import present
from stillframe.sources.mariadb.read import batches
from stillframe.sources.snapshots.reader import Unstable


@dataclass(frozen=True)
class MariadbSnapshotReader:
    name: str
    url: str = field(repr=False)

    @property
    def address(self) -> str:
        return server_of(self.name, self.url).address

    def describe(self) -> dict[str, Relation]:
        with connected(self.name, server_of(self.name, self.url)) as con:
            tables = read_tables(con, table_names(con))
            return {name: relation_of(_readable(tables[name])) for name in sorted(tables)}

    def fingerprint(self, relations: Sequence[str]) -> str | None:
        return None

    def read(self, relations: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        with snapshot(self.name, server_of(self.name, self.url)) as con:
            tables = read_tables(con, list(relations))
            for relation, columns in relations.items():
                if relation not in tables:
                    raise SourceError(f"source {self.name!r} has no table {relation!r}", code="NO_RELATION")
                query = present(self.name, self._required(tables[relation]), columns)
                try:
                    for batch in batches(con, self.name, query):
                        yield relation, batch
                except pymysql.err.MySQLError as error:
                    if error_number(error) not in CHANGED_DEFINITION:
                        raise
                    raise Unstable(
                        f"table {relation!r} of source {self.name!r} was emptied or changed meanwhile",
                        hint="try again when it keeps still",
                    ) from error

    def _required(self, table: Table) -> Table:
        readable = _readable(table)
        if readable.refusal:
            raise SourceError(
                f"table {table.name!r} of source {self.name!r} cannot be read at one moment",
                detail=readable.refusal[1],
                hint="change its engine to InnoDB, or leave it out of the views",
                code=readable.refusal[0],
            )
        return readable

    def rows(self, relation: str) -> int:
        with snapshot(self.name, server_of(self.name, self.url)) as con:
            return int(con.value(f"SELECT count(*) FROM {quoted(relation)}"))


def _readable(table: Table) -> Table:
    """Cascades reach no trigger, but they are in every snapshot."""
    return replace(table, refusal=None) if table.refusal and table.refusal[0] == CASCADE else table
