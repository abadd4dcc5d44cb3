"""CSV exports: a header row, commas, double quotes, UTF-8 (with or without a byte order mark).

An empty field without quotes is NULL. Quoted, it is the empty text in a text column, and NULL in any other.
Empty lines are no rows. Every row has as many fields as the header, or the file is refused at that line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv

from stillframe.algebra.types import Type
from stillframe.errors import SourceError
from stillframe.sources.files.types import Guess

BLOCK_BYTES = 32 << 20
_FIELD_LIMIT = 1 << 40


def header(path: Path) -> tuple[str, ...]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            csv.field_size_limit(_FIELD_LIMIT)
            found = next((record for record in csv.reader(file) if record), None)
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error
    except csv.Error as error:
        raise malformed(path, "its header cannot be read", str(error)) from error
    if found is None:
        raise malformed(
            path,
            "it has no header row",
            "it is empty" if not path.stat().st_size else "it has only empty lines",
            hint="an export without rows still has its header; a file of nothing is never taken for one",
        )
    return tuple(found)


def text_batches(path: Path, width: int) -> Iterator[pa.RecordBatch]:
    """All rows as text, columns by place."""
    names, found = [str(i) for i in range(width)], 0
    try:
        with path.open("rb") as file:
            for batch in _without_header(_opened(file, names)):
                found += batch.num_rows
                yield batch
    except pa.ArrowException as error:
        raise _explained(path, error) from error
    if _has_quotes(path):
        _require_rows(path, found)


def _has_quotes(path: Path) -> bool:
    with path.open("rb") as file:
        return any(b'"' in block for block in iter(lambda: file.read(1 << 20), b""))


def _require_rows(path: Path, rows: int) -> None:
    """A quote that is not closed takes the rows below it for one text. Arrow lets that pass, so where there
    are quotes a parser that does not has to find the same number of rows."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        csv.field_size_limit(_FIELD_LIMIT)
        reader = csv.reader(file, strict=True)
        above, begins = -1, 1  # the header is no row
        try:
            for record in reader:
                above += bool(record)
                begins = reader.line_num + 1
        except csv.Error as error:
            message = f"a quote in the row that begins in line {begins} is not closed, or closed too early"
            raise malformed(path, message, str(error)) from error
    if above != rows:
        raise malformed(path, "its quotes leave open where rows end", f"{above} rows, or {rows}")


def _opened(file: BinaryIO, names: list[str]) -> Iterator[pa.RecordBatch]:
    reader = pacsv.open_csv(
        file,
        pacsv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=names),
        pacsv.ParseOptions(newlines_in_values=True),
        pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from reader


def _without_header(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    seen = False
    for batch in batches:
        rows = batch if seen else batch.slice(1)
        seen = seen or batch.num_rows > 0
        if rows.num_rows:
            yield rows


def learned(
    paths: Sequence[Path], headers: Sequence[Sequence[str]], columns: Sequence[str]
) -> dict[str, Type]:
    """The types of these columns, from every row of every file."""
    guesses = {column: Guess() for column in columns}
    for path, names in zip(paths, headers, strict=True) if guesses else ():
        for batch in text_batches(path, len(names)):
            for column, guess in guesses.items():
                guess.add(batch.column(names.index(column)))
    return {column: guess.type for column, guess in guesses.items()}


def line_of(path: Path, row: int, expected: Mapping[int, str]) -> str:
    """Where the row of this number (the first is 0) stands, in words. The line is named only where what
    stands there is what is said to."""
    before = 1
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        csv.field_size_limit(_FIELD_LIMIT)
        reader = csv.reader(file)
        number = -1  # the header's
        try:
            for record in reader:
                if record:
                    if number == row:
                        return f"line {before}" if _shows(record, expected) else f"row {row + 1}"
                    number += 1
                before = reader.line_num + 1
        except csv.Error:
            pass
    return f"row {row + 1}"


def _shows(record: Sequence[str], expected: Mapping[int, str]) -> bool:
    return all(place < len(record) and record[place] == text for place, text in expected.items())


def malformed(path: Path, message: str, detail: str = "", hint: str = "") -> SourceError:
    return SourceError(
        f"{path} cannot be read as CSV: {message}",
        detail=detail,
        hint=hint or "export it again: a header row, commas between fields, quotes around text that has any",
        code="MALFORMED_FILE",
    )


def _explained(path: Path, error: pa.ArrowException) -> SourceError:
    text = str(error)
    if "UTF8" in text:
        return _not_utf8(path)
    if uneven := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text):
        row, expected, found = (int(part) for part in uneven.groups())
        message = f"{line_of(path, row - 2, {})} has {found} fields, the header has {expected}"
        return malformed(path, message, text.partition("got ")[2].partition(": ")[2][:200])
    if "straddl" in text or "block" in text:
        message = f"a row is longer than {BLOCK_BYTES >> 20} MiB, or a quote is opened and never closed"
        return malformed(path, message, text)
    return malformed(path, "its rows cannot be told apart", text)


def _not_utf8(path: Path) -> SourceError:
    found = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                found = number
                break
    return SourceError(
        f"{path} is not UTF-8 text: line {found} is not" if found else f"{path} is not UTF-8 text",
        hint="export it in UTF-8",
        code="MALFORMED_FILE",
    )
