"""Reading and writing Parquet by explicit file lists. Schemas are given, never inferred, and files are
never listed by the engine: no job runs before the one that is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra.arrow import COUNT, internal_name, repeats
from stillframe.algebra.schema import Schema
from stillframe.algebra.side_by_side import side_by_side
from stillframe.algebra.types import Type
from stillframe.engine.session import ENGINE_LOST, WORKER_PYTHON, Engine, EngineError
from stillframe.engine.words import identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

# Codes of errors that a source or a store of records raises inside a task.
TOLD_BY_TASKS = (
    *(
        "VALUE_MISMATCH",
        "CAPTURE_GAP",
        "SOURCE_ERROR",
        "STORE_ERROR",
        "FENCED",
        "UNREACHABLE",
        "LOGIN_REFUSED",
    ),
    *("LOCKED", "STORE_TAKEN", "STORE_NOT_MADE", "STORE_CHANGED", "STORE_FULL", "READ_ONLY", "NOT_PERMITTED"),
)
GROUP_ROWS = 250_000  # of a row group
DICTIONARY_BYTES = 64 * 1024
LONG_DIGITS = 18  # of the decimals that a number of 64 bits holds
CODEC = "spark.sql.parquet.compression.codec"
# How engines write, each by its own names. Where a dictionary grows longer, values hardly repeat. A change
# finds its partners by row group, so these are bounded in rows: Spark bounds bytes, and twelve million narrow
# rows are one.
FORMAT = {
    **{"parquet.dictionary.page.size": DICTIONARY_BYTES, "dictionary_page_size_limit": DICTIONARY_BYTES},
    **{"parquet.block.row.count.limit": GROUP_ROWS, "max_row_group_size": GROUP_ROWS},
}
# The second version of the format has better for values that hardly repeat: differences of neighbours. For
# decimals of more digits than a number of 64 bits has it means an encoding that not all readers know.
PLAIN = {"parquet.writer.version": "v1", "writer_version": "1.0"}
DIFFERENCES = {"parquet.writer.version": "v2", "writer_version": "2.0"}
FILE_ROWS = 100_000  # of the driver that are written to one file; more to two, side by side
# How often values repeat, in the mean, from where a dictionary of them pays.
OFTEN_OF_NUMBERS = 16
OFTEN_OF_OTHERS = 2


def spark_type(type_: Type) -> Any:
    from pyspark.sql import types as T

    if type_.is_decimal:
        return T.DecimalType(type_.precision, type_.scale)
    return {
        "BOOLEAN": T.BooleanType(),
        "TINYINT": T.ByteType(),
        "SMALLINT": T.ShortType(),
        "INT": T.IntegerType(),
        "BIGINT": T.LongType(),
        "DOUBLE": T.DoubleType(),
        "STRING": T.StringType(),
        "BINARY": T.BinaryType(),
        "DATE": T.DateType(),
        "TIMESTAMP": T.TimestampType(),
    }[type_.name]


def staged_struct(types: Sequence[Type]) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(internal_name(i), spark_type(t)) for i, t in enumerate(types)]
    return StructType([*fields, StructField(COUNT, LongType())])


def view_struct(schema: Schema, *, count: bool) -> StructType:
    from pyspark.sql.types import LongType, StructField, StructType

    fields = [StructField(c.name, spark_type(c.type)) for c in schema]
    return StructType([*fields, *([StructField(COUNT, LongType())] if count else [])])


def read_files(session: SparkSession, files: Sequence[Path], struct: StructType) -> DataFrame:
    """The rows of these files, and of no others; no files are no rows."""
    if not files:
        return session.createDataFrame([], struct)
    return session.read.schema(_ddl(struct)).parquet(*(str(path) for path in files))


def _ddl(struct: StructType) -> str:
    """A schema as text. As an object it brings metadata to its columns in Sail, which then finds the same
    column with and without them in one plan, and gives up."""
    return ", ".join(
        f"{identifier(field.name)} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
        for field in struct.fields
    )


def write_query(engine: Engine, sql: str, folder: Path) -> None:
    """Run a query in the engine and leave its rows as Parquet files in a folder of this attempt alone.
    Only a write that succeeded is used, so what a lost or speculative task leaves is never seen."""
    with engine_errors():
        write_frame(engine.sql(sql), folder)


def write_frame(rows: DataFrame, folder: Path) -> None:
    """The same of rows the engine has; errors are the caller's."""
    version = PLAIN if any(map(_is_wide, rows.schema.fields)) else DIFFERENCES
    codec = rows.sparkSession.conf.get(CODEC, "snappy")
    rows.write.mode("error").options(compression=codec, **FORMAT, **version).parquet(str(folder))


def _is_wide(field: StructField) -> bool:
    return field.dataType.typeName() == "decimal" and field.dataType.precision > LONG_DIGITS


def write_rows(table: pa.Table, folder: Path) -> None:
    """The same of rows that the driver has; no file where there are none."""
    if not table.num_rows:
        return
    folder.mkdir(parents=True)

    def write(numbered: tuple[int, pa.Table]) -> None:
        number, rows = numbered
        with table_writer(folder / f"part-{number}.parquet", table.schema, rows) as file:
            file.write_table(rows)

    side_by_side(write, list(enumerate(_parts(table))))


def _parts(table: pa.Table) -> Sequence[pa.Table]:
    """Many rows in two parts: those that come and those that leave, so that who wants some reads no others;
    or halves, where there is only one kind."""
    if table.num_rows <= FILE_ROWS:
        return (table,)
    cut = -(-table.num_rows // 2)
    if COUNT in table.column_names:
        comes = pc.greater(table.column(COUNT), 0)
        coming = pc.sum(comes).as_py()
        if 0 < coming < table.num_rows:
            if not pc.all(comes.slice(0, coming)).as_py():
                return side_by_side(table.filter, (comes, pc.invert(comes)))
            cut = coming
    return table.slice(0, cut), table.slice(cut)


def table_writer(path: Path, schema: pa.Schema, some: pa.Table) -> pq.ParquetWriter:
    """A file of rows like these. Only of columns whose values repeat there is a dictionary: it takes long.
    Numbers that do not repeat often are kept as differences of neighbours, which takes less room than
    compression, and less time to write and to read."""
    numbers = {field.name for field in schema if _is_number(field.type)}
    often = {name: OFTEN_OF_NUMBERS if name in numbers else OFTEN_OF_OTHERS for name in schema.names}
    repeated = [name for name in schema.names if repeats(some.column(name), often[name])]
    others = numbers.difference(repeated)
    return pq.ParquetWriter(
        path,
        schema,
        use_dictionary=repeated or False,
        column_encoding=dict.fromkeys(others, "DELTA_BINARY_PACKED"),
        store_decimal_as_integer=True,
    )


def _is_number(type_: pa.DataType) -> bool:
    """Whether a file has a number of 32 or 64 bits for each value."""
    if pa.types.is_decimal(type_):
        return bool(type_.precision <= LONG_DIGITS)
    dates = pa.types.is_date32(type_) or pa.types.is_timestamp(type_)
    return bool(dates or pa.types.is_signed_integer(type_))


@contextmanager
def engine_errors() -> Iterator[None]:
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise _told(error) from error
    except Exception as error:
        if _is_java(error):
            raise _told(error) from error
        # A lost JVM or server surfaces as the transport's own exception.
        if isinstance(error, ConnectionError) or type(error).__module__.split(".")[0] in ("py4j", "grpc"):
            raise _lost(error) from error
        raise


def _is_java(error: Exception) -> bool:
    """An exception of a JVM that lives, for which PySpark has no class of its own."""
    return type(error).__name__ == "Py4JJavaError" and "stopped SparkContext" not in str(error)


def _told(error: Exception) -> EngineError:
    text = str(error)
    for code in TOLD_BY_TASKS:
        if f"{code}: " in text:
            line = next(line for line in text.splitlines() if f"{code}: " in line)
            return EngineError(line.split(f"{code}: ", 1)[1].strip(), code=code)
    lacking = _lacking(text)
    if lacking is not None:
        return lacking
    if "UNAVAILABLE" in text and "Grpc" in type(error).__name__:
        return _lost(error)
    return EngineError("the engine could not evaluate the view", detail=_first_line(error))


def _lacking(text: str) -> EngineError | None:
    """Told of the Python in which tasks run, if something is wrong with it."""
    if module := re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text):
        return EngineError(
            f"the Python of the engine's workers has no package {module[1].partition('.')[0]!r}",
            hint="workers of a cluster need pyarrow, numpy and the drivers of the databases: docs/cluster.md",
            code=WORKER_PYTHON,
        )
    if missing := re.search(r'Cannot run program "([^"]+)"', text):
        return EngineError(
            f"the engine's workers have no Python at {missing[1]}",
            hint="spark.pyspark.python, under conf, is where the workers find theirs: docs/cluster.md",
            code=WORKER_PYTHON,
        )
    if "PYTHON_VERSION_MISMATCH" in text:
        return EngineError(
            "the engine's workers have another version of Python than the driver",
            detail=next(line for line in text.splitlines() if "PYTHON_VERSION_MISMATCH" in line)[:500],
            hint="make their environment with the driver's version: docs/cluster.md",
            code=WORKER_PYTHON,
        )
    return None


def _lost(error: Exception) -> EngineError:
    return EngineError(
        "the engine went away; nothing was published",
        detail=_first_line(error),
        hint="start again: the next session continues where the last frame stands",
        code=ENGINE_LOST,
    )


def _first_line(error: Exception) -> str:
    text = str(error)
    told = (
        (re.search(r"Caused by: [\w.$]+: (.+)", text) or re.search(r"\n: (.+)", text))
        if _is_java(error)
        else None
    )
    lines = [told.group(1)] if told else [line for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__
