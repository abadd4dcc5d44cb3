"""A PostgreSQL database of which snapshots are taken: nothing is installed, and the right to read is enough.

The sign of its state is PostgreSQL's own snapshot. As long as no transaction ended, nothing that is visible
changed; one that only reads has no number, and does not move it. A replica shows no list of the transactions
that run, so there it is how far the server's log was replayed. A server that was started anew, or recovered
from a crash by itself, may count the same numbers again: so the sign has its start and its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from stillframe.sources.base import Relation
from stillframe.sources.postgres.catalog import Table, read_tables, relation_of
from stillframe.sources.postgres.database import PostgresTables
from stillframe.sources.postgres.read import batches, begin_snapshot, connected, reading


@dataclass(frozen=True)
class PostgresSnapshotReader(PostgresTables):
    def describe(self) -> dict[str, Relation]:
        with reading(self.name, self.url) as con:
            tables = read_tables(con, self.name, self.schema)
            return {name: relation_of(_readable(table)) for name, table in tables.items()}

    def fingerprint(self, relations: Sequence[str]) -> str | None:
        with reading(self.name, self.url) as con:
            row = con.execute(
                "SELECT s.system_identifier, c.timeline_id, c.checkpoint_lsn, pg_postmaster_start_time(),"
                " pg_current_snapshot(), CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END"
                " FROM pg_control_system() AS s, pg_control_checkpoint() AS c"
            ).fetchone()
        return None if row is None else "/".join(map(str, row))

    def read(self, relations: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tables are locked against being emptied or rewritten before the snapshot is taken: an older
        snapshot would not undo what TRUNCATE and some forms of ALTER TABLE do."""
        with connected(self.name, self.url) as con:
            begin_snapshot(con, *(self._quoted(relation) for relation in relations))
            for relation, columns in relations.items():
                table = _readable(self._table(con, relation))
                query = self._present(con, table, columns, None, None)
                for batch in batches(con, self.name, self.url, query):
                    yield relation, batch


def _readable(table: Table) -> Table:
    """What triggers could not capture can be read all the same."""
    return replace(table, refusal=None)
