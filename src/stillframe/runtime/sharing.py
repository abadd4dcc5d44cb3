"""The change of a join that several views of a session have in common, computed once and read by all of them.

A core has no rows of its own in the lake: its change is staged, like that of a relation, and gone with the
session. Views that stand at different states have different changes of one core; each of these is computed
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from stillframe.algebra import Plan, relations
from stillframe.change import Core, Cores
from stillframe.engine import EngineError, Staged
from stillframe.errors import StillframeError
from stillframe.lake.frame import ViewState
from stillframe.runtime.binding import Binder
from stillframe.runtime.definitions import View
from stillframe.runtime.reads import Reads

Bring = Callable[[Core, Binder, frozenset[str], ViewState], Staged]


@lru_cache(maxsize=16)
def _cores(plans: tuple[tuple[str, Plan], ...]) -> Cores:
    return Cores(dict(plans))


class Sharing:
    """The cores of one session's views. `reads` are those that all its views share."""

    def __init__(self, views: Iterable[View], reads: Reads, bring: Bring) -> None:
        self.reads = reads
        self._bring = bring
        going = [v for v in views if not v.conducted and v.policy != "full" and v.served is None]
        self._cores = _cores(tuple((view.name, view.plan) for view in going))
        self._changes: dict[tuple[object, ...], Staged | None] = {}

    def over(
        self, plan: Plan, binder: Binder, changed: frozenset[str], former: ViewState
    ) -> tuple[Plan, frozenset[str]]:
        """A plan with the same change, and what of all it reads has changed."""
        names, more = {}, set[str]()
        for number, (shape, core) in enumerate(self._cores.of(plan).items()):
            if changed.isdisjoint(relations(core.join)):
                continue
            found = self._change(core, binder, changed, former)
            if found is not None:
                names[shape] = f"#core{number}"
                binder.staged[names[shape]] = found
                more |= {names[shape]} if found.rows else set()
        return (self._cores.over(plan, names), changed | more) if names else (plan, changed)

    def _change(
        self, core: Core, binder: Binder, changed: frozenset[str], former: ViewState
    ) -> Staged | None:
        """None where the engine fails on it: it may do so on rows that only other views want."""
        read = relations(core.join)
        key = (core, former.session.get("frame"), *(_stood(name, binder) for name in read))
        if key not in self._changes:
            own = Binder(binder.reads, binder.tables, binder.root, binder.after, binder.upstream)
            try:
                self._changes[key] = self._bring(core, own, changed.intersection(read), former)
            except StillframeError as error:
                if error.code != EngineError.code:
                    raise
                self._changes[key] = None
        return self._changes[key]


def _stood(name: str, binder: Binder) -> object:
    """The state of a relation or view that a change begins with."""
    if name in binder.upstream:
        before = binder.upstream[name].before
        return (name, before.base, before.changes)
    return (name, binder.after[name.split(".", 1)[0]])
