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
# For each type: a value by which the driver knows it, what it gives then, and when it must not be asked. It
# refuses itself to put anything but an integer among integers, or what is no number among numbers; and
# numbers whose digits a float does not keep are no short decimals, and so are looked at anyway.
_GIVEN = {
    "BIGINT": ("0", pa.int64(), ""),
    "BOOLEAN": ("0", pa.int64(), "{c} NOT IN (0, 1)"),
    "DOUBLE": ("0.0", pa.float64(), "typeof({c}) = 'integer'"),
    "STRING": ("''", pa.string(), "{c} < '' OR {c} >= x''"),  # a number, or a blob
    "DATE": ("''", pa.string(), "{c} >= x''"),  # no number reads like a date
    "DECIMAL": ("0.0", pa.float64(), ""),
}


class Unfit(Exception):
    """Some value needs more than this."""


def _text(request: Request) -> str:
    """The query with its values checked, after a row of values by which the driver knows their types."""
    kinds = [_kind(reading) for reading in request.readings]
    names = [f"c{i}" for i in range(len(kinds))]
    first = ", ".join([*(value for value, _, _ in kinds), "0", "0"])
    odd = [when.format(c=name) for name, (_, _, when) in zip(names, kinds, strict=True) if when]
    rows = f"SELECT {', '.join([*names, 'count', ' OR '.join(odd) or '0'])} FROM q"
    return f"WITH q({', '.join([*names, 'count'])}) AS ({request.sql}) SELECT {first} UNION ALL {rows}"


def _kind(reading: Reading) -> tuple[str, pa.DataType, str]:
    try:
        return _GIVEN[reading.type.name]
    except KeyError:
        raise Unfit(reading.type.name) from None


def read(request: Request) -> None:
    text, given = _text(request), [_kind(reading)[1] for reading in request.readings]
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
        found = cursor.fetch_record_batch()
        if found.schema.types != [*given, pa.int64(), pa.int64()]:
            raise Unfit("values of other types")
        for batch in _rows(found):
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
