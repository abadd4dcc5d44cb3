"""The rows of the binary log, as the text that the server prints for them.

A row image is a map of NULLs and the other values one after the other, each as it is stored. The text made of
them is what a SELECT gives in UTF-8 and UTC, so that values from the log and from the table are decoded
alike.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stillframe.sources.mariadb.catalog import TableColumn
from stillframe.sources.mariadb.connect import Connection
from stillframe.sources.mariadb.events import RowsEvent, TableMap

Cell = bytes | None
Convert = Callable[[bytes], bytes]

TIMESTAMP, DATE, YEAR, VARCHAR, BIT = 17, 10, 13, 15, 16
DATETIME, TIME, ENUM, SET, DECIMAL, BLOB, STRING, GEOMETRY = 18, 19, 247, 248, 246, 252, 254, 255
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
_FIXED = {1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 3, 10: 3, 13: 1}
_INTEGERS = {1, 2, 3, 8, 9}
# Encodings of Unicode, which are the same everywhere.
CODECS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
}
# Character sets of one byte, of which the server is asked what each byte stands for.
BYTE_SETS = frozenset(
    {
        *("armscii8", "ascii", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8"),
        *("geostd8", "greek", "hebrew", "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5"),
        *("latin7", "macce", "macroman", "swe7", "tis620"),
    }
)
ByteTables = Mapping[str, dict[int, str]]


class Unfit(Exception):
    """The log's columns are not those the table was taken to have."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`sizes` has the bytes of each column's values; a negative one is the bytes of the length that comes
    first. `wanted` are the places of the columns to read, and how."""

    width: int
    sizes: tuple[int, ...]
    wanted: tuple[tuple[int, Convert], ...]


def refusal(column: TableColumn) -> str | None:
    """Why a column cannot be read from the log, though it can from the table."""
    declared = column.declared.lower()
    if declared.startswith(("uuid", "inet")):
        return f"the type {declared!r} cannot be read from the binary log; capture: triggers reads it"
    if "compressed" in declared or "mariadb-5.3" in declared:
        return f"values stored as {declared!r} cannot be read from the binary log; capture: triggers does"
    if column.charset is not None and column.charset not in CODECS and column.charset not in BYTE_SETS:
        return f"text in {column.charset} cannot be read from the binary log; capture: triggers reads it"
    return None


def byte_tables(con: Connection, columns: Sequence[TableColumn]) -> dict[str, dict[int, str]]:
    """What the bytes of the character sets of these columns stand for."""
    tables = {}
    for charset in {c.charset for c in columns if c.charset in BYTE_SETS}:
        codes = ", ".join(
            f"CONVERT(CONVERT(X'{code:02x}' USING {charset}) USING utf8mb4)" for code in range(256)
        )
        tables[str(charset)] = dict(enumerate(con.all(f"SELECT {codes}")[0]))
    return tables


def layout(
    table: TableMap, columns: Sequence[TableColumn], wanted: Sequence[int], bytes_of: ByteTables
) -> Layout:
    """How to read the wanted ones of columns that the table has in this order, perhaps with others after."""
    if wanted and len(table.types) <= max(wanted):
        raise Unfit(f"there are {len(table.types)} columns, without {columns[max(wanted)].name!r}")
    real = [_real(kind, meta) for kind, meta in zip(table.types, table.metas, strict=True)]
    sizes = tuple(_size(kind, meta) for kind, meta in real)
    return Layout(len(real), sizes, tuple((i, _converter(*real[i], columns[i], bytes_of)) for i in wanted))


def images(event: RowsEvent, how: Layout) -> Iterator[list[Cell]]:
    """Each row image: its wanted columns."""
    data, sizes, null_bytes = event.images, how.sizes, (how.width + 7) // 8
    converters: list[Convert | None] = [None] * how.width
    places = {place: n for n, (place, _) in enumerate(how.wanted)}
    for place, convert in how.wanted:
        converters[place] = convert
    at, end_of_data, count = 0, len(data), len(how.wanted)
    while at < end_of_data:
        nulls = int.from_bytes(data[at : at + null_bytes], "little")
        at += null_bytes
        cells: list[Cell] = [None] * count
        for place in range(how.width):
            if nulls >> place & 1:
                continue
            size = sizes[place]
            if size < 0:
                start = at - size
                end = start + int.from_bytes(data[at:start], "little")
            else:
                start, end = at, at + size
            read = converters[place]
            if read is not None:
                cells[places[place]] = read(data[start:end])
            at = end
        yield cells


def count_images(event: RowsEvent, sizes: Sequence[int]) -> int:
    """How many row images there are."""
    data, width = event.images, len(sizes)
    at, count, null_bytes = 0, 0, (width + 7) // 8
    while at < len(data):
        nulls = int.from_bytes(data[at : at + null_bytes], "little")
        at += null_bytes
        for place, size in enumerate(sizes):
            if nulls >> place & 1:
                continue
            at += size if size > 0 else int.from_bytes(data[at : at - size], "little") - size
        count += 1
    return count


def _real(kind: int, meta: int) -> tuple[int, int]:
    """CHAR, ENUM and SET share a type, and long CHARs hide two bits of their length in it."""
    if kind != STRING:
        return kind, meta
    high, low = meta >> 8, meta & 0xFF
    if high & 0x30 != 0x30:
        return high | 0x30, low | ((high & 0x30) ^ 0x30) << 4
    return high, low


def _size(kind: int, meta: int) -> int:
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in (VARCHAR, VARCHAR_COMPRESSED, STRING):
        return -1 if meta < 256 else -2
    if kind in (BLOB, BLOB_COMPRESSED, GEOMETRY):
        return -meta
    if kind in (TIMESTAMP, DATETIME, TIME):
        return {TIMESTAMP: 4, DATETIME: 5, TIME: 3}[kind] + (meta + 1) // 2
    if kind in (ENUM, SET):
        return meta
    if kind == BIT:
        return (meta >> 8) + ((meta & 0xFF) > 0)
    if kind == DECIMAL:
        return _decimal_size(meta >> 8, meta & 0xFF)
    raise Unfit(f"a column is stored as type {kind}, which is not known")


def _converter(kind: int, meta: int, column: TableColumn, bytes_of: ByteTables) -> Convert:
    """Also holds the log's type against the column's: a table that was changed and changed back shows."""
    made = _CONVERTERS.get(column.declared.split("(")[0].split()[0].lower())
    if made is None or kind not in made[0]:
        raise Unfit(f"column {column.name!r} is stored as type {kind}, not as {column.declared}")
    table = bytes_of.get(column.charset or "")
    if table is not None and kind not in (ENUM, SET):
        return lambda raw: raw.decode("latin-1").translate(table).encode()
    return made[1](meta, column)


def _integer(_: int, column: TableColumn) -> Convert:
    signed = "unsigned" not in column.declared.lower() and "zerofill" not in column.declared.lower()
    return lambda raw: b"%d" % int.from_bytes(raw, "little", signed=signed)


def _float(_: int, column: TableColumn) -> Convert:
    number = struct.Struct("<f" if column.declared.lower().startswith("float") else "<d")
    return lambda raw: repr(number.unpack(raw)[0]).encode()


def _year(_: int, __: TableColumn) -> Convert:
    return lambda raw: b"%d" % (raw[0] + 1900 if raw[0] else 0)


def _bit(_: int, __: TableColumn) -> Convert:
    return lambda raw: b"%d" % int.from_bytes(raw, "big")


def _date(_: int, __: TableColumn) -> Convert:
    def text(raw: bytes) -> bytes:
        packed = int.from_bytes(raw, "little")
        return b"%04d-%02d-%02d" % (packed >> 9, packed >> 5 & 15, packed & 31)

    return text


def _fraction(raw: bytes, digits: int) -> bytes:
    if not digits:
        return b""
    stored = (digits + 1) // 2 * 2
    return b".%0*d" % (stored, int.from_bytes(raw, "big"))


def _datetime(digits: int, _: TableColumn) -> Convert:
    def text(raw: bytes) -> bytes:
        packed = int.from_bytes(raw[:5], "big") - 0x8000000000
        day, clock = packed >> 17, packed & 0x1FFFF
        month, day = day >> 5, day & 31
        parts = (month // 13, month % 13, day, clock >> 12, clock >> 6 & 63, clock & 63)
        return b"%04d-%02d-%02d %02d:%02d:%02d" % parts + _fraction(raw[5:], digits)

    return text


def _timestamp(digits: int, _: TableColumn) -> Convert:
    def text(raw: bytes) -> bytes:
        seconds = int.from_bytes(raw[:4], "big")
        if not seconds:
            return b"0000-00-00 00:00:00"
        days, clock = divmod(seconds, 86400)
        parts = (*_civil(days), clock // 3600, clock // 60 % 60, clock % 60)
        return b"%04d-%02d-%02d %02d:%02d:%02d" % parts + _fraction(raw[4:], digits)

    return text


def _civil(days: int) -> tuple[int, int, int]:
    """The date that many days after 1970-01-01."""
    days += 719468
    era, of_era = divmod(days, 146097)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def _decimal_size(precision: int, scale: int) -> int:
    whole = precision - scale
    return whole // 9 * 4 + _DIGIT_BYTES[whole % 9] + scale // 9 * 4 + _DIGIT_BYTES[scale % 9]


def _decimal(meta: int, _: TableColumn) -> Convert:
    precision, scale = meta >> 8, meta & 0xFF
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    widths = [_DIGIT_BYTES[digits] for digits in groups]

    places = [(width, 10**count) for count, width in zip(groups, widths, strict=True) if count]

    def text(raw: bytes) -> bytes:
        negative = not raw[0] & 0x80
        data = int.from_bytes(raw, "big") ^ 1 << 8 * len(raw) - 1
        if negative:
            data ^= (1 << 8 * len(raw)) - 1
        number, left = 0, 8 * len(raw)
        for width, power in places:
            left -= 8 * width
            number = number * power + (data >> left & (1 << 8 * width) - 1)
        digits = b"%0*d" % (scale + 1, number)
        sign = b"-" if negative else b""
        return b"%b%b.%b" % (sign, digits[:-scale], digits[-scale:]) if scale else sign + digits

    return text


def _text(_: int, column: TableColumn) -> Convert:
    codec = CODECS[column.charset or ""]
    return bytes if codec == "utf-8" else lambda raw: raw.decode(codec).encode()


def _bytes(_: int, column: TableColumn) -> Convert:
    """BINARY is stored without the zero bytes that fill it up."""
    length = re.match(r"binary\((\d+)\)", column.declared.lower())
    if length is None:
        return bytes
    size = int(length[1])
    return lambda raw: raw.ljust(size, b"\0")


def _members(column: TableColumn) -> list[bytes]:
    listed = column.declared[column.declared.index("(") :].partition(" CHARACTER SET ")[0]
    return [m.replace("''", "'").encode() for m in re.findall(r"'((?:[^']|'')*)'", listed)]


def _enum(_: int, column: TableColumn) -> Convert:
    members = [b"", *_members(column)]
    return lambda raw: members[int.from_bytes(raw, "little")]


def _set(_: int, column: TableColumn) -> Convert:
    members = _members(column)

    def text(raw: bytes) -> bytes:
        chosen = int.from_bytes(raw, "little")
        return b",".join(member for i, member in enumerate(members) if chosen >> i & 1)

    return text


_CONVERTERS: dict[str, tuple[set[int], Callable[[int, TableColumn], Convert]]] = {
    "tinyint": ({1}, _integer),
    "smallint": ({2}, _integer),
    "mediumint": ({9}, _integer),
    "int": ({3}, _integer),
    "bigint": ({8}, _integer),
    "decimal": ({DECIMAL}, _decimal),
    "float": ({4}, _float),
    "double": ({5}, _float),
    "year": ({YEAR}, _year),
    "bit": ({BIT}, _bit),
    "date": ({DATE}, _date),
    "datetime": ({DATETIME}, _datetime),
    "timestamp": ({TIMESTAMP}, _timestamp),
    "enum": ({ENUM}, _enum),
    "set": ({SET}, _set),
    **dict.fromkeys(("char",), ({STRING}, _text)),
    **dict.fromkeys(("varchar",), ({VARCHAR}, _text)),
    **dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), ({BLOB}, _text)),
    **dict.fromkeys(("binary",), ({STRING}, _bytes)),
    **dict.fromkeys(("varbinary",), ({VARCHAR}, _bytes)),
    **dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), ({BLOB}, _bytes)),
}
