"""What is measured: made-up relations, and jobs over them that are charged as the model charges."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from stillframe.change.propagation import Spark, cost, propagated
from stillframe.engine import Engine
from stillframe.runtime.calibrating import trials
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.trial_data import Made
from stillframe.runtime.trials import PRICES, Situation, anew, by_change


def situation(folder: Path, change: int) -> Situation:
    site = Made(folder, "site", 20, 3, {})
    sensor = Made(folder, "sensor", 200, 5, {"site": 20})
    reading = Made(folder, "reading", 3000, 7, {"sensor": 200})
    return Situation((reading, sensor, site), {"reading": change, "sensor": change // 2, "site": 4})


def joined(made: Situation, *, after: bool) -> str:
    """The join in DuckDB's own words, over the files."""

    def rows(relation: Made) -> str:
        names = ", ".join(relation.schema.names)
        base = f"SELECT {names} FROM read_parquet({[str(path) for path in relation.base]})"
        if not after:
            return f"({base})"
        change = f"read_parquet({[str(path) for path in relation.change(made.changes[relation.name])]})"
        gone, come = (f"SELECT {names} FROM {change} WHERE __count = {sign}" for sign in (-1, 1))
        return f"({base} EXCEPT ALL {gone} UNION ALL {come})"

    reading, sensor, site = map(rows, made.relations)
    return (
        f"SELECT * FROM {reading} JOIN {sensor} ON reading_sensor = sensor_id"
        f" JOIN {site} ON sensor_site = site_id"
    )


@pytest.mark.engine
def test_jobs_compute_what_refreshes_do(tmp_path: Path, engine: Engine) -> None:
    made = situation(tmp_path, 60)
    kind = engine.kind
    by_change("change", made, kind).run(engine, tmp_path / "change")
    anew("anew", made, kind).run(engine, tmp_path / "anew")
    anew("netted", made, kind, netted=True).run(engine, tmp_path / "netted")
    names = ", ".join(made.join.schema.names)
    found = {
        each: f"SELECT {names} FROM read_parquet('{tmp_path}/{each}/*.parquet')"
        for each in ("change", "anew", "netted")
    }
    before, now = joined(made, after=False), joined(made, after=True)
    for here, there in ((found["anew"], before), (found["netted"], now)):
        assert duckdb.sql(f"({here}) EXCEPT ALL ({there})").fetchall() == []
        assert duckdb.sql(f"SELECT count(*) FROM ({here})").fetchall() == [(3000,)]
    for sign, more, less in ((1, now, before), (-1, before, now)):
        signed = f"{found['change']} WHERE __count = {sign}"
        wanted = f"({more}) EXCEPT ALL ({less})"
        assert duckdb.sql(f"({signed}) EXCEPT ALL ({wanted})").fetchall() == []
        assert duckdb.sql(f"({wanted}) EXCEPT ALL ({signed})").fetchall() == []


def test_charges_are_the_models(tmp_path: Path) -> None:
    made = situation(tmp_path, 60)
    for kind, prices in BUILT_IN.items():
        model = Spark(made.graph, prices, writes_blocks=False)
        wanted = cost(propagated(made.tree(prices)), model)
        assert by_change("change", made, kind).estimate(prices) == pytest.approx(wanted)
        assert anew("anew", made, kind).estimate(prices) == pytest.approx(model.recomputation())


def test_a_change_is_of_the_rows_it_is_charged_for(tmp_path: Path) -> None:
    made = situation(tmp_path, 60)
    for relation in made.relations:
        (path,) = relation.change(made.changes[relation.name])
        table = pq.read_table(path)
        assert table.num_rows == made.changes[relation.name]
        assert sorted(set(table.column("__count").to_pylist())) == [-1, 1]
        assert sum(pq.read_metadata(each).num_rows for each in relation.base) == relation.rows


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
def test_every_price_is_charged_for_and_told_apart(tmp_path: Path, kind: str) -> None:
    """For each price two jobs that differ in it by more than in others: no column is all nought, and no two
    are in one proportion."""
    jobs = trials(kind, tmp_path, 400_000)
    columns = {price: [job.charges[price] for job in jobs] for price in PRICES}
    assert all(any(column) for column in columns.values())
    for price, column in columns.items():
        for other, beside in columns.items():
            if other != price:
                turned = [a * beside[0] - b * column[0] for a, b in zip(column, beside, strict=True)]
                assert any(abs(each) > 1e-9 for each in turned), (price, other)
