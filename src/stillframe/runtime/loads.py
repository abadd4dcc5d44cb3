"""Which views are loaded before they are shown, what became of their loads, and what to leave of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from stillframe.engine import ENGINE_LOST, NO_ENGINE
from stillframe.errors import LakeError, StillframeError
from stillframe.lake.frame import Frame
from stillframe.runtime.definitions import Definitions, View
from stillframe.runtime.fixing import begins
from stillframe.runtime.loading import Loaded, Loader
from stillframe.runtime.status import log_positions
from stillframe.sources.base import Source

if TYPE_CHECKING:
    from stillframe.runtime.outcome import Outcome

KEPT = ("held", "stopped")  # outcomes after which a load may still be needed


class Loads:
    """The loads of one process. `ready` are done and not shown yet; `failed` tells why others are not, and
    with which text and state of the sources that was found."""

    def __init__(self, loader: Callable[[], Loader], sources: Mapping[str, Source]) -> None:
        self._loader = loader
        self._sources = sources
        self.ready: dict[str, Loaded] = {}
        self._failed: dict[str, tuple[StillframeError, object]] = {}

    @property
    def failed(self) -> dict[str, StillframeError]:
        return {name: error for name, (error, _) in self._failed.items()}

    def load(
        self,
        definitions: Definitions,
        frame: Frame | None,
        views: Sequence[str] = (),
        *,
        full: bool = False,
        again: bool = False,
    ) -> None:
        """Load what begins and is large. Nothing is locked: other sessions go on meanwhile. One that cannot
        be loaded is stopped by the next session, and holds back no other; it is tried again when it is asked
        for `again`, or when its text or its sources are not what they were."""
        for view in self._beginning(definitions, frame, views, full=full):
            if again:
                self._failed.pop(view.name, None)
            if not self._due(view):
                continue
            key = self._key(view)
            try:
                self.ready[view.name] = self._loader().load(view)
                self._failed.pop(view.name, None)
            except StillframeError as error:
                if error.code in (ENGINE_LOST, NO_ENGINE):
                    raise
                self._failed[view.name] = (error, key)
            except OSError as error:
                told = f"view {view.name} cannot be loaded"
                self._failed[view.name] = (LakeError(told, detail=str(error), code="LOAD_FAILED"), key)

    def waiting(self, definitions: Definitions, frame: Frame | None) -> frozenset[str]:
        """Views that are not to be shown before a load is done: those being loaded, and those that read
        them."""
        loading = {view.name for view in self._beginning(definitions, frame) if self._due(view)}
        return frozenset(
            name for name in definitions.views if not loading.isdisjoint(definitions.closure([name]))
        )

    def shown(self, outcomes: Mapping[str, Outcome], definitions: Definitions, frame: Frame | None) -> None:
        """A session is done: loads of views that it showed, and of views that are gone, are forgotten."""
        for name in set(self.ready) & set(outcomes):
            if outcomes[name].mode not in KEPT:
                del self.ready[name]
        with suppress(StillframeError):
            beginning = (view.name for view in self._beginning(definitions, frame))
            self._loader().keep_only({*self.ready, *beginning})

    def _beginning(
        self,
        definitions: Definitions,
        frame: Frame | None,
        views: Sequence[str] = (),
        *,
        full: bool = False,
    ) -> list[View]:
        """The views to be computed anew that are worth a load."""
        states = frame.views if frame else {}
        wanted = definitions.closure(views) if views else tuple(definitions.views)
        asked = definitions.with_parts(views or definitions.views) if full else frozenset[str]()
        loader = self._loader()
        return [
            view
            for name in wanted
            if not (view := definitions.views[name]).upstream
            and view.policy != "full"
            and view.served is None
            and (name in asked or begins(view, states.get(name)))
            and loader.large(view)
        ]

    def _due(self, view: View) -> bool:
        if view.name in self.ready and self.ready[view.name].fits(view):
            return False
        failed = self._failed.get(view.name)
        return failed is None or failed[1] != self._key(view)

    def _key(self, view: View) -> object:
        return (view.text.select, log_positions(self._sources, view.sources))
