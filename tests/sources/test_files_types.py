"""Every row of docs/types.md on exports: what a column becomes, its extremes, and what is refused by name."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exports import bag

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.bag import Bag
from stillframe.algebra.types import Type
from stillframe.errors import SourceError, ValueMismatch
from stillframe.sources import Relation
from stillframe.sources.files.reader import FilesReader

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
BIG = Decimal("9" * 38)


def read(path: Path, **declared: str) -> tuple[Relation, list[Any]]:
    """The column `x` of a file, as it is described and read."""
    reader = FilesReader("t", str(path), (), declared)
    relation = reader.describe()["t"]
    batches = [batch for _, batch in reader.read({"t": ("x",)})]
    assert all(batch.schema.field(0).type == arrow_type(relation.schema[0].type) for batch in batches)
    return relation, [value for batch in batches for value in batch.column(0).to_pylist()]


# -- Parquet: type of the file, values as stored, type it becomes, values as read (None: as stored)

STORED: list[tuple[pa.DataType, list[Any], Type, list[Any] | None]] = [
    (pa.bool_(), [True, False], t.BOOLEAN, None),
    (pa.int8(), [-128, 127], t.TINYINT, None),
    (pa.int16(), [-(2**15), 2**15 - 1], t.SMALLINT, None),
    (pa.int32(), [-(2**31), 2**31 - 1], t.INT, None),
    (pa.int64(), [-(2**63), 2**63 - 1], t.BIGINT, None),
    (pa.uint8(), [0, 255], t.SMALLINT, None),
    (pa.uint16(), [0, 2**16 - 1], t.INT, None),
    (pa.uint32(), [0, 2**32 - 1], t.BIGINT, None),
    (pa.uint64(), [0, 2**64 - 1], t.decimal(20, 0), [Decimal(0), Decimal(2**64 - 1)]),
    (pa.float16(), [1.5, float("-inf")], t.DOUBLE, None),
    (pa.float32(), [0.10000000149011612, float("inf")], t.DOUBLE, None),
    (pa.float64(), [0.1, 1.7976931348623157e308, 5e-324, float("nan"), -0.0], t.DOUBLE, None),
    (pa.decimal128(38, 10), [Decimal("9" * 28 + "." + "9" * 10), Decimal("-1E-10")], t.decimal(38, 10), None),
    (pa.decimal128(38, 38), [Decimal("0." + "9" * 38)], t.decimal(38, 38), None),
    (pa.decimal32(5, 2), [Decimal("999.99")], t.decimal(5, 2), None),
    (pa.decimal64(18, 0), [Decimal("9" * 18)], t.decimal(18, 0), None),
    (pa.decimal256(38, 2), [Decimal("9" * 36 + ".99")], t.decimal(38, 2), None),
    (pa.string(), ["", "ä 日本 \U0001f600", "a\x00b"], t.STRING, None),
    (pa.large_string(), ["", "x"], t.STRING, None),
    (pa.string_view(), ["", "longer than twelve bytes"], t.STRING, None),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"], t.STRING, None),
    (pa.dictionary(pa.int8(), pa.int64()), [5, 5], t.BIGINT, None),
    (pa.json_(), ['{"a": [1]}'], t.STRING, None),
    (pa.uuid(), [UUID(int=1).bytes], t.STRING, ["00000000-0000-0000-0000-000000000001"]),
    (pa.binary(), [b"", b"\x00\xff"], t.BINARY, None),
    (pa.large_binary(), [b"\x00"], t.BINARY, None),
    (pa.binary_view(), [b"longer than twelve bytes"], t.BINARY, None),
    (pa.binary(3), [b"abc"], t.BINARY, None),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], t.DATE, None),
    (pa.date64(), [date(2024, 2, 29)], t.DATE, None),
    (pa.timestamp("us", "UTC"), [FIRST, LAST], t.TIMESTAMP, None),
    (
        pa.timestamp("us", "Europe/Berlin"),
        [datetime(2024, 7, 1, 10, tzinfo=UTC)],
        t.TIMESTAMP,
        [datetime(2024, 7, 1, 10, tzinfo=UTC)],
    ),
    (pa.timestamp("us"), [FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None)], t.TIMESTAMP, [FIRST, LAST]),
    (pa.timestamp("ms"), [datetime(1969, 12, 31)], t.TIMESTAMP, [datetime(1969, 12, 31, tzinfo=UTC)]),
    (pa.timestamp("s"), [datetime(2024, 1, 1)], t.TIMESTAMP, [datetime(2024, 1, 1, tzinfo=UTC)]),
    (
        pa.timestamp("ns"),
        [datetime(2024, 1, 1, 0, 0, 0, 1)],
        t.TIMESTAMP,
        [datetime(2024, 1, 1, 0, 0, 0, 1, UTC)],
    ),
]


def stored(values: list[Any], type_: pa.DataType) -> pa.Array:
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))
    if pa.types.is_dictionary(type_):
        return pa.array(values, type_.value_type).dictionary_encode().cast(type_)
    return pa.array(values, type_)


@pytest.mark.parametrize("type_, values, becomes, expected", STORED, ids=[str(case[0]) for case in STORED])
def test_parquet(
    tmp_path: Path, type_: pa.DataType, values: list[Any], becomes: Type, expected: list[Any] | None
) -> None:
    table = pa.table({"x": stored([*values, None], type_)})
    for how in ({}, {"store_schema": False}):
        path = tmp_path / "a.parquet"
        pq.write_table(table, path, **how)
        relation, found = read(path)
        assert (relation.schema[0].type, dict(relation.refused)) == (becomes, {})
        expected_rows = [*(values if expected is None else expected), None]
        assert Bag.of([(v,) for v in found]) == Bag.of([(v,) for v in expected_rows])
        assert [type(v) for v in found] == [type(v) for v in expected_rows]


REFUSED: list[tuple[pa.DataType, str]] = [
    (pa.decimal256(39, 2), "precision is at most 38"),
    (pa.time32("s"), "no counterpart"),
    (pa.time64("ns"), "no counterpart"),
    (pa.duration("us"), "no counterpart"),
    (pa.null(), "says no type"),
    (pa.list_(pa.int32()), "nested"),
    (pa.struct([("a", pa.int32())]), "nested"),
    (pa.map_(pa.string(), pa.int32()), "nested"),
    (pa.bool8(), "no counterpart"),
]


@pytest.mark.parametrize("type_, reason", REFUSED, ids=[str(case[0]) for case in REFUSED])
def test_parquet_refuses(tmp_path: Path, type_: pa.DataType, reason: str) -> None:
    """The column is named with the reason, and the others are read."""
    nulls = stored([None], type_)
    pq.write_table(pa.table({"x": nulls, "y": pa.array([1])}), tmp_path / "a.parquet")
    reader = FilesReader("t", str(tmp_path / "a.parquet"))
    relation = reader.describe()["t"]
    assert relation.schema.names == ("y",) and reason in relation.refused["x"]
    assert bag(batch for _, batch in reader.read({"t": ("y",)})) == Bag.of([(1,)])


def test_parquet_refuses_intervals(tmp_path: Path) -> None:
    import duckdb

    duckdb.sql(f"COPY (SELECT INTERVAL 1 DAY AS x, 1 AS y) TO '{tmp_path / 'a.parquet'}'")
    relation = FilesReader("t", str(tmp_path / "a.parquet")).describe()["t"]
    assert relation.schema.names == ("y",) and "interval" in relation.refused["x"]


def test_parquet_timestamps_as_spark_once_wrote_them(tmp_path: Path) -> None:
    values = [datetime(1, 1, 1), datetime(9999, 12, 31)]
    table = pa.table({"x": pa.array(values, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    relation, found = read(tmp_path / "a.parquet")
    assert relation.schema[0].type == t.TIMESTAMP
    assert found == [value.replace(tzinfo=UTC) for value in values]


BAD_VALUES: list[tuple[pa.Array, int, str]] = [
    (pa.array([1000, 1001], pa.timestamp("ns")), 2, "00:00:00.000001001"),
    (pa.array([10**15], pa.timestamp("ms")), 1, "1000000000000000"),
    (pa.array([None, -(10**17)], pa.timestamp("us")), 2, ""),
    (
        pa.Array.from_buffers(
            pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")]
        ),
        2,
        "b'\\xff'",
    ),
]


@pytest.mark.parametrize(
    "values, row, shown", BAD_VALUES, ids=["nanoseconds", "far year", "early year", "not UTF-8"]
)
def test_parquet_values_without_a_counterpart(tmp_path: Path, values: pa.Array, row: int, shown: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": values}), path)
    with pytest.raises(ValueMismatch) as said:
        read(path)
    assert f"column 'x' of {path} holds" in said.value.message and f"in row {row}," in said.value.message
    assert shown in said.value.message
    assert (said.value.relation, said.value.column) == ("t", "x")


# -- CSV: values as written, type they are taken for, values as read

WRITTEN: list[tuple[str, list[str], Type, list[Any]]] = [
    ("integers", ["0", "-9223372036854775808", "9223372036854775807"], t.BIGINT, [0, -(2**63), 2**63 - 1]),
    ("integers beyond 64 bits", ["1", "9" * 38], t.decimal(38, 0), [Decimal(1), BIG]),
    ("integers beyond 38 digits", ["1", "9" * 39], t.STRING, ["1", "9" * 39]),
    ("leading zeros", ["007", "1"], t.STRING, ["007", "1"]),
    ("a plus sign", ["+49", "1"], t.STRING, ["+49", "1"]),
    ("spaces", [" 1", "2"], t.STRING, [" 1", "2"]),
    (
        "decimals",
        ["1.0842", "0.93", "1", "-.5"],
        t.decimal(18, 6),
        [Decimal("1.084200"), Decimal("0.930000"), Decimal("1.000000"), Decimal("-0.500000")],
    ),
    (
        "decimals with more digits",
        ["1.12345678", "1234567890123.5"],
        t.decimal(21, 8),
        [Decimal("1.12345678"), Decimal("1234567890123.50000000")],
    ),
    ("38 digits", ["0." + "9" * 38], t.decimal(38, 38), [Decimal("0." + "9" * 38)]),
    (
        "38 digits on both sides",
        ["9" * 30 + ".5", "0.00000001"],
        t.decimal(38, 8),
        [Decimal("9" * 30 + ".50000000"), Decimal("0.00000001")],
    ),
    ("more than 38 digits", ["9" * 38, "0.5"], t.STRING, ["9" * 38, "0.5"]),
    ("floats", ["1e-05", "1.5E+300", "2", "0.5"], t.DOUBLE, [1e-05, 1.5e300, 2.0, 0.5]),
    (
        "floats as Java has them",
        ["1.0E10", "NaN", "-Infinity"],
        t.DOUBLE,
        [1e10, float("nan"), float("-inf")],
    ),
    ("floats as C has them", ["-inf", "nan", "1.5"], t.DOUBLE, [float("-inf"), float("nan"), 1.5]),
    ("floats out of range", ["1.5e999"], t.STRING, ["1.5e999"]),
    ("codes like floats", ["1E5", "2E7"], t.STRING, ["1E5", "2E7"]),
    ("words like floats", ["nan", "inf"], t.STRING, ["nan", "inf"]),
    ("booleans", ["true", "FALSE", "True"], t.BOOLEAN, [True, False, True]),
    ("zeros and ones", ["0", "1"], t.BIGINT, [0, 1]),
    ("yes and no", ["yes", "no"], t.STRING, ["yes", "no"]),
    (
        "dates",
        ["0001-01-01", "9999-12-31", "2024-02-29"],
        t.DATE,
        [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)],
    ),
    ("dates that are none", ["2023-02-29"], t.STRING, ["2023-02-29"]),
    ("dates before the first", ["0000-12-31"], t.STRING, ["0000-12-31"]),
    ("dates of other kinds", ["31.12.2024", "1/2/24"], t.STRING, ["31.12.2024", "1/2/24"]),
    (
        "timestamps",
        ["0001-01-01 00:00:00", "9999-12-31T23:59:59.999999", "2024-02-29 12:00"],
        t.TIMESTAMP,
        [FIRST, LAST, datetime(2024, 2, 29, 12, tzinfo=UTC)],
    ),
    (
        "timestamps with an offset",
        ["2024-02-29T12:00:00.5+05:30", "2024-02-29t12:00:00 z", "2024-02-29 12:00:00 -01:00"],
        t.TIMESTAMP,
        [
            datetime(2024, 2, 29, 6, 30, 0, 500000, UTC),
            datetime(2024, 2, 29, 12, tzinfo=UTC),
            datetime(2024, 2, 29, 13, tzinfo=UTC),
        ],
    ),
    ("timestamps beyond the years", ["0001-01-01T00:00:00+14:00"], t.STRING, ["0001-01-01T00:00:00+14:00"]),
    (
        "timestamps in nanoseconds",
        ["2024-01-01T00:00:00.123456789"],
        t.STRING,
        ["2024-01-01T00:00:00.123456789"],
    ),
    (
        "dates and timestamps",
        ["2024-01-01", "2024-01-01 10:00"],
        t.STRING,
        ["2024-01-01", "2024-01-01 10:00"],
    ),
    (
        "text",
        ["ä 日本 \U0001f600", '"two\nlines, ""quoted"""', "NULL", "N/A"],
        t.STRING,
        ["ä 日本 \U0001f600", 'two\nlines, "quoted"', "NULL", "N/A"],
    ),
    ("nothing", ["", ""], t.STRING, [None, None]),
    ("empty numbers", ["1", "", '""'], t.BIGINT, [1, None, None]),
    ("empty texts", ["a", "", '""'], t.STRING, ["a", None, ""]),
]


@pytest.mark.parametrize("texts, becomes, expected", [c[1:] for c in WRITTEN], ids=[c[0] for c in WRITTEN])
def test_csv(tmp_path: Path, texts: list[str], becomes: Type, expected: list[Any]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,x\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts)), encoding="utf-8")
    relation, found = read_x(path)
    assert relation.schema[1].type == becomes
    assert Bag.of([(v,) for v in found]) == Bag.of([(v,) for v in expected])
    assert [type(v) for v in found] == [type(v) for v in expected]


def read_x(path: Path, **declared: str) -> tuple[Relation, list[Any]]:
    reader = FilesReader("t", str(path), (), declared)
    batches = [batch for _, batch in reader.read({"t": ("x",)})]
    return reader.describe()["t"], [value for batch in batches for value in batch.column(0).to_pylist()]


DECLARED: list[tuple[str, list[str], Type, list[Any]]] = [
    ("boolean", ["true"], t.BOOLEAN, [True]),
    ("tinyint", ["-128"], t.TINYINT, [-128]),
    ("smallint", ["32767"], t.SMALLINT, [32767]),
    ("int", ["007"], t.INT, [7]),
    ("Integer", ["1"], t.INT, [1]),
    ("bigint", ["-0012"], t.BIGINT, [-12]),
    (
        "decimal(18,6)",
        ["1", "1e-3", "5."],
        t.decimal(18, 6),
        [Decimal("1.000000"), Decimal("0.001000"), Decimal("5.000000")],
    ),
    ("NUMERIC( 5 , 2 )", ["1.50"], t.decimal(5, 2), [Decimal("1.50")]),
    ("decimal(3)", ["12"], t.decimal(3, 0), [Decimal(12)]),
    ("double", ["1", "1E5", "NaN"], t.DOUBLE, [1.0, 1e5, float("nan")]),
    ("string", ["1", ""], t.STRING, ["1", None]),
    ("text", ["2024-01-01"], t.STRING, ["2024-01-01"]),
    ("date", ["2024-01-01"], t.DATE, [date(2024, 1, 1)]),
    ("timestamp", ["2024-01-01 10:00"], t.TIMESTAMP, [datetime(2024, 1, 1, 10, tzinfo=UTC)]),
]


@pytest.mark.parametrize("declared, texts, becomes, expected", DECLARED, ids=[c[0] for c in DECLARED])
def test_csv_declared(
    tmp_path: Path, declared: str, texts: list[str], becomes: Type, expected: list[Any]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("k,x\n" + "".join(f"1,{text}\n" for text in texts), encoding="utf-8")
    relation, found = read_x(path, x=declared)
    assert relation.schema[1].type == becomes
    assert Bag.of([(v,) for v in found]) == Bag.of([(v,) for v in expected])


MISFITS = [
    ("bigint", "1.5"),
    ("bigint", "9223372036854775808"),
    ("tinyint", "128"),
    ("boolean", "1"),
    ("decimal(5,2)", "1.005"),
    ("decimal(5,2)", "1000"),
    ("decimal(5,2)", "abc"),
    ("double", "1,5"),
    ("double", "1e999"),
    ("date", "2024-02-30"),
    ("timestamp", "2024-01-01"),
    ("timestamp", "2024-01-01 10:00:00.1234567"),
    ("timestamp", "9999-12-31T23:59:59-01:00"),
]


@pytest.mark.parametrize("declared, text", MISFITS)
def test_csv_values_that_are_not_what_is_declared(tmp_path: Path, declared: str, text: str) -> None:
    path = tmp_path / "a.csv"
    quoted = f'"{text}"'
    path.write_text(f'k,x\n1,\n"several\n\nlines",\n\n3,{quoted}\n', encoding="utf-8")
    with pytest.raises(ValueMismatch) as said:
        read_x(path, x=declared)
    assert f"column 'x' of {path} holds {text!r} in line 7, which is not a " in said.value.message
    assert (said.value.relation, said.value.column) == ("t", "x")


def test_parquet_says_its_own_types(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([1])}), tmp_path / "a.parquet")
    with pytest.raises(SourceError) as said:
        read(tmp_path / "a.parquet", x="string")
    assert said.value.code == "TYPES_DECLARED_TWICE"
