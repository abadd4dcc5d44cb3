"""Examples, footnotes and tables of "Consistency Results for View Maintenance on Web Data Platforms",
explored: every order in which managers, crashes and the base can take their steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from stillframe.consistency import Level
from stillframe.records.classes import served
from stillframe.records.entry import Touch
from stillframe.records.requests import Held, Put
from stillframe.simulator.explore import explore
from stillframe.simulator.printed_records import Printed, PrintedJoin, PrintedKeyed, PrintedMin, PrintedSum
from stillframe.simulator.record_cases import case
from stillframe.simulator.record_levels import Judged, judged
from stillframe.simulator.record_world import Managing, RecordSimulation


def simulation(name: str, level: str = "strong", view: Any = None, **managing: Any) -> RecordSimulation:
    scenario = case(name)
    way = served(scenario.plan(), level)
    return RecordSimulation(
        scenario, scenario.plan(), way if view is None else replace(way, view=view), Managing(**managing)
    )


def explored(name: str, level: str = "strong", view: Any = None, **managing: Any) -> Judged:
    return judged(simulation(name, level, view, **managing))


def histories(name: str, level: str = "strong", view: Any = None, **managing: Any) -> set[tuple[Any, ...]]:
    """Of the only record of a view, every history that a schedule gives it."""
    simulated = simulation(name, level, view, **managing)
    graph: Any = explore(simulated)  # type: ignore[arg-type]
    return {graph.worlds[end].shown[0][1] for end in graph.ends()}


@dataclass(frozen=True)
class Blind(PrintedSum):
    """Writes whatever version it read before: no test, only set."""

    def put(self, touch: Touch, held: Held, data: Any, link: Any = None) -> Put:
        return super().put(touch, held, data, link)._replace(expected=ANY)


ANY = -1


class Careless(RecordSimulation):
    """A store that lets every write through."""

    def serve(self, world: Any, request: Any) -> Any:
        if isinstance(request, Put) and request.expected == ANY:
            held = dict(world.store).get(request.key, Held())
            request = request._replace(expected=held.version)
        return super().serve(world, request)


def test_example_1_concurrent_updates_are_lost_without_test_and_set() -> None:
    scenario = case("example 1")
    way = replace(served(scenario.plan()), view=Blind())
    graph: Any = explore(Careless(scenario, scenario.plan(), way, Managing()))  # type: ignore[arg-type]
    finals = {tuple(history[-1] for _, history in graph.worlds[end].shown) for end in graph.ends()}
    assert ((1, 700), (2, 300)) in finals  # as the paper has it
    assert ((1, 500), (2, 500)) in finals
    assert explored("example 1").level >= Level.STRONG


def test_example_2_an_update_that_is_not_idempotent_is_done_twice() -> None:
    assert ((1, 300), (1, 400), (1, 500)) in histories("example 2", view=PrintedSum(signed=False), crashes=1)
    assert explored("example 2", view=PrintedSum(signed=False), crashes=1).level is Level.NONE
    assert histories("example 2", crashes=1) == {((1, 300), (1, 400))}


def test_example_3_updates_of_one_record_race_without_flow_control() -> None:
    """The first manager takes u1 and u3, the second u2."""
    racing = Managing(dealt=((0, 2), (1,)))
    found = histories("example 3", view=PrintedKeyed(signed=False), dealt=racing.dealt)
    assert ((1, 1, 5), (1, 1, 20), (1, 1, 10), (1, 1, 15)) in found  # weak, not strong
    assert any(history[-1] == (1, 1, 20) for history in found)  # not even convergent
    assert explored("example 3", view=PrintedKeyed(signed=False), dealt=racing.dealt).level is Level.NONE
    assert explored("example 3").level >= Level.STRONG


def test_footnote_4_a_record_of_another_group_is_part_of_the_state() -> None:
    """The state of group 1 after i3 is one in which i1 and d2 have happened, too."""
    simulated = simulation("footnote 4")
    assert judged(simulated).level >= Level.STRONG
    (key,) = [key for key, _ in _last(simulated).shown if key.values == (1,)]
    contents = [simulated.judge(key).content((n,)) for n in range(6)]
    assert contents == [None, None, None, (1, 1), None, (1, 1)]


def _last(simulated: RecordSimulation) -> Any:
    graph: Any = explore(simulated)  # type: ignore[arg-type]
    return graph.worlds[next(iter(graph.ends()))]


@dataclass(frozen=True)
class Fields(Printed):
    """Propagates the fields that changed, and no others."""

    signed: bool = False

    def decide(self, part: str, touch: Touch, held: Held) -> Put | None:
        assert touch.came is not None
        if part == "insert" or held.state is None:
            return self.put(touch, held, touch.came.values)
        before = touch.left.values if touch.left else (None,) * len(touch.came.values)
        changed = zip(before, touch.came.values, held.state.data, strict=True)
        return self.put(touch, held, tuple(new if was != new else now for was, new, now in changed))


RACING = ((0,), (1,))  # u1 and u2, each to a manager of its own


def test_section_2_3_table_with_flow_control() -> None:
    assert histories("section 2.3") == {((1, 1, 1), (1, 1, 2), (1, 2, 2))}  # V^FC


def test_section_2_3_table_changed_fields_out_of_order() -> None:
    found = histories("section 2.3", view=Fields(), dealt=RACING)
    assert ((1, 1, 1), (1, 2, 1), (1, 2, 2)) in found  # V^c: converges through an invalid state
    assert explored("section 2.3", view=Fields(), dealt=RACING).level is Level.CONVERGENT


def test_section_2_3_table_whole_records_out_of_order() -> None:
    found = histories("section 2.3", view=PrintedKeyed(signed=False), dealt=RACING)
    assert ((1, 1, 1), (1, 2, 2), (1, 1, 2)) in found  # V^m
    assert explored("section 2.3", view=PrintedKeyed(signed=False), dealt=RACING).level is Level.NONE


LATE = ((1, 4), (1, 5), (1, 2), (1, 5))


def test_section_2_1_3_a_local_minimum_goes_back_in_time() -> None:
    """The base is done before the managers begin: 4, then the 5 of the end, the 2 of before, and 5 again."""
    assert LATE in histories("section 2.1.3", "weak", streams=((0, 1),))
    assert explored("section 2.1.3", "weak").level is Level.WEAK


def test_section_2_1_3_scanning_for_every_new_minimum_is_strong() -> None:
    assert LATE not in histories("section 2.1.3", "strong", streams=((0, 1),))
    assert explored("section 2.1.3", "strong").level is Level.STRONG
    assert explored("section 2.1.3, greatest", "weak").level is Level.WEAK
    assert explored("section 2.1.3, greatest", "strong").level is Level.STRONG


def test_section_2_1_3_as_printed() -> None:
    assert LATE in histories("section 2.1.3", "weak", PrintedMin(), streams=((0, 1),))


def test_section_2_2_a_join_that_reads_the_other_base_goes_back_in_time() -> None:
    late = (None, (1, 1, 9), (1, 1, 8), (1, 1, 9))
    assert late in histories("section 2.2", view=PrintedJoin(), streams=((0, 1),))
    assert explored("section 2.2", view=PrintedJoin(), streams=((0, 1),)).level is Level.WEAK


def test_section_2_2_partners_that_are_kept_make_it_strong() -> None:
    assert explored("section 2.2", crashes=1).level is Level.STRONG


def test_section_2_4_the_example_is_in_order_record_by_record() -> None:
    """The view shows (1, 3) and then (1, 2), which no two states of the base do in this order. But these are
    two records, and levels are said of each."""
    found = simulation("section 2.4", "weak", streams=((0,), (1,)))
    assert judged(found).level >= Level.STRONG


@pytest.mark.parametrize("operation", ["INTERSECT", "EXCEPT"])
def test_section_2_4_looking_at_the_other_base_is_weak_and_counting_strong(operation: str) -> None:
    assert explored(f"looked at twice, {operation}", "weak").level is Level.WEAK
    assert explored(f"looked at twice, {operation}", "strong").level >= Level.STRONG
