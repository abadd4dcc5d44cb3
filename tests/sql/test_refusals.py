"""What is refused: with which code, where, and that no reason of a text is lost."""

from __future__ import annotations

import pickle

import pytest
from small_shop import CATALOG

from stillframe.sql import Reason, Refused, resolve


def reasons(text: str) -> tuple[Reason, ...]:
    with pytest.raises(Refused) as refused:
        resolve(text, CATALOG, "v")
    return refused.value.reasons


ORDERS = "FROM shop.orders"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"SELECT customer_id, id, SUM(amount) AS s\n{ORDERS}\nGROUP BY customer_id", ["1:21 NOT_GROUPED"]),
        (f"SELECT id {ORDERS} HAVING count(*) > 1", ["1:8 NOT_GROUPED"]),
        (f"SELECT id {ORDERS} HAVING id > 1", ["1:35 NOT_GROUPED"]),
        (f"SELECT id {ORDERS} WHERE count(*) > 1", ["1:34 AGGREGATE"]),
        (f"SELECT sum(count(id)) AS s {ORDERS}", ["1:12 AGGREGATE"]),
        (f"SELECT median(id) AS m {ORDERS}", ["1:8 AGGREGATE"]),
        (f"SELECT var_pop(DISTINCT id) AS s {ORDERS}", ["1:8 AGGREGATE"]),
        (f"SELECT grouping(id) AS s {ORDERS} GROUP BY id", ["1:8 GROUPING_SETS"]),
        (f"SELECT sum('1') AS s {ORDERS}", ["1:8 AGGREGATE_TYPE"]),
        (f"SELECT id {ORDERS} GROUP BY 2", ["1:37 BAD_ORDINAL"]),
        (f"SELECT DISTINCT ON (id) id {ORDERS}", ["1:21 SYNTAX"]),
        (f"SELECT count(id, amount) AS c {ORDERS}", ["1:8 AGGREGATE"]),
        (f"SELECT count(DISTINCT *) AS c {ORDERS}", ["1:8 AGGREGATE"]),
        (f"SELECT sum(*) AS c {ORDERS}", ["1:8 AGGREGATE"]),
        (f"SELECT sum(id) AS q, sum(q) AS r {ORDERS}", ["1:22 AGGREGATE"]),
        (f"SELECT sum(id) AS q {ORDERS} HAVING max(q) > 1", ["1:45 AGGREGATE"]),
        (f"SELECT (SELECT 1) AS q, sum(q) AS r {ORDERS}", ["1:25 AGGREGATE"]),
        (f"SELECT id {ORDERS} EXCEPT SELECT id, amount {ORDERS}", ["1:42 COLUMN_COUNT"]),
        (f"SELECT id {ORDERS} SORT BY id", ["1:36 ORDER_BY"]),
        (f"SELECT id {ORDERS} LIMIT 3 OFFSET 1", ["1:34 LIMIT"]),
        (f"(SELECT id {ORDERS}) UNION ALL (SELECT id {ORDERS}) LIMIT 1", ["1:75 LIMIT"]),
        (f"SELECT id FROM (SELECT id {ORDERS} LIMIT 3) t", ["1:50 LIMIT"]),
        (f"SELECT id {ORDERS} ORDER BY id LIMIT id", ["1:46 LIMIT"]),
        (f"SELECT id {ORDERS} ORDER BY 2 LIMIT 1", ["1:37 BAD_ORDINAL"]),
        (f"SELECT DISTINCT id {ORDERS} ORDER BY amount LIMIT 1", ["1:46 ORDER_BY"]),
        (f"SELECT rank() OVER (PARTITION BY id) AS n {ORDERS}", ["1:8 WINDOW"]),
        (f"SELECT lag(id) IGNORE NULLS OVER (ORDER BY id) AS n {ORDERS}", ["1:8 WINDOW"]),
        (f"SELECT sum(id) OVER w AS n {ORDERS} WINDOW v AS (ORDER BY id)", ["1:8 WINDOW"]),
        (f"SELECT sum(id) OVER (ORDER BY id RANGE 2 PRECEDING) AS n {ORDERS}", ["1:40 WINDOW"]),
        (f"SELECT count(DISTINCT id) OVER (PARTITION BY amount) AS n {ORDERS}", ["1:8 WINDOW"]),
        (f"SELECT ntile(0) OVER (ORDER BY id) AS n {ORDERS}", ["1:8 WINDOW"]),
        (f"SELECT rank() OVER (ORDER BY id) AS r, sum(r) OVER () AS n {ORDERS}", ["1:40 WINDOW"]),
        (f"SELECT id {ORDERS} WHERE rank() OVER (ORDER BY id) = 1", ["1:34 WINDOW"]),
        (f"SELECT last_value(id) OVER (ORDER BY amount) AS n {ORDERS}", ["1:8 AMBIGUOUS_ORDER"]),
        (f"SELECT id {ORDERS}, LATERAL (SELECT 1)", ["1:45 LATERAL"]),
        (f"SELECT id {ORDERS} LATERAL VIEW explode(x) t AS y", ["1:41 LATERAL"]),
        (f"SELECT explode(id) AS e {ORDERS}", ["1:8 GENERATOR"]),
        (f"SELECT id {ORDERS} TABLESAMPLE (10 PERCENT)", ["1:41 SAMPLE"]),
        (f"SELECT * {ORDERS} PIVOT (sum(id) FOR customer_id IN (1))", ["1:34 PIVOT"]),
        ("SELECT id FROM range(3)", ["1:16 TABLE_FUNCTION"]),
        (f"SELECT sum((SELECT 1)) AS x {ORDERS}", ["1:20 SUBQUERY"]),
        (f"SELECT sum(id) AS q, sum(q) AS r {ORDERS}", ["1:22 AGGREGATE"]),
        (f"SELECT count(DISTINCT *) AS n {ORDERS}", ["1:8 AGGREGATE"]),
        (f"SELECT max(*) AS n {ORDERS}", ["1:8 AGGREGATE"]),
        (f"SELECT rank() OVER (ORDER BY id) AS r, sum(r) OVER (ORDER BY id) AS z {ORDERS}", ["1:40 WINDOW"]),
        (f"SELECT id {ORDERS} QUALIFY rank() OVER (ORDER BY id) IN (SELECT 1)", ["1:36 WINDOW"]),
        (f"SELECT o.id {ORDERS} o JOIN shop.orders p ON o.id = (SELECT 1)", ["1:69 SUBQUERY"]),
        (f"SELECT id {ORDERS} WHERE id IN (SELECT id, amount {ORDERS})", ["1:48 COLUMN_COUNT"]),
        (f"SELECT id {ORDERS} WHERE EXISTS (SELECT nothing {ORDERS} p)", ["1:49 UNKNOWN_COLUMN"]),
        (f"SELECT (SELECT id, amount {ORDERS}) AS x {ORDERS}", ["1:16 COLUMN_COUNT"]),
        (
            f"SELECT id, (SELECT p.id + max(p.id) {ORDERS} p WHERE p.id < o.id) AS x {ORDERS} o",
            ["1:20 NOT_GROUPED"],
        ),
        (f"SELECT id {ORDERS} WHERE id = ANY (SELECT 1)", ["1:39 SUBQUERY"]),
        (
            f"SELECT id {ORDERS} QUALIFY rank() OVER (ORDER BY id) IN (SELECT id {ORDERS})",
            ["1:36 WINDOW"],
        ),
        ("WITH RECURSIVE t AS (SELECT 1 AS a) SELECT a FROM t", ["1:16 RECURSION"]),
        (f"SELECT id {ORDERS} |> WHERE id > 1", ["1:28 PIPE_SYNTAX"]),
        (f"SELECT id {ORDERS} WHERE id = :p", ["1:40 PARAMETER"]),
        (f"SELECT id {ORDERS} WHERE id = ?", ["1:39 PARAMETER"]),
        (
            f"SELECT now() AS a, id {ORDERS} WHERE placed > current_date",
            ["1:8 NON_DETERMINISTIC", "1:55 NON_DETERMINISTIC"],
        ),
        ("SELECT rand() AS a, uuid() AS b", ["1:8 NON_DETERMINISTIC", "1:21 NON_DETERMINISTIC"]),
        (
            "SELECT current_timestamp() AS a, current_user AS b",
            ["1:8 NON_DETERMINISTIC", "1:34 NON_DETERMINISTIC"],
        ),
        ("SELECT uper('a') AS a", ["1:8 UNSUPPORTED_FUNCTION"]),
        ("SELECT shop.f(1) AS a", ["1:8 UNSUPPORTED_SYNTAX"]),
        ("SELECT iif(true, 1, 2) AS a", ["1:8 UNSUPPORTED_FUNCTION"]),
        ("SELECT TRY_CAST('1' AS INT) AS a", ["1:8 UNSUPPORTED_CAST"]),
        ("SELECT CAST(true AS DATE) AS a", ["1:8 UNSUPPORTED_CAST"]),
        ("SELECT CAST(1 AS FLOAT) AS a", ["1:8 UNSUPPORTED_TYPE"]),
        ("SELECT CAST(1 AS DECIMAL(39,0)) AS a", ["1:26 UNSUPPORTED_TYPE"]),
        ("SELECT CAST(1 AS ARRAY<INT>) AS a", ["1:8 UNSUPPORTED_TYPE"]),
        ("SELECT round(1.5D) AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT round(amount, -1) AS a FROM shop.orders", ["1:8 TYPE_MISMATCH"]),
        ("SELECT round(amount, id) AS a FROM shop.orders", ["1:8 TYPE_MISMATCH"]),
        ("SELECT trunc(placed, 'day') AS a FROM shop.orders", ["1:8 TYPE_MISMATCH"]),
        ("SELECT date_trunc('decade', stamp) AS a FROM shop.orders", ["1:8 TYPE_MISMATCH"]),
        ("SELECT sha2('a', 5) AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT greatest(1) AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT to_date('31.12.2024', 'dd.MM.yyyy') AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT position('a', 'b', 2) AS a", ["1:27 UNSUPPORTED_SYNTAX"]),
        ("SELECT INTERVAL 1 DAY AS a FROM shop.orders", ["1:8 UNSUPPORTED_TYPE"]),
        ("SELECT placed - INTERVAL '1.5' DAY AS a FROM shop.orders", ["1:17 BAD_LITERAL"]),
        ("SELECT placed + INTERVAL 1 MONTH 2 DAYS AS a FROM shop.orders", ["1:17 UNSUPPORTED_TYPE"]),
        ("SELECT placed + INTERVAL '1-2' YEAR TO MONTH AS a FROM shop.orders", ["1:17 BAD_LITERAL"]),
        ("SELECT placed + INTERVAL '9999999999' DAY AS a FROM shop.orders", ["1:17 BAD_LITERAL"]),
        ("SELECT placed + INTERVAL id DAY AS a FROM shop.orders", ["1:17 BAD_LITERAL"]),
        ("SELECT placed + INTERVAL 2 HOURS AS a FROM shop.orders", ["1:8 TYPE_MISMATCH"]),
        ("SELECT '2024-01-31' + INTERVAL 1 DAY AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT INTERVAL 1 DAY - placed AS a FROM shop.orders", ["1:8 UNSUPPORTED_TYPE"]),
        ("SELECT NULL AS a", ["1:8 UNSUPPORTED_TYPE"]),
        ("SELECT 'a' + 1 AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT 'a' || 1 AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT 1 = 'a' AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT upper(1) AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT upper('a', 'b') AS a", ["1:8 TYPE_MISMATCH"]),
        ("SELECT 1 AND true AS a", ["1:8 TYPE_MISMATCH"]),
        (f"SELECT id {ORDERS} WHERE id", ["1:34 TYPE_MISMATCH"]),
        (f"SELECT o.id {ORDERS} o JOIN crm.customers c ON 1", ["1:56 TYPE_MISMATCH"]),
        ("SELECT CASE WHEN 1 THEN 2 END AS a", ["1:18 TYPE_MISMATCH"]),
        (f"SELECT id {ORDERS} UNION ALL SELECT 'x'", ["1:45 TYPE_MISMATCH"]),
        (f"SELECT id {ORDERS} UNION ALL SELECT 1, 2", ["1:45 COLUMN_COUNT"]),
        ("SELECT a FROM (SELECT 1) t(a, b)", ["1:26 COLUMN_COUNT"]),
        (
            f"SELECT nope, amunt {ORDERS} WHERE o.id = 1",
            ["1:8 UNKNOWN_COLUMN", "1:14 UNKNOWN_COLUMN", "1:43 UNKNOWN_COLUMN"],
        ),
        (f"SELECT x.* {ORDERS}", ["1:8 UNKNOWN_COLUMN"]),
        ("SELECT *", ["1:8 UNKNOWN_COLUMN"]),
        (f"SELECT o.id {ORDERS} o JOIN crm.customers c USING (nope)", ["1:37 UNKNOWN_COLUMN"]),
        (f"SELECT id {ORDERS} o, crm.customers c", ["1:8 AMBIGUOUS_COLUMN"]),
        ("SELECT id FROM shop.nope JOIN nix ON true", ["1:16 UNKNOWN_RELATION", "1:31 UNKNOWN_RELATION"]),
        ("SELECT id FROM orders", ["1:16 UNKNOWN_RELATION"]),
        ("SELECT id FROM a.b.c", ["1:16 UNKNOWN_RELATION"]),
        ("SELECT outline FROM shop.places", ["1:8 REFUSED_COLUMN"]),
        ("SELECT * FROM shop.places", ["1:8 REFUSED_COLUMN"]),
        ("SELECT p.* FROM (SELECT * FROM shop.places) p", ["1:25 REFUSED_COLUMN"]),
        ("SELECT a FROM shop.places AS p(a, b)", ["1:15 REFUSED_COLUMN"]),
        (f"SELECT id, amount + 1 {ORDERS}", ["1:12 NEEDS_ALIAS"]),
        (f"SELECT * FROM (SELECT id + 1 {ORDERS}) t", ["1:8 NEEDS_ALIAS"]),
        (f"SELECT id, amount AS ID {ORDERS}", ["1:12 DUPLICATE_COLUMN"]),
        (f"SELECT * {ORDERS} o JOIN crm.customers c ON true", ["1:8 DUPLICATE_COLUMN"]),
        (
            "SELECT 1 AS `a b`, 2 AS __c, 3 AS `x=y`",
            ["1:8 BAD_COLUMN_NAME", "1:20 BAD_COLUMN_NAME", "1:30 BAD_COLUMN_NAME"],
        ),
        ("SELECT DATE '2024-02-30' AS d", ["1:13 BAD_LITERAL"]),
        ("SELECT 128Y AS a, 1.5F AS b", ["1:8 BAD_LITERAL", "1:19 BAD_LITERAL"]),
        (r"SELECT 'a' LIKE '\\a' AS x", ["1:17 BAD_LITERAL"]),
        ("SELECT 'a' LIKE 'b' ESCAPE '!' AS x", ["1:28 UNSUPPORTED_SYNTAX"]),
        ("SELECT 'a' LIKE ANY ('b') AS x", ["1:8 UNSUPPORTED_SYNTAX"]),
        ("SELECT TRIM('x' FROM 'xa') AS x", ["1:13 UNSUPPORTED_SYNTAX"]),
        ("SELECT 1 & 2 AS x", ["1:8 UNSUPPORTED_SYNTAX"]),
        ("SELECT +1 AS x", ["1:9 UNSUPPORTED_SYNTAX"]),
        (f"SELECT * EXCEPT (id) {ORDERS}", ["1:8 UNSUPPORTED_SYNTAX"]),
        ("SELECT true = 1 < 2 AS x", ["1:15 AMBIGUOUS_PRECEDENCE"]),
        ("SELECT true = 1 IN (1) AS x", ["1:15 AMBIGUOUS_PRECEDENCE"]),
        ("SELECT DATE '2024-01-01'::timestamp AS x", ["1:13 AMBIGUOUS_PRECEDENCE"]),
        ("WITH a AS (SELECT 1 AS x), a AS (SELECT 2 AS x) SELECT x FROM a", ["1:28 DUPLICATE_NAME"]),
        ("SELECT id FROM", ["1:11 SYNTAX"]),
        ("SELECT substring('a', , 2) AS x", ["1:23 SYNTAX"]),
        ("SELECT 1 AS a, FROM big_orders", ["1:16 SYNTAX"]),
        ("SELECT , 1 AS a", ["1:8 SYNTAX"]),
        ("SELECT CAST(1 AS INT AS a", ["1:12 SYNTAX"]),
        ("SELECT CASE WHEN true 'x' ELSE 'y' END AS a", ["1:13 SYNTAX"]),
        ("SELECT concat('a' AS ) AS a", ["1:22 SYNTAX"]),
        ("SELECT AS 1 AS a", ["1:8 SYNTAX"]),
        ("SELECT 1 AS 'a'", ["1:13 SYNTAX"]),
        ("SELECT 1 BETWEEN 0 5 AS a", ["1:10 SYNTAX"]),
        ("SELECT id FROM (VALUES (1)) (id)", ["1:30 SYNTAX"]),
        ("SELECT INT '5' AS a", ["1:12 BAD_LITERAL"]),
        ("SELECT 1 AS a; SELECT 2 AS b", ["1:14 SYNTAX"]),
        ("SELECT 'open", ["1:8 SYNTAX"]),
        ("DROP TABLE x", ["1:12 SYNTAX"]),
        ("", ["1:1 SYNTAX"]),
    ],
)
def test_code_and_place(text: str, expected: list[str]) -> None:
    found = reasons(text)
    assert [f"{reason.line}:{reason.column} {reason.code}" for reason in found] == expected
    for reason in found:
        assert reason.message and reason.hint


def test_every_part_is_heard() -> None:
    text = f"WITH a AS (SELECT rand() AS r), b AS (SELECT nope {ORDERS})\nSELECT a.r FROM a, b\nLIMIT 1"
    assert [reason.code for reason in reasons(text)] == ["NON_DETERMINISTIC", "UNKNOWN_COLUMN", "LIMIT"]


def test_an_unknown_column_lists_those_there_are() -> None:
    (reason,) = reasons("SELECT nam FROM crm.customers c")
    assert reason.hint == "there are: c.id, c.Name"
    (reason,) = reasons("SELECT id FROM crm.customer")
    assert reason.message == "no table of source crm 'customer'; there are: Customers"
    (reason,) = reasons("SELECT uper('a') AS a")
    assert "upper" in reason.hint


def test_it_crosses_process_borders() -> None:
    with pytest.raises(Refused) as refused:
        resolve("SELECT rand() AS r", CATALOG, "v")
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (copy.reasons, copy.message, copy.code) == (
        refused.value.reasons,
        refused.value.message,
        "NON_DETERMINISTIC",
    )


def test_depth_is_refused_not_a_crash() -> None:
    deep = "SELECT " + "(" * 3000 + "1" + ")" * 3000 + " AS x"
    assert reasons(deep)[0].code in ("TOO_DEEP", "SYNTAX")
