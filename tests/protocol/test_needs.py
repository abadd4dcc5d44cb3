"""A protocol says what it needs and refuses what does not offer it; and each file says what it rests on."""

from __future__ import annotations

import sys

import pytest

from stillframe.protocol import ALGORITHMS, PUBLISHED, Need, NotApplicable, join_view
from stillframe.protocol.base import OF_SOURCES
from stillframe.protocol.registry import make
from stillframe.simulator import read

EVERY = {**ALGORITHMS, **PUBLISHED}


def view(text: str = "SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B", key: str = "[B]"):
    scenario = read(
        f"""
name: needs
relations:
  r1: {{source: x, columns: [A, B], key: [A], rows: []}}
  r2: {{source: {"y" if "two" in text else "x"}, columns: [B, C], key: {key}, rows: []}}
view: {text.replace(" -- two", "")}
updates: ["insert r1 [1, 1]"]
""",
        "needs",
    )
    return join_view(scenario.plan(), scenario.source_of)


@pytest.mark.parametrize("name", EVERY)
def test_sources_must_offer_what_is_needed(name: str) -> None:
    needed = EVERY[name].needs & OF_SOURCES
    make(name, view(), offered=needed)
    for need in needed:
        with pytest.raises(NotApplicable, match=need) as refused:
            make(name, view(), offered=OF_SOURCES - {need})
        assert refused.value.code == "NEEDS_MORE_OF_SOURCES"
        assert refused.value.hint


@pytest.mark.parametrize("name", EVERY)
def test_views_must_offer_what_is_needed(name: str) -> None:
    needs = EVERY[name].needs
    cases = {
        "NEEDS_ONE_SOURCE": (
            view("SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B -- two"),
            Need.ONE_SOURCE,
        ),
        "NEEDS_KEY": (view(key="[]"), Need.KEYS),
        "KEY_NOT_IN_VIEW": (view("SELECT r2.C FROM r1 JOIN r2 ON r1.B = r2.B"), Need.KEYS_SHOWN),
    }
    for code, (given, need) in cases.items():
        wanted = need in needs or (code == "NEEDS_KEY" and Need.KEYS_SHOWN in needs)
        if not wanted:
            make(name, given)
            continue
        with pytest.raises(NotApplicable) as refused:
            make(name, given)
        assert refused.value.code == code
        assert refused.value.detail and refused.value.hint


def test_a_key_shown_by_an_equal_column_is_shown() -> None:
    assert view("SELECT r1.A, r1.B FROM r1 JOIN r2 ON r1.B = r2.B").shows_keys
    assert not view("SELECT r1.A, r2.C FROM r1 JOIN r2 ON r1.B = r2.B").shows_keys


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_file_opens_with_what_it_assumes_and_promises(name: str) -> None:
    told = sys.modules[ALGORITHMS[name].__module__].__doc__ or ""
    assert "paper" in told
    for word in ("Assumes", "Promises", "Invariant"):
        assert f"\n{word} " in told, f"{name} does not say what it {word.lower()}"
