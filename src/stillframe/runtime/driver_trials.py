"""Changes of joins that the driver computes in columns, without a job: how fast it is on this machine.

Law: what the driver is expected to take follows from prices that were measured once, on one machine
(`in_columns`). These changes took that machine the seconds that they are charged; what they take here, beside
that, is the price of a second.
"""

from __future__ import annotations

from pathlib import Path

from stillframe.engine import Engine, Room, Tables
from stillframe.lake.frame import CURRENT, ChangeFile, DataFile, ViewState
from stillframe.runtime.binding import Binder
from stillframe.runtime.compiling import Compiler
from stillframe.runtime.computing import Computing
from stillframe.runtime.reads import Reads, Upstream, ViewFiles
from stillframe.runtime.trial_data import Made
from stillframe.runtime.trials import PRICES, Situation, Trial


def driver_trials(folder: Path) -> list[Trial]:
    """Marks on gauges, of which each has ten. The seconds are those of the machine whose benchmarks are kept,
    as `stillframe calibrate --json` tells them in `fit`."""
    gauge = Made(folder, "gauge", 40_000, 5, {})
    mark = Made(folder, "mark", 400_000, 14, {"gauge": gauge.rows})

    def trial(name: str, seconds: float, **changes: int) -> Trial:
        return by_driver(f"in columns, {name}", Situation((mark, gauge), changes), seconds)

    return [
        trial("many rows", 0.052, mark=100_000),
        trial("some rows that meet many", 0.051, gauge=10_000),
        trial("some rows of two", 0.056, mark=40_000, gauge=4_000),
    ]


def by_driver(name: str, situation: Situation, seconds: float) -> Trial:
    """The change of a join of states that the lake has, computed and written by the driver."""
    relations = {each.name: each for each in situation.relations}
    schemas = {name: each.schema for name, each in relations.items()}
    columns = {name: frozenset(range(len(schema))) for name, schema in schemas.items()}

    def run(engine: Engine, folder: Path) -> None:
        reads = Reads(lambda: engine, {}, {}, columns, {}, schemas, folder / "read", lambda *_: None)
        upstream = {name: _moved(each, situation) for name, each in relations.items()}
        root = situation.relations[0].folder
        computing = Computing(lambda: engine, Binder(reads, lambda: Tables(engine), root, {}, upstream))
        found = Compiler(computing).change(situation.join, situation.changed)
        assert found is not None
        computing.write(found, situation.join.schema, folder / "written")

    return Trial(name, {**dict.fromkeys(PRICES, 0.0), "per_driver_second": seconds}, run)


def _moved(relation: Made, situation: Situation) -> Upstream:
    """A relation as a copy of it stands before and after its change."""
    rows = situation.changes.get(relation.name, 0)
    files = relation.change(rows) if rows else ()
    change = ViewFiles(files, relation.schema, rows, Room()) if rows else None
    return Upstream(_state(relation, ()), _state(relation, files), change, changed=bool(rows))


def _state(relation: Made, changes: tuple[Path, ...]) -> ViewState:
    name, schema, rows = relation.name, relation.schema, relation.rows
    base = tuple(DataFile(path.name, rows, path.stat().st_size) for path in relation.base)
    signed = tuple(ChangeFile(path.name, 0, path.stat().st_size, 2) for path in changes)
    return ViewState(name, schema, "", "strong", "tid", CURRENT, base, signed, 1, 1, rows, {})
