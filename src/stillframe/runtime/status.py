"""Where views and sources stand: what `status` shows, and what tells `run` that there is work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from stillframe.errors import StillframeError
from stillframe.lake import Lake
from stillframe.lake.frame import STOPPED, Frame, ViewState
from stillframe.runtime.definitions import Definitions, by_source
from stillframe.runtime.metrics import Metrics
from stillframe.runtime.settle import unsettled_rows
from stillframe.sources.base import Position, Source


def transactions_behind(
    sources: Mapping[str, Source], relations: Iterable[str], state: ViewState
) -> dict[str, int | None]:
    """For each source a view reads, how much of what it committed the view does not show, as the source
    counts it; None where the source cannot say."""
    found: dict[str, int | None] = {}
    for source, tables in by_source(relations).items():
        found[source] = None
        if source in (state.vector or {}):
            with suppress(StillframeError):
                found[source] = sources[source].behind(tables, _position(state, source))
    return found


def _lag(
    sources: Mapping[str, Source], relations: Sequence[str], state: ViewState
) -> dict[str, dict[str, Any]]:
    """`seconds` is the age of the oldest change the view does not show."""
    found = {}
    tables = by_source(relations)
    for source, behind in transactions_behind(sources, relations, state).items():
        since = None
        if behind:
            with suppress(StillframeError):
                since = sources[source].waiting_since(tables[source], _position(state, source))
        age = (datetime.now(UTC) - since).total_seconds() if since else 0.0
        found[source] = {
            "transactions": behind,
            "seconds": None if behind is None else round(max(age, 0.0), 1),
        }
    return found


def waiting_since(sources: Mapping[str, Source], definitions: Definitions, frame: Frame) -> datetime | None:
    """When the oldest change was made that a view of the frame does not show; None where no source says."""
    asked: dict[tuple[str, Position], set[str]] = {}
    for name, view in definitions.views.items():
        state = frame.views.get(name)
        for source, tables in by_source(view.relations).items():
            if state is not None and state.state != STOPPED and source in (state.vector or {}):
                asked.setdefault((source, _position(state, source)), set()).update(tables)
    found = []
    for (source, at), read in asked.items():
        with suppress(StillframeError):
            found.append(sources[source].waiting_since(sorted(read), at))
    return min((since for since in found if since is not None), default=None)


def within(lag: Mapping[str, Mapping[str, Any]], target: float | None) -> bool | None:
    """Whether a view's lag is under the target; None without a target, or where a source does not say."""
    seconds = [one["seconds"] for one in lag.values()]
    return None if target is None or None in seconds or not seconds else max(seconds) <= target


def _position(state: ViewState, source: str) -> Position:
    return Position.from_json((state.vector or {})[source])


def log_positions(sources: Mapping[str, Source], names: Iterable[str]) -> dict[str, int | None]:
    """How far each source's log has come; None where the source cannot say."""
    found: dict[str, int | None] = {}
    for name in names:
        try:
            found[name] = sources[name].log_status().position
        except StillframeError:
            found[name] = None
    return found


def view_status(
    frame: Frame,
    lake: Lake,
    sources: Mapping[str, Source],
    definitions: Definitions,
    verified: Mapping[str, int],
    metrics: Metrics,
    target_lag: float | None = None,
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, state in frame.shown.items():
        view = definitions.views.get(name)
        lag = {}
        if view is not None and state.vector is not None:
            lag = _lag(sources, definitions.base_relations(name), state)
        found[name] = {
            "frame": state.session.get("frame"),
            "level": state.level,
            "algorithm": state.algorithm,
            "state": state.state,
            "reason": state.reason,
            "rows": state.counted,
            "mode": state.session.get("mode"),
            "lag": lag,
            "within_target": within(lag, target_lag),
            "verified_through": verified.get(name),
            "settled_frame": None if state.counted is None else state.settled,
            "unsettled_rows": unsettled_rows(state),
            "unsettled_files": len(state.changes),
            "table": None if state.counted is None else str(lake.table_path(state.table)),
        }
        seconds = max((one["seconds"] or 0.0 for one in lag.values()), default=0.0)
        metrics.observe("stillframe_view_lag_seconds", seconds, view=name)
    return found


def source_status(source: Source, consumer: str, metrics: Metrics) -> dict[str, Any]:
    try:
        log = source.log_status()
    except StillframeError as error:
        return {"ok": False, "code": error.code, "message": error.message, "hint": error.hint}
    mine = [c for c in log.consumers if c.name == consumer]
    for one in mine:
        metrics.observe("stillframe_source_lag_transactions", one.behind, source=source.name)
    return {
        "ok": True,
        "capture": str(source.capture),
        "attached": bool(mine),
        "position": log.position,
        "log_rows": log.rows,
        "log_bytes": log.bytes,
        "consumers": [
            {"name": c.name, "position": c.position, "behind": c.behind, "heartbeat": c.heartbeat}
            for c in log.consumers
        ],
    }
