"""Histories that carry their vectors: the vectors are held to what they claim, and nothing is searched."""

from __future__ import annotations

import pytest

from stillframe.consistency import Course, Cut, Judge, explain

GROUP = frozenset({(0, 2), (1, 1)})
STATES = {
    (0, 0): "a",
    (1, 0): "b",
    (2, 0): "split",
    (0, 1): "split too",
    (1, 1): "b",
    (2, 1): "c",
    (2, 2): "d",
}


def judge() -> Judge:
    return Judge(Course((2, 2), (GROUP,)), lambda cut: STATES.get(cut, f"only {cut}"))


def carried(*pairs: tuple[str, Cut]) -> tuple[list[str], list[Cut]]:
    return [state for state, _ in pairs], [vector for _, vector in pairs]


RIGHT = carried(("a", (0, 0)), ("b", (1, 0)), ("c", (2, 1)), ("d", (2, 2)))


def test_right_vectors_one_step_apart_are_complete() -> None:
    verdict = judge().verify(*RIGHT)
    assert verdict.level == "complete"
    assert explain(judge(), *RIGHT).witnesses["completeness"] == (tuple(RIGHT[1]),)


def test_right_vectors_that_leap_are_strong() -> None:
    history = carried(("a", (0, 0)), ("c", (2, 1)), ("d", (2, 2)))
    assert judge().verify(*history).level == "strong"
    explanation = explain(judge(), *history, sources=("x", "y"))
    assert str(explanation) == (
        "strong; completeness fails: every order of the transactions between (x 0, y 0) and (x 2, y 1) "
        "shows a state other than 0 or 1."
    )
    assert explanation.failure is not None and explanation.failure.state == 1


def test_a_leap_over_transactions_that_change_nothing_is_complete() -> None:
    flat = Judge(Course((3, 3)), lambda cut: cut[0] == 3)
    assert flat.verify([False, True], [(0, 0), (3, 3)]).level == "complete"
    assert flat.verify([False, True], [(1, 2), (3, 2)]).level == "complete"


def test_a_vector_of_another_content_is_not_weak() -> None:
    history = carried(("a", (0, 0)), ("b", (2, 1)), ("d", (2, 2)))
    verdict = judge().verify(*history)
    assert (verdict.level, verdict.weak, verdict.pairwise, verdict.consistency) == (
        "convergent",
        False,
        False,
        False,
    )
    assert judge().judge(history[0]).level == "strong"
    assert str(explain(judge(), *history)) == (
        "convergent; weak fails: state 1 carries (2, 1), which has another content. "
        "The vectors before it are right: (0, 0)."
    )


@pytest.mark.parametrize("vector", [(3, 0), (-1, 0), (0, 0, 0), (0,), ()])
def test_a_vector_that_is_no_cut_is_not_weak_and_its_content_is_never_asked(vector: Cut) -> None:
    def content(cut: Cut) -> str:
        assert cut in {(0, 0), (2, 2)}
        return "x"

    strict = Judge(Course((2, 2)), content)
    verdict = strict.verify(["x", "x"], [(0, 0), vector])
    assert verdict.convergence and not verdict.weak
    assert "which is no cut of this course" in str(explain(strict, ["x", "x"], [(0, 0), vector]))


def test_vectors_that_go_back_are_weak() -> None:
    history = carried(("a", (0, 0)), ("b", (1, 0)), ("a", (0, 0)), ("d", (2, 2)))
    verdict = judge().verify(*history)
    assert (verdict.level, verdict.weak, verdict.consistency) == ("weak", True, False)
    failure = explain(judge(), *history).failure
    assert failure is not None
    assert (failure.state, failure.chain) == (2, ((0, 0), (1, 0)))
    assert failure.reason.startswith(
        "state 2 carries (0, 0), which lacks a transaction of the vector before it"
    )


def test_vectors_that_are_not_ordered_are_weak_though_a_chain_exists() -> None:
    flat = Judge(Course((1, 1)), lambda cut: cut == (1, 1))
    history = ([False, False, True], [(1, 0), (0, 1), (1, 1)])
    assert flat.verify(*history).level == "weak"
    assert flat.judge(history[0]).level == "complete"


def test_a_vector_that_splits_a_global_transaction_is_weak() -> None:
    history = carried(("a", (0, 0)), ("split", (2, 0)), ("d", (2, 2)))
    verdict = judge().verify(*history)
    assert (verdict.level, verdict.weak, verdict.pairwise, verdict.consistency) == (
        "weak",
        True,
        False,
        False,
    )
    assert (
        "splits a global transaction: it holds transaction 2 of source 0 without transaction 1 of source 1"
        in (str(explain(judge(), *history)))
    )


def test_the_right_content_on_a_split_vector_does_not_borrow_a_closed_one() -> None:
    history = carried(("a", (0, 0)), ("b", (1, 1)), ("d", (2, 2)))
    assert judge().verify(*history).level == "weak"
    assert judge().judge(history[0]).level == "strong"


def test_every_vector_of_a_run_of_equal_states_is_held_to_account() -> None:
    flat = Judge(Course((3,)), lambda cut: "ab"[cut[0] > 1])
    assert flat.verify("aabb", [(0,), (1,), (2,), (3,)]).level == "complete"
    assert flat.verify("aabb", [(0,), (2,), (2,), (3,)]).level == "convergent"
    assert flat.verify("aabb", [(1,), (0,), (2,), (3,)]).level == "weak"
    assert flat.verify("aabb", [(1,), (1,), (2,), (2,)]).level == "complete"


def test_a_history_that_stops_early_has_no_level() -> None:
    verdict = judge().verify(*carried(("a", (0, 0)), ("b", (1, 0))))
    assert (verdict.level, verdict.consistency, verdict.completeness) == ("none", True, False)


def test_the_full_content_at_an_early_vector_is_complete_only_if_nothing_else_comes_between() -> None:
    def there_and_back(cut: Cut) -> str:
        return "abcb"[cut[0]]

    history = ["a", "b"], [(0,), (1,)]
    verdict = Judge(Course((3,)), there_and_back).verify(*history)
    assert (verdict.level, verdict.convergence) == ("strong", True)
    failure = explain(Judge(Course((3,)), there_and_back), *history).failure
    assert failure is not None and failure.state == 1
    assert (
        failure.reason == "every order of the transactions between (1,) and (3,) shows a state other than 1."
    )


def test_a_long_history_is_verified_without_a_search() -> None:
    asked: list[Cut] = []

    def content(cut: Cut) -> int:
        asked.append(cut)
        return sum(cut)

    n = 400
    course = Course((n, n, n), tuple(frozenset({(0, k), (1, k)}) for k in range(1, n + 1)))
    vectors = [(k, k, k) for k in range(n + 1)]
    verdict = Judge(course, content).verify([3 * k for k in range(n + 1)], vectors)
    assert verdict.level == "strong"
    assert len(asked) <= n + 4  # the vectors', and those of the first leap


def test_states_without_their_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="2 states with 1 vectors"):
        judge().verify(["a", "b"], [(0, 0)])
    with pytest.raises(ValueError, match="initial state"):
        judge().verify([], [])
