"""Views that have a join in common: however many they are, its change is computed once in a session, and the
states it meets are read once."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from counted_shop import Counted, opened, step

from stillframe.engine import Engine

SEED = int(os.environ.get("STILLFRAME_SEED", "2"))
JOINED = "a.c JOIN a.o ON o.c = c.id JOIN a.l ON l.o = o.id"
TURNED = "a.l JOIN a.c JOIN a.o ON c.id = o.c AND o.id = l.o"  # the same, in other words
TEXTS = (
    f"SELECT c.name, l.amount FROM {JOINED}",
    f"SELECT l.id, o.day, c.region FROM {TURNED}",
    f"SELECT c.region, sum(l.amount) AS s, count(*) AS n FROM {JOINED} GROUP BY c.region",
    f"SELECT o.day, max(l.amount) AS most FROM {TURNED} WHERE c.region = 1 GROUP BY o.day",
    f"SELECT DISTINCT c.name FROM {JOINED} WHERE l.amount > 10 AND o.day < 4",
    f"SELECT o.id, c.name FROM {TURNED} WHERE c.region <> 1 UNION ALL SELECT id, name FROM a.c",
    f"SELECT c.id, sum(l.amount + o.day) AS s FROM {JOINED} GROUP BY c.id",
    f"SELECT c.name FROM {JOINED} WHERE NOT EXISTS (SELECT 1 FROM a.o x WHERE x.day = l.amount)",
)


CHANGE = (
    "UPDATE c SET name = 'dan' WHERE id = 1",
    "INSERT INTO o VALUES (5, 1, 2)",
    "INSERT INTO l VALUES (6, 5, 40), (7, 2, 13)",
    "UPDATE l SET amount = 31 WHERE id = 5",
)


def test_reads_do_not_grow_with_the_views(
    tmp_path: Path, engine: Engine, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only linear views and sums: nothing but the change is read for them."""
    counted = Counted(monkeypatch)
    texts = (
        *(TEXTS[0], TEXTS[1], TEXTS[2], TEXTS[6]),
        f"SELECT upper(c.name) AS called, o.day FROM {JOINED}",
        f"SELECT l.amount FROM {TURNED} WHERE c.region = 1",
        f"SELECT o.day, count(*) AS n FROM {JOINED} GROUP BY o.day",
        f"SELECT DISTINCT c.region FROM {TURNED} WHERE o.day < 4",
    )
    found = {}
    for number in (1, 3, 8):
        shop, warehouse = opened(tmp_path / str(number), engine, engine_name, texts[:number])
        with warehouse:
            counted.clear()
            step(shop, warehouse, texts[:number], *CHANGE)
            found[number] = (sorted(counted.asked), sorted(counted.scans), counted.jobs)
    asked, scans, jobs = zip(*found.values(), strict=True)
    assert asked[0] and all(each == asked[0] for each in asked), asked
    assert scans[0] and all(each == scans[0] for each in scans), scans
    print(f"jobs by number of views: {dict(zip(found, jobs, strict=True))}")
    own = {number: count - 1 for number, count in zip(found, jobs, strict=True) if number > 1}
    assert all(count <= 2 * number for number, count in own.items()), (
        "one for the core; one or two for a view"
    )


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_random_changes_of_views_with_one_core(
    tmp_path: Path, engine: Engine, engine_name: str, seed: int
) -> None:
    print(f"STILLFRAME_SEED={seed}")
    rng = random.Random(seed)
    texts = tuple(rng.sample(TEXTS, 6))
    shop, warehouse = opened(
        tmp_path,
        engine,
        engine_name,
        texts,
        small=rng.choice(["driver", "engine"]),
        copies=rng.choice(["all", "none", "[a.o]"]),
    )
    with warehouse:
        for _ in range(4):
            if rng.random() < 0.5:  # views that stand at another state have another change
                shop.write("a", *_statements(rng))
                warehouse.maintain([f"v{i}" for i in rng.sample(range(len(texts)), 2)])
            step(shop, warehouse, texts, *_statements(rng))


def _statements(rng: random.Random) -> Iterator[str]:
    for _ in range(rng.randrange(1, 10)):
        i, j, k = (rng.randrange(1, 7) for _ in range(3))
        yield rng.choice(
            [
                f"INSERT OR REPLACE INTO c VALUES ({i}, 'n{j}', {k % 3})",
                f"INSERT OR REPLACE INTO o VALUES ({i}, {j}, {k})",
                f"INSERT OR REPLACE INTO l VALUES ({i}, {j}, {k * 3})",
                f"DELETE FROM c WHERE id = {i}",
                f"DELETE FROM o WHERE id = {i}",
                f"DELETE FROM l WHERE id = {i}",
                f"UPDATE c SET region = {j % 3} WHERE id = {i}",
                f"UPDATE o SET day = {k} WHERE c = {i}",
                f"UPDATE l SET o = {j}, amount = {k * 5} WHERE id = {i}",
            ]
        )
