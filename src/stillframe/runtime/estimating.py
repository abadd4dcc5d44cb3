"""What bringing a view forward would cost in a session, and what computing it anew, in seconds.

    incremental   the change of every join by its cheapest tree; of a key-wise operator, its touched keys, its
                  own rows as they were and, where these do not tell, its inputs' rows; the change added up
                  and written
    full          every input read, joined and grouped, all rows written; added up first, where states of the
                  lake that have no key have changes beside plain rows
    settling      the change's share of the rewriting that folds changes into plain files

A relation that only its source has costs there what reading it was measured to cost. Law: what the model says
depends on sizes, prices and how many rows changes were seen to make, never on which of the two was taken
before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import log2

from stillframe.algebra import Aggregate, Join, Plan, Project, Semi, Window, relations, scans
from stillframe.algebra.scalar import refs
from stillframe.change import Keywise, body, goes_on, keyed_inputs, terms
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
from stillframe.engine import Room
from stillframe.runtime.asking import counted, seconds_asked
from stillframe.runtime.columnar import is_columnar
from stillframe.runtime.evaluating import is_exact
from stillframe.runtime.statistics import Relation
from stillframe.runtime.widths import bytes_read, column_bytes, row_bytes, texts_read

UNKNOWN_ROWS = 100_000  # of a relation that only its source has: it is asked for few of them by key
LOOK_UP, ROW_HERE = 0.005, 1e-5  # seconds, of the driver
COLUMNAR_SHARE = 0.6  # of the rows there is room for: that many changed ones are computed in columns
TREES_KEPT = 256
SOURCE_ROW_SECONDS = 5e-6  # of a source that was never timed
ROWS, COLUMNS, JOBS = "rows", "columns", "jobs"  # the driver computes row by row, or in columns; the engine
TOUCHED_BY_LOOK_UP = 8  # rows of a column that are read for a value that is looked up


@dataclass(frozen=True)
class Sized:
    """A relation or view that is read: its rows before, and how many changed. `row_seconds` is what a row
    takes at its source, 0 of what the lake has. `distinct` counts the values of columns,
    `text_bytes` says how long those are that may be long."""

    rows: float
    change: float
    row_seconds: float = 0.0
    distinct: Mapping[str, float] = field(default_factory=dict)
    text_bytes: Mapping[str, float] = field(default_factory=dict)


Sizes = Callable[[str], Sized]


def relation_size(known: Relation, change: float) -> Sized:
    """A relation that only its source has."""
    seconds = SOURCE_ROW_SECONDS if known.row_seconds is None else known.row_seconds
    rows = UNKNOWN_ROWS if known.rows is None else known.rows
    return Sized(rows, change, seconds, known.distinct, known.text_bytes)


def view_size(known: Relation, rows: float, change: float) -> Sized:
    """A view, or a copy of a relation."""
    return Sized(rows, change, distinct=known.distinct, text_bytes=known.text_bytes)


@dataclass(frozen=True)
class Estimate:
    """Seconds; and the rows of change that go in and come out, which are those that the model has it make,
    corrected. `way` is how the change is taken to be computed: what was learned of estimates of one way says
    nothing of those of another, which other prices made."""

    incremental: float
    full: float
    settling: float
    rows_in: float
    rows_made: float
    rows_out: float
    rows_read: float
    way: str

    def corrected(self, incremental: float, full: float) -> Estimate:
        return replace(self, incremental=self.incremental * incremental, full=self.full * full)


def sized(join: Join, sizes: Sizes, changed: frozenset[str]) -> JoinGraph:
    """The join with what is known of its inputs. As many rows are taken to leave as to come."""

    def known(plan: Plan) -> Statistics:
        read = [sizes(name) for name in relations(plan)]
        here = _about(sum(each.rows for each in read))
        change = _about(sum(sizes(name).change for name in relations(plan) if name in changed))
        leaving = min(change / 2, here)
        size = Size(here, change - leaving, leaving, _row_bytes(plan, sizes))
        return Statistics(size, counted(plan, sizes))

    return join_graph(join, [known(plan) for plan in join.inputs], changed)


def joined_size(plan: Plan, sizes: Sizes, change: float) -> Sized:
    """A join's columns, read as one relation."""
    join = body(plan)
    assert isinstance(plan, Project) and isinstance(join, Join)
    graph, distinct = sized(join, sizes, frozenset()), dict[str, float]()
    widths = column_bytes(plan, lambda name: sizes(name).text_bytes)
    for output in plan.outputs:
        for position in refs(output.scalar):
            place = join.input_of(position)
            known = counted(join.inputs[place], sizes).get(position - join.offsets[place])
            distinct |= {} if known is None else {output.name: known}
    rows, texts = graph.rows(graph.everything), dict(zip(plan.schema.names, widths, strict=True))
    return Sized(rows, change, distinct=distinct, text_bytes=texts)


def as_read(plan: Plan, sizes: Sizes) -> Sizes:
    """Without texts that the plan does not read: they stay in their columns."""
    read = texts_read([plan])
    return lambda name: with_texts(sizes(name), read.get(name, {}))


def with_texts(known: Sized, read: Collection[str]) -> Sized:
    if all(column in read for column in known.text_bytes):
        return known
    return replace(known, text_bytes={c: size for c, size in known.text_bytes.items() if c in read})


def _row_bytes(plan: Plan, sizes: Sizes) -> float:
    return row_bytes(plan, lambda name: sizes(name).text_bytes)


def _bytes_read(plan: Plan, sizes: Sizes) -> dict[str, float]:
    return bytes_read(plan, lambda name: sizes(name).text_bytes)


def _looked_up(graph: JoinGraph) -> JoinGraph:
    """Where partners are looked up by value."""
    sizes = (replace(size, ranges=max(1, int(size.rows / TOUCHED_BY_LOOK_UP))) for size in graph.sizes)
    return replace(graph, sizes=tuple(sizes))


def _about(rows: float) -> float:
    """To one part in eight: sizes that differ by less ask for the same tree."""
    return float(rows) if rows < 8 else 2.0 ** (round(8 * log2(rows)) / 8)


@dataclass
class Estimator:
    """With the prices of one engine. The tree of a join is searched for once for about the same sizes."""

    prices: Calibration
    settle_rows: float  # the part of a view's rows that changes may be before they are folded in
    driver_rows: int = 0  # of a change that is computed without a job
    trees: dict[tuple[object, ...], Tree] = field(default_factory=dict)
    room: Room = field(default_factory=Room)  # of the driver

    def tree(self, join: Join, graph: JoinGraph) -> Tree:
        key = (self.prices, join, graph.inputs, graph.sizes, frozenset(graph.selectivities.items()))
        if key not in self.trees:
            if len(self.trees) >= TREES_KEPT:
                self.trees.clear()
            self.trees[key] = best_tree(graph, self.model(graph))
        return self.trees[key]

    def model(self, graph: JoinGraph) -> Spark:
        return Spark(graph, self.prices, writes_blocks=False)

    def estimate(
        self, plan: Plan, sizes: Sizes, rows: float, growth: Callable[[float], float] | None = None
    ) -> Estimate:
        """Of a plan as it is maintained, of a view with so many rows now. `growth` is by what more rows of
        change it was seen to make, of so many, than it should."""
        sizes = as_read(plan, sizes)
        changed = frozenset(name for name in relations(plan) if sizes(name).change)
        rows_in = sum(sizes(name).change for name in relations(plan))
        inputs = plan.inputs if isinstance(plan, Keywise) else (plan,)
        looked_at = [each.looked_at for each in keyed_inputs(plan)] if isinstance(plan, Keywise) else inputs
        ways = [self._way(each, rows_in) for each in looked_at]
        incremental = full = change = below = 0.0
        for source, way in zip(inputs, ways, strict=True):
            for branch in terms(source):
                by_change, anew, rows_changed, rows_below = self._branch(body(branch), sizes, changed, way)
                incremental += by_change
                full += anew
                change += rows_changed
                below += rows_below
        own = self._way_of_groups(plan, change, rows) if isinstance(plan, Keywise) else ways[0]
        going = self._prices(own)
        made = self._rows_out(plan, rows, change)
        out = made if growth is None else growth(rows_in) * made
        width = _row_bytes(plan, sizes)
        if isinstance(plan, Keywise):
            incremental += self._touched(plan, sizes, rows * width, going)
            full += self.prices.per_stage + self._grouped(plan, sizes, below)
        asked, everything = seconds_asked(plan, sizes)
        here = self.room.rewrites and plan.schema.keys and out <= self.room.read
        by = in_columns(self.prices) if here else self.prices
        settling = out * width * (by.per_byte_scanned + by.per_byte_written)
        return Estimate(
            incremental + asked + _written(going, out, width) + _netted(going, out * width),
            full
            + everything
            + _written(self.prices, rows, width)
            + self._signed(plan, sizes, rows * width, below),
            settling / self.settle_rows if self.settle_rows else 0.0,
            rows_in,
            made,
            out,
            sum(sizes(name).rows for name in relations(plan)),
            f"by {', then '.join(dict.fromkeys((*ways, own)))}",
        )

    def by_change(self, plan: Plan, sizes: Sizes, *, kept: bool = False) -> float:
        """What finding the change of a join costs, and, if it is `kept`, adding it up and writing it."""
        join = body(plan)
        changed = frozenset(name for name in relations(join) if sizes(name).change)
        way = self._way(join, sum(sizes(name).change for name in changed))
        seconds, _, change, _ = self._branch(join, sizes, changed, way)
        if kept:
            going = self._prices(way)
            width = _row_bytes(plan, sizes)
            seconds += _written(going, change, width) + _netted(going, change * width)
        return seconds

    def changed_rows(self, join: Join, sizes: Sizes) -> float:
        """About how many rows the change of a join has."""
        graph = sized(join, sizes, frozenset(name for name in relations(join) if sizes(name).change))
        return graph.change_rows(graph.everything)

    def changed_bytes(self, join: Join, sizes: Sizes) -> float:
        return self.changed_rows(join, sizes) * _row_bytes(join, sizes)

    def _way(self, plan: Plan, rows_in: float) -> str:
        """How the change of a linear plan is computed, of so many changed rows below it."""
        if self.driver_rows and rows_in <= COLUMNAR_SHARE * self.room.rows and is_columnar(plan):
            return COLUMNS
        return ROWS if rows_in <= self.driver_rows and is_exact(plan) else JOBS

    def _way_of_groups(self, plan: Keywise, change: float, rows: float) -> str:
        """How a key-wise operator's change is made of its input's. The plan of groups that go on scans its
        input's change six times and the operator's own rows twice; others read no less."""
        read = 6 * change + 2 * rows
        return ROWS if read <= self.driver_rows and is_exact(plan) else JOBS

    def _prices(self, way: str) -> Calibration:
        if way == ROWS:
            return without_jobs(self.prices)
        return in_columns(self.prices) if way == COLUMNS else self.prices

    def _branch(
        self, plan: Plan, sizes: Sizes, changed: frozenset[str], way: str
    ) -> tuple[float, float, float, float]:
        """By its change, and anew; rows of the change, and all rows."""
        going = self._prices(way)
        if isinstance(plan, Join) and len(plan.inputs) > 1:
            graph = sized(plan, sizes, changed)
            model, all_of_it = self.model(graph), graph.everything
            anew = model.recomputation() - model.written(all_of_it, graph.rows_after(all_of_it))
            change = graph.change_rows(all_of_it)
            if not changed.isdisjoint(relations(plan)):
                expression = propagated(self.tree(plan, graph))
                going_model = Spark(_looked_up(graph) if way == COLUMNS else graph, going, False)
                by_change = cost(expression, going_model) - going_model.keeping(all_of_it)
            else:
                by_change = change = 0.0
            return by_change, anew, change, graph.rows_after(all_of_it)
        read = [(sizes(name), width) for name, width in _bytes_read(plan, sizes).items()]
        scanned = self.prices.per_byte_scanned
        by_change = sum(each.change * width * going.per_byte_scanned for each, width in read)
        anew = sum(each.rows * width * scanned for each, width in read) + self.prices.per_stage
        return by_change, anew, sum(each.change for each, _ in read), sum(each.rows for each, _ in read)

    @staticmethod
    def _touched(plan: Keywise, sizes: Sizes, own_bytes: float, prices: Calibration) -> float:
        """The keys that a change touches, found and compared."""
        seconds = prices.per_job + prices.per_stage + own_bytes * prices.per_byte_scanned
        if not goes_on(plan):
            for name, width in _bytes_read(plan, sizes).items():
                seconds += sizes(name).rows * width * prices.per_byte_scanned
            seconds += prices.per_job
        return seconds

    def _grouped(self, plan: Keywise, sizes: Sizes, rows: float) -> float:
        if isinstance(plan, Aggregate):
            return rows * self.prices.per_row_made
        width = sum(_row_bytes(each.plan, sizes) for each in keyed_inputs(plan))
        return rows * (self.prices.per_row_made + width * self.prices.per_byte_shuffled)

    def _signed(self, plan: Plan, sizes: Sizes, volume: float, below: float) -> float:
        """States of the lake that changed and have no key are plain rows and signed ones: what is made of
        them is added up, and of a key-wise operator also what it stands on."""
        keyless = {scan.relation for scan in scans(plan) if not scan.schema.keys}
        if all(sizes(name).row_seconds or not sizes(name).change for name in keyless):
            return 0.0
        seconds = _netted(self.prices, volume)
        if isinstance(plan, Keywise):
            seconds += _netted(self.prices, below * sum(_bytes_read(plan, sizes).values()))
        return seconds

    @staticmethod
    def _rows_out(plan: Plan, rows: float, change: float) -> float:
        """A touched group leaves as it was and comes as it is; a change of a row touches one."""
        match plan:
            case Aggregate():
                return min(2 * change, 2 * rows + change)
            case Window() | Semi():
                return min(4 * change, 2 * rows + change)
        return change


def _written(prices: Calibration, rows: float, width: float) -> float:
    volume = rows * width
    files = max(1.0, volume / prices.file_bytes)
    return (
        prices.per_job
        + rows * prices.per_row_made
        + volume * prices.per_byte_written
        + files * prices.per_file_written
    )


def _netted(prices: Calibration, volume: float) -> float:
    """Equal rows added up: each is handed to the task that has its copies."""
    return prices.per_stage + volume * prices.per_byte_shuffled


def in_columns(prices: Calibration) -> Calibration:
    """Where the driver computes in columns: partners are looked up in columns that it holds, rows are added
    up and written by it. Measured on two cores, of a change of 2.9 million rows of 18 columns; it looks up
    nearly all of what it may meet. By how much it is slower here is `per_driver_second`."""
    slower = prices.per_driver_second
    return replace(
        prices,
        per_job=slower * LOOK_UP,
        per_stage=slower * LOOK_UP,
        per_file_written=slower * LOOK_UP,
        per_row_made=slower * 5e-7,
        per_byte_scanned=slower * 1e-9,
        per_byte_broadcast=slower * 1e-9,
        per_byte_shuffled=slower * 2.5e-9,
        per_byte_written=slower * 1.5e-9,
    )


def without_jobs(prices: Calibration) -> Calibration:
    """Where the driver computes: partners are looked up by key, in the row groups that may have them."""
    slower = prices.per_driver_second
    return replace(
        prices,
        per_job=slower * LOOK_UP,
        per_stage=slower * LOOK_UP,
        per_file_written=slower * LOOK_UP,
        per_byte_scanned=0.0,
        per_row_made=slower * ROW_HERE,
    )
