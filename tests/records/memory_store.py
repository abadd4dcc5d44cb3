"""Records in memory, right by being plain: what stores with one bug each are made from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from stillframe.records.conformance import ORDERS, Maker, View
from stillframe.records.store import NOTHING, Fenced, Key, Record, StoreError, Write

Shape = tuple[object, ...]


@dataclass
class World:
    """Of each view what it was made for, its epoch, and its records with their tags."""

    lock: Lock = field(default_factory=Lock)
    views: dict[str, tuple[Shape, int, dict[Key, tuple[Record, str | None]]]] = field(default_factory=dict)


@dataclass
class MemoryStore:
    world: World
    view: View
    epoch: int

    @property
    def shape(self) -> Shape:
        return (self.view.schema, self.view.key)

    def create(self) -> None:
        with self.world.lock:
            if self.world.views.setdefault(self.view.name, (self.shape, 0, {}))[0] != self.shape:
                raise StoreError("other columns", hint="drop it")

    def drop(self) -> None:
        with self.world.lock:
            self.world.views.pop(self.view.name, None)

    def fence(self, epoch: int) -> None:
        with self.world.lock:
            shape, newest, records = self.world.views[self.view.name]
            self.refuse(epoch, newest)
            self.world.views[self.view.name] = (shape, epoch, records)

    def fenced(self) -> int:
        return self.world.views[self.view.name][1]

    def refuse(self, epoch: int, newest: int) -> None:
        if epoch < newest:
            raise Fenced("too late", hint="stop")

    def records(self) -> dict[Key, tuple[Record, str | None]]:
        if self.view.name not in self.world.views:
            raise StoreError("not made")
        return self.world.views[self.view.name][2]

    def read(self, keys: Sequence[Key]) -> list[Record]:
        records = self.records()
        return [records.get(key, (NOTHING, None))[0] for key in keys]

    def kept(self, keys: Sequence[Key]) -> list[tuple[int, bytes]]:
        records = self.records()
        found = [records.get(key, (NOTHING, None))[0] for key in keys]
        return [(each.version, each.kept) for each in found]

    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        with self.world.lock:
            records = self.records()
            self.refuse(self.epoch, self.world.views[self.view.name][1])
            return [self.write(records, write) for write in writes]

    def write(self, records: dict[Key, tuple[Record, str | None]], write: Write) -> bool:
        if not self.may(records.get(write.key, (NOTHING, None))[0], write):
            return False
        if write.record is None:
            records.pop(write.key, None)
        else:
            records[write.key] = (write.record, write.tag)
        return True

    def may(self, there: Record, write: Write) -> bool:
        return there.version == write.expected

    def tagged(self, tag: str) -> list[Key]:
        with self.world.lock:
            return [key for key, (_, its) in self.records().items() if its == tag]

    def scan(self) -> Iterator[tuple[Any, ...]]:
        with self.world.lock:
            found = [record.shown for record, _ in self.records().values()]
        return iter([row for row in found if row is not None])

    def close(self) -> None: ...


def making(kind: Callable[[World, View, int], MemoryStore] = MemoryStore) -> Maker:
    world = World()

    def make(epoch: int, view: View = ORDERS, /) -> MemoryStore:
        return kind(world, view, epoch)

    return make
