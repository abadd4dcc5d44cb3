"""Programs that write at once, and the journal they keep of it in the same commits.

Each transaction takes slots before it touches what belongs to them, and a slot counts its *turns*: of two
transactions that touched the same rows, the one with the lower turn committed first. The journal holds every
signed row of each transaction, so what any set of transactions amounts to is known without the source.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from stillframe.algebra.bag import Bag, Row
from stillframe.sources.conformance.world import (
    INTEGER,
    TEXT,
    Conflict,
    Feature,
    Refused,
    Table,
    World,
    Writer,
)

SLOTS = Table("slots", (("id", INTEGER), ("turn", INTEGER)), key=("id",))
KEYED = Table("keyed", (("id", INTEGER), ("n", INTEGER), ("note", TEXT)), key=("id",))
KEYLESS = Table("keyless", (("slot", INTEGER), ("n", INTEGER), ("note", TEXT)), indexes=("slot",))
JOURNAL = Table(
    "journal",
    (
        ("tx", INTEGER),
        ("step", INTEGER),
        ("slot", INTEGER),
        ("turn", INTEGER),
        ("relation", TEXT),
        ("weight", INTEGER),
        ("a", INTEGER),
        ("b", INTEGER),
        ("note", TEXT),
    ),
    key=("tx", "step"),
)
TABLES = (JOURNAL, SLOTS, KEYED, KEYLESS)
_WIDTH = {"slots": 2, "keyed": 3, "keyless": 3}
SLOT_COUNT = 12
PARTS = 7


Noting = Callable[[str, int, Row], None]


@dataclass
class Entry:
    """One signed row that a transaction made."""

    slot: int
    turn: int
    relation: str
    weight: int
    row: Row


@dataclass
class Journal:
    """What the journal says at the end, by transaction."""

    rows: dict[int, list[Row]]
    initial: dict[str, Bag]

    @classmethod
    def read(cls, world: World, initial: dict[str, Bag]) -> Journal:
        rows: dict[int, list[Row]] = {}
        for row in sorted(world.truth(JOURNAL).rows()):
            rows.setdefault(row[0], []).append(row)
        return cls(rows, initial)

    def change(self, relation: str, transactions: Iterable[int]) -> Bag:
        """What these transactions change in a relation."""
        if relation == JOURNAL.name:
            return Bag.of(row for tx in transactions for row in self.rows[tx])
        signed = []
        for tx in transactions:
            for row in self.rows[tx]:
                if row[4] == relation:
                    signed.append(((*row[6:8], row[8])[: _WIDTH[relation]], row[5]))
        return Bag(signed)

    def state(self, relation: str, transactions: Iterable[int]) -> Bag:
        return self.initial.get(relation, Bag()) + self.change(relation, transactions)

    def turns(self, tx: int) -> dict[int, int]:
        """The turn of each slot a transaction took."""
        return {row[2]: row[3] for row in self.rows[tx]}

    def whole(self, rows: Bag, what: str) -> frozenset[int]:
        """The transactions whose journal rows these are; none of them may be there in part."""
        found = frozenset(row[0] for row in rows)
        unknown = [row for row in rows if row[0] not in self.rows]
        assert not unknown, f"{what}: journal rows that were never committed: {unknown[:3]}"
        for tx in found:
            missing = Bag.of(self.rows[tx]) - Bag({row: n for row, n in rows.items() if row[0] == tx})
            assert not missing, f"{what}: transaction {tx} is there in part, without {dict(missing)}"
        return found


@dataclass
class Traffic:
    """Writers that go on until they are told to stop. `commits` holds, for each transaction, when its commit
    was asked for and when it was confirmed; `marked` are those that said they were a part of a group, which
    only writers of an attached database can."""

    world: World
    seed: int
    marking: bool = False
    count: int = 4
    marked: set[int] = field(default_factory=set)
    commits: dict[int, tuple[float, float]] = field(default_factory=dict)
    conflicts: int = 0
    rollbacks: int = 0
    longest: float = 0.0
    failures: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)

    def prepare(self) -> None:
        """The tables, with some rows in them."""
        self.world.create(*TABLES)
        self.world.run(
            self.world.insert(SLOTS, *((i, 0) for i in range(SLOT_COUNT))),
            self.world.insert(KEYED, *((i, i, "first") for i in range(0, SLOT_COUNT, 2))),
            self.world.insert(KEYLESS, *((i % SLOT_COUNT, 1, "m1") for i in range(30))),
        )

    def __enter__(self) -> Traffic:
        for number, writer in enumerate(self.world.writers(self.count)):
            thread = threading.Thread(target=self._write, args=(writer, number), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """When it returns, nobody writes any more."""
        self._ending.set()
        for thread in self._threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in self._threads), "a writer hangs"
        assert not self.failures, f"seed {self.seed}: a writer failed: {self.failures[0]}"

    @property
    def relations(self) -> tuple[Table, ...]:
        """The tables a source can be attached to."""
        return TABLES if self.world.has(Feature.SEVERAL_RELATIONS) else (JOURNAL,)

    def wait_for(self, commits: int, seconds: float = 60.0) -> None:
        """Until so many more transactions were committed."""
        wanted, deadline = len(self.commits) + commits, time.monotonic() + seconds
        while len(self.commits) < wanted:
            assert not self.failures, f"seed {self.seed}: a writer failed: {self.failures[0]}"
            assert time.monotonic() < deadline, (
                f"seed {self.seed}: {len(self.commits)} commits and {self.conflicts} conflicts, then nothing"
            )
            time.sleep(0.005)

    def _write(self, writer: Writer, number: int) -> None:
        chance = random.Random(f"{self.seed}-{number}")
        made = 0
        try:
            while not self._ending.is_set():
                made += 1
                transaction = _Transaction(self.world, writer, chance, number * 1_000_000 + made)
                try:
                    self._commit(transaction, chance)
                except Conflict:
                    self.conflicts += 1
                    writer.rollback()
                self.longest = max(self.longest, transaction.longest)
                time.sleep(chance.random() * self.world.pause)
        except Exception as error:
            self.failures.append(f"{type(error).__name__}: {error}")
        finally:
            writer.close()

    def _commit(self, transaction: _Transaction, chance: random.Random) -> None:
        transaction.write(self.marking and chance.random() < 0.2)
        if chance.random() < 0.15:
            transaction.run("ROLLBACK")
            self.rollbacks += 1
            return
        if self.world.has(Feature.OPEN_TOGETHER) and chance.random() < 0.1:
            time.sleep(0.02 + 0.13 * chance.random())
        asked = time.monotonic()
        transaction.run("COMMIT")
        if transaction.entries:
            self.commits[transaction.number] = (asked, time.monotonic())
        if transaction.marked:
            self.marked.add(transaction.number)


class _Transaction:
    def __init__(self, world: World, writer: Writer, chance: random.Random, number: int) -> None:
        self.world = world
        self.writer = writer
        self.chance = chance
        self.number = number
        self.entries: list[Entry] = []
        self.longest = 0.0
        self.marked = False

    def run(self, sql: str) -> list[Row]:
        """A statement; COMMIT and ROLLBACK are the writer's own."""
        started = time.monotonic()
        try:
            if sql in ("BEGIN", "COMMIT", "ROLLBACK"):
                {"BEGIN": self.writer.begin, "COMMIT": self.writer.commit, "ROLLBACK": self.writer.rollback}[
                    sql
                ]()
                return []
            return self.writer.execute(sql)
        finally:
            self.longest = max(self.longest, time.monotonic() - started)

    def write(self, mark: bool) -> None:
        chance = self.chance
        self.run("BEGIN")
        if mark:
            self.run(self.world.mark(group_of(self.number), PARTS))
            self.marked = True
        slots = chance.sample(range(SLOT_COUNT), chance.choice((1, 1, 2, 2, 3)))
        if chance.random() < 0.9:
            slots.sort()
        for slot in slots:
            if chance.random() < 0.2:
                self.run("SAVEPOINT tried")
                before = len(self.entries)
                self._slot(slot)
                self.run("ROLLBACK TO SAVEPOINT tried")
                del self.entries[before:]
            self._slot(slot)
            if chance.random() < 0.1:
                time.sleep(chance.random() * 0.02)
        rows = [
            (self.number, i, e.slot, e.turn, e.relation, e.weight, *e.row[:2], "")
            if len(e.row) == 2
            else (self.number, i, e.slot, e.turn, e.relation, e.weight, *e.row)
            for i, e in enumerate(self.entries)
        ]
        self.run(self.world.insert(JOURNAL, *rows))

    def _slot(self, slot: int) -> None:
        self.run(f"UPDATE slots SET turn = turn + 1 WHERE id = {slot}")
        ((turn,),) = self.run(f"SELECT turn FROM slots WHERE id = {slot}")

        def note(relation: str, weight: int, row: Row) -> None:
            if weight:
                self.entries.append(Entry(slot, turn, relation, weight, row))

        note("slots", -1, (slot, turn - 1))
        note("slots", 1, (slot, turn))
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            if self.chance.random() < 0.5:
                self._keyed(slot, note)
            else:
                self._keyless(slot, note)

    def _keyed(self, slot: int, note: Noting) -> None:
        found = self.run(f"SELECT id, n, note FROM keyed WHERE id = {slot}{self.world.for_update}")
        new = (slot, self.chance.randrange(1000), f"by {self.number}")
        upsert = self.world.has(Feature.UPSERT) and self.chance.random() < 0.3
        if not found:
            self._refused_now_and_then()
            self.run(self.world.upsert(KEYED, [new]) if upsert else self.world.insert(KEYED, new))
            note("keyed", 1, new)
            return
        (old,) = found
        match "upsert" if upsert else self.chance.choice(("update", "update", "delete", "same", "again")):
            case "upsert":
                self.run(self.world.upsert(KEYED, [new]))
            case "update":
                self.run(f"UPDATE keyed SET n = {new[1]}, note = '{new[2]}' WHERE id = {slot}")
            case "delete":
                self.run(f"DELETE FROM keyed WHERE id = {slot}")
                note("keyed", -1, old)
                return
            case "same":
                self.run(f"UPDATE keyed SET n = n WHERE id = {slot}")
                return
            case _:
                self.run(f"DELETE FROM keyed WHERE id = {slot}")
                self.run(self.world.insert(KEYED, new))
        note("keyed", -1, old)
        note("keyed", 1, new)

    def _refused_now_and_then(self) -> None:
        if self.chance.random() < 0.2:
            self.run("SAVEPOINT refused")
            try:
                self.run(self.world.insert(SLOTS, (-1, self.number), (0, 0)))
            except Refused:
                self.run("ROLLBACK TO SAVEPOINT refused")

    def _keyless(self, slot: int, note: Noting) -> None:
        n = self.chance.randrange(3)
        row = (slot, n, f"m{n}")
        match self.chance.choice(("insert", "insert", "delete", "update")):
            case "insert":
                copies = self.chance.choice((1, 2, 3))
                self.run(self.world.insert(KEYLESS, *[row] * copies))
                note("keyless", copies, row)
            case "delete":
                self.run(f"DELETE FROM keyless WHERE slot = {slot} AND n = {n}")
                note("keyless", -self.writer.touched, row)
            case _:
                self.run(f"UPDATE keyless SET n = {n}, note = 'm{n}' WHERE slot = {slot} AND n = {n + 1}")
                touched = self.writer.touched
                note("keyless", -touched, (slot, n + 1, f"m{n + 1}"))
                note("keyless", touched, row)


def group_of(transaction: int) -> str:
    return f"group {transaction}"


def committed_before(traffic: Traffic, moment: float) -> frozenset[int]:
    """Transactions whose commit was confirmed before a moment."""
    return frozenset(tx for tx, (_, confirmed) in list(traffic.commits.items()) if confirmed < moment)


def asked_after(traffic: Traffic, moment: float, among: Collection[int]) -> frozenset[int]:
    """Transactions whose commit was asked for only after a moment."""
    return frozenset(tx for tx, (asked, _) in list(traffic.commits.items()) if asked > moment and tx in among)
