"""What an expression costs on an engine such as Spark, in seconds.

    term        one stage, and Δ broadcast; or two, and Δ shuffled, where Δ is over the broadcast limit
    partner     its bytes scanned, those of ranges that no row of Δ falls into left out; where Δ is shuffled,
                one more stage, and all its bytes scanned and shuffled
    keeping     rows made; where it is written, and always for the whole, a job, bytes and files written, and
                equal rows added up: a stage, and its bytes shuffled
    recompute   a job, every input scanned; all but the widest broadcast or shuffled; the result written

Assumption: the rows that a term's partners meet are as many as Δ has, in any order of joining; k rows spread
evenly over g ranges fall into g·(1 − (1 − 1/g)^k) of them. The figures that the prices rest on are measured
on the machine at hand, for each engine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import ceil
from typing import Any

from stillframe.algebra import Moment
from stillframe.change.propagation.sizes import Block, JoinGraph, Size


@dataclass(frozen=True)
class Calibration:
    """Prices in seconds, of one engine on one machine. `per_driver_second` is what the driver takes there for
    what took it a second where its own prices were measured."""

    engine: str
    per_job: float
    per_stage: float
    per_row_made: float
    per_byte_scanned: float
    per_byte_broadcast: float
    per_byte_shuffled: float
    per_byte_written: float
    per_file_written: float
    broadcast_limit: float
    file_bytes: float = 128 * 2**20
    per_driver_second: float = 1.0

    def __post_init__(self) -> None:
        for name, value in self.to_json().items():
            if name != "engine" and not value >= 0:
                raise ValueError(f"{name} is {value}")
        if not self.file_bytes:
            raise ValueError("a file has at least one byte")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Calibration:
        """Figures that are not known here are left aside: a newer version may have stored them."""
        names = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in found.items() if name in names})


@dataclass(frozen=True)
class Spark:
    """`writes_blocks` says that the change of a block is written before it is read; otherwise it flows on
    inside one job."""

    graph: JoinGraph
    calibration: Calibration
    writes_blocks: bool = True

    name = "spark"
    unit = "seconds"

    def driver(self, block: Block) -> float:
        prices, moved = self.calibration, self._change_bytes(block)
        if self._is_broadcast(block):
            return prices.per_stage + moved * prices.per_byte_broadcast
        return 2 * prices.per_stage + moved * prices.per_byte_shuffled

    def partner(self, block: Block, place: int, moment: Moment) -> float:
        prices, size = self.calibration, self.graph.sizes[place]
        whole = _rows(size, moment) * size.row_bytes
        if self._is_broadcast(block):
            part = 1 if moment is Moment.CHANGE else _met(size.ranges, self.graph.change_rows(block))
            return part * whole * prices.per_byte_scanned
        return prices.per_stage + whole * (prices.per_byte_scanned + prices.per_byte_shuffled)

    def keeping(self, block: Block) -> float:
        rows = self.graph.change_rows(block)
        if self.writes_blocks or block == self.graph.everything:
            return self.written(block, rows) + self.netted(block, rows)
        return rows * self.calibration.per_row_made

    def recomputation(self) -> float:
        prices, everything = self.calibration, self.graph.everything
        sides = sorted(size.after * size.row_bytes for size in self.graph.sizes)
        total = self.written(everything, self.graph.rows_after(everything)) + prices.per_stage
        total += sum(sides) * prices.per_byte_scanned
        for side in sides[:-1]:
            if side <= prices.broadcast_limit:
                total += side * prices.per_byte_broadcast
            else:
                total += 2 * prices.per_stage + (side + sides[-1]) * prices.per_byte_shuffled
        return total

    def netted(self, block: Block, rows: float) -> float:
        """Equal rows added up: each is handed to the task that has its copies."""
        prices = self.calibration
        return prices.per_stage + rows * self.graph.row_bytes(block) * prices.per_byte_shuffled

    def written(self, block: Block, rows: float) -> float:
        """What a job costs that writes so many rows of a block, whatever it takes to find them."""
        prices, volume = self.calibration, rows * self.graph.row_bytes(block)
        files = max(1, ceil(volume / prices.file_bytes))
        return (
            prices.per_job
            + rows * prices.per_row_made
            + volume * prices.per_byte_written
            + files * prices.per_file_written
        )

    def _change_bytes(self, block: Block) -> float:
        return self.graph.change_rows(block) * self.graph.row_bytes(block)

    def _is_broadcast(self, block: Block) -> bool:
        return self._change_bytes(block) <= self.calibration.broadcast_limit


def _rows(size: Size, moment: Moment) -> float:
    match moment:
        case Moment.BEFORE:
            return size.rows
        case Moment.AFTER:
            return size.after
    return size.change


def _met(ranges: int, rows: float) -> float:
    """The part of the ranges that rows spread evenly fall into."""
    return 1.0 if ranges == 1 else 1 - (1 - 1 / ranges) ** rows
