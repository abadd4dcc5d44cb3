"""Which algorithm maintains a view, at which level, and why: decided from the view, from what its sources
offer, and from what was asked for. A level that cannot be had is refused with the nearest that can."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stillframe.algebra import Plan
from stillframe.protocol import ALGORITHMS, JoinView, NotApplicable, Protocol, Setting, join_view, make
from stillframe.sources.auto import AutoSource
from stillframe.sources.base import Capture, Source
from stillframe.sql import Reason, Refused

AUTO = "auto"
NATIVE = "tid"  # computed term by term in the engine, on states named by the sources' logs
DEFAULT_LEVEL = "strong"
TOP = "complete"
_LEVELS = ("none", "convergent", "weak", "strong", "complete")


@dataclass(frozen=True)
class Offer:
    """What a source offers an algorithm."""

    capture: Capture
    transactional: bool
    commit_order: bool
    may_log: bool = False  # whether its server's own log could be used instead

    @classmethod
    def of(cls, source: Source) -> Offer:
        ways = source.ways if isinstance(source, AutoSource) else ()
        may_log = any(way.capture is Capture.LOG for way in ways)
        return cls(source.capture, source.transactional, source.commit_order, may_log)


UNREACHED = Offer(Capture.TRIGGERS, transactional=True, commit_order=False)


@dataclass(frozen=True)
class Choice:
    algorithm: str
    level: str
    why: str


def choose(
    name: str, plan: Plan | None, over_views: bool, options: Mapping[str, str], offers: Mapping[str, Offer]
) -> Choice:
    """`offers` are those of the sources the view reads. A view that does more than join has no plan here."""
    algorithm = options.get("algorithm", AUTO)
    asked = options.get("consistency")
    if of_records := [option for option in ("key", "test_and_set") if option in options]:
        raise _refused(
            name,
            "NOT_SERVED",
            f"{of_records[0]} is said of views that are served as records, and {name} is a table of the lake",
            "give it a place with serve = '…', or leave it out",
        )
    if algorithm not in (AUTO, *ALGORITHMS):
        raise _refused(
            name, "UNKNOWN_ALGORITHM", f"no algorithm {algorithm!r}", f"there are: {', '.join(ALGORITHMS)}"
        )
    if algorithm in (AUTO, NATIVE):
        _require_level(name, asked, TOP if _in_commit_order(offers) else DEFAULT_LEVEL, NATIVE, offers)
        return Choice(NATIVE, asked or DEFAULT_LEVEL, _why_native(offers))
    if over_views:
        raise _refused(
            name,
            "ALGORITHM_UNAVAILABLE",
            f"{algorithm} maintains views over relations of sources, and {name} reads a view",
            "views over views are maintained by algorithm = 'tid' (or 'auto')",
        )
    if plan is None:
        raise _refused(
            name,
            "ALGORITHM_UNAVAILABLE",
            f"{algorithm} maintains joins, and {name} groups rows or leaves duplicates out",
            "such views are maintained by algorithm = 'tid' (or 'auto')",
        )
    try:
        protocol = live_protocol(algorithm, live_view(plan))
    except NotApplicable as error:
        raise _refused(
            name, "ALGORITHM_UNAVAILABLE", f"{error.message}: {error.detail}", error.hint
        ) from None
    reached = protocol.claims(Setting.LOCAL_TRANSACTIONS)
    if reached == TOP and not _in_commit_order(offers):
        reached = DEFAULT_LEVEL
    _require_level(name, asked, reached, algorithm, offers)
    level = asked or min(reached, DEFAULT_LEVEL, key=_LEVELS.index)
    return Choice(algorithm, level, f"the view asks for it; it promises {level} here")


def live_view(plan: Plan) -> JoinView:
    return join_view(plan, lambda relation: relation.split(".", 1)[0])


def live_protocol(algorithm: str, view: JoinView) -> Protocol[Any]:
    """An algorithm as it runs here: transactions whole, where it lets us say so."""
    whole = {"batch": True} if "batch" in ALGORITHMS[algorithm].parameters else {}
    return make(algorithm, view, whole)


def _in_commit_order(offers: Mapping[str, Offer]) -> bool:
    return all(offer.commit_order for offer in offers.values())


def _require_level(
    name: str, asked: str | None, reached: str, algorithm: str, offers: Mapping[str, Offer]
) -> None:
    if asked is None or _LEVELS.index(asked) <= _LEVELS.index(reached):
        return
    lacking = [source for source, offer in offers.items() if not offer.commit_order]
    if asked == TOP and lacking:
        source = lacking[0]
        raise _refused(
            name,
            "LEVEL_UNAVAILABLE",
            f"complete needs every source's transactions in the order of their commits, and source {source!r}"
            f" does not tell it ({_why_no_order(offers[source])})",
            f"ask for consistency = {reached!r}, the nearest level there is"
            + (", or set capture: log for that source" if offers[source].may_log else ""),
        )
    raise _refused(
        name,
        "LEVEL_UNAVAILABLE",
        f"{algorithm} promises {reached} here, not {asked}: transactions change several rows at once",
        f"ask for consistency = {reached!r}, or use algorithm = 'auto'",
    )


def _why_no_order(offer: Offer) -> str:
    if offer.capture is Capture.SNAPSHOT:
        return "it is only compared with itself from time to time"
    if not offer.transactional:
        return "its triggers see no transaction boundaries"
    return "its triggers run before the commit"


def _why_native(offers: Mapping[str, Offer]) -> str:
    copied = sorted(source for source, offer in offers.items() if offer.capture is Capture.SNAPSHOT)
    why = "every source keeps a change log, so each state is had from the current rows and the log"
    if copied:
        why += f"; snapshots of {', '.join(copied)} are kept here and compared"
    return why


def _refused(view: str, code: str, message: str, hint: str) -> Refused:
    return Refused((Reason(code, message, hint, 1, 1, view),))
