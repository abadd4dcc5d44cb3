"""The process that reads many rows of SQLite with Arrow's driver (`many.py`): requests come in, and for each
goes out whether its rows were left where it said."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as sqlite
import pyarrow as pa
import pyarrow.compute as pc

from stillframe.algebra.arrow import staged_schema
from stillframe.sources.sqlite.many import Request
from stillframe.sources.sqlite.types import Reading, column_of

BATCH_ROWS = 32_768
# For each type: a value by which the driver knows it, how it is given, and when it has to be looked at.
_GIVEN = {
    "BIGINT": ("0", "{c}", "typeof({c}) NOT IN ('integer', 'null')"),
    "BOOLEAN": ("0", "{c}", "NOT (typeof({c}) = 'null' OR (typeof({c}) = 'integer' AND {c} IN (0, 1)))"),
    "DOUBLE": ("0.0", "{c}", "typeof({c}) NOT IN ('real', 'null')"),
    "STRING": ("''", "{c}", "typeof({c}) NOT IN ('text', 'null')"),
    "DATE": ("''", "{c}", "typeof({c}) NOT IN ('text', 'null')"),
    "DECIMAL": (
        "0.0",
        "CAST({c} AS REAL)",
        "NOT (typeof({c}) IN ('real', 'null') OR (typeof({c}) = 'integer' AND abs({c} / 2) < 1 << 51))",
    ),
}


class Unfit(Exception):
    """Some value needs more than this."""


def _text(request: Request) -> str:
    """The query with its values checked, after a row of values by which the driver knows their types."""
    kinds = [_kind(reading) for reading in request.readings]
    names = [f"c{i}" for i in range(len(kinds))]
    first = ", ".join([*(value for value, _, _ in kinds), "0", "0"])
    given = [form.format(c=name) for name, (_, form, _) in zip(names, kinds, strict=True)]
    odd = " OR ".join(when.format(c=name) for name, (_, _, when) in zip(names, kinds, strict=True)) or "0"
    rows = f"SELECT {', '.join([*given, 'count', odd])} FROM q"
    return f"WITH q({', '.join([*names, 'count'])}) AS ({request.sql}) SELECT {first} UNION ALL {rows}"


def _kind(reading: Reading) -> tuple[str, str, str]:
    try:
        return _GIVEN[reading.type.name]
    except KeyError:
        raise Unfit(reading.type.name) from None


def read(request: Request) -> None:
    text = _text(request)
    schema = staged_schema([reading.type for reading in request.readings])
    with (
        sqlite.connect(f"file:{quote(request.path)}?mode=ro", autocommit=False) as con,
        con.cursor() as cursor,
        pa.OSFile(request.file, "wb") as file,
        pa.ipc.new_file(file, schema) as out,
    ):
        cursor.execute(request.guard.sql, request.guard.parameters)
        if cursor.fetchone() != (request.guard.number,):
            raise Unfit("another state")
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
        cursor.execute(text, request.parameters)
        for batch in _rows(cursor.fetch_record_batch()):
            *stored, counts, odd = batch.columns
            if pc.any(pc.not_equal(odd, 0), min_count=0).as_py():
                raise Unfit("a value of another type")
            out.write_batch(pa.RecordBatch.from_arrays([*_columns(request, stored), counts], schema=schema))


def _rows(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Without the first row."""
    skipped = 1
    for batch in found:
        if batch.num_rows > skipped:
            yield batch.slice(skipped)
        skipped = max(skipped - batch.num_rows, 0)


def _columns(request: Request, stored: list[pa.Array]) -> Iterator[pa.Array]:
    for reading, values in zip(request.readings, stored, strict=True):
        column = column_of(reading, values)
        if column is None:
            raise Unfit("a value to look at")
        yield column


def main(requests: BinaryIO, answers: BinaryIO) -> None:
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            read(request)
            done = True
        except Exception:  # whatever it is, the one who asked meets it too, and tells it
            done = False
        pickle.dump(done, answers)
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
