"""Worlds of records over several sessions: the levels that classes reach there, with signatures and with
counters, and that each rule between sessions is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stillframe.consistency import Level
from stillframe.records.classes import served
from stillframe.records.entry import Touch
from stillframe.records.requests import Held
from stillframe.records.signature import Signature
from stillframe.records.store import Key
from stillframe.records.view import NoRecords, counted
from stillframe.simulator.explore import explore
from stillframe.simulator.record_cases import case
from stillframe.simulator.record_levels import Finding, Judged, Variant, judged
from stillframe.simulator.record_session_levels import OURS, offered, row, session_level, session_worlds
from stillframe.simulator.record_sessions import Piece, Sessions, SessionSimulation, SessionWorld, Task

PAGE = Path(__file__).parents[2] / "docs" / "records.md"
LONG = bool(os.environ.get("STILLFRAME_LONG"))
WORLDS, MOST = (15, 20_000) if LONG else (2, 5_000)
SEED = int(os.environ.get("STILLFRAME_SEED", "1"))


def _name(variant: Variant) -> str:
    return f"{variant.view}, {variant.variant}"


def _told(found: Finding) -> str:
    shown = found.worst.schedule if found.worst else ()
    return f"seed {SEED}: {found.scenario}\n" + "\n".join(shown)


@pytest.mark.parametrize("variant", OURS, ids=_name)
def test_signatures_reach_the_claim(variant: Variant) -> None:
    found = session_level(variant, SEED, WORLDS, most=MOST)
    assert found.worlds
    assert found.level >= Level(variant.level), _told(found)


@pytest.mark.parametrize("variant", OURS, ids=_name)
def test_counters_reach_the_claim_where_they_are_offered_and_fail_elsewhere(variant: Variant) -> None:
    found = session_level(variant, SEED, WORLDS, signed=False, most=MOST)
    assert found.worlds
    if offered(variant):
        assert found.level >= Level(variant.level), _told(found)
    else:
        assert found.level is Level.NONE


@pytest.mark.parametrize("variant", OURS, ids=_name)
def test_what_is_not_offered_is_refused(variant: Variant) -> None:
    simulation = next(session_worlds(variant, SEED, 1, signed=True))
    if offered(variant):
        assert not counted(simulation.served).view.signed
    else:
        with pytest.raises(NoRecords, match=r"test_and_set = 'counter'") as refused:
            counted(simulation.served)
        assert refused.value.detail and refused.value.hint


def test_the_page_has_what_exploration_finds() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for variant in OURS:
        found = row(variant, 1, 0 if variant.cases else 1)
        assert found in page, f"{found}: run python -m stillframe.simulator.record_session_levels"


# What is explored

TWO_GO = "two rows that go"


def simulation(
    name: str, kind: type[SessionSimulation] = SessionSimulation, **sessions: Any
) -> SessionSimulation:
    scenario = case(name)
    return kind(scenario, scenario.plan(), served(scenario.plan()), Sessions(**sessions))


@pytest.mark.parametrize("name", [TWO_GO, "a row that comes and goes", "a row that moves on"])
def test_two_deaths_are_survived(name: str) -> None:
    assert judged(simulation(name, deaths=2)).level >= Level.STRONG


def test_worlds_have_what_happens_between_sessions() -> None:
    found = simulation(TWO_GO)
    graph: Any = explore(found)  # type: ignore[arg-type]
    labels = {step.label for world in graph.worlds for step in found.steps(world)}
    for what in (
        "session 1: dies, but for a manager; 2 begins",  # a load is followed by another
        "session 2: dies; 2 begins",  # a piece is repeated
        "session 2: dies, but for a manager; 2 begins",
        "manager 1 of session 1, late, is refused",
        "manager 1 of session 2, late, is refused",
        "session 3: takes U3 to U3",
    ):
        assert what in labels, sorted(labels)
    streams = {task.streams for world in graph.worlds for task in world.tasks if task.piece.session == 2}
    assert streams >= {(0,), (1,), (0, 1, 2)}, "streams are dealt out anew"
    forgotten = [
        world
        for world in graph.worlds
        if world.piece.session == 4 and Key((1,)) not in dict(world.records.store)
    ]
    assert forgotten, "what vanished is forgotten one session later"


# Each rule between sessions is needed: without it, exploration finds a world that goes wrong.


class NoFence(SessionSimulation):
    def fenced(self, task: Task, world: SessionWorld) -> bool:
        return False


class ForgetsAtOnce(SessionSimulation):
    """What vanished is forgotten when its own session begins again."""

    def forgotten(self, key: Key, held: Held, piece: Piece) -> bool:
        assert held.state is not None
        return self.served.vanished(key, held.state)


class TakesWhatIsThere(SessionSimulation):
    """A session that is repeated takes what has come meanwhile, too."""

    def again(self, piece: Piece) -> Iterator[Piece]:
        yield from super().again(piece)
        if not piece.loads and piece.upto < len(self.single.lives):
            yield piece._replace(upto=piece.upto + 1)


def level(name: str, kind: type[SessionSimulation], **sessions: Any) -> Level:
    return judged(simulation(name, kind, **sessions)).level


@pytest.mark.parametrize(
    ("kind", "name"),
    [(NoFence, TWO_GO), (ForgetsAtOnce, TWO_GO), (TakesWhatIsThere, "a row that moves on")],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_a_rule_that_is_missing_is_missed(kind: type[SessionSimulation], name: str) -> None:
    assert level(name, SessionSimulation) >= Level.STRONG
    assert level(name, kind) is Level.NONE


def _numbers_alone(self: Signature, touch: Touch) -> bool:
    return touch.position.number <= dict(self.marks or ()).get(touch.stream, -1)


def _every_session_but_this(self: Signature, touch: Touch) -> bool:
    return touch.position.session != self.session or _numbers_alone(self, touch)


def _this_session_whole(self: Signature, touch: Touch) -> bool:
    return touch.position.session <= self.session


@pytest.mark.parametrize("reflects", [_numbers_alone, _every_session_but_this, _this_session_whole])
def test_signatures_that_mix_sessions_up_are_found(reflects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unseen(self: Signature, touches: Iterable[Touch]) -> tuple[Touch, ...]:
        return tuple(touch for touch in touches if not reflects(self, touch))

    monkeypatch.setattr(Signature, "unseen", unseen)
    assert level(TWO_GO, SessionSimulation, deaths=0) is Level.NONE


def test_counters_rest_on_pieces_that_are_fixed() -> None:
    """A row that is met twice, once before and once after it moved on, stays where it was."""
    scenario = case("a row that moves on")
    text = "SELECT X, K FROM r"
    scenario = replace(scenario, views=tuple((name, text) for name, _ in scenario.views))
    way = counted(served(scenario.plan(), key=(0, 1)))

    def found(kind: type[SessionSimulation]) -> Judged:
        return judged(kind(scenario, scenario.plan(), way, Sessions()))

    assert found(SessionSimulation).level >= Level.STRONG
    assert found(TakesWhatIsThere).level is Level.NONE
