"""The Pathway side of the peer `pathway`, run by an interpreter that has Pathway and not this project.

    python pathway_process.py SINK.csv LOAD.json

Reads lines of JSON from its input, each a frame: Parquet files of signed rows by relation, and the totals of
the view after it. Answers a line once the view has these totals and the sink has them.
Pathway has no decimals: they are whole cents. Dates are text.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from itertools import chain
from pathlib import Path

import pathway as pw
import pyarrow as pa
import pyarrow.parquet as pq

SIGN = "sign"


class Customer(pw.Schema):
    c_custkey: int = pw.column_definition(primary_key=True)
    c_name: str
    c_mktsegment: str
    c_acctbal: int


class Orders(pw.Schema):
    o_orderkey: int = pw.column_definition(primary_key=True)
    o_custkey: int
    o_orderdate: str
    o_orderpriority: str
    o_totalprice: int


class Lineitem(pw.Schema):
    l_orderkey: int = pw.column_definition(primary_key=True)
    l_linenumber: int = pw.column_definition(primary_key=True)
    l_suppkey: int
    l_quantity: int
    l_extendedprice: int
    l_discount: int
    l_shipdate: str


class Supplier(pw.Schema):
    s_suppkey: int = pw.column_definition(primary_key=True)
    s_name: str
    s_nationkey: int
    s_acctbal: int


class Nation(pw.Schema):
    n_nationkey: int = pw.column_definition(primary_key=True)
    n_name: str
    n_regionkey: int


class Region(pw.Schema):
    r_regionkey: int = pw.column_definition(primary_key=True)
    r_name: str


SCHEMAS = {
    "customer": Customer,
    "orders": Orders,
    "lineitem": Lineitem,
    "supplier": Supplier,
    "nation": Nation,
    "region": Region,
}


class Feed(pw.io.python.ConnectorSubject):
    """One relation: batches of signed rows, each committed as a whole."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names, self.batches = names, queue.Queue()

    @property
    def _deletions_enabled(self) -> bool:
        return True

    def run(self) -> None:
        while (path := self.batches.get()) is not None:
            if path:
                for batch in pq.ParquetFile(path).iter_batches(65536):
                    self._send(batch)
            self.commit()

    def _send(self, batch: pa.RecordBatch) -> None:
        table = pa.Table.from_batches([batch])
        columns = [_plain(table.column(name)) for name in self.names]
        signs = table.column(SIGN).to_pylist() if SIGN in table.column_names else [1] * len(table)
        for sign, *values in zip(signs, *columns, strict=True):
            (self.next if sign > 0 else self.delete)(**dict(zip(self.names, values, strict=True)))


def _plain(column: pa.ChunkedArray) -> list:
    if pa.types.is_decimal(column.type):
        return [int(value * 100) for value in column.to_pylist()]
    if pa.types.is_date(column.type):
        column = column.cast(pa.string())
    return column.to_pylist()


def joined(t: dict[str, pw.Table]) -> pw.Table:
    located = (
        t["supplier"]
        .join(t["nation"], pw.left.s_nationkey == pw.right.n_nationkey)
        .select(pw.left.s_suppkey, pw.left.s_name, pw.left.s_acctbal, pw.right.n_name, pw.right.n_regionkey)
    )
    located = located.join(t["region"], pw.left.n_regionkey == pw.right.r_regionkey).select(
        pw.left.s_suppkey, pw.left.s_name, pw.left.s_acctbal, pw.left.n_name, pw.right.r_name
    )
    ordered = (
        t["orders"]
        .join(t["customer"], pw.left.o_custkey == pw.right.c_custkey)
        .select(*pw.left, pw.right.c_custkey, pw.right.c_name, pw.right.c_mktsegment, pw.right.c_acctbal)
    )
    lines = t["lineitem"].join(ordered, pw.left.l_orderkey == pw.right.o_orderkey).select(*pw.left, *pw.right)
    return lines.join(located, pw.left.l_suppkey == pw.right.s_suppkey).select(
        *pw.left.without("l_suppkey", "o_orderkey", "o_custkey"), *pw.right
    )


class Watch:
    """The view's totals, and how far the sink is: it has a frame when its last line is of the frame's time
    and nothing is added any more."""

    def __init__(self, sink: Path) -> None:
        self.sink, self.changed, self.totals, self.at = sink, threading.Condition(), (0, 0), -1

    def saw(self, key: object, row: dict, time: int, is_addition: bool) -> None:
        if is_addition:
            with self.changed:
                self.totals, self.at = (row["lines"], row["cents"]), time
                self.changed.notify_all()

    def wait(self, wanted: tuple[int, int]) -> None:
        with self.changed:
            while self.totals != wanted:
                self.changed.wait()
            at = self.at
        size = -1
        while self._last_time() < at or size != self.sink.stat().st_size:
            size = self.sink.stat().st_size
            time.sleep(0.01)

    def _last_time(self) -> int:
        """The time of the sink's last line: its last column but one."""
        with self.sink.open("rb") as file:
            file.seek(max(file.seek(0, 2) - 4096, 0))
            tail = file.read()
        lines = tail.split(b"\n")[:-1]
        last = lines[-1].split(b",")[-2].strip(b'"') if lines else b""
        return int(last) if last.isdigit() else -1


def main(sink: Path, load: Path) -> None:
    feeds = {table: Feed(list(schema.column_names())) for table, schema in SCHEMAS.items()}
    tables = {
        table: pw.io.python.read(feeds[table], schema=schema, autocommit_duration_ms=None)
        for table, schema in SCHEMAS.items()
    }
    view = joined(tables)
    pw.io.csv.write(view, str(sink))
    cents = (
        pw.this.l_orderkey + 7 * pw.this.l_linenumber + pw.this.c_acctbal + pw.this.o_totalprice
        + pw.this.l_quantity + pw.this.l_discount + pw.this.s_acctbal
    )  # fmt: skip
    watch = Watch(sink)
    pw.io.subscribe(view.reduce(lines=pw.reducers.count(), cents=pw.reducers.sum(cents)), on_change=watch.saw)
    threading.Thread(target=_serve, args=(feeds, watch, load), daemon=True).start()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def _serve(feeds: dict[str, Feed], watch: Watch, load: Path) -> None:
    for line in chain([load.read_text()], sys.stdin):
        frame = json.loads(line)
        for table, feed in feeds.items():
            feed.batches.put(frame["files"].get(table, ""))
        watch.wait((frame["lines"], frame["cents"]))
        print("done", flush=True)
    for feed in feeds.values():
        feed.batches.put(None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
