"""Files of views: what is cut out of them, and what is refused."""

from __future__ import annotations

import pytest

from stillframe.errors import ProjectError
from stillframe.sql import parse_views


def test_a_file_of_two_views() -> None:
    text = (
        "-- views; of the shop\n"
        "CREATE MATERIALIZED VIEW facts\n"
        "WITH (consistency = 'strong', refresh_policy='AUTO', Algorithm = 'tid') AS\n"
        "SELECT ';' AS semi, `a;b` /* ; */ FROM shop.orders -- ; here\n"
        ";\n\n"
        "create materialized view `odd name` as select 1 as x"
    )
    facts, odd = parse_views(text, "views/facts.sql")
    assert (facts.name, facts.origin, facts.line, facts.select_line) == ("facts", "views/facts.sql", 2, 3)
    assert dict(facts.options) == {"consistency": "strong", "refresh_policy": "auto", "algorithm": "tid"}
    assert facts.select == "\nSELECT ';' AS semi, `a;b` /* ; */ FROM shop.orders -- ; here\n"
    assert (odd.name, dict(odd.options), odd.select, odd.line) == ("odd name", {}, " select 1 as x", 7)
    assert text[text.index(odd.select) :] == odd.select
    assert (odd.select_line, odd.select_column) == (7, 39)


def test_nothing_is_no_views() -> None:
    assert parse_views("") == parse_views(" -- nothing\n;;") == ()


def test_a_query_may_begin_with_its_own_with() -> None:
    (view,) = parse_views("CREATE MATERIALIZED VIEW v AS WITH x AS (SELECT 1 AS a) SELECT a FROM x;")
    assert view.select == " WITH x AS (SELECT 1 AS a) SELECT a FROM x"


HEAD = "CREATE MATERIALIZED VIEW v "


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", "f:1:8", "OR REPLACE"),
        ("CREATE VIEW v AS SELECT 1", "f:1:8", "CREATE VIEW"),
        ("CREATE TABLE v AS SELECT 1", "f:1:8", "CREATE TABLE"),
        ("\nSELECT 1", "f:2:1", "not SELECT"),
        ("DROP TABLE x", "f:1:1", "not DROP"),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT 1", "f:1:26", "IF NOT EXISTS"),
        ("CREATE MATERIALIZED VIEW a.b AS SELECT 1", "f:1:27", "one part"),
        ("CREATE MATERIALIZED VIEW v (a) AS SELECT 1", "f:1:28", "column list"),
        ("CREATE MATERIALIZED VIEW `a/b` AS SELECT 1", "f:1:26", "cannot be a view's name"),
        ("CREATE MATERIALIZED VIEW __v AS SELECT 1", "f:1:26", "cannot be a view's name"),
        ("CREATE MATERIALIZED VIEW 'v' AS SELECT 1", "f:1:26", "no name"),
        ("CREATE MATERIALIZED VIEW", "f:1:21", "no name"),
        (HEAD + "SELECT 1", "f:1:28", "AS is missing"),
        (HEAD + "AS ;", "f:1:31", "no query"),
        (HEAD + "AS", "f:1:28", "no query"),
        (HEAD + "WITH (consistancy = 'weak') AS SELECT 1", "f:1:34", "unknown option 'consistancy'"),
        (
            HEAD + "WITH (consistency = 'perfect') AS SELECT 1",
            "f:1:48",
            "'perfect' is not a value of consistency",
        ),
        (HEAD + "WITH (refresh_policy = auto) AS SELECT 1", "f:1:51", "not a string"),
        (HEAD + "WITH (algorithm = 'a', algorithm = 'b') AS SELECT 1", "f:1:51", "given twice"),
        (HEAD + "WITH (algorithm 'a') AS SELECT 1", "f:1:44", "= is missing"),
        (HEAD + "WITH (algorithm = 'a' AS SELECT 1", "f:1:50", "comma or )"),
        (HEAD + "AS SELECT 1;\n" + HEAD.replace(" v ", " V ") + "AS SELECT 2", "f:2:26", "defined twice"),
        (HEAD + "AS SELECT 'open", "f:1:38", "ends in the middle"),
    ],
)
def test_refused_with_the_place(text: str, place: str, said: str) -> None:
    with pytest.raises(ProjectError) as refused:
        parse_views(text, "f")
    assert refused.value.detail == place
    assert said in refused.value.message
    assert refused.value.hint


def test_the_allowed_values_are_listed() -> None:
    with pytest.raises(ProjectError) as refused:
        parse_views(HEAD + "WITH (consistency = 'x') AS SELECT 1")
    assert refused.value.hint == "consistency is one of: convergent, weak, strong, complete"
    with pytest.raises(ProjectError) as refused:
        parse_views(HEAD + "WITH (consistancy = 'weak') AS SELECT 1")
    assert "did you mean consistency?" in refused.value.hint
