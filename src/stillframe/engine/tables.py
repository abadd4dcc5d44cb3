"""The tables a compiled plan reads: staged files and views' files under generated names, for the time of
one piece of work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING

from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.schema import Schema
from stillframe.engine.files import engine_errors, read_files, staged_struct, view_struct
from stillframe.engine.session import Engine
from stillframe.engine.stage import TASK_ROWS, Staged
from stillframe.engine.words import ONE_TASK, identifier, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NO_ROWS = " WHERE FALSE AND TRUE)"


class Tables:
    """Registers files as temporary views of the maintenance session, under names that the next piece of
    work in this thread takes over.

    Methods return SQL for a FROM clause: a parenthesised query with every column of the relation under
    its internal name (columns that were not read are NULL; nobody looks at them) and the signed count.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._prefix = f"sf_{get_ident():x}"
        self._names: dict[tuple[Path, ...], str] = {}
        self._count = 0

    def staged(self, staged: Staged, schema: Schema, *, sign: int = 1) -> str:
        if not staged.files:
            return _nothing(schema)
        name = self._register(staged.files, staged_struct(staged.types))
        place = {position: i for i, position in enumerate(staged.positions)}
        columns = [
            f"{internal_name(place[i]) if i in place else literal(None, column.type)} AS {internal_name(i)}"
            for i, column in enumerate(schema)
        ]
        hint = ONE_TASK if staged.rows <= TASK_ROWS and self._engine.kind == "spark" else ""
        return f"(SELECT {hint}{', '.join([*columns, f'{_signed(sign)} AS {COUNT}'])} FROM {name})"

    def view_rows(self, files: Sequence[Path], schema: Schema, *, signed: bool, sign: int = 1) -> str:
        """A view's own files: plain rows count one each, change files carry their counts."""
        if not files:
            return _nothing(schema)
        name = self._register(tuple(files), view_struct(schema, count=signed))
        columns = [f"{identifier(c.name)} AS {internal_name(i)}" for i, c in enumerate(schema)]
        count = _signed(sign) if signed else f"CAST({sign} AS BIGINT)"
        return f"(SELECT {', '.join([*columns, f'{count} AS {COUNT}'])} FROM {name})"

    def plain_rows(self, read: Callable[[SparkSession], DataFrame], schema: Schema) -> str:
        """Rows of a view as a session reads them, each counting one."""
        with engine_errors():
            name = self.register_frame(read(self._engine.maintenance))
        columns = [f"{identifier(c.name)} AS {internal_name(i)}" for i, c in enumerate(schema)]
        return f"(SELECT {', '.join([*columns, f'CAST(1 AS BIGINT) AS {COUNT}'])} FROM {name})"

    @staticmethod
    def sum(parts: Sequence[str]) -> str:
        parts = [part for part in parts if not is_nothing(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        return "(" + " UNION ALL ".join(f"SELECT * FROM {part}" for part in parts) + ")"

    def register_frame(self, frame: DataFrame) -> str:
        """A DataFrame of the maintenance session under a name that SQL can use."""
        self._count += 1
        name = f"{self._prefix}_{self._count}"
        frame.createOrReplaceTempView(name)
        return name

    def _register(self, files: tuple[Path, ...], struct: object) -> str:
        if files not in self._names:
            with engine_errors():
                self._names[files] = self.register_frame(read_files(self._engine.maintenance, files, struct))
        return self._names[files]


def _signed(sign: int) -> str:
    return COUNT if sign > 0 else f"-{COUNT}"


def is_nothing(table: str) -> bool:
    """Whether a table has no rows because there are no files."""
    return table.endswith(_NO_ROWS)


def _nothing(schema: Schema) -> str:
    columns = [f"{literal(None, c.type)} AS {internal_name(i)}" for i, c in enumerate(schema)]
    return f"(SELECT {', '.join([*columns, f'CAST(0 AS BIGINT) AS {COUNT}'])}{_NO_ROWS}"
