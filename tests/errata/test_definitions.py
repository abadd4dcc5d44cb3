"""Errata 14 and 17: a formula and a definition."""

from __future__ import annotations

from stillframe.consistency import Course, Judge


def joined(left: set[tuple[int, ...]], right: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    return {a + b[1:] for a in left for b in right if a[-1] == b[0]}


def test_14_add_of_three_relations() -> None:
    e, f, g = {(1, 2)}, {(2, 3)}, {(3, 4)}
    new_e: set[tuple[int, ...]] = {(5, 2)}
    truth = joined(joined(e | new_e, f), g) - joined(joined(e, f), g)
    add_ef = joined(new_e, f)
    add_fg: set[tuple[int, ...]] = set()  # neither F nor G changes
    printed = {a + b[1:] for a in add_ef for b in add_fg}
    by_recursion = joined(add_ef, g)
    assert truth == by_recursion == {(5, 2, 3, 4)}
    assert printed == set()


def test_17_pairs_without_a_chain() -> None:
    """The view of one source is a, b, c, a in turn, and readers see b, a, c: any two of these follow each
    other somewhere, all three nowhere."""
    found = Judge(Course((3,)), lambda cut: "abca"[cut[0]]).judge("bac")
    assert found.pairwise
    assert not found.consistency
