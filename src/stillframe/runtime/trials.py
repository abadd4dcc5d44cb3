"""Jobs of the shapes that refreshes run: the change of a join by its cheapest tree, a join anew, groups anew.

Law: what the model asks for a job is linear in the prices. So a job's charge for a price is what the model
asks where that price is one and all others are none: a charge counts in whatever the model counts in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path

from stillframe.algebra import (
    Aggregate,
    Join,
    Measure,
    Moment,
    Output,
    Plan,
    Ref,
    Scan,
    UnionAll,
    call,
)
from stillframe.algebra.plan import map_scans
from stillframe.algebra.types import BIGINT
from stillframe.change import at, change_of, terms
from stillframe.change.propagation import (
    Calibration,
    JoinGraph,
    Size,
    Spark,
    Statistics,
    Tree,
    best_tree,
    cost,
    join_graph,
    propagated,
)
from stillframe.engine import (
    Engine,
    Tables,
    canonical_sql,
    consolidated_sql,
    engine_errors,
    named_sql,
    repeated_sql,
    write_frame,
    write_query,
)
from stillframe.runtime.binding import Binder, Table
from stillframe.runtime.computing import Computing
from stillframe.runtime.estimating import Estimator, Sized
from stillframe.runtime.ordering import BROADCAST_ROWS
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.reads import Reads
from stillframe.runtime.trial_data import Made
from stillframe.runtime.widths import COLUMN_BYTES

PRICES = tuple(each.name for each in fields(Calibration) if each.name.startswith("per_"))


@dataclass(frozen=True)
class Situation:
    """Relations that are joined, each after the first with one before it, and how many signed rows of each
    changed."""

    relations: tuple[Made, ...]
    changes: Mapping[str, int]

    @cached_property
    def join(self) -> Join:
        scans = tuple(Scan(each.name, each.schema) for each in self.relations)
        offsets = Join(scans).offsets
        conditions = [
            call("=", Ref(offsets[here] + each.reference(other.name), BIGINT), Ref(offsets[there], BIGINT))
            for here, each in enumerate(self.relations)
            for there, other in enumerate(self.relations)
            if other.name in each.references
        ]
        return Join(scans, tuple(conditions))

    @property
    def changed(self) -> frozenset[str]:
        return frozenset(name for name, rows in self.changes.items() if rows)

    @cached_property
    def graph(self) -> JoinGraph:
        known = []
        for each in self.relations:
            half = self.changes.get(each.name, 0) / 2
            known.append(Statistics(Size(each.rows, half, half, COLUMN_BYTES * len(each.schema))))
        return join_graph(self.join, known, self.changed)

    def tree(self, prices: Calibration) -> Tree:
        return best_tree(self.graph, Spark(self.graph, prices, writes_blocks=False))


@dataclass(frozen=True)
class Trial:
    """One job; `charges` says how much of each price the model asks for it."""

    name: str
    charges: Mapping[str, float]
    run: Callable[[Engine, Path], None]

    def estimate(self, prices: Calibration) -> float:
        asked = prices.to_json()
        return sum((amount * float(asked[price]) for price, amount in self.charges.items()), 0.0)


def charged(graph: JoinGraph, prices: Calibration, ask: Callable[[Spark], float]) -> dict[str, float]:
    """What a question to the model comes to in each price."""
    free = {**prices.to_json(), **dict.fromkeys(PRICES, 0.0)}
    return {
        price: ask(Spark(graph, Calibration.from_json({**free, price: 1.0}), writes_blocks=False))
        for price in PRICES
    }


def by_change(name: str, situation: Situation, engine: str) -> Trial:
    """The change of a join, computed and written as a refresh does."""
    prices = BUILT_IN[engine]
    tree = situation.tree(prices)
    found = terms(change_of(situation.join, situation.changed, lambda join, changed: tree))
    plan = found[0] if len(found) == 1 else UnionAll(found)
    rows_in = sum(situation.changes.values())

    def run(engine: Engine, folder: Path) -> None:
        computing = _computing(engine, folder, rows_in <= BROADCAST_ROWS)
        computing.write(_bound(plan, computing, situation), situation.join.schema, folder)

    expression = propagated(tree)
    return Trial(name, charged(situation.graph, prices, lambda model: cost(expression, model)), run)


def anew(name: str, situation: Situation, engine: str, *, netted: bool = False) -> Trial:
    """The join computed anew; `netted` from states that hold signed rows, whose sum it is."""
    graph = situation.graph
    whole, rows = graph.everything, graph.rows_after(graph.everything)

    def ask(model: Spark) -> float:
        return model.recomputation() + (model.netted(whole, rows) if netted else 0.0)

    run = partial(_run_anew, situation.join, situation, netted)
    return Trial(name, charged(graph, BUILT_IN[engine], ask), run)


def grouped(name: str, relation: Made, groups: int, engine: str) -> Trial:
    """A relation's rows counted and added up by the first reference they hold."""
    situation = Situation((relation,), {})
    amount = next(i for i, type_ in enumerate(relation.schema.types) if type_.is_decimal)
    measures = (Measure("rows", "count"), Measure("sum", "sum", Ref(amount, relation.schema[amount].type)))
    plan = Aggregate(situation.join.inputs[0], (Output("key", Ref(1, BIGINT)),), measures)

    def ask(model: Spark) -> float:
        sizes = Sized(relation.rows, 0)
        return Estimator(model.calibration, settle_rows=0).estimate(plan, lambda _: sizes, groups).full

    run = partial(_run_anew, plan, situation, False)
    return Trial(name, charged(situation.graph, BUILT_IN[engine], ask), run)


def _run_anew(plan: Plan, situation: Situation, netted: bool, engine: Engine, folder: Path) -> None:
    schema = plan.schema
    computing = _computing(engine, folder, False)
    bound = _bound(at(plan, Moment.AFTER, frozenset()), computing, situation, changed=netted)
    query = canonical_sql(computing.sql(bound, plain=not netted), schema.types)
    if netted:
        query = repeated_sql(consolidated_sql(query, len(schema)), len(schema))
    write_query(engine, named_sql(query, schema.names, count=False), folder)


def into_files(name: str, relation: Made, files: int, engine: str) -> Trial:
    """A relation copied into so many files, each written by a task that others hand its rows. Sail's tasks
    are of one process, and hand over what they have without a copy."""
    situation = Situation((relation,), {})

    def run(engine: Engine, folder: Path) -> None:
        text = Tables(engine).view_rows(relation.base, relation.schema, signed=False)
        with engine_errors():
            write_frame(engine.sql(f"SELECT * FROM {text}").repartition(files), folder)

    charges = charged(situation.graph, BUILT_IN[engine], lambda model: model.recomputation())
    moved = 0.0 if engine == "sail" else charges["per_byte_written"]
    return Trial(
        name,
        {
            **charges,
            "per_stage": charges["per_stage"] + 1,
            "per_byte_shuffled": charges["per_byte_shuffled"] + moved,
            "per_file_written": float(files),
        },
        run,
    )


def _computing(engine: Engine, folder: Path, broadcast: bool) -> Computing:
    reads = Reads(lambda: engine, {}, {}, {}, {}, {}, folder, lambda *_: None)
    binder = Binder(reads, lambda: Tables(engine), folder, {}, {})
    return Computing(lambda: engine, binder, lambda: broadcast, here=False)


def _bound(plan: Plan, computing: Computing, situation: Situation, *, changed: bool = True) -> Plan:
    """Every scan a table of the engine, none looked up by key: what is measured is the engine."""
    made = {each.name: each for each in situation.relations}
    tables, bound = Tables(computing.engine()), computing.binder.bound

    def read(scan: Scan, _: int | None) -> Plan:
        relation, change = made[scan.relation], situation.changes.get(scan.relation, 0) if changed else 0
        base = tables.view_rows(relation.base, relation.schema, signed=False)
        parts = [base]
        if scan.at is Moment.CHANGE or (scan.at is Moment.AFTER and change):
            moved = tables.view_rows(relation.change(change), relation.schema, signed=True)
            parts = [moved] if scan.at is Moment.CHANGE else [base, moved]
        rows = change if scan.at is Moment.CHANGE else relation.rows
        text = tables.sum(parts)
        name = f"#{len(bound)}"
        bound[name] = Table(rows, None, lambda: text)
        return replace(scan, relation=name)

    return map_scans(plan, read)
