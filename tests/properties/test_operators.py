"""Every operator, in many views of one warehouse, under random changes: each frame equals what DuckDB makes
of the texts, and the last one what the engine does.

What the changes did to groups is counted; a campaign in which something never happened proves nothing.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import duckdb
import pytest

from shops import Shop
from stillframe.runtime import Warehouse

pytestmark = pytest.mark.engine

FRAMES = 10 if os.environ.get("STILLFRAME_LONG") == "1" else 5
SEED = int(os.environ.get("STILLFRAME_SEED", "11"))
ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, town TEXT, amount INTEGER, customer INTEGER);"
PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, town TEXT);"
TEXTS = {
    "by_town": "SELECT town, count(*) AS n, count(amount) AS known, sum(amount) AS total, min(amount) AS"
    " least, max(amount) AS most, avg(amount) AS mean, count(DISTINCT amount) AS different FROM"
    " a.orders GROUP BY town",
    "busy": "SELECT town, sum(amount) AS total FROM a.orders GROUP BY town HAVING count(*) > 1",
    "everything": "SELECT count(*) AS n, sum(amount) AS total, max(town) AS last FROM a.orders",
    "exact": "SELECT customer, sum(CAST(amount AS DECIMAL(10,2))) AS total, bool_and(amount > 2) AS"
    " large, bool_or(town = 'p') AS some FROM a.orders GROUP BY customer",
    "filtered": "SELECT town, count(*) FILTER (WHERE amount > 4) AS n, sum(amount) FILTER (WHERE customer ="
    " 1) AS s, count_if(amount < 5) AS few FROM a.orders GROUP BY town",
    "computed": "SELECT upper(town) AS u, amount % 2 AS odd, sum(amount) * 2 + 1 AS s FROM a.orders GROUP"
    " BY 1, 2",
    "of_join": "SELECT p.name, sum(o.amount) AS total FROM a.orders o JOIN b.people p ON p.id = o.customer"
    " WHERE o.amount > 1 GROUP BY p.name",
    "rolled_up": "SELECT town, customer, sum(amount) AS total FROM a.orders GROUP BY ROLLUP (town, customer)",
    "sets": "SELECT town, customer, count(*) AS n FROM a.orders"
    " GROUP BY GROUPING SETS ((town), (customer), ())",
    "cubed": "SELECT customer, town, count(*) AS n FROM a.orders GROUP BY customer, CUBE (town)",
    "towns": "SELECT DISTINCT town FROM a.orders",
    "all_towns": "SELECT town FROM a.orders UNION SELECT town FROM b.people",
    "only_orders": "SELECT town FROM a.orders EXCEPT SELECT town FROM b.people",
    "more_orders": "SELECT town FROM a.orders EXCEPT ALL SELECT town FROM b.people",
    "with_people": "SELECT o.id, p.name FROM a.orders o LEFT JOIN b.people p ON p.id = o.customer",
    "with_rich": "SELECT o.id, p.name FROM a.orders o LEFT JOIN b.people p ON p.id = o.customer AND o.amount"
    " > 4",
    "of_people": "SELECT o.id, p.name FROM a.orders o RIGHT JOIN b.people p ON p.id = o.customer",
    "either": "SELECT o.id, p.id AS person FROM a.orders o FULL JOIN b.people p ON p.town = o.town",
    "buyers": "SELECT p.id, p.name FROM b.people p LEFT SEMI JOIN a.orders o ON o.customer = p.id",
    "idle": "SELECT p.id, p.name FROM b.people p LEFT ANTI JOIN a.orders o ON o.customer = p.id AND"
    " o.amount > 1",
    "active": "SELECT p.id FROM b.people p WHERE p.town IS NOT NULL"
    " AND EXISTS (SELECT 1 FROM a.orders o WHERE o.customer = p.id AND o.amount > 1)",
    "quiet": "SELECT p.id FROM b.people p WHERE NOT EXISTS"
    " (SELECT * FROM a.orders o WHERE o.customer = p.id AND o.town = p.town)",
    "from_here": "SELECT id FROM a.orders WHERE town IN (SELECT town FROM b.people WHERE name < 'c')",
    "not_there": "SELECT id FROM a.orders WHERE town NOT IN (SELECT town FROM b.people)",
    "not_them": "SELECT id FROM a.orders WHERE id NOT IN (SELECT id FROM b.people) AND amount > 1",
    "in_busy": "SELECT id FROM a.orders WHERE town IN"
    " (SELECT town FROM a.orders GROUP BY town HAVING count(*) > 2)",
    "nested": "SELECT id FROM b.people p WHERE EXISTS (SELECT 1 FROM a.orders o WHERE o.customer = p.id"
    " AND o.town NOT IN (SELECT q.town FROM b.people q WHERE q.name = 'ann'))",
    "same_names": "SELECT q.x, q.y FROM (SELECT DISTINCT o.id, p.id, o.town AS `a town` FROM a.orders o"
    " JOIN b.people p ON p.id = o.customer) AS q(x, y, z)",
    "joined_and_met": "SELECT o.id, p.name FROM a.orders o JOIN b.people p ON p.id = o.customer"
    " WHERE EXISTS (SELECT 1 FROM a.orders x WHERE x.town = o.town AND x.id <> o.id)",
    "spent": "SELECT p.name, count(o.id) AS n, sum(o.amount) AS total FROM b.people p LEFT JOIN a.orders"
    " o ON o.customer = p.id GROUP BY p.name",
    "chain": "SELECT o.id, p.name, q.id AS other FROM a.orders o LEFT JOIN b.people p ON p.id ="
    " o.customer LEFT JOIN b.people q ON q.town = p.town",
    "sizes": "SELECT n, count(*) AS towns FROM (SELECT town, count(*) AS n FROM a.orders GROUP BY town)"
    " t GROUP BY n",
    "share": "SELECT o.id, o.amount, t.total FROM a.orders o JOIN (SELECT town, sum(amount) AS total"
    " FROM a.orders GROUP BY town) t ON t.town = o.town",
    "common": "SELECT town FROM a.orders INTERSECT SELECT town FROM b.people",
    "common_counted": "SELECT town FROM a.orders INTERSECT ALL SELECT town FROM b.people",
    "above": "SELECT max(towns) AS most FROM sizes",
    "above_mean": "SELECT id, amount FROM a.orders WHERE amount > (SELECT avg(amount) FROM a.orders)",
    "above_own_mean": "SELECT o.id FROM a.orders o WHERE o.amount >"
    " (SELECT avg(i.amount) FROM a.orders i WHERE i.town = o.town)",
    "how_many": "SELECT p.id, (SELECT count(*) FROM a.orders o WHERE o.customer = p.id) AS n,"
    " (SELECT max(o.amount) + p.id FROM a.orders o WHERE o.customer < p.id) AS most FROM b.people p",
    "looked_up": "SELECT o.id, (SELECT p.name FROM b.people p WHERE p.id = o.customer) AS name"
    " FROM a.orders o",
    "either_way": "SELECT p.id FROM b.people p WHERE p.name = 'ann' OR EXISTS"
    " (SELECT 1 FROM a.orders o WHERE o.customer = p.id AND o.amount > 4)",
    "in_or_not": "SELECT o.id, o.town IN (SELECT p.town FROM b.people p WHERE p.id <> o.customer) AS known"
    " FROM a.orders o",
    "big_towns": "SELECT town, sum(amount) AS total FROM a.orders GROUP BY town"
    " HAVING sum(amount) > (SELECT avg(amount) * 2 FROM a.orders)",
    "grouped_asked": "SELECT o.customer, count(*) AS n, (SELECT min(p.name) FROM b.people p WHERE p.id ="
    " o.customer) AS name FROM a.orders o GROUP BY o.customer",
    "ranked": "SELECT id, town, row_number() OVER (PARTITION BY town ORDER BY amount DESC, id) AS place,"
    " rank() OVER (PARTITION BY town ORDER BY amount) AS r, dense_rank() OVER (PARTITION BY town ORDER BY"
    " amount DESC NULLS FIRST) AS d FROM a.orders",
    "neighbours": "SELECT id, lag(amount) OVER w AS before, lead(amount, 2, -1) OVER w AS after,"
    " first_value(id) OVER w AS first, last_value(id) OVER w AS last FROM a.orders"
    " WINDOW w AS (PARTITION BY customer ORDER BY id)",
    "running": "SELECT id, sum(amount) OVER (PARTITION BY town ORDER BY id) AS so_far, count(*) OVER"
    " (PARTITION BY town) AS n, min(amount) OVER (PARTITION BY town ORDER BY id ROWS BETWEEN 1 PRECEDING"
    " AND 1 FOLLOWING) AS near, sum(amount) OVER (PARTITION BY customer ORDER BY amount) AS with_peers"
    " FROM a.orders",
    "tiles": "SELECT id, ntile(2) OVER (PARTITION BY town ORDER BY id) AS half, percent_rank() OVER"
    " (PARTITION BY town ORDER BY amount) AS p, cume_dist() OVER (PARTITION BY town ORDER BY amount) AS c,"
    " nth_value(id, 2) OVER (PARTITION BY town ORDER BY id) AS second FROM a.orders",
    "best": "SELECT id, town, amount FROM a.orders QUALIFY row_number() OVER"
    " (PARTITION BY town ORDER BY amount DESC, id) <= 2",
    "best_derived": "SELECT id, name FROM (SELECT o.id, p.name, row_number() OVER (PARTITION BY p.name"
    " ORDER BY o.amount, o.id) AS rn FROM a.orders o JOIN b.people p ON p.id = o.customer) t WHERE rn = 1",
    "top": "SELECT id, amount FROM a.orders ORDER BY amount DESC NULLS LAST, id LIMIT 3",
    "next_page": "SELECT id, town FROM a.orders ORDER BY town, id LIMIT 2 OFFSET 2",
    "top_groups": "SELECT town, sum(amount) AS total FROM a.orders GROUP BY town"
    " ORDER BY 2 DESC, town LIMIT 2",
    "top_union": "SELECT town FROM a.orders UNION SELECT town FROM b.people ORDER BY town LIMIT 3",
    "top_distinct": "SELECT DISTINCT amount FROM a.orders ORDER BY amount DESC LIMIT 2",
    "shares": "SELECT town, sum(amount) AS total, rank() OVER (PARTITION BY count(*) ORDER BY sum(amount))"
    " AS r, sum(count(*)) OVER (PARTITION BY sum(amount) > 5) AS n FROM a.orders GROUP BY town",
    "flagged": "SELECT town, customer, grouping(town) + grouping(customer) AS level, grouping_id(town,"
    " customer) AS number, count(*) AS n FROM a.orders GROUP BY CUBE (town, customer)",
    "different": "SELECT town, count(DISTINCT customer) AS c, sum(DISTINCT amount) AS s, count(DISTINCT"
    " amount) AS a, count(*) AS n, max(amount) AS m FROM a.orders GROUP BY town",
    "all_different": "SELECT count(DISTINCT customer) AS c, sum(amount) AS s FROM a.orders LIMIT 5",
    "spread": "SELECT town, var_pop(amount) AS v, stddev(amount) AS d, sum(CAST(amount AS DOUBLE)) AS s,"
    " avg(CAST(amount AS DOUBLE)) AS m FROM a.orders GROUP BY town",
    "either_using": "SELECT id, o.town AS mine, p.town AS theirs FROM a.orders o"
    " FULL JOIN b.people p USING (id)",
    "right_using": "SELECT town, o.id, p.id AS person FROM a.orders o RIGHT JOIN b.people p USING (town)",
    "rolled_in": "SELECT id, id IN (SELECT p.id FROM b.people p) AS known, count(*) AS n FROM a.orders"
    " GROUP BY ROLLUP (id)",
    "none_of_it": "SELECT id, (SELECT max(amount) FROM a.orders LIMIT 0) AS m FROM b.people",
    "asked_twice": "SELECT id FROM a.orders WHERE id = 1 OR (SELECT max(p.id) FROM b.people p) IN"
    " (SELECT q.customer FROM a.orders q)",
    "never_in": "SELECT id FROM a.orders WHERE amount NOT IN (SELECT NULL FROM b.people)",
    "ordered": "SELECT id FROM a.orders ORDER BY amount",
    "latest": "SELECT p.id, t.id AS last FROM b.people p LEFT JOIN (SELECT id, customer FROM a.orders"
    " QUALIFY row_number() OVER (PARTITION BY customer ORDER BY id DESC) = 1) t ON t.customer = p.id",
    "one_set": "SELECT town, sum(amount) AS total FROM a.orders GROUP BY GROUPING SETS ((town))",
}
# Where DuckDB says it otherwise, or means something else: its count_if of no value is NULL.
IN_DUCKDB = {
    "LEFT SEMI JOIN": "SEMI JOIN",
    "LEFT ANTI JOIN": "ANTI JOIN",
    "`a town`": '"a town"',
    "count_if(amount < 5)": "count(*) FILTER (WHERE amount < 5)",
}
MUST_HAPPEN = (
    *("group born", "group emptied", "group returned", "key moved", "NULL key"),
    *("duplicate added", "duplicate removed"),
)


class Writer:
    """Random transactions at two databases; what they did to the groups by town is counted."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.random, self.met = shop, Random(seed), Counter[str]()
        self.gone: set[Any] = set()

    def towns(self) -> Counter[Any]:
        con = sqlite3.connect(self.shop.root / "a.db")
        found = Counter(town for (town,) in con.execute("SELECT town FROM orders"))
        con.close()
        return found

    def transaction(self) -> None:
        before = self.towns()
        pick, choice = self.random.randrange, self.random.choice
        made = []
        for _ in range(pick(1, 4)):
            key, town = pick(14), choice(["NULL", "'p'", "'q'", "'r'", "'s'"])
            amount, customer = choice(["NULL", "1", "2", "5", "9"]), pick(5)
            made.append(
                choice(
                    [
                        f"INSERT OR REPLACE INTO orders VALUES ({key}, {town}, {amount}, {customer})",
                        f"DELETE FROM orders WHERE id = {key}",
                        f"DELETE FROM orders WHERE town IS {town}",
                        f"UPDATE orders SET town = {town} WHERE id % 4 = {key % 4}",
                        f"UPDATE orders SET amount = {amount} WHERE id = {key}",
                    ]
                )
            )
            self.met["key moved"] += "SET town" in made[-1]
        self.shop.write("a", *made)
        key, name, town = pick(5), choice(["ann", "bob", "p"]), choice(["NULL", "'p'", "'q'", "'t'"])
        self.shop.write(
            "b",
            choice(
                [
                    f"INSERT OR REPLACE INTO people VALUES ({key}, '{name}', {town})",
                    f"DELETE FROM people WHERE id = {key}",
                ]
            ),
        )
        self._count(before, self.towns())

    def _count(self, before: Counter[Any], after: Counter[Any]) -> None:
        for town in {*before, *after}:
            then, now = before[town], after[town]
            self.met["group born"] += not then and town not in self.gone
            self.met["group emptied"] += not now
            self.met["group returned"] += not then and town in self.gone
            self.met["NULL key"] += town is None and then != now
            self.met["duplicate added"] += 0 < then < now
            self.met["duplicate removed"] += 0 < now < then
            if not now:
                self.gone.add(town)


def shown(warehouse: Warehouse, view: str) -> Counter[tuple[Any, ...]]:
    table = warehouse.arrow(view)
    return counted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def counted(rows: Iterable[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Of floats, which are added up in any order, as many digits as all orders have in common."""
    return Counter(tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows)


def views_on(engine: str) -> dict[str, str]:
    """All on Sail; on Apache Spark some of each kind, unless there is time."""
    few = engine == "spark" and FRAMES < 10
    chosen = {*list(TEXTS)[::4], "spent", "either", "sizes", "above"}
    return {name: text for name, text in TEXTS.items() if name in chosen or not few}


def by_duckdb(shop: Shop, texts: dict[str, str]) -> dict[str, Counter[tuple[Any, ...]]]:
    con = duckdb.connect()
    con.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    for source, table, ddl in (("a", "orders", ORDERS), ("b", "people", PEOPLE)):
        con.execute(f"CREATE SCHEMA {source}")
        con.execute(ddl.replace(f"TABLE {table}", f"TABLE {source}.{table}"))
        rows = sqlite3.connect(shop.root / f"{source}.db").execute(f"SELECT * FROM {table}").fetchall()
        if rows:
            con.executemany(f"INSERT INTO {source}.{table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    found = {}
    for name, text in texts.items():
        for spark, duck in IN_DUCKDB.items():
            text = text.replace(spark, duck)
        con.execute(f"CREATE VIEW {name} AS {text}")
        found[name] = counted(con.execute(f"SELECT * FROM {name}").fetchall())
    return found


@pytest.mark.slow_on_spark
def test_every_frame_is_what_the_texts_say(
    make_shop: Callable[[str], Shop], engine_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts, frames = views_on(engine_name), FRAMES if engine_name == "sail" else FRAMES // 2
    shop = make_shop("operators")
    shop.source("a", ORDERS)
    shop.source("b", PEOPLE)
    shop.views("\n".join(f"CREATE MATERIALIZED VIEW {name} AS {text};" for name, text in texts.items()))
    writer = Writer(shop, SEED)
    modes: Counter[str] = Counter()
    with shop.open() as warehouse:
        for _ in range(4):
            writer.transaction()
        warehouse.refresh()
        for frame in range(frames):
            for _ in range(3):
                writer.transaction()
            result = warehouse.maintain()
            assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}
            modes.update(outcome.mode for outcome in result.outcomes.values())
            anew = {name: o.reason for name, o in result.outcomes.items() if o.mode == "full"}
            assert not anew, f"recomputed, seed {SEED}, frame {frame}"
            assert set(result.outcomes) == set(texts)
            expected = by_duckdb(shop, texts)
            for name in texts:
                assert shown(warehouse, name) == expected[name], f"{name}, seed {SEED}, frame {frame}"
        wrong = {n: (v.sample, str(v.error)) for n, v in warehouse.verify_all().items() if not v.ok}
        assert not wrong, f"seed {SEED}, last frame"
    with capsys.disabled():
        print(f"\n{len(texts)} views, {frames} frames, seed {SEED}: {dict(modes)}; {dict(writer.met)}")
    assert modes["incremental"] > len(texts)
    assert frames < FRAMES or all(writer.met[what] for what in MUST_HAPPEN), writer.met
