"""Views whose joins have a part in common: its change is computed once in a session, where that pays, and
every view is what SQLite makes of its text, whatever is shared."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from counted_shop import Counted, opened, step

from stillframe.algebra import Column, Join, Output, Plan, Project, Ref, Scan, Schema, call, relations
from stillframe.algebra.types import INT
from stillframe.change import Core, Cores, Use
from stillframe.change.propagation import Calibration
from stillframe.engine import Engine
from stillframe.runtime.estimating import Estimator, Sized
from stillframe.runtime.prices import BUILT_IN, Measured, store
from stillframe.runtime.sharing import Going

SEED = int(os.environ.get("STILLFRAME_SEED", "6"))
LO = "SELECT l.id, l.amount, o.day FROM a.l JOIN a.o ON l.o = o.id"
LOC = "SELECT l.amount, c.name FROM a.c JOIN a.o ON o.c = c.id JOIN a.l ON o.id = l.o"
LOS = "SELECT o.day, s.place FROM a.s JOIN a.l ON s.l = l.id JOIN a.o ON l.o = o.id"
CHANGE = (
    "INSERT INTO o VALUES (5, 1, 2)",
    "INSERT INTO l VALUES (6, 5, 40), (7, 2, 13)",
    "UPDATE l SET o = 3 WHERE id = 3",
)


def priced(root: Path, engine: str, **figures: float) -> None:
    """Prices for the project in a folder, as if they had been measured."""
    prices = replace(BUILT_IN[engine], **figures)  # type: ignore[arg-type]
    store(Measured(prices, datetime.now(UTC), {}, {}), root / "warehouse")


SCANS_ARE_DEAR = {"per_job": 0, "per_stage": 0, "per_file_written": 0, "per_byte_scanned": 1e-6}
JOBS_ARE_DEAR = {"per_job": 1e6}


@pytest.mark.parametrize(
    ("texts", "own"),
    [((LO, LOC), ["a.c"]), ((LOC, LOS), ["a.c", "a.s"]), ((LO, LOC, LOS), ["a.c", "a.s"])],
)
def test_a_part_of_a_join_is_brought_forward_once(
    tmp_path: Path,
    engine: Engine,
    engine_name: str,
    monkeypatch: pytest.MonkeyPatch,
    texts: tuple[str, ...],
    own: list[str],
) -> None:
    """Lines and orders are scanned once for the part, whoever reads it; what each view joins to it, once."""
    priced(tmp_path, engine_name, **SCANS_ARE_DEAR)
    counted = Counted(monkeypatch)
    shop, warehouse = opened(tmp_path, engine, engine_name, texts)
    with warehouse:
        counted.clear()
        step(shop, warehouse, texts, *CHANGE)
        assert counted.cores == [("a.l", "a.o")]
        assert sorted(counted.scans) == sorted(["a.l", "a.o", *own])


def test_only_what_is_beside_the_part_is_asked_for_its_states(
    tmp_path: Path, engine: Engine, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change beside the part meets the part's relations; where the part did not change, it is not made."""
    priced(tmp_path, engine_name, **SCANS_ARE_DEAR)
    counted = Counted(monkeypatch)
    texts = (LO, LOC, LOS)
    shop, warehouse = opened(tmp_path, engine, engine_name, texts)
    with warehouse:
        counted.clear()
        step(shop, warehouse, texts, "UPDATE c SET name = 'eve' WHERE id = 2")
        assert counted.cores == [] and sorted(counted.scans) == ["a.l", "a.o"]
        counted.clear()
        step(shop, warehouse, texts, "UPDATE c SET name = 'fay' WHERE id = 2", *CHANGE)
        assert counted.cores == [("a.l", "a.o")]
        assert sorted(counted.scans) == ["a.c", "a.l", "a.l", "a.o", "a.o", "a.s"]


def test_a_part_is_not_shared_where_that_costs_more(
    tmp_path: Path, engine: Engine, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(tmp_path, engine_name, **JOBS_ARE_DEAR)
    counted = Counted(monkeypatch)
    texts = (LO, LOC, LOS)
    shop, warehouse = opened(tmp_path, engine, engine_name, texts)
    with warehouse:
        counted.clear()
        step(shop, warehouse, texts, *CHANGE)
        assert counted.cores == []


# -- what is saved

PAIR = Schema((Column("a", INT), Column("b", INT)), frozenset({frozenset({0})}))


def of_three(last: str) -> Plan:
    """l.b = o.a and o.b = last.a, of relations with the key a."""
    scans = tuple(Scan(name, PAIR) for name in ("l", "o", last))
    equal = (call("=", Ref(1, INT), Ref(2, INT)), call("=", Ref(3, INT), Ref(4, INT)))
    return Project(Join(scans, equal), (Output("x", Ref(0, INT)), Output("y", Ref(5, INT))))


def shared_by(
    sizes: dict[str, Sized], views: Sequence[str], price: Calibration = BUILT_IN["sail"]
) -> set[str]:
    """The relations that views are said to share, each view a join of l, o and one more of its name."""
    plans = {f"v{i}": of_three(last) for i, last in enumerate(views)}
    going = Going(plans, lambda _: sizes.__getitem__, Estimator(price, 0.1))
    chosen = Cores(plans).chosen(plans, going.worth)
    return {name for plan in plans.values() for core in chosen.of(plan) for name in relations(core.join)}


def test_a_part_pays_if_its_views_save_more_than_it_costs() -> None:
    large = {name: Sized(10_000_000, 10_000) for name in "loc"}
    sizes = {**large, **{name: Sized(1_000, 10) for name in "stuvw"}}
    assert shared_by(sizes, "st") == {"l", "o"}
    dear = replace(BUILT_IN["sail"], per_job=1.0)
    assert shared_by(sizes, "st", dear) == set()
    assert shared_by(sizes, "stuvw", dear) == {"l", "o"}, "paid once, whoever reads it"
    still = {name: replace(size, change=0) if name in "lo" else size for name, size in sizes.items()}
    assert shared_by(still, "stuvw") == set(), "it does not change"


@pytest.mark.parametrize(("changed", "reads_it"), [(1, True), (1_000, False)])
def test_a_view_that_would_be_dearer_over_a_part_does_not_read_it(changed: float, reads_it: bool) -> None:
    """Two views have the part anyway. Of its change, most meets nothing beside it if all of o changes; a
    tree that begins with Δo and the few rows beside it makes none of that."""
    sizes = {"l": Sized(1_000_000, 1), "o": Sized(1_000, 1), "s": Sized(10, 1), "t": Sized(10, 1)}
    of_it = {**sizes, "o": Sized(1_000, changed)}
    part = Join(tuple(Scan(name, PAIR) for name in "lo"), (call("=", Ref(1, INT), Ref(2, INT)),))
    plans: dict[str, Plan] = {f"v{i}": Project(part, (Output("x", Ref(i, INT)),)) for i in range(2)}
    plans |= {"of_three": of_three("s"), "beside": of_three("t")}
    known = {**dict.fromkeys(plans, sizes.__getitem__), "of_three": of_it.__getitem__}
    going = Going(plans, known.__getitem__, Estimator(BUILT_IN["sail"], 0.1))
    chosen = Cores(plans).chosen(plans, going.worth)
    assert len(chosen.of(plans["v0"])) == len(chosen.of(plans["v1"])) == 1
    assert bool(chosen.of(plans["of_three"])) == reads_it
    assert chosen.of(plans["beside"]), "whatever another one would lose"


# -- whatever is shared, and whoever computes

JOINED = "a.l JOIN a.o ON l.o = o.id"
PAIRS = f"SELECT m.id, l.id AS l FROM {JOINED} JOIN a.l m ON m.amount = l.amount JOIN a.o p ON m.o = p.id"
TEXTS = (
    LO,
    PAIRS,
    LOC,
    LOS,
    f"SELECT l.id, c.id AS c, c.region FROM {JOINED} JOIN a.c ON c.id = o.c WHERE l.amount > 5",
    f"SELECT c.region, sum(l.amount) AS s, count(*) AS n FROM {JOINED} JOIN a.c ON c.id = o.c"
    " WHERE o.day < 6 GROUP BY c.region",
    f"SELECT s.place, max(o.day) AS latest FROM {JOINED} JOIN a.s ON s.l = l.id GROUP BY s.place",
    f"SELECT DISTINCT c.name FROM {JOINED} JOIN a.c ON c.id = o.c AND c.region < l.amount WHERE l.amount > 8",
    f"SELECT x.id, l.amount, o.day FROM {JOINED} JOIN a.o x ON x.c = o.c AND x.day <> o.day",
    f"SELECT c.name, s.place FROM {JOINED} JOIN a.c ON c.id = o.c JOIN a.s ON s.l = l.id WHERE l.o > 1",
    f"SELECT l.id FROM {JOINED} JOIN a.c ON c.id = o.c WHERE NOT EXISTS (SELECT 1 FROM a.s WHERE s.l = l.id)",
    f"SELECT o.day, c.name FROM {JOINED} JOIN a.c ON c.id = o.c UNION ALL"
    f" SELECT o.day, s.place FROM {JOINED} JOIN a.s ON s.l = l.id",
)


@pytest.mark.parametrize("seed", range(SEED, SEED + 4))
def test_oracle_random_changes_of_views_with_parts_in_common(
    tmp_path: Path, engine: Engine, engine_name: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    print(f"STILLFRAME_SEED={seed}")
    rng = random.Random(seed)
    parts: list[Use] = []

    def always(_going: Going, _core: Core, uses: Sequence[Use], _anyway: bool) -> Sequence[Use]:
        parts.extend(use for use in uses if not use.block.is_whole)
        return uses

    monkeypatch.setattr(Going, "worth", always)
    counted = Counted(monkeypatch)
    texts = TEXTS if seed == SEED else (LO, PAIRS, *rng.sample(TEXTS[2:], 4))
    small, copies = rng.choice(["driver", "engine"]), rng.choice(["all", "none", "[a.o]"])
    shop, warehouse = opened(tmp_path, engine, engine_name, texts, small=small, copies=copies)
    with warehouse:
        for _ in range(5):
            if rng.random() < 0.3:  # views that stand at another state have another change
                shop.write("a", *statements(rng))
                warehouse.maintain([f"v{i}" for i in rng.sample(range(len(texts)), 3)])
            step(shop, warehouse, texts, *statements(rng))
    assert parts and counted.cores


def statements(rng: random.Random) -> Iterator[str]:
    for _ in range(rng.randrange(1, 10)):
        i, j, k = (rng.randrange(1, 7) for _ in range(3))
        other = rng.choice([str(j), str(j), "NULL"])
        yield rng.choice(
            [
                f"INSERT OR REPLACE INTO c VALUES ({i}, 'n{j}', {k % 3})",
                f"INSERT OR REPLACE INTO o VALUES ({i}, {other}, {k})",
                f"INSERT OR REPLACE INTO l VALUES ({i}, {other}, {k * 3})",
                f"INSERT OR REPLACE INTO s VALUES ({i}, {other}, 'p{k}')",
                f"DELETE FROM c WHERE id = {i}",
                f"DELETE FROM o WHERE id = {i}",
                f"DELETE FROM l WHERE id = {i}",
                f"DELETE FROM s WHERE id = {i}",
                f"UPDATE o SET c = {other} WHERE id = {i}",
                f"UPDATE o SET day = {k} WHERE c = {i}",
                f"UPDATE l SET o = {other}, amount = {k * 5} WHERE id = {i}",
                f"UPDATE s SET l = {other} WHERE id = {i}",
            ]
        )
