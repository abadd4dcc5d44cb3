"""Whatever is done to a text, it resolves or it is refused; nothing else comes out."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_shop import CATALOG

from stillframe.algebra import Project
from stillframe.errors import ProjectError
from stillframe.sql import Refused, parse_views, resolve

TEXTS = [
    "SELECT o.id, c.name, amount * 2 AS a FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id",
    "WITH p(a, b) AS (SELECT id, name FROM crm.customers) SELECT p.a, q.b FROM p, p q WHERE p.a = q.a",
    "SELECT CASE WHEN amount > 1.5 THEN 'x' ELSE upper('y') END AS c, CAST(id AS STRING) AS s FROM shop.orders",
    "SELECT * FROM (SELECT id, total FROM big_orders UNION ALL SELECT 1, 2L) t(x, y) JOIN (VALUES (1)) v(x) USING (x)",
    "SELECT DATE '2024-01-01' + 1 AS d, -128Y AS t, X'1F' AS b, 'it''s' || \"q\" AS s, .5 AS h, NOT 1 IN (2) AS n",
    "SELECT substring(name FROM 2 FOR 3) AS a, TRIM(BOTH ' ' FROM name) AS b, EXTRACT(YEAR FROM DATE '2024-01-01') AS c,"
    " name LIKE 'a\\\\%' AS d, id BETWEEN 1 AND 2 AS e, id IS NOT DISTINCT FROM 3 AS f FROM crm.customers",
]
PIECES = [
    *"()[]{},.;:'\"`*+-/%=<>!|&~?@$#\\ \n0aLé",
    *["SELECT", "FROM", "WHERE", "JOIN", "ON", "USING", "AS", "WITH", "UNION", "ALL", "CASE", "WHEN", "END", "CAST", "NULL", "NOT", "IN", "IS", "LIKE", "OVER", "VALUES"],
    *["LATERAL", "GROUP", "BY", "ORDER", "LIMIT", "DISTINCT", "INTERVAL", "EXTRACT", "TRIM", "DATE", "STRUCT", "MAP", "ARRAY", "FILTER", "ESCAPE", "EXISTS"],
    *[
        "-- x\n",
        "/*",
        "*/",
        "::",
        "||",
        "<=>",
        "->",
        "=>",
        "|>",
        "count(*)",
        "1e400",
        "9" * 40,
        "t.*",
        "x -> x",
        "DECIMAL(1,2)",
    ],
]


def mutated(chance: random.Random) -> str:
    text = chance.choice(TEXTS)
    for _ in range(chance.randint(1, 4)):
        at, to = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        match chance.randint(0, 3):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + chance.randint(1, 8) :]
            case 2:
                text = text[:at] + f" {chance.choice(PIECES)} " + text[at + chance.randint(0, 6) :]
            case 3:
                text = text[:at] + text[at : min(to, at + 30)] + text[at:]
    return text


@pytest.mark.parametrize("seed", range(20))
def test_mutations_resolve_or_are_refused(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        text = mutated(chance)
        try:
            assert isinstance(resolve(text, CATALOG), Project)
        except Refused as refused:
            for reason in refused.reasons:
                assert reason.code.isupper() and reason.message
                assert 1 <= reason.line <= text.count("\n") + 1
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n{text}")


@given(
    st.lists(
        st.sampled_from([*PIECES, "CREATE MATERIALIZED VIEW v ", "WITH (", "algorithm = 'x'", ") AS "]),
        max_size=12,
    )
)
def test_files_parse_or_are_refused(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        for view in parse_views(text):
            assert view.select in text
    except ProjectError as error:
        assert error.message and error.hint
