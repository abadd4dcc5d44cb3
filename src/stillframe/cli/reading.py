"""Verbs that read: status, show, query, frames."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from stillframe.cli.arguments import UsageError
from stillframe.cli.output import Output, plain, redact, rows_table, table
from stillframe.cli.progress import progress
from stillframe.engine import EngineError, engine_errors
from stillframe.lake.frame import Frame, ViewState
from stillframe.runtime import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa

WATCH_SECONDS = 1.0
FRAMES_SHOWN = 20
_STYLES = {"current": "green", "stopped": "red", "refused": "red"}
_MISSING = "PATH_NOT_FOUND"  # a file of the lake, which is no fault of a query


# -- status


def status(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    if options.watch and output.as_json:
        raise UsageError("--watch goes on, --json is one document", hint="give one of them")
    found = warehouse.status()
    output.document(found)
    if not options.watch or output.as_json:
        output.text(status_text(found))
        return 0
    if not output.out.is_terminal:
        raise UsageError("--watch needs a terminal", hint="call `stillframe status` again and again instead")
    with Live(status_text(found), console=output.out, auto_refresh=False) as live:
        try:
            while True:
                time.sleep(WATCH_SECONDS)
                live.update(status_text(warehouse.status()), refresh=True)
        except KeyboardInterrupt:
            return 0


def status_text(found: Mapping[str, Any]) -> RenderableType:
    parts: list[RenderableType] = []
    if found["frame"] is None:
        parts.append(Text(f"no frame yet in {found['warehouse']}; run `stillframe refresh`"))
    else:
        parts.append(Text(f"frame {found['frame']}, published {found['published_at']}", style="bold"))
    if found["views"]:
        parts += [_views_table(found["views"]), _reasons(found["views"])]
        parts += [_target(found["target_lag"], found["views"])] if found["target_lag"] else []
    parts.append(_sources_table(found["sources"]))
    bound = found["settle_bound"]
    parts.append(
        Text(
            f"other engines see a view's table at its settled frame; it follows when unsettled rows pass "
            f"{bound['rows']:.0%} of the view (and 10 000), or after {bound['seconds']:g} s",
            style="dim",
        )
    )
    return Group(*parts)


def _views_table(views: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    numbers = ("frame", "rows", "settled", "unsettled", "verified")
    made = table(
        "view", "state", "level", "frame", "rows", "mode", "lag", "settled", "unsettled", "verified",
        right=numbers,
    )  # fmt: skip
    for name, view in views.items():
        verified = view["verified_through"]
        made.add_row(
            name,
            Text(view["state"], style=_STYLES.get(view["state"], "yellow")),
            view["level"] or "-",
            str(view["frame"] or "-"),
            "-" if view["rows"] is None else str(view["rows"]),
            str(view["mode"] or "-"),
            ", ".join(_lag(source, lag) for source, lag in view["lag"].items()) or "-",
            str(view["settled_frame"] or "-"),
            f"{view['unsettled_rows']} rows in {view['unsettled_files']} files" if view["table"] else "-",
            "never" if verified is None else f"frame {verified}",
        )
    return made


def _lag(source: str, lag: Mapping[str, Any]) -> str:
    if lag["transactions"] is None:
        return f"{source} ?"
    if not lag["transactions"]:
        return f"{source} 0"
    return f"{source} {lag['transactions']} ({lag['seconds']:g} s)"


def _target(seconds: float, views: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    late = [name for name, view in views.items() if view["within_target"] is False]
    unknown = [name for name, view in views.items() if view["within_target"] is None]
    if late:
        return Text(f"target lag {seconds:g} s: missed by {', '.join(late)}", style="red")
    if unknown:
        return Text(f"target lag {seconds:g} s: not known of {', '.join(unknown)}", style="yellow")
    return Text(f"target lag {seconds:g} s: met", style="green")


def _reasons(views: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    lines = Text()
    for name, view in views.items():
        if view["reason"]:
            lines.append(redact(f"{name}: {view['reason']['code']}: {view['reason']['message']}\n"), "red")
    return lines


def _sources_table(sources: Mapping[str, Mapping[str, Any]]) -> RenderableType:
    made = table(
        "source", "capture", "position", "log rows", "log bytes", "consumers", right=("log rows", "log bytes")
    )
    for name, source in sources.items():
        if not source["ok"]:
            made.add_row(name, "-", Text(redact(f"{source['code']}: {source['message']}"), style="red"))
            continue
        consumers = [f"{c['name']} at {c['position']} ({c['behind']} behind)" for c in source["consumers"]]
        made.add_row(
            name,
            source["capture"],
            str(source["position"]),
            str(source["log_rows"]),
            str(source["log_bytes"]),
            ", ".join(consumers) or "not attached",
        )
    return made


# -- rows


def show(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    frame = warehouse.frame(options.frame)
    with progress(warehouse, output.err, "reading"), engine_errors():
        rows = warehouse.view(options.view, frame.number)
        found = (rows.limit(options.limit + 1) if options.limit else rows).toArrow()
    more = bool(options.limit) and found.num_rows > options.limit
    _print_rows(found.slice(0, options.limit) if more else found, frame, options.format, output, more)
    if more:
        output.note(f"there are more rows; the first {options.limit} are shown (--limit 0 shows all)")
    return 0


def query(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    """What the engine says of the text before it meets a row is bad usage; what it says later, a failure."""
    frame = warehouse.frame(options.frame)
    analysed = False
    try:
        with progress(warehouse, output.err, "computing"), engine_errors():
            rows = warehouse.query(options.sql, frame.number)
            analysed = rows.schema is not None
            found = rows.toArrow()
    except EngineError as error:
        if error.code != EngineError.code:
            raise
        if analysed or _MISSING in error.detail:
            raise EngineError("the engine could not evaluate the query", detail=error.detail) from error
        hint = f"views of frame {frame.number}: {', '.join(frame.shown) or 'none'}"
        message = "this is not a query over the views"
        raise UsageError(message, detail=error.detail, hint=hint, code="BAD_QUERY") from error
    _print_rows(found, frame, options.format, output)
    return 0


def _print_rows(found: pa.Table, frame: Frame, form: str, output: Output, more: bool = False) -> None:
    columns = [str(field.name) for field in found.schema]
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    if form == "csv" and not output.as_json:
        output.raw(_csv(columns, rows))
        return
    output.text(rows_table(columns, rows))
    output.say(f"{len(rows)} rows, frame {frame.number}", style="dim")
    output.document(
        {
            "frame": frame.number,
            "columns": columns,
            "types": [str(field.type) for field in found.schema],
            "rows": [list(row) for row in rows],
            "more": more,
        },
        data=True,
    )


def _csv(columns: list[str], rows: list[tuple[Any, ...]]) -> str:
    """NULL is an empty field; an empty string is quoted."""
    return "".join(_line(row) for row in [tuple(columns), *rows])


def _line(row: tuple[Any, ...]) -> str:
    return ",".join(map(_field, row)) + "\n"


def _field(value: Any) -> str:
    if value is None:
        return ""
    text = plain(value)
    return '"' + text.replace('"', '""') + '"' if not text or set(text) & set(',"\r\n') else text


# -- frames


def frames(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    limit = options.limit or (None if output.as_json else FRAMES_SHOWN)
    history = warehouse.frames(limit)
    output.document([frame_document(frame) for frame in history])
    made = table("frame", "published", "view", "state", "mode", "rows", "vector", right=("frame", "rows"))
    for frame in history:
        first = True
        for name, view in frame.shown.items():
            made.add_row(
                str(frame.number) if first else "",
                frame.published_at[:19].replace("T", " ") if first else "",
                name,
                view.state,
                str(view.session.get("mode", "-")),
                "-" if view.counted is None else str(view.counted),
                short_vector(view),
            )
            first = False
        if first:
            made.add_row(str(frame.number), frame.published_at[:19].replace("T", " "), "(no views)")
    output.text(made)
    if not history:
        output.say("no frame yet; run `stillframe refresh`")
    elif not options.limit and len(history) == FRAMES_SHOWN and not output.as_json:
        output.note(f"the newest {FRAMES_SHOWN} are shown (--limit N shows more)")
    return 0


def short_vector(view: ViewState) -> str:
    return " ".join(f"{source}@{p['position']}" for source, p in (view.vector or {}).items()) or "-"


def frame_document(frame: Frame) -> dict[str, Any]:
    return {
        "frame": frame.number,
        "revision": frame.revision,
        "published_at": frame.published_at,
        "views": {
            name: {
                "state": view.state,
                "level": view.level,
                "mode": view.session.get("mode"),
                "rows": view.counted,
                "settled": view.settled,
                "vector": view.vector,
                "reason": view.reason,
            }
            for name, view in frame.shown.items()
        },
    }
