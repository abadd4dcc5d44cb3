"""The tables a compiled plan reads: staged files and views' files under generated names, for the time of
one piece of work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import uuid4

from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.schema import Schema
from stillframe.engine.files import engine_errors, read_files, staged_struct, view_struct
from stillframe.engine.scalar_sql import identifier, literal
from stillframe.engine.session import Engine
from stillframe.engine.stage import Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Tables:
    """Registers files as temporary views of the maintenance session and forgets them at the end.

    Methods return SQL for a FROM clause: a parenthesised query with every column of the relation under
    its internal name (columns that were not read are NULL; nobody looks at them) and the signed count.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._prefix = f"sf_{uuid4().hex[:12]}"
        self._names: list[str] = []

    def __enter__(self) -> Tables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not issubclass(kind, Exception):
            return
        for name in self._names:
            self._engine.maintenance.catalog.dropTempView(name)

    def staged(self, staged: Staged, schema: Schema, *, sign: int = 1) -> str:
        if not staged.files:
            return _nothing(schema)
        name = self._register(read_key(staged.files), staged.files, staged_struct(staged.types))
        place = {position: i for i, position in enumerate(staged.positions)}
        columns = [
            f"{internal_name(place[i]) if i in place else literal(None, column.type)} AS {internal_name(i)}"
            for i, column in enumerate(schema)
        ]
        return f"(SELECT {', '.join([*columns, f'{_signed(sign)} AS {COUNT}'])} FROM {name})"

    def view_rows(self, files: Sequence[Path], schema: Schema, *, signed: bool, sign: int = 1) -> str:
        """A view's own files: plain rows count one each, change files carry their counts."""
        if not files:
            return _nothing(schema)
        name = self._register(read_key(files), files, view_struct(schema, count=signed))
        columns = [f"{identifier(c.name)} AS {internal_name(i)}" for i, c in enumerate(schema)]
        count = _signed(sign) if signed else f"CAST({sign} AS BIGINT)"
        return f"(SELECT {', '.join([*columns, f'{count} AS {COUNT}'])} FROM {name})"

    @staticmethod
    def sum(parts: Sequence[str]) -> str:
        if len(parts) == 1:
            return parts[0]
        return "(" + " UNION ALL ".join(f"SELECT * FROM {part}" for part in parts) + ")"

    def register_frame(self, frame: DataFrame) -> str:
        """A DataFrame of the maintenance session under a name that SQL can use."""
        name = f"{self._prefix}_f{len(self._names)}"
        frame.createOrReplaceTempView(name)
        self._names.append(name)
        return name

    def _register(self, key: str, files: Sequence[Path], struct: object) -> str:
        name = f"{self._prefix}_{key}"
        if name not in self._names:
            with engine_errors():
                frame = read_files(self._engine.maintenance, files, struct)
                frame.createOrReplaceTempView(name)
            self._names.append(name)
        return name


def read_key(files: Sequence[Path]) -> str:
    return format(abs(hash(tuple(files))), "x")


def _signed(sign: int) -> str:
    return COUNT if sign > 0 else f"-{COUNT}"


def _nothing(schema: Schema) -> str:
    columns = [f"{literal(None, c.type)} AS {internal_name(i)}" for i, c in enumerate(schema)]
    return f"(SELECT {', '.join([*columns, f'CAST(0 AS BIGINT) AS {COUNT}'])} WHERE FALSE)"
