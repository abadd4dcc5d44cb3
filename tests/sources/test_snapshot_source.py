"""Positions, states and changes of a source that is snapshotted, against what was written."""

from __future__ import annotations

import os
import pickle
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from exports import ME, Exports, Wrapped, bag, files

from stillframe.algebra.bag import Bag
from stillframe.errors import SourceError
from stillframe.sources import Capture, Keys, Position, Range
from stillframe.sources.snapshots import taking
from stillframe.sources.snapshots.source import SnapshotSource

HEADER = ("id", "name", "n")


def random_rows(rng: random.Random) -> list[tuple[object, ...]]:
    return [
        (
            rng.randrange(6),
            rng.choice([None, "", "a", "b,c", 'q"', "ü\n日"]),
            rng.choice([None, 0, 7, -(2**63)]),
        )
        for _ in range(rng.randrange(8))
    ]


@pytest.mark.parametrize("seed", range(12))
def test_oracle_random_exports_two_consumers_at_their_own_pace(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    world = Exports(tmp_path, id="bigint", name="string", n="bigint")
    source = world.source
    parts: dict[str, list[tuple[object, ...]]] = {"a.csv": random_rows(rng), "b.csv": random_rows(rng)}

    def export() -> Bag:
        for name, rows in parts.items():
            world.write(HEADER, rows, name)
        return Bag.of(row for rows in parts.values() for row in rows)

    truth = [export()]
    fixed = [source.attach(ME, ["t"])]
    source.attach("slow", ["t"])
    held = {ME: 0, "slow": 0}
    for _ in range(15):
        if rng.random() < 0.8:
            parts[rng.choice(list(parts))] = random_rows(rng)
        if rng.random() < 0.2:
            parts["c.csv"] = random_rows(rng)
        elif parts.pop("c.csv", None) is not None:
            (world.folder / "c.csv").unlink()
        now = export()
        position = source.position(rng.choice(list(held)), ["t"])
        if now != truth[-1]:
            assert position.sequence == fixed[-1].sequence + 1
        truth.append(now)
        fixed.append(position)
        low = min(held.values())
        i, j = sorted(rng.sample(range(low, len(fixed)), 2)) if len(fixed) - low > 1 else (low, low)
        for at in (i, j):
            assert world.rows(fixed[at], *HEADER) == truth[at]
        made = truth[j] - truth[i]
        assert world.change(fixed[i], fixed[j], *HEADER) == made
        assert world.change(fixed[i], fixed[j], "n") == Bag(((row[2],), count) for row, count in made.items())
        check_transactions(source, fixed[i], fixed[j], made)
        who = rng.choice(list(held))
        if rng.random() < 0.5:
            held[who] = rng.randrange(held[who], len(fixed))
            source.acknowledge(who, fixed[held[who]])
        lowest = fixed[min(held.values())].sequence
        kept = [int(name) for name in files(source.folder) if name.isdecimal()]
        assert sorted(kept) == list(range(lowest, fixed[-1].sequence + 1))


def check_transactions(source: SnapshotSource, after: Position, upto: Position, change: Bag) -> None:
    """They partition the change, in order; leaving some out gives the state before the first of them."""
    told = source.transactions(["t"], after, upto)
    tagged: dict[int, list[tuple[tuple[object, ...], int]]] = {}
    for batch in source.changes("t", HEADER, after, upto, tagged=True):
        *columns, counts, tags = (c.to_pylist() for c in batch.columns)
        for row, count, tag in zip(zip(*columns, strict=True), counts, tags, strict=True):
            tagged.setdefault(tag, []).append((row, count))
    assert [t.number for t in told] == sorted(tagged)
    assert [t.rows["t"] for t in told] == [len(tagged[t.number]) for t in told]
    assert sum((Bag(rows) for rows in tagged.values()), Bag()) == change
    assert all(after.sequence < t.number <= upto.sequence for t in told)
    assert source.without(after, upto, []) == upto
    for one in told:
        before = source.without(after, upto, [one.number, upto.sequence])
        assert before.sequence == one.number - 1
        made = bag(source.changes("t", HEADER, after, before))
        assert made == sum((Bag(tagged[t.number]) for t in told if t.number < one.number), Bag())
        source.check(before, ["t"])


def test_what_it_says_of_itself(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, "a", 1)])
    source = world.source
    assert (source.name, source.capture) == ("t", Capture.SNAPSHOT)
    assert not source.transactional and not source.commit_order
    assert [m.capture for m in source.methods()] == [Capture.SNAPSHOT]
    assert source.log_status().consumers == () and not source.folder.exists()
    assert source.rows("t") == 1 and source.ranges("t", 10) == () and source.pushable("t", "id")
    at = source.attach(ME, ["t"])
    again = pickle.loads(pickle.dumps(source))
    assert again == source and bag(again.state("t", HEADER, at)) == Bag.of([(1, "a", 1)])


def test_the_same_content_is_the_same_snapshot(tmp_path: Path) -> None:
    """A file that is written again, touched or moved shows no change, and is read for that once."""
    world = Exports(tmp_path)
    world.write(HEADER, [(1, "a", 1)])
    counted = Wrapped(world.reader, reads=tmp_path / "reads")
    source = SnapshotSource(counted, tmp_path / "kept")
    first = source.attach(ME, ["t"])
    for _ in range(3):
        assert source.position(ME, ["t"]) == first and source.behind(["t"], first) == 0
    assert counted.count() == 1
    world.write(HEADER, [(1, "a", 1)])
    assert source.position(ME, []) == source.position(ME, []) == first
    assert counted.count() == 2
    (world.folder / "a.csv").rename(world.folder / "z.csv")
    assert source.position(ME, []) == first and source.behind(["t"], first) == 0
    assert counted.count() == 3
    assert files(source.folder) == ["1", "1/0.parquet", "lock", "state.json"]


def test_without_a_sign_a_read_tells(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, "a", 1)])
    counted = Wrapped(world.reader, signs=False, reads=tmp_path / "reads")
    source = SnapshotSource(counted, tmp_path / "kept")
    first = source.attach(ME, ["t"])
    before = counted.count()
    assert source.position(ME, []) == first
    assert counted.count() == before + 1
    world.write(HEADER, [(1, "a", 2)])
    second = source.position(ME, [])
    assert second.sequence == first.sequence + 1
    assert bag(source.changes("t", HEADER, first, second)) == Bag({(1, "a", 1): -1, (1, "a", 2): 1})


def test_who_only_wonders_does_not_make_a_slow_source_read_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(taking, "SELDOM", 1e6)
    world = Exports(tmp_path)
    world.write(HEADER, [(1, "a", 1)])
    source = SnapshotSource(Wrapped(world.reader, signs=False), tmp_path / "kept")
    first = source.attach(ME, ["t"])
    world.write(HEADER, [(1, "a", 2)])
    assert source.behind(["t"], first) == 0
    assert source.waiting_since(["t"], first) is None
    assert source.log_status().position == first.sequence
    assert source.position(ME, []).sequence == first.sequence + 1
    assert source.behind(["t"], first) == 2


def test_what_waits_and_since_when(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, "a", 1), (2, "b", 2), (2, "b", 2)])
    source = world.source
    start = source.attach(ME, ["t"])
    assert source.waiting_since(["t"], start) is None
    before = datetime.now(UTC).replace(microsecond=0)
    world.write(HEADER, [(1, "a", 5), (3, None, 3)])
    assert source.behind(["t"], start) == 5
    since = source.waiting_since(["t"], start)
    assert since is not None and before <= since <= datetime.now(UTC)
    assert source.log_status().consumers[0].behind == 1
    end = source.position(ME, ["t"])
    assert source.behind(["t"], end) == 0 and source.waiting_since(["t"], end) is None
    source.acknowledge(ME, end)
    status = source.log_status()
    assert (status.rows, status.position, status.consumers[0].behind) == (2, 2, 0) and status.bytes > 0


def test_a_change_is_as_old_as_the_file_that_brought_it(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, "a", 1)])
    start = world.source.attach(ME, ["t"])
    world.write(HEADER, [(1, "a", 2)])
    an_hour_ago = time.time() - 3600
    os.utime(world.folder / "a.csv", (an_hour_ago, an_hour_ago))
    since = world.source.waiting_since(["t"], start)
    assert since is not None and abs(since - datetime.now(UTC) + timedelta(hours=1)) < timedelta(minutes=1)


def test_large_snapshots_say_at_least_how_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stillframe.sources.snapshots.source.COUNTED_ROWS", 10)
    world = Exports(tmp_path)
    world.write(HEADER, [(i, "a", 1) for i in range(20)])
    start = world.source.attach(ME, ["t"])
    assert world.source.behind(["t"], start) == 0
    world.write(HEADER, [(i, "b", 1) for i in range(20)])
    assert world.source.behind(["t"], start) == 1
    world.write(HEADER, [(i, "b", 1) for i in range(25)])
    assert world.source.behind(["t"], start) == 5


def test_an_export_that_is_gone_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, "a", 1)])
    start = world.source.attach(ME, ["t"])
    (world.folder / "a.csv").unlink()
    for act in (
        lambda: world.source.position(ME, []),
        world.source.log_status,
        world.source.describe,
        lambda: world.source.behind(["t"], start),
    ):
        with pytest.raises(SourceError, match="has no files") as said:
            act()
        assert said.value.code == "NO_FILES" and "never taken for an empty one" in said.value.hint
    assert world.rows(start, "id") == Bag.of([(1,)])
    world.source.check(start, ["t"])
    world.write(HEADER, [])
    empty = world.source.position(ME, ["t"])
    assert world.rows(empty, "id") == Bag() and world.change(start, empty, "id") == Bag({(1,): -1})


def test_keys_ranges_and_columns(tmp_path: Path) -> None:
    world = Exports(tmp_path, key=("id",))
    rows = [(i, "abc"[i % 3] if i % 5 else None, i % 7) for i in range(1000)]
    world.write(HEADER, rows)
    at = world.source.attach(ME, ["t"])
    keys = Keys("id", pa.array([3, None, 500, 10**12]))
    assert bag(world.source.state("t", ("n", "id"), at, keys)) == Bag.of([(3, 3), (3, 500)])
    named = Keys("name", pa.array(["a"]))
    assert bag(world.source.state("t", ("id",), at, named)) == Bag.of([(r[0],) for r in rows if r[1] == "a"])
    assert bag(world.source.state("t", (), at)) == Bag({(): 1000})
    assert bag(world.source.state("t", (), at, Keys("id", pa.array([], pa.int64())))) == Bag()
    assert bag(world.source.state("t", ("id", "id"), at, Keys("id", pa.array([5])))) == Bag.of([(5, 5)])
    other_type = Keys("id", pa.array(["3", "x"]))
    assert (3,) in bag(world.source.state("t", ("id",), at, other_type))
    ranges = world.source.ranges("t", 300)
    assert [(r.above, r.upto) for r in ranges] == [(None, 299), (299, 599), (599, 899), (899, None)]
    parts = [bag(world.source.state("t", HEADER, at, within=r)) for r in ranges]
    assert [p.size for p in parts] == [300, 300, 300, 100] and sum(parts, Bag()) == Bag.of(rows)
    both = world.source.state("t", ("id",), at, Keys("name", pa.array(["b"])), Range("id", 100, 103))
    assert bag(both) == Bag.of([(103,)])
    assert world.source.pushable("t", "id") and world.source.pushable("t", "name")
    assert world.source.rows("t") == 1000
