"""Queries inside expressions, at the corners: what is NULL, what has no row, one inside another. DuckDB says
which rows there are."""

from __future__ import annotations

import duckdb
import pytest

from stillframe.algebra import Bag, Column, Scan, Schema, evaluate, normalize
from stillframe.algebra.narrow import narrow
from stillframe.algebra.types import INT
from stillframe.sources.base import Relation
from stillframe.sql import Names, resolve

KEYED = Schema((Column("id", INT, False), Column("x", INT)), frozenset({frozenset({0})}))
LOOSE = Schema((Column("k", INT), Column("c", INT)))
CATALOG = Names({"s": {"p": Relation("p", KEYED), "u": Relation("u", LOOSE)}}, {})
ROWS = {
    "s.p": [(0, 1), (1, None), (2, 2), (3, 1)],
    "s.u": [(None, 2), (1, 2), (1, 0), (2, None), (2, None)],
}
QUERIES = """
    SELECT id FROM s.p WHERE x NOT IN (SELECT CAST(NULL AS INT) FROM s.u)
    SELECT id FROM s.p WHERE x NOT IN (SELECT 1 + 1 FROM s.u)
    SELECT id FROM s.p WHERE x NOT IN (SELECT 1 + 1 FROM s.u WHERE c > 5)
    SELECT id, x IN (SELECT 1 + 1 FROM s.u) AS z FROM s.p
    SELECT id FROM s.p WHERE id = 0 OR (SELECT max(c) FROM s.u) IN (SELECT x FROM s.p)
    SELECT id, ((SELECT max(c) FROM s.u WHERE k = x) IN (SELECT x FROM s.p)) AS z FROM s.p
    SELECT id, id IN (SELECT c FROM s.u WHERE c >= 0) AS z, count(*) AS n FROM s.p GROUP BY ROLLUP (id)
    SELECT id FROM s.p GROUP BY ROLLUP (id) HAVING id NOT IN (SELECT c FROM s.u WHERE c >= 0)
    SELECT id FROM s.p GROUP BY ROLLUP (id) HAVING id NOT IN (SELECT c FROM s.u WHERE c > 5)
    SELECT id, (SELECT max(c) FROM s.u LIMIT 0) AS m FROM s.p
    SELECT id, (SELECT max(c) FROM s.u LIMIT 1 OFFSET 1) AS m FROM s.p
    SELECT id, (SELECT max(c) FROM s.u QUALIFY row_number() OVER (ORDER BY 1) > 1) AS m FROM s.p
    SELECT id, (SELECT max(c) FROM s.u LIMIT 1) AS m FROM s.p
""".strip().splitlines()


@pytest.mark.parametrize("text", [text.strip() for text in QUERIES])
def test_as_duckdb_has_it(text: str) -> None:
    with duckdb.connect() as duck:
        duck.execute("CREATE SCHEMA s; CREATE TABLE s.p (id INT, x INT); CREATE TABLE s.u (k INT, c INT)")
        for table, rows in ROWS.items():
            duck.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
        expected = sorted(duck.execute(text).fetchall(), key=repr)

    def contents(scan: Scan) -> Bag:
        return Bag.of(ROWS[scan.relation])

    plan = resolve(text, CATALOG)
    for same in (plan, normalize(narrow(normalize(plan)))):
        assert sorted(evaluate(same, contents).rows(), key=repr) == expected
