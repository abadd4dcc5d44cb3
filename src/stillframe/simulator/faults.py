"""Worlds in which less is given: channels that lose, repeat or reorder messages, sources that answer at read
committed, a warehouse that crashes.

Lost and repeated messages are few (one of each for every faulty source), so that every schedule ends. After a
loss, time passes once nothing else can happen; a protocol that knows what to do then gets its chance.

Read committed. A transaction commits, and is reported later. A query begins, and answers later; of what was
committed in between it has seen any part, row by row, since it met some rows before and some after. A row
that is changed, deleted and inserted under its key at once, is met once.

A crash leaves what was installed. The warehouse starts anew from that; what it had asked is forgotten, and
every update that the installed view does not reflect is reported again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, combinations, pairwise
from typing import NamedTuple, TypeVar

from stillframe.algebra import Bag, Scan
from stillframe.protocol.events import Ask, AskPosition, Notified
from stillframe.simulator.history import signed
from stillframe.simulator.scenario import Scenario, Update
from stillframe.simulator.world import Queue, Reflected, Simulation, Step, World

T = TypeVar("T")

READ_COMMITTED = "read-committed"


class Rest(NamedTuple):
    """`losses` and `repeats` are still allowed, by source. `reading` is the message a source is answering
    and what it had executed when it began; `unsent` are transactions it has not reported yet."""

    losses: tuple[int, ...]
    repeats: tuple[int, ...]
    crashes: int
    lost: bool
    reflected: frozenset[Reflected]
    unsent: tuple[Queue, ...]
    reading: tuple[tuple[int, int] | None, ...]


class RowChange(NamedTuple):
    """What a transaction did to one row."""

    id: str
    row: object
    updates: tuple[Update, ...]


def faulty(scenario: Scenario) -> bool:
    return bool(scenario.crashes or any(scenario.channels.values()) or any(scenario.isolation.values()))


class FaultySimulation(Simulation):
    def __init__(self, scenario: Scenario, algorithm: str, view: str | None = None) -> None:
        super().__init__(scenario, algorithm, view)
        faults = [scenario.channels.get(name, frozenset()) for name in self.sources.names]
        self.losing = tuple(int("lose" in found) for found in faults)
        self.repeating = tuple(int("repeat" in found) for found in faults)
        self.reordering = tuple("reorder" in found for found in faults)
        isolation = [scenario.isolation_of(name) for name in self.sources.names]
        self.committed_reads = tuple(found == READ_COMMITTED for found in isolation)

    def start(self) -> World:
        empty: tuple[Queue, ...] = tuple(() for _ in self.sources.names)
        reading = tuple(None for _ in self.sources.names)
        rest = Rest(self.losing, self.repeating, self.scenario.crashes, False, frozenset(), empty, reading)
        return super().start()._replace(rest=rest)

    def steps(self, world: World) -> list[Step]:
        found = [*super().steps(world), *self._report(world), *self._channels(world), *self._crash(world)]
        return list(_told_apart(found))

    def _busy(self, world: World) -> bool:
        return super()._busy(world) or any(world.rest.unsent) or any(world.rest.reading)

    # Transactions and their reports.

    def _happen(self, world: World) -> Iterator[Step]:
        for step in super()._happen(world):
            after, rest = step.world, world.rest
            for source, committed in enumerate(self.committed_reads):
                new = after.up[source][len(world.up[source]) :]
                if committed and new:
                    after = after._replace(up=_put(after.up, source, world.up[source]))
                    rest = rest._replace(unsent=_put(rest.unsent, source, rest.unsent[source] + new))
            yield step._replace(world=after._replace(rest=rest))

    def _report(self, world: World) -> Iterator[Step]:
        for source, unsent in enumerate(world.rest.unsent):
            if unsent:
                rest = world.rest._replace(unsent=_put(world.rest.unsent, source, unsent[1:]))
                up = _put(world.up, source, (*world.up[source], unsent[0]))
                label = f"{self.sources.names[source]}: reports {self.name(unsent[0])}"
                yield Step(label, world._replace(up=up, rest=rest), 0, 0)

    # Queries.

    def _answer(self, world: World) -> Iterator[Step]:
        for source, queue in enumerate(world.down):
            reading = world.rest.reading[source]
            if reading is not None:
                yield from self._finish(world, source, *reading)
                continue
            for place in self._places(source, queue):
                after = world._replace(down=_put(world.down, source, queue[:place] + queue[place + 1 :]))
                if self.committed_reads[source] and isinstance(self.messages[queue[place]], Ask):
                    yield self._begin(after, source, queue[place], "begins")
                else:
                    yield self._reply_with(after, source, queue[place])

    def _places(self, source: int, queue: Queue) -> range:
        """Which messages of a channel may be taken next."""
        return range(len(queue) if self.reordering[source] else min(1, len(queue)))

    def _reply_with(self, world: World, source: int, ask: int) -> Step:
        answer, size = self.answer(ask, source, self.count(source, world.done))
        label = f"{self.sources.names[source]}: answers {self.name(ask)}"
        return Step(label, world._replace(up=_put(world.up, source, (*world.up[source], answer))), 1, size)

    def _begin(self, world: World, source: int, ask: int, verb: str) -> Step:
        now = self.count(source, world.done)
        rest = world.rest._replace(reading=_put(world.rest.reading, source, (ask, now)))
        return Step(f"{self.sources.names[source]}: {verb} {self.name(ask)}", world._replace(rest=rest), 0, 0)

    def _finish(self, world: World, source: int, number: int, began: int) -> Iterator[Step]:
        now = self.count(source, world.done)
        ask: Ask = self.messages[number]
        done = world._replace(rest=world.rest._replace(reading=_put(world.rest.reading, source, None)))
        if now == began:
            yield self._reply_with(done, source, number)
            return
        if ask.since is not None and not ask.side:
            # A read that names its states looks at the log before and after; if that moved, it reads again.
            yield self._begin(world, source, number, "begins again with")
            return
        label = f"{self.sources.names[source]}: answers {self.name(number)} having seen "
        changes = [change for n in range(began + 1, now + 1) for change in self._row_changes(source, n)]
        for seen in _subsets(changes):
            if not _in_order(seen, changes):
                continue
            rows = self._mixed(began, [update for change in seen for update in change.updates])
            told = label + (", ".join(change.id for change in seen) or "nothing new")
            if ask.since is None or not ask.side:
                yield self._mixed_reply(done, source, told, *self.answered(ask, rows, now))
                continue
            old = self.sources.updates_between(source, ask.since, began)
            for logged in _subsets(changes):
                log = [*old, *(update for change in logged for update in change.updates)]
                answer = self.answered(ask, self.sources.logged(ask, rows, log), now)
                also = ", ".join(change.id for change in logged) or "nothing new"
                yield self._mixed_reply(done, source, f"{told}, and in the log {also}", *answer)

    def _mixed_reply(self, world: World, source: int, label: str, answer: int, size: int) -> Step:
        return Step(label, world._replace(up=_put(world.up, source, (*world.up[source], answer))), 1, size)

    def _mixed(self, began: int, change: list[Update]) -> Callable[[Scan], Bag]:
        def read(scan: Scan) -> Bag:
            seen = [signed(update) for update in change if update.relation == scan.relation]
            return sum(seen, self.sources.contents[scan.relation][began])

        return read

    def _row_changes(self, source: int, number: int) -> list[RowChange]:
        """What one transaction did to single rows: a delete and an insert under one key are one change."""
        entry = self.sources.at_source[source][number - 1]
        found: dict[object, RowChange] = {}
        updates = self.sources.entries[entry].transaction.updates
        for id, update in zip(self.sources.update_ids[entry], updates, strict=True):
            relation = self.scenario.relation(update.relation)
            if relation.source != self.sources.names[source]:
                continue
            key = tuple(update.row[relation.columns.index(column)] for column in relation.key)
            row = (relation.name, key or update.row)
            known = found.get(row if key else id)
            earlier = known.updates if known else ()
            found[row if key else id] = RowChange(known.id if known else id, row, (*earlier, update))
        return list(found.values())

    # Channels.

    def _receive(self, world: World) -> Iterator[Step]:
        for source, queue in enumerate(world.up):
            for place in self._places(source, queue):
                up = _put(world.up, source, queue[:place] + queue[place + 1 :])
                step = self.delivered(world._replace(up=up), source, queue[place])
                reflected = self.reaction(world.state, queue[place]).reflects
                yield self._reflecting(step, reflected)

    def _reflecting(self, step: Step, reflected: frozenset[Reflected]) -> Step:
        rest = step.world.rest
        if not rest.crashes or not reflected:
            return step
        more = rest._replace(reflected=rest.reflected | reflected)
        return step._replace(world=step.world._replace(rest=more))

    def _channels(self, world: World) -> Iterator[Step]:
        rest = world.rest
        for source, name in enumerate(self.sources.names):
            for way, channels in (("from", world.up), ("to", world.down)):
                queue = channels[source]
                if not queue:
                    continue
                message = f"{self.name(queue[0])} {way} {name}"
                if rest.losses[source]:
                    fewer = rest._replace(losses=_put(rest.losses, source, 0), lost=True)
                    after = _channel(world, way, _put(channels, source, queue[1:]))
                    yield Step(f"channel: loses {message}", after._replace(rest=fewer), 0, 0)
                if rest.repeats[source]:
                    fewer = rest._replace(repeats=_put(rest.repeats, source, 0))
                    at_once = _channel(world, way, _put(channels, source, (queue[0], *queue)))
                    yield Step(f"channel: repeats {message}", at_once._replace(rest=fewer), 0, 0)
                    late = _channel(world, way, _put(channels, source, (*queue, queue[0])))
                    yield Step(f"channel: repeats {message}, late", late._replace(rest=fewer), 0, 0)

    def _tick_of(self, world: World) -> Iterator[Step]:
        if self._busy(world) or any(True for _ in self._next_entries(world.done)):
            return
        if world.rest.lost or self.protocol.unfinished(self.states[world.state]):
            heard = world._replace(rest=world.rest._replace(lost=False))
            after, sent = self.react(heard, self._tick)
            reflected = self.reaction(world.state, self._tick).reflects
            yield self._reflecting(Step("warehouse: time passes", after, sent, 0), reflected)

    # Crashes.

    def _crash(self, world: World) -> Iterator[Step]:
        rest = world.rest
        if not rest.crashes:
            return
        state = self.protocol.restart(self.states[world.state])
        rest = rest._replace(crashes=rest.crashes - 1, reading=tuple(None for _ in rest.reading))
        up = tuple(self._reported_again(world, source) for source in range(len(self.sources.names)))
        down: tuple[Queue, ...] = tuple(() for _ in world.down)
        after = world._replace(up=up, down=down, state=self.states.number(state), rest=rest)
        yield Step("warehouse: crashes and starts anew", after, 0, 0)

    def _reported_again(self, world: World, source: int) -> Queue:
        again = list[int]()
        for entry in range(len(self.sources.entries)):
            for sender, message in self._reports[entry]:
                reported = world.done >> entry & 1 and message not in world.rest.unsent[sender]
                if sender == source and reported:
                    left = self._left(self.messages[message], world.rest.reflected)
                    again += [self.messages.number(left)] if left else []
        return tuple(again)

    def _left(self, report: Notified, reflected: frozenset[Reflected]) -> Notified | None:
        transaction = report.transaction
        if reflected.issuperset(transaction.places):
            return None
        updates = tuple(update for update in transaction.updates if update.id not in reflected)
        return Notified(replace(transaction, updates=updates)) if updates else None

    def name(self, message: int) -> str:
        found = self.messages[message]
        if isinstance(found, Ask | AskPosition):
            return found.id
        return found.transaction.id if isinstance(found, Notified) else f"the answer to {found.id}"


def _in_order(seen: tuple[RowChange, ...], changes: list[RowChange]) -> bool:
    """Of each row, what is seen comes first: nobody sees a change of a row without those before it."""
    for row in {change.row for change in changes}:
        of_row = [change in seen for change in changes if change.row == row]
        if any(later and not earlier for earlier, later in pairwise(of_row)):
            return False
    return True


def _told_apart(steps: list[Step]) -> Iterator[Step]:
    """Steps that differ have labels that differ; of equal ones, one."""
    known: dict[str, list[World]] = {}
    for step in steps:
        worlds = known.setdefault(step.label, [])
        if step.world not in worlds:
            worlds.append(step.world)
            yield step if len(worlds) == 1 else step._replace(label=f"{step.label} ({len(worlds)})")


def _subsets(items: list[T]) -> Iterator[tuple[T, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))


def _put(queues: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*queues[:place], value, *queues[place + 1 :])


def _channel(world: World, way: str, queues: tuple[Queue, ...]) -> World:
    return world._replace(up=queues) if way == "from" else world._replace(down=queues)
