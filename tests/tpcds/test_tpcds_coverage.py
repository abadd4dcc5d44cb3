"""No query of TPC-DS crashes: each is a view, or is refused with reasons; and docs/tpcds.md says which."""

from __future__ import annotations

from tpcds_coverage import INCREMENTAL, PAGE, REFUSED, answers, page


def test_every_query_has_an_answer() -> None:
    found = answers()
    assert [*found] == list(range(1, 100))
    assert all(
        answer.codes and answer.why and answer.hint for answer in found.values() if answer.kind == REFUSED
    )
    assert all("SYNTAX" not in answer.codes for answer in found.values())
    assert sum(answer.kind == INCREMENTAL for answer in found.values()) >= 96
    assert sum(answer.kind == REFUSED for answer in found.values()) <= 1


def test_the_page_says_what_is_so() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/tpcds/tpcds_coverage.py"
