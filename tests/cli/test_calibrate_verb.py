"""calibrate: prices measured, stored and used. What jobs take is given here, so that no clock decides."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stillframe.cli import calibrating as verb
from stillframe.cli.main import main
from stillframe.engine import Engine
from stillframe.runtime import calibrating, fitting
from stillframe.runtime.driver_trials import driver_trials
from stillframe.runtime.prices import BUILT_IN, prices
from stillframe.runtime.trials import Trial

DEAR = {
    kind: replace(each, per_job=0.5, per_stage=0.25, per_byte_scanned=4e-8, per_driver_second=3.0)
    for kind, each in BUILT_IN.items()
}


class Stopped:
    """An engine of which nothing is asked."""

    def __init__(self, settings) -> None:
        self.settings, self.kind, self.closed = dict(settings), settings["engine"], False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def opened(monkeypatch) -> list[Stopped]:
    """The engines that were opened; every job takes what DEAR says."""
    found: list[Stopped] = []

    def open_engine(settings) -> Stopped:
        found.append(Stopped(settings))
        return found[-1]

    def timed(engine, jobs, folder, observe, clock):
        assert folder.is_dir()
        return [[job.estimate(DEAR[engine.kind])] * 3 for job in jobs]

    monkeypatch.setattr(verb, "open_engine", open_engine)
    monkeypatch.setattr(calibrating, "timed", timed)
    monkeypatch.setattr(fitting, "TRUST", 0.0)  # what jobs take tells all
    return found


def test_prices_are_stored_used_and_told(shop, opened, capsys):
    assert shop.here("plan", "order_facts")["prices"]["text"] == "built in"
    before = shop.here("plan", "order_facts")["propagation"][0]["cost"]
    document = shop.here("calibrate")
    path = shop.root / "warehouse" / "calibration" / "sail.json"
    assert document["stored"] == str(path) and document["fit"]["median_error"] < 1e-6
    assert document["prices"]["per_job"] == pytest.approx(0.5)
    assert document["prices"]["per_driver_second"] == pytest.approx(3.0)
    assert json.loads(path.read_text())["prices"] == document["prices"]
    assert {"cores", "pysail"} <= document["machine"].keys()
    assert [each.closed for each in opened] == [True]
    assert [each.name for each in path.parent.iterdir()] == ["sail.json"]
    assert prices("sail", shop.root / "warehouse").per_stage == pytest.approx(0.25)
    told = shop.here("plan", "order_facts")
    assert (
        told["prices"]["measured_at"] == document["measured_at"] and told["propagation"][0]["cost"] > before
    )
    assert main(["plan", "order_facts", "--project", str(shop.root)]) == 0
    assert f"prices: measured on this machine {document['measured_at'][:10]}" in capsys.readouterr().out


def test_another_engine_than_the_projects_has_its_own_prices_and_none_of_its_settings(shop, opened):
    shop.use("spark")
    text = (shop.root / "stillframe.yml").read_text()
    (shop.root / "stillframe.yml").write_text(text.replace("engine: sail", "engine: sail, conf: {a: b}"))
    shop.here("calibrate", "--engine", "spark", "--rows", "20000")
    assert [each.settings for each in opened] == [{"engine": "spark"}]
    assert [each.name for each in (shop.root / "warehouse" / "calibration").iterdir()] == ["spark.json"]
    assert shop.here("plan", "order_facts")["prices"]["text"] == "built in"
    shop.here("calibrate")
    assert opened[1].settings == {"engine": "sail", "conf": {"a": "b"}}


def test_without_a_project_prices_are_told_and_not_stored(tmp_path, opened, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["calibrate", "--engine", "sail"]) == 0
    text = capsys.readouterr().out
    assert "500.0 ms" in text and "40.00 s a GB" in text and "nothing is stored" in text
    assert list(tmp_path.iterdir()) == []
    assert main(["calibrate", "--project", str(tmp_path / "nowhere")]) == 2
    assert "error[BAD_PROJECT]" in capsys.readouterr().err


def test_nonsense_is_told_and_leaves_what_there_was(shop, opened, monkeypatch, capsys):
    shop.here("calibrate")
    kept = (shop.root / "warehouse" / "calibration" / "sail.json").read_text()
    monkeypatch.setattr(calibrating, "timed", lambda engine, jobs, *_: [[1.0] for _ in jobs])
    capsys.readouterr()
    assert main(["calibrate", "--json", "--project", str(shop.root)]) == 1
    done = capsys.readouterr()
    assert json.loads(done.out)["error"]["code"] == "NO_PRICES"
    assert "reading" in done.err and "hint" in done.err
    assert (shop.root / "warehouse" / "calibration" / "sail.json").read_text() == kept
    assert opened[-1].closed


def test_a_warehouse_that_is_a_file_is_told(shop, opened, capsys):
    (shop.root / "warehouse").write_text("")
    assert main(["calibrate", "--project", str(shop.root)]) == 2
    assert "error[BAD_PROJECT]" in capsys.readouterr().err
    assert opened == []


def test_the_first_round_is_not_counted_and_rounds_are_interleaved(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(calibrating, "ENOUGH_SECONDS", {"sail": -1.0})
    run: list[str] = []
    jobs = [Trial(name, {}, lambda engine, out, name=name: run.append(name)) for name in "ab"]
    ticks = iter([0, 100, 0, 100, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6])
    times = calibrating.timed(
        Stopped({"engine": "sail"}), jobs, tmp_path, lambda _: None, lambda: next(ticks)
    )
    assert times == [[1, 3, 5], [2, 4, 6]] and run == ["a", "b"] * 4


def test_the_driver_alone_does_what_its_speed_is_told_by(tmp_path: Path):
    made = (100_000, 100_000, 40_000)
    for number, (job, rows) in enumerate(zip(driver_trials(tmp_path), made, strict=True)):
        assert [price for price, charge in job.charges.items() if charge] == ["per_driver_second"]
        job.run(Stopped({"engine": "spark"}), tmp_path / f"{number}")
        found = [pq.read_table(path) for path in (tmp_path / f"{number}" / "written").iterdir()]
        assert sum(table.num_rows for table in found) == rows


@pytest.mark.engine
@pytest.mark.slow_on_spark
def test_every_job_runs(tmp_path: Path, engine: Engine, monkeypatch):
    monkeypatch.setattr(calibrating, "MOST_ROUNDS", 0)
    jobs, seen = calibrating.trials(engine.kind, tmp_path, 10_000), []
    calibrating.timed(engine, jobs, tmp_path, seen.append)
    assert seen == [f"warming up: {job.name}" for job in jobs]
    assert not (tmp_path / "out").exists()
