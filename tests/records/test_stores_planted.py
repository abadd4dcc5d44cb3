"""The suite finds what it is for: a right store passes it, one with a bug fails the checks beside it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from memory_store import MemoryStore, making

from stillframe.records.conformance import CHECKS, Check, concurrent, repeating
from stillframe.records.store import ABSENT, Key, Record, StoreError, Write


class IgnoresVersions(MemoryStore):
    def may(self, there: Record, write: Write) -> bool:
        return True


class MixesOrder(MemoryStore):
    def read(self, keys: Sequence[Key]) -> list[Record]:
        ordered = sorted(keys, key=str)
        return super().read(ordered)


class IgnoresTheFence(MemoryStore):
    def refuse(self, epoch: int, newest: int) -> None:
        pass


class FencesAfterAPart(MemoryStore):
    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        with self.world.lock:
            records, epoch = self.records(), self.world.views[self.view.name][1]
            done = [self.write(records, write) for write in writes[:1]]
            self.refuse(self.epoch, epoch)
            return done + [self.write(records, write) for write in writes[1:]]


class FencesByText(MemoryStore):
    def refuse(self, epoch: int, newest: int) -> None:
        if str(epoch) < str(newest):
            super().refuse(-1, newest)


class RoundsVersions(MemoryStore):
    def may(self, there: Record, write: Write) -> bool:
        return float(there.version) == float(write.expected)


class ComparesContent(MemoryStore):
    """A record that was removed and made again counts as the one that was read."""

    last: ClassVar[dict[int, Any]] = {}

    def may(self, there: Record, write: Write) -> bool:
        self.last[there.version] = there.shown
        return super().may(there, write) or (
            there.version != ABSENT and self.last.get(write.expected, "") == there.shown
        )


class LooksThenWrites(MemoryStore):
    """Without a lock in between."""

    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        held = self.read([write.key for write in writes])
        due = [self.may(*pair) for pair in zip(held, writes, strict=True)]
        self.refuse(self.epoch, self.world.views[self.view.name][1])
        time.sleep(0.0005)
        for ok, write in zip(due, writes, strict=True):
            if ok:
                self.write(self.records(), write._replace(expected=self.read([write.key])[0].version))
        return due


class ShowsWhatIsKept(MemoryStore):
    def scan(self) -> Iterator[tuple[Any, ...]]:
        for key, (record, _) in self.records().items():
            yield record.shown or key.values


class MixesUpKinds(MemoryStore):
    def read(self, keys: Sequence[Key]) -> list[Record]:
        return super().read([Key(key.values, key.kind and "k") for key in keys])


class KeepsTags(MemoryStore):
    def write(self, records: dict[Key, tuple[Record, str | None]], write: Write) -> bool:
        tag = write.tag if write.tag is not None else records.get(write.key, (None, None))[1]
        return super().write(records, write._replace(tag=tag))


class DropsNeighbours(MemoryStore):
    def drop(self) -> None:
        for name in [name for name in self.world.views if name.startswith(self.view.name)]:
            del self.world.views[name]


class EmptiesWhatIsThere(MemoryStore):
    def create(self) -> None:
        self.drop()
        super().create()


class LosesFractions(MemoryStore):
    def write(self, records: dict[Key, tuple[Record, str | None]], write: Write) -> bool:
        if write.record and write.record.shown:
            shown = tuple(
                v.replace(microsecond=0) if hasattr(v, "microsecond") else v for v in write.record.shown
            )
            write = write._replace(record=write.record._replace(shown=shown))
        return super().write(records, write)


def test_sums_need_signatures() -> None:
    with pytest.raises(AssertionError, match="did harm"):
        repeating.check_repeated(making(), replace(repeating.SUM, signed=False), sum)


def failing(kind: type[MemoryStore]) -> set[str]:
    """The names of the checks that a store fails."""
    found = set()
    for check in CHECKS:
        try:
            check(making(kind))
        except (AssertionError, StoreError):
            found.add(check.__name__)
    return found


@pytest.fixture(autouse=True)
def few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In memory a bug shows within a few turns."""
    monkeypatch.setattr(concurrent, "TURNS", 20)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_right_store_passes(check: Check) -> None:
    check(making())


@pytest.mark.parametrize(
    ("kind", "caught"),
    [
        (IgnoresVersions, {"check_another_version_is_refused", "check_one_of_many_makes_it"}),
        (MixesOrder, {"check_answers_are_in_order"}),
        (IgnoresTheFence, {"check_fence", "check_fence_among_writers"}),
        (FencesAfterAPart, {"check_fence"}),
        (FencesByText, {"check_fence"}),
        (RoundsVersions, {"check_another_version_is_refused"}),
        (ComparesContent, {"check_made_again_is_told_apart"}),
        (
            LooksThenWrites,
            {
                "check_no_update_is_lost",
                "check_one_of_many_makes_it",
                "check_repeated_with_signatures",
                "check_repeated_with_counters",
            },
        ),
        (ShowsWhatIsKept, {"check_kept_is_not_shown", "check_kinds_are_never_shown"}),
        (MixesUpKinds, {"check_kinds_are_never_shown"}),
        (KeepsTags, {"check_tags_follow_writes"}),
        (DropsNeighbours, {"check_made_twice_and_dropped"}),
        (EmptiesWhatIsThere, {"check_made_twice_and_dropped"}),
        (LosesFractions, {"check_every_type_comes_back"}),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_a_bug_is_found(kind: type[MemoryStore], caught: set[str]) -> None:
    assert failing(kind) >= caught
