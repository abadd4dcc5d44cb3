"""`complete` over log captures: every transaction of every source gives a state that can be read later."""

from __future__ import annotations

from collections import Counter

import pytest
from history_checks import Recomputed, tables_of
from history_writers import DDL, JOURNAL, Database, Writer
from test_live_history import rows_of

import servers
from shops import Shop
from stillframe.consistency import Course, Judge, Level

TEXT = "SELECT o.id, c.id AS customer, o.amount, c.name FROM pg.orders o JOIN my.customers c ON c.id = o.cust"
PLACES = {"orders": "pg", "customers": "my", "rates": "nowhere"}
AT = {"pg": ("postgres", "orders"), "my": ("mariadb", "customers")}


@pytest.mark.parametrize("algorithm", ["tid", "sc", "c-t-strobe"])
def test_every_transaction_gives_a_state(
    algorithm: str,
    shop: Shop,
    postgres_server: servers.PostgresServer,
    mariadb_server: servers.MariadbServer,
) -> None:
    name = f"complete_{algorithm.replace('-', '_')}"
    urls = {"pg": postgres_server.url(name), "my": mariadb_server.url(name)}
    postgres_server.database(name)
    mariadb_server.database(name)
    writers = {}
    for number, (source, (kind, table)) in enumerate(AT.items()):
        database = Database(kind, urls[source])
        database.run(next(ddl for ddl in DDL if f" {table} " in ddl))
        database.run(JOURNAL.format(text="LONGTEXT" if kind == "mariadb" else "TEXT"))
        writers[source] = Writer(database, [table], 1, seed=number)
    shop.configure(extra="".join(f"  {s}: {{url: '{url}', capture: log}}\n" for s, url in urls.items()))
    options = f"WITH (consistency = 'complete', algorithm = '{algorithm}')"
    shop.views(f"CREATE MATERIALIZED VIEW v {options} AS {TEXT};")
    with shop.open() as warehouse:
        warehouse.refresh()
        assert warehouse.frame().views["v"].level == "complete"
        for _ in range(3):
            for writer in (*writers.values(), *writers.values()):
                writer.transact()
            result = warehouse.maintain()
            assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}
        frames = sorted(frame.number for frame in warehouse.frames())
        states = [frozenset(Counter(rows_of(warehouse, "v", frame)).items()) for frame in frames]
        assert warehouse.verify("v").ok
    order = [
        [entry for _, _, entry in sorted(writer.database.run("SELECT writer, n, entry FROM journal"))]
        for writer in writers.values()
    ]
    recomputed = Recomputed(TEXT, PLACES)
    judge = Judge(
        Course(tuple(map(len, order))),
        lambda cut: recomputed(tables_of([e for done, n in zip(order, cut, strict=True) for e in done[:n]])),
    )
    verdict = judge.judge(states)
    assert verdict.level is Level.COMPLETE, verdict
    for writer in writers.values():
        writer.database.con.close()
