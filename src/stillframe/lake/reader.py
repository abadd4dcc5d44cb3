"""The rows of a view in one frame, exactly, as a DataFrame of any session.

content = base + net, where net is the sum of the change files. Few rows are in the changes, so the base is
read as it is, except for rows that some change takes away (`leaving`):

    keyed view:    base ▷ leaving (on the key; those that net takes away)  ⊎ rows that net adds;
                   or, where each frame has the key, the rows of each change that no later one takes away
    keyless view:  base ▷ leaving (on all columns, NULL-safe)
                   ⊎ base ⋉ leaving and the changes, added up, each row as often as the sum says

▷ is the anti-join, ⋉ the semi-join. A keyed row is there at most once, so a leaving key takes its one base
row with it. On Spark whole rows are joined by a hash of them, quicker than by ten columns, and then compared;
Sail's hash fails on some rows.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from stillframe.algebra.arrow import COUNT
from stillframe.engine import identifier, is_connect, read_files, view_struct
from stillframe.errors import LakeError
from stillframe.lake.frame import RECORDS, Frame, ViewState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BROADCAST = 4_000_000  # rows of changes whose keys Spark sends to every task; two longs take 60 bytes
KEYED_IN_EVERY_FRAME = ("strong", "complete")  # levels at which a frame is the view of one state

_PLACE = "__change"
_SKIPPED = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_WITH = re.compile(rf"{_SKIPPED}WITH\b(?:{_SKIPPED}RECURSIVE\b)?", re.IGNORECASE | re.DOTALL)


def require_files(root: Path, view: ViewState) -> None:
    for path in [*(f.path for f in view.base), *(f.path for f in view.changes)]:
        if not (root / path).is_file():
            raise LakeError(
                f"a file of view {view.table} is missing",
                detail=path,
                hint=f"run `stillframe refresh {view.table} --full` to compute the view again",
                code="MISSING_FILE",
            )


def content(session: SparkSession, root: Path, view: ViewState) -> DataFrame:
    require_files(root, view)
    base = read_files(session, [root / f.path for f in view.base], view_struct(view.schema, count=False))
    if not view.changes:
        return base
    signed = view_struct(view.schema, count=True)
    changes = read_files(session, [root / f.path for f in view.changes], signed)
    if is_keyed(view):
        few = not is_connect(session) and sum(f.rows for f in view.changes) <= MOST_BROADCAST
        read = {"base": base, "changes": changes}
        if len(generations(view)) > 1:
            read["ordered"] = _in_order(session, root, view)
        return session.sql(_last_wins(view, broadcast=few), **read)
    text = content_sql(view, hashed=not is_connect(session))
    return session.sql(text, base=base, changes=changes)


def is_keyed(view: ViewState) -> bool:
    """Whether it has its key in every frame, so that its content has each row once."""
    return bool(view.schema.keys) and view.level in KEYED_IN_EVERY_FRAME


def net_changes(session: SparkSession, root: Path, view: ViewState) -> DataFrame:
    """The sum of a view's changes, as one change."""
    files = [root / f.path for f in view.changes]
    changes = read_files(session, files, view_struct(view.schema, count=True))
    columns = ", ".join(identifier(name) for name in view.schema.names)
    return session.sql(_net(view, columns), changes=changes)


def generations(view: ViewState) -> tuple[int, ...]:
    """The last frames of the changes that lie side by side, oldest first; each of them is net in itself."""
    return tuple(sorted({f.frame for f in view.changes}))


def _in_order(session: SparkSession, root: Path, view: ViewState) -> DataFrame:
    """The rows of the changes, each with the place of its change among them, oldest first.

    Spark reads all files at once and tells rows apart by the files they are in: of the parts of a UNION ALL
    it would join each for itself. Places are looked up and not joined: of a join it would think that it makes
    as many rows as all pairs, and send no relation to every task that is read so. Sail does not say which
    file a row is of."""
    signed, order = view_struct(view.schema, count=True), generations(view)
    if is_connect(session):
        each = {
            f"changes{i}": read_files(
                session, [root / f.path for f in view.changes if f.frame == frame], signed
            )
            for i, frame in enumerate(order)
        }
        text = " UNION ALL ".join(f"SELECT *, {i} AS {_PLACE} FROM {{changes{i}}}" for i in range(len(order)))
        return session.sql(text, **each)
    from pyspark.sql import functions as F

    places = {"/".join(f.path.split("/")[-2:]): order.index(f.frame) for f in view.changes}
    known = F.create_map(*(F.lit(each) for pair in places.items() for each in pair))
    rows = read_files(session, [root / f.path for f in view.changes], signed)
    file = F.substring_index(F.col("_metadata.file_path"), "/", -2)
    return rows.withColumn(_PLACE, known[file])


def frame_query(session: SparkSession, root: Path, frame: Frame, text: str) -> DataFrame:
    """A query over the views of one frame. They come before it as queries of its WITH, so that nothing is
    registered in the session, no later frame can take their place, and nothing but a query is accepted."""
    named: dict[str, ViewState] = {}  # as the query spells them: Sail tells Notes from notes
    for name, view in frame.shown.items():
        spelled = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
        if view.vector is not None and spelled is not None:
            if view.algorithm == RECORDS:
                raise LakeError(
                    f"view {name} is served as records, and is no table of the lake",
                    hint="read it where it is served, or with Warehouse.view and Warehouse.record",
                    code="SERVED",
                )
            named[spelled.group()] = view
    if not named:
        return session.sql(_with("__nothing AS (SELECT 1 AS x)", text))
    contents = {f"view{i}": content(session, root, view) for i, view in enumerate(named.values())}
    ours = ", ".join(
        f"{identifier(name)} AS (SELECT * FROM {{{placeholder}}})"
        for name, placeholder in zip(named, contents, strict=True)
    )
    return session.sql(_with(ours, text.replace("{", "{{").replace("}", "}}")), **contents)


def _with(ours: str, text: str) -> str:
    theirs = _WITH.match(text)
    if theirs is None:
        return f"WITH {ours} {text}"
    return f"{theirs.group()} {ours}, {text[theirs.end() :]}"


def content_sql(view: ViewState, *, hashed: bool) -> str:
    """SQL over {base} and {changes}."""
    columns = ", ".join(identifier(name) for name in view.schema.names)
    if not view.schema.keys:
        return _keyless(view, columns, hashed=hashed)
    net = _net(view, columns)
    same = " AND ".join(f"b.{name} = l.{name}" for name in _key(view))
    return (
        f"SELECT {_of('b', view)} FROM {{base}} b LEFT ANTI JOIN ({net}) l ON {same} AND l.{COUNT} < 0 "
        f"UNION ALL SELECT {columns} FROM ({net}) WHERE {COUNT} > 0"
    )


def _last_wins(view: ViewState, *, broadcast: bool) -> str:
    """SQL over {base}, {changes} and, where there are several, the same {ordered}. Law: where a key is one in
    every frame, a row that came is there until a later change takes a row of its key away. So no row is added
    up, and of the columns only the key and those that are asked for are read."""
    key, hint = _key(view), "/*+ BROADCAST(l) */ " if broadcast else ""
    same = " AND ".join(f"r.{name} = l.{name}" for name in key)

    def lacking(rows: str, told: list[str], changes: str) -> str:
        leaving = f"SELECT {', '.join(told)} FROM {{{changes}}} WHERE {COUNT} < 0"
        return f"SELECT {hint}{_of('r', view)} FROM {rows} r LEFT ANTI JOIN ({leaving}) l ON {same}"

    stayed = lacking("{base}", key, "changes")
    if len(generations(view)) == 1:
        return f"{stayed} UNION ALL SELECT {_of('r', view)} FROM {{changes}} r WHERE {COUNT} > 0"
    came = lacking(f"(SELECT * FROM {{ordered}} WHERE {COUNT} > 0)", [*key, _PLACE], "ordered")
    return f"{stayed} UNION ALL {came} AND l.{_PLACE} > r.{_PLACE}"


def _key(view: ViewState) -> list[str]:
    return [identifier(view.schema[i].name) for i in sorted(view.schema.identity)]


def _keyless(view: ViewState, columns: str, *, hashed: bool) -> str:
    leaving = f"SELECT {columns}, {COUNT} FROM {{changes}} WHERE {COUNT} < 0"
    same = " AND ".join(f"b.{identifier(name)} <=> l.{identifier(name)}" for name in view.schema.names)
    if hashed:
        leaving = f"SELECT *, xxhash64({columns}) AS __hash FROM ({leaving})"
        # The second alternative never holds; it keeps the comparison of columns out of the join's key.
        same = f"xxhash64({_of('b', view)}) = l.__hash AND (({same}) OR l.{COUNT} > 0)"
    kept = f"SELECT {_of('b', view)} FROM {{base}} b LEFT ANTI JOIN ({leaving}) l ON {same}"
    touched = (
        f"SELECT {columns}, SUM({COUNT}) AS {COUNT} FROM ("
        f"SELECT {_of('b', view)}, CAST(1 AS BIGINT) AS {COUNT} FROM {{base}} b "
        f"LEFT SEMI JOIN ({leaving}) l ON {same} UNION ALL SELECT {columns}, {COUNT} FROM {{changes}}"
        f") GROUP BY {columns}"
    )
    repeated = (
        f"SELECT {columns} FROM (SELECT * FROM ({touched}) WHERE {COUNT} > 0) "
        f"LATERAL VIEW explode(sequence(CAST(1 AS BIGINT), {COUNT})) e AS __copy"
    )
    return f"{kept} UNION ALL {repeated}"


def _net(view: ViewState, columns: str) -> str:
    """One change file is consolidated already; several are added up."""
    if len(generations(view)) == 1:
        return f"SELECT {columns}, {COUNT} FROM {{changes}}"
    return (
        f"SELECT {columns}, __net AS {COUNT} FROM (SELECT {columns}, SUM({COUNT}) AS __net "
        f"FROM {{changes}} GROUP BY {columns}) WHERE __net <> 0"
    )


def _of(table: str, view: ViewState) -> str:
    return ", ".join(f"{table}.{identifier(name)}" for name in view.schema.names)
