"""What can be said of views before anything is computed: whether and how each can be maintained, and where
those stand that no frame shows yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stillframe.change import how
from stillframe.engine import EngineRefused, ScalarWriter, select_sql
from stillframe.errors import StillframeError
from stillframe.records.view import COUNTER, SIGNATURE, Served
from stillframe.runtime.definitions import Definitions, View
from stillframe.sql import Reason

NEW = "new"
REFUSED = "refused"


def writer_for(spark: Mapping[str, Any]) -> ScalarWriter:
    """The writer of the engine a project is set to, which need not run."""
    return ScalarWriter(sail=spark.get("engine") == "sail")


def check_views(
    definitions: Definitions, away: Mapping[str, StillframeError], writer: ScalarWriter
) -> dict[str, dict[str, Any]]:
    """For each view, and each file with something in it that is none. `away` are sources that cannot be
    reached, whether or not their relations are remembered; `writer` is the engine's."""
    found: dict[str, dict[str, Any]] = {}
    for name in (*definitions.texts, *definitions.unreadable):
        view = definitions.views.get(name)
        reasons = [(reason, name in definitions.away) for reason in definitions.refused.get(name, ())]
        if view is not None:
            reasons = list(_against(view, away, writer))
        text = definitions.texts.get(name)
        found[name] = {
            "ok": not reasons,
            "level": view.level if view else None,
            "algorithm": view.algorithm if view else None,
            "incremental": view is not None and is_incremental(view),
            "operators": operators(view) if view else [],
            **({"records": as_records(view.served)} if view and view.served else {}),
            "reasons": [_document(reason, text.origin if text else name, gone) for reason, gone in reasons],
        }
    return found


def as_records(way: Served) -> dict[str, Any]:
    """The class of a view that is served, and what keeping it costs."""
    return {
        "class": way.called,
        "reads_base": way.reads_base or None,
        "test_and_set": SIGNATURE if way.view.signed else COUNTER,
    }


def is_incremental(view: View) -> bool:
    """Whether nothing of it is computed anew at every change."""
    return view.policy != "full" and all(how(o.plan).incremental for o in view.operators)


def operators(view: View) -> list[dict[str, Any]]:
    """How each operator of a view's text is maintained."""
    listed = []
    for operator in view.operators:
        found = how(operator.plan)
        listed.append(
            {
                "operator": operator.name,
                "line": operator.line,
                "column": operator.column,
                "text": operator.snippet,
                "rule": found.rule,
                "how": found.words,
                "incremental": found.incremental,
                "code": found.code or None,
                "hint": found.hint or None,
            }
        )
    return listed


def _against(
    view: View, away: Mapping[str, StillframeError], writer: ScalarWriter
) -> Iterator[tuple[Reason, bool]]:
    """What stands against a view that resolves, and whether that is a source that cannot be reached."""
    for source in sorted(view.sources.intersection(away)):
        yield _reason(view, away[source]), True
    try:
        select_sql(view.whole, lambda scan: scan.relation, writer)
    except EngineRefused as error:
        yield _reason(view, error), False


def _reason(view: View, error: StillframeError) -> Reason:
    return Reason(error.code, error.message, error.hint, view.text.line, 1, view.name)


def _document(reason: Reason, file: str, away: bool) -> dict[str, Any]:
    return {
        "away": away,
        "code": reason.code,
        "message": reason.message,
        "hint": reason.hint,
        "file": file,
        "line": reason.line,
        "column": reason.column,
        "text": reason.snippet,
    }


def unpublished(definitions: Definitions, shown: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What `status` says of all views: those a frame shows as they are (`shown`), but refused where their
    text is, and the others as new or refused, with the same keys."""
    found: dict[str, Any] = {name: dict(view) for name, view in shown.items()}
    for name in (*definitions.texts, *definitions.unreadable):
        if name not in found:
            found[name] = {**_NOTHING, "level": _level(definitions, name), "state": NEW}
        if name in definitions.refused:
            first = definitions.refused[name][0]
            reason = {"code": first.code, "message": first.message, "hint": first.hint}
            found[name].update(state=REFUSED, reason=reason)
    return found


_NOTHING: Mapping[str, Any] = {
    "frame": None,
    "level": None,
    "algorithm": None,
    "state": None,
    "reason": None,
    "rows": None,
    "mode": None,
    "lag": {},
    "within_target": None,
    "verified_through": None,
    "settled_frame": None,
    "unsettled_rows": 0,
    "unsettled_files": 0,
    "table": None,
}


def _level(definitions: Definitions, name: str) -> str | None:
    view = definitions.views.get(name)
    return view.level if view else None
