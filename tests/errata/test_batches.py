"""Errata 12: a source that reports several transactions at once is not one that runs them as one."""

from __future__ import annotations

from collections.abc import Iterator

from stillframe.consistency import Course, Judge, Level
from stillframe.protocol.events import Notified, Transaction
from stillframe.simulator import read
from stillframe.simulator.explore import explore
from stillframe.simulator.world import Simulation, Step, World

SCENARIO = """
name: two updates, one report
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: []}
  r2: {source: y, columns: [B, C], key: [B], rows: []}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r2 [1, 1]", "insert r1 [1, 1]", "delete r1 [1, 1]"]
"""


class Batched(Simulation):
    """Source x reports all its updates in one message, after the last."""

    def _happen(self, world: World) -> Iterator[Step]:
        last = self.sources.at_source[0][-1]
        for step in super()._happen(world):
            before = world.up[0]
            if step.world.up[0] == before:
                yield step
                continue
            batch = (*before, self._batch()) if step.world.done >> last & 1 else before
            yield step._replace(world=step.world._replace(up=(batch, *step.world.up[1:])))

    def _batch(self) -> int:
        entries = self.sources.at_source[0]
        parts = [self.messages[message] for entry in entries for _, message in self._reports[entry]]
        updates = tuple(update for part in parts for update in part.transaction.updates)
        return self.messages.number(Notified(Transaction("batch", updates, (("x", 1),))))


def level_at_batching_points(algorithm: str) -> Level:
    simulation = Batched(read(SCENARIO, "batch"), algorithm)
    whole = len(simulation.sources.at_source[0])
    judge = Judge(Course((1, 1)), lambda cut: simulation._content((cut[0] * whole, cut[1])))
    graph = explore(simulation)
    verdicts = [judge.judge(simulation.views(graph.worlds[end])) for end in graph.ends()]
    return min(verdict.level for verdict in verdicts)


def test_t_strobe_as_printed_does_not_converge() -> None:
    assert level_at_batching_points("t-strobe-published") == Level.NONE


def test_t_strobe_with_every_delete_applied_only_converges() -> None:
    assert level_at_batching_points("t-strobe") == Level.CONVERGENT
