"""Plans on PySpark: Apache Spark, Spark Connect or Sail."""

from stillframe.engine.files import (
    engine_errors,
    read_files,
    view_struct,
    write_frame,
    write_query,
    write_rows,
)
from stillframe.engine.plan_sql import (
    canonical_sql,
    consolidated_sql,
    named_sql,
    repeated_sql,
    select_sql,
)
from stillframe.engine.rewriting import Part, Rewriting, rewrite, rewrite_here
from stillframe.engine.room import Room, is_beside, room_within
from stillframe.engine.sail_sql import EngineRefused
from stillframe.engine.sail_texts import misread_by_sail
from stillframe.engine.scalar_sql import ScalarWriter
from stillframe.engine.session import (
    ENGINE_LOST,
    NO_ENGINE,
    Engine,
    EngineError,
    adopt,
    is_connect,
    open_engine,
)
from stillframe.engine.stage import (
    TASK_ROWS,
    Read,
    Staged,
    column_batches,
    columns_of,
    counts_one,
    followed_by,
    stage,
    staged_by_task,
    staged_query,
    staged_table,
)
from stillframe.engine.tables import Tables, is_nothing
from stillframe.engine.volumes import apart, fits, held_bytes, row_groups, text_bytes
from stillframe.engine.words import identifier

__all__ = [
    "ENGINE_LOST",
    "NO_ENGINE",
    "TASK_ROWS",
    "Engine",
    "EngineError",
    "EngineRefused",
    "Part",
    "Read",
    "Rewriting",
    "Room",
    "ScalarWriter",
    "Staged",
    "Tables",
    "adopt",
    "apart",
    "canonical_sql",
    "column_batches",
    "columns_of",
    "consolidated_sql",
    "counts_one",
    "engine_errors",
    "fits",
    "followed_by",
    "held_bytes",
    "identifier",
    "is_beside",
    "is_connect",
    "is_nothing",
    "misread_by_sail",
    "named_sql",
    "open_engine",
    "read_files",
    "repeated_sql",
    "rewrite",
    "rewrite_here",
    "room_within",
    "row_groups",
    "select_sql",
    "stage",
    "staged_by_task",
    "staged_query",
    "staged_table",
    "text_bytes",
    "view_struct",
    "write_frame",
    "write_query",
    "write_rows",
]
