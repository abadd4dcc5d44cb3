"""The views of a session that live protocols bring forward: what they read, how far they came, and the rows
by which their content changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stillframe.algebra import Negate, Scan, Schema, UnionAll
from stillframe.change import columns_read, merged
from stillframe.engine import Engine, named_sql, write_query
from stillframe.errors import StillframeError
from stillframe.lake.frame import ViewState
from stillframe.lake.storage import Storage
from stillframe.runtime.channel import Channel, Wanted
from stillframe.runtime.choosing import TOP, live_protocol, live_view
from stillframe.runtime.conduct import Conducted, Conductor, Shown
from stillframe.runtime.definitions import View, by_source
from stillframe.runtime.holding import Holding, arrow_of
from stillframe.runtime.recorder import Entry
from stillframe.sources.base import Position, Source

PATIENCE_SECONDS = 60.0


class Conducting:
    """`reached` is what the protocols have been told of each source: the vector of all that came to rest."""

    def __init__(
        self,
        lake: Storage,
        engine: Callable[[], Engine],
        sources: Mapping[str, Source],
        consumer: str,
        staging: Path,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._lake = lake
        self._engine = engine
        self._sources = sources
        self._consumer = consumer
        self._patience = patience
        self._holding = Holding(engine, staging / "bags")
        self.views: dict[str, Conducted] = {}
        self.reached: dict[str, Position] = {}
        self.history: tuple[Entry, ...] = ()
        self._channels: Mapping[str, Channel] = {}

    def run(
        self,
        views: Mapping[str, tuple[View, ViewState]],
        others: Mapping[str, tuple[Position, list[str]]],
        groups: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Bring views forward from what the last frame shows of them. `others` are sources that only views
        of the session without a protocol read: where they stood, and what is read there."""
        apart = False
        for name, (view, former) in views.items():
            protocol = live_protocol(view.algorithm, live_view(view.plan))
            before = self._holding.view(self._lake.path, former)
            heard = {s: Position.from_json(p) for s, p in (former.vector or {}).items()}
            self.views[name] = Conducted(name, protocol, before, heard)
            apart = apart or view.level == TOP or protocol.numbered_answers
        wanted = self._wanted([view for view, _ in views.values()])
        tables = {source: [one.table for one in relations.values()] for source, relations in wanted.items()}
        tables |= {source: names for source, (_, names) in others.items() if source not in tables}
        channels = {
            source: Channel(self._sources[source], wanted.get(source, {}), self._holding, apart)
            for source in tables
        }
        conductor = Conductor(
            self._holding,
            channels,
            lambda source: self._sources[source].position(self._consumer, tables[source]),
            self._patience,
            {source: since for source, (since, _) in others.items()},
            groups,
        )
        for name, (view, _) in views.items():
            conducted = self.views[name]
            try:
                for source, needed in by_source(view.relations).items():
                    self._sources[source].check(conducted.heard[source], needed)
                conductor.add(conducted)
            except StillframeError as error:
                conducted.error = error
        self._channels = channels
        self.reached = conductor.run()
        self.history = tuple(conductor.history)

    def _wanted(self, views: list[View]) -> dict[str, dict[str, Wanted]]:
        """The columns protocols look at: those they ask for, and the keys they delete by."""
        plans, keys, schemas = [], dict[str, frozenset[int]](), dict[str, Schema]()
        for view in views:
            protocol = self.views[view.name].protocol
            plans += [protocol.view.plan, protocol.asked_view.plan]
            for slot in protocol.view.slots:
                keys[slot.relation] = frozenset(slot.key)
                schemas[slot.relation] = slot.schema
        columns = merged([*(columns_read(plan) for plan in plans), keys])
        found: dict[str, dict[str, Wanted]] = {}
        for relation, schema in schemas.items():
            positions = tuple(sorted(columns[relation]))
            found.setdefault(relation.split(".", 1)[0], {})[relation] = Wanted(relation, schema, positions)
        return found

    def change(self, before: Scan, shown: Shown, schema: Schema, folder: Path) -> bool:
        """Write the rows by which a view's content changed; whether there are any."""
        difference = UnionAll((shown.content, Negate(before)))
        if not self._holding.small(difference):
            query = named_sql(self._holding.query(difference), schema.names, count=True)
            write_query(self._engine(), query, folder)
            return True
        bag = self._holding.bag(difference)
        if not bag:
            return False
        folder.mkdir(parents=True)
        pq.write_table(arrow_of(bag, schema, schema.names), folder / "part-0.parquet")
        return True

    def reached_by(self, shown: Shown) -> dict[str, dict[str, Any]]:
        """The states of the sources that a content shows, where it shows more than the last frame."""
        return {
            source: self._channels[source].reached(report).to_json()
            for source, report in shown.reflects.items()
        }

    def held(self, shown: Shown) -> Scan:
        """A content that was installed, under a name."""
        return self._holding.settled(shown.content)
