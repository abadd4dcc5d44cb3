"""Histories made by hand, one for each thing a verdict must tell apart.

Contents are single letters, given per cut; a cut that is not listed has a content of its own.
"""

from __future__ import annotations

import operator

import pytest

from stillframe.consistency import Course, Cut, Judge, Level, Verdict, explain


def judge_of(course: Course, contents: dict[str, list[Cut]]) -> Judge:
    letters = {cut: letter for letter, cuts in contents.items() for cut in cuts}
    return Judge(course, lambda cut: letters.get(cut, f"only {cut}"))


def held(verdict: Verdict) -> str:
    return " ".join(each for each, held in verdict.holds.items() if held)


ALL = "convergence weak pairwise consistency completeness"

# Two sources with one transaction each: a, then b or c, then d.
DIAMOND = judge_of(Course((1, 1)), {"a": [(0, 0)], "b": [(1, 0)], "c": [(0, 1)], "d": [(1, 1)]})
# The same with both transactions one global transaction.
JOINED = judge_of(
    Course((1, 1), (frozenset({(0, 1), (1, 1)}),)),
    {"a": [(0, 0)], "b": [(1, 0)], "c": [(0, 1)], "d": [(1, 1)]},
)


@pytest.mark.parametrize("states", ["abd", "acd"])
def test_each_merge_of_the_sources_orders_is_complete(states: str) -> None:
    verdict = DIAMOND.judge(states)
    assert verdict.level is Level.COMPLETE
    assert held(verdict) == ALL


def test_a_missed_distinct_state_is_strong_and_not_complete() -> None:
    verdict = DIAMOND.judge("ad")
    assert (verdict.level, held(verdict)) == ("strong", "convergence weak pairwise consistency")
    failure = explain(DIAMOND, "ad").failure
    assert failure is not None
    assert (failure.property, failure.state, failure.chain) == ("completeness", 1, ((0, 0),))


def test_a_view_that_starts_late_is_strong_and_not_complete() -> None:
    assert DIAMOND.judge("bd").level == "strong"
    assert "state 0 is not the content of the empty cut (0, 0)" in str(explain(DIAMOND, "bd"))


def test_states_of_two_merges_are_weak_and_not_even_pairwise() -> None:
    verdict = DIAMOND.judge("abcd")
    assert (verdict.level, held(verdict)) == ("weak", "convergence weak")
    assert verdict.breaks == "consistency"
    explanation = explain(DIAMOND, "abcd", breaks="pairwise", sources=("x", "y"))
    assert str(explanation) == (
        "weak; pairwise fails: state 1 is the content of (x 1, y 0) only, state 2 of (x 0, y 1) only, "
        "and no cut of the first lies below one of the second."
    )


def test_a_view_that_goes_back_is_weak() -> None:
    judge = judge_of(Course((2,)), {"a": [(0,)], "b": [(1,)], "c": [(2,)]})
    verdict = judge.judge("abac")
    assert (verdict.level, held(verdict)) == ("weak", "convergence weak")
    failure = explain(judge, "abac", breaks="consistency").failure
    assert failure is not None
    assert (failure.property, failure.state, failure.chain) == ("consistency", 2, ((0,), (1,)))


def test_pairwise_holds_and_no_single_chain_explains_all() -> None:
    # From a, b can only be reached at (2, 0); to c it can only be left from (0, 1).
    contents = {"o": [(0, 0)], "a": [(1, 0)], "b": [(2, 0), (0, 1)], "c": [(1, 1)], "z": [(2, 1)]}
    judge = judge_of(Course((2, 1)), contents)
    for states in ("abc", "oabcz"):
        verdict = judge.judge(states)
        assert verdict.weak and verdict.pairwise and not verdict.consistency
    assert judge.judge("oabcz").level == "weak"
    assert all(judge.judge(pair).consistency for pair in ("ab", "bc", "ac"))
    failure = explain(judge, "abc", breaks="consistency").failure
    assert failure is not None
    assert (failure.state, failure.chain) == (2, ((1, 0), (2, 0)))
    assert "no chain goes on to state 2, which is the content of (1, 1) only" in failure.reason


def test_neighbours_in_order_do_not_make_all_pairs_ordered() -> None:
    judge = judge_of(Course((2, 2)), {"a": [(1, 0)], "b": [(2, 0), (0, 1)], "c": [(0, 2)]})
    assert judge.judge("ab").consistency and judge.judge("bc").consistency
    assert held(judge.judge("abc")) == "weak"


@pytest.mark.parametrize(("lengths", "c"), [((1, 2), (0, 2)), ((2, 1), (2, 0))])
def test_a_later_state_decides_which_cut_a_state_is(lengths: Cut, c: Cut) -> None:
    judge = judge_of(Course(lengths), {"a": [(0, 0)], "b": [(1, 0), (0, 1)], "c": [c], "d": [lengths]})
    assert held(judge.judge("abcd")) == ALL


def test_a_state_that_splits_a_global_transaction_is_weak_and_not_strong() -> None:
    verdict = JOINED.judge("abd")
    assert (verdict.level, held(verdict)) == ("weak", "convergence weak")
    assert held(JOINED.judge("ad")) == ALL
    failure = explain(JOINED, "abd", sources=("x", "y")).failure
    assert failure is not None
    assert (failure.property, failure.state, failure.chain) == ("consistency", 1, ((0, 0),))
    assert failure.reason == (
        "state 1 is the content of no closed cut; (x 1, y 0) splits a global transaction: it holds "
        "transaction 1 of x without transaction 1 of y. The states before it have (x 0, y 0)."
    )


def test_a_split_cut_may_share_its_content_with_a_closed_one() -> None:
    groups = (frozenset({(0, 1), (1, 1)}),)
    judge = judge_of(Course((2, 1), groups), {"a": [(0, 0)], "b": [(1, 0), (1, 1)], "c": [(2, 1)]})
    assert held(judge.judge("abc")) == ALL


def test_a_dependency_forbids_one_merge() -> None:
    course = Course((1, 1), depends=frozenset({((1, 1), (0, 1))}))
    judge = judge_of(course, {"a": [(0, 0)], "b": [(1, 0)], "c": [(0, 1)], "d": [(1, 1)]})
    assert judge.judge("abd").level == "complete"
    assert held(judge.judge("acd")) == "convergence weak"
    assert "holds transaction 1 of source 1 without transaction 1 of source 0, on which that depends" in str(
        explain(judge, "acd")
    )
    assert judge.judge("ad").level == "strong"


def test_dependencies_in_a_circle_are_one_step() -> None:
    course = Course((1, 1), depends=frozenset({((1, 1), (0, 1)), ((0, 1), (1, 1))}))
    judge = judge_of(course, {"a": [(0, 0)], "d": [(1, 1)]})
    assert held(judge.judge("ad")) == ALL


def test_crossing_groups_come_together() -> None:
    crossing = (frozenset({(0, 1), (1, 2)}), frozenset({(0, 2), (1, 1)}))
    judge = judge_of(Course((2, 3), crossing), {"a": [(0, 0)], "b": [(1, 1)], "c": [(2, 2)], "d": [(2, 3)]})
    assert held(judge.judge("acd")) == ALL
    assert held(judge.judge("abcd")) == "convergence weak"
    assert explain(judge, "acd").witnesses["completeness"] == (((0, 0), (2, 2), (2, 3)),)


def test_a_group_around_another_transaction_takes_it_along() -> None:
    judge = judge_of(Course((3,), (frozenset({(0, 1), (0, 3)}),)), {"a": [(0,)], "b": [(3,)]})
    assert held(judge.judge("ab")) == ALL
    assert not judge.judge(["a", "only (2,)", "b"]).pairwise


def test_two_groups_in_a_row_are_two_steps() -> None:
    groups = (frozenset({(0, 1), (1, 1)}), frozenset({(0, 2), (1, 2)}))
    judge = judge_of(Course((2, 2), groups), {"a": [(0, 0)], "b": [(1, 1)], "c": [(2, 2)]})
    assert judge.judge("abc").level == "complete"
    assert judge.judge("ac").level == "strong"


@pytest.mark.parametrize("states", ["aabbdd", "abbbbd", "aaaabd"])
def test_equal_successive_states_count_as_one(states: str) -> None:
    assert held(DIAMOND.judge(states)) == ALL


def test_transactions_that_change_nothing_are_not_missed() -> None:
    judge = judge_of(Course((4,)), {"a": [(0,), (1,)], "b": [(2,), (3,), (4,)]})
    assert held(judge.judge("ab")) == ALL
    assert held(judge.judge("aabbb")) == ALL


def test_a_state_that_comes_again_is_not_the_same_state() -> None:
    judge = judge_of(Course((2,)), {"a": [(0,), (2,)], "b": [(1,)]})
    assert judge.judge("aba").level == "complete"
    assert judge.judge("a").level == "strong"
    assert judge.judge("ababa").level == "weak"


def test_an_order_that_must_show_more_before_its_end_is_not_complete() -> None:
    judge = judge_of(Course((3,)), {"a": [(0,)], "b": [(1,), (3,)], "c": [(2,)]})
    assert judge.judge("abcb").level == "complete"
    assert judge.judge("ab").level == "strong"
    failure = explain(judge, "ab").failure
    assert failure is not None
    assert (failure.property, failure.state, failure.chain) == ("completeness", 1, ((0,), (1,)))


def test_nonsense_in_the_middle_is_convergent_only() -> None:
    verdict = DIAMOND.judge("a?d")
    assert (verdict.level, held(verdict)) == ("convergent", "convergence")
    failure = explain(DIAMOND, "a?d").failure
    assert failure is not None
    assert (failure.property, failure.state, failure.chain) == ("weak", 1, ((0, 0),))


def test_a_view_that_never_converges_has_no_level_whatever_else_holds() -> None:
    verdict = DIAMOND.judge("ab")
    assert (verdict.level, held(verdict)) == ("none", "weak pairwise consistency")
    assert str(explain(DIAMOND, "ab")) == (
        "none; convergence fails: the last state, 1, is not the content of the full cut (1, 1)."
    )


def test_a_view_that_leaves_its_right_end_again_has_not_converged() -> None:
    verdict = DIAMOND.judge("adb")
    assert (verdict.level, held(verdict)) == ("none", "weak")


def test_nonsense_to_the_end_holds_nothing() -> None:
    verdict = DIAMOND.judge("?")
    assert (verdict.level, held(verdict)) == ("none", "")


@pytest.mark.parametrize("lengths", [(), (0,), (0, 0, 0)])
def test_a_course_in_which_nothing_happened(lengths: Cut) -> None:
    judge = Judge(Course(lengths), lambda cut: ("only", cut))
    assert held(judge.judge([("only", lengths)] * 2)) == ALL
    assert held(judge.judge(["else"])) == ""
    assert held(judge.judge(["else", ("only", lengths)])) == "convergence"
    assert explain(judge, [("only", lengths)]).witnesses == {
        "convergence": ((lengths,),),
        "weak": ((lengths,),),
        "pairwise": (),
        "consistency": ((lengths,),),
        "completeness": ((lengths,),),
    }


def test_contents_are_asked_once_and_split_cuts_only_when_needed() -> None:
    asked: list[Cut] = []

    def content(cut: Cut) -> str:
        asked.append(cut)
        return str(cut)

    judge = Judge(Course((1, 1), (frozenset({(0, 1), (1, 1)}),)), content)
    judge.judge(["(0, 0)", "(1, 1)"])
    assert sorted(asked) == [(0, 0), (1, 1)]
    for _ in range(2):
        judge.judge(["(0, 0)", "?", "(1, 1)"])
    assert sorted(asked) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_history_without_states_is_refused() -> None:
    with pytest.raises(ValueError, match="initial state"):
        DIAMOND.judge([])


@pytest.mark.parametrize(
    ("lengths", "groups", "depends"),
    [
        ((-1,), (), ()),
        ((1, 1), ({(0, 1), (1, 2)},), ()),
        ((1, 1), ({(0, 0), (1, 1)},), ()),
        ((1, 1), (), [((2, 1), (0, 1))]),
        ((1, 1), (), [((0, 1), (-1, 1))]),
    ],
)
def test_a_course_that_names_what_did_not_happen_is_refused(lengths: Cut, groups, depends) -> None:
    with pytest.raises(ValueError, match=r"there is no part|negative number"):
        Course(lengths, tuple(map(frozenset, groups)), frozenset(depends))


# Levels.


def test_levels_are_ordered_by_strength_not_by_name() -> None:
    assert sorted(Level, reverse=True) == ["complete", "strong", "weak", "convergent", "none"]
    assert Level.NONE < Level.CONVERGENT < Level.WEAK < Level.STRONG < Level.COMPLETE
    assert Level.WEAK < "complete" and not Level.WEAK >= "complete"
    assert operator.gt("complete", Level.WEAK) and not operator.le("complete", Level.WEAK)
    assert Level.STRONG <= "strong" and Level.STRONG >= "strong" and Level.STRONG == "strong"
    assert min(Level("weak"), Level("convergent")) == "convergent"
    with pytest.raises(ValueError, match="stronger"):
        _ = Level.WEAK < "stronger"


def test_holds_has_the_names_and_the_order_of_the_interface() -> None:
    assert DIAMOND.judge("ad").holds == {
        "convergence": True,
        "weak": True,
        "pairwise": True,
        "consistency": True,
        "completeness": False,
    }
    assert list(DIAMOND.judge("ad").holds) == ALL.split()


def test_the_verdict_on_two_histories_is_what_holds_in_both() -> None:
    assert held(DIAMOND.judge("abd") & DIAMOND.judge("ab")) == "weak pairwise consistency"
    both = DIAMOND.judge("ad") & DIAMOND.judge("abcd")
    assert (both.level, held(both)) == ("weak", "convergence weak")
