"""Trigger capture for MariaDB, kind of statement by kind of statement."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pymysql
import pytest
from mariadb_world import ME, World, bag, rows, run

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap

KEYED = "CREATE TABLE t (id INT PRIMARY KEY, code VARCHAR(20) UNIQUE, n INT)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"


@pytest.fixture
def world(mariadb_server: servers.MariadbServer) -> World:
    return World(mariadb_server, "t", KEYED, FILL)


def test_plain_statements_are_signed_rows_in_order(world: World) -> None:
    world.run(
        "INSERT INTO t VALUES (4, 'd', 40)", "UPDATE t SET n = 21 WHERE id = 2", "DELETE FROM t WHERE id = 1"
    )
    upto = world.source.position(ME, ["t"])
    (batch,) = world.source.changes("t", ["id", "n"], world.position, upto)
    signed = list(zip(*(c.to_pylist() for c in batch.columns), strict=True))
    assert signed == [(4, 40, 1), (2, 20, -1), (2, 21, 1), (1, 10, -1)]
    world.follow()


OTHER = "CREATE TABLE u (id INT PRIMARY KEY, n INT)"


@pytest.mark.parametrize(
    "statements, change",
    [
        (["REPLACE INTO t VALUES (1, 'z', 1)"], {(1, "a", 10): -1, (1, "z", 1): 1}),
        (["REPLACE INTO t VALUES (1, 'b', 1)"], {(1, "a", 10): -1, (2, "b", 20): -1, (1, "b", 1): 1}),
        (["REPLACE INTO t VALUES (1, 'a', 10)"], {}),
        (["INSERT IGNORE INTO t VALUES (1, 'q', 0), (5, 'e', 50)"], {(5, "e", 50): 1}),
        (
            ["INSERT INTO t VALUES (1, 'q', 7) ON DUPLICATE KEY UPDATE n = VALUES(n)"],
            {(1, "a", 10): -1, (1, "a", 7): 1},
        ),
        (["INSERT INTO t VALUES (1, 'q', 7) ON DUPLICATE KEY UPDATE n = n"], {}),
        (["UPDATE t SET id = id + 10 ORDER BY id DESC"], {
            (1, "a", 10): -1, (2, "b", 20): -1, (3, "c", 30): -1,
            (11, "a", 10): 1, (12, "b", 20): 1, (13, "c", 30): 1,
        }),
        (
            [OTHER, "INSERT INTO u VALUES (1, 5)", "UPDATE t JOIN u USING (id) SET t.n = u.n, u.n = 0"],
            {(1, "a", 10): -1, (1, "a", 5): 1},
        ),
        (
            [OTHER, "INSERT INTO u VALUES (1, 5)", "DELETE t, u FROM t JOIN u USING (id)"],
            {(1, "a", 10): -1},
        ),
        (["DELETE FROM t"], {(1, "a", 10): -1, (2, "b", 20): -1, (3, "c", 30): -1}),
        (["DELETE FROM t ORDER BY id DESC LIMIT 1"], {(3, "c", 30): -1}),
        (["INSERT INTO t SELECT id + 5, NULL, n FROM t WHERE id < 3"], {(6, None, 10): 1, (7, None, 20): 1}),
        (["BEGIN", "DELETE FROM t", "ROLLBACK"], {}),
        (
            [
                *("BEGIN", "DELETE FROM t WHERE id = 1", "SAVEPOINT x", "DELETE FROM t"),
                *("ROLLBACK TO x", "COMMIT"),
            ],
            {(1, "a", 10): -1},
        ),
        (["LOCK TABLES t WRITE", "DELETE FROM t WHERE id = 1", "UNLOCK TABLES"], {(1, "a", 10): -1}),
        (
            ["XA START 'x'", "DELETE FROM t WHERE id = 1", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"],
            {(1, "a", 10): -1},
        ),
        (["PREPARE p FROM 'DELETE FROM t WHERE id = 1'", "EXECUTE p"], {(1, "a", 10): -1}),
        (["INSERT INTO t (id) VALUES (9) RETURNING id"], {(9, None, None): 1}),
    ],
)  # fmt: skip
def test_statements(world: World, statements: list[str], change: dict[tuple[object, ...], int]) -> None:
    world.run(*statements)
    assert world.follow() == Bag(change)


@pytest.mark.parametrize("how, left", [("", "a"), ("IGNORE", "a"), ("REPLACE", "z")])
def test_load_data(world: World, tmp_path: Path, how: str, left: str) -> None:
    """The server reads the file itself."""
    file = world.server.folder / "data" / "load.csv"
    first = "" if not how else "1\tz\t1\n"
    file.write_text(first + "7\tg\t70\n8\th\t80\n", encoding="utf-8")
    file.chmod(0o644)
    world.run(f"LOAD DATA INFILE '{file}' {how} INTO TABLE t")
    change = world.follow()
    assert change[(7, "g", 70)] == change[(8, "h", 80)] == 1
    assert change[(1, "z", 1)] == (left == "z")


def test_a_load_without_unique_checks_into_an_empty_table(mariadb_server: servers.MariadbServer) -> None:
    """InnoDB buffers such rows, of the table and of whatever its triggers write to, if that is empty."""
    world = World(mariadb_server, "t", KEYED)
    world.run("SET unique_checks = 0, foreign_key_checks = 0", "BEGIN")
    world.run("INSERT INTO t SELECT seq, seq, seq FROM seq_1_to_3000")
    other = world.connect()
    run(other, "CREATE TABLE u (id INT)")
    before = world.source.position(ME, ["t"])
    world.run("COMMIT")
    assert world.source.position(ME, ["t"]) != before
    world.follow()


NOTICED = "SELECT LAST_INSERT_ID(), ROW_COUNT(), @@warning_count, @@in_transaction"


def what_writers_see(con: pymysql.Connection[Any]) -> list[object]:
    seen: list[object] = []
    with con.cursor() as cursor:
        for statement in (
            "INSERT INTO t (n) VALUES (1), (2), (3)",
            "UPDATE t SET n = n + 1 WHERE id > 1",
            "INSERT IGNORE INTO t VALUES (1, 1)",
            "REPLACE INTO t VALUES (1, 7)",
            "BEGIN",
            "INSERT INTO t (n) VALUES (9)",
            "DELETE FROM t WHERE id < 3",
            "COMMIT",
        ):
            seen.append((cursor.execute(statement), cursor.lastrowid))
            seen += rows(con, NOTICED) + rows(con, "SHOW WARNINGS")
    return seen


def test_writers_notice_nothing(mariadb_server: servers.MariadbServer) -> None:
    table = "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT)"
    mariadb_server.database("plain")
    plain = mariadb_server.connect("plain")
    run(plain, table)
    world = World(mariadb_server, "t", table)
    assert what_writers_see(world.connect()) == what_writers_see(mariadb_server.connect("plain"))
    world.follow()


def test_tables_locked_by_their_writers(mariadb_server: servers.MariadbServer) -> None:
    """MariaDB refuses a statement under LOCK TABLES whose triggers name a table that others name too."""
    world = World(mariadb_server, "t", KEYED, FILL, OTHER)
    world.source.attach(ME, ["t", "u"])
    for n in range(5):
        con = world.connect()
        run(con, "LOCK TABLES t WRITE, u WRITE, _stillframe_global WRITE")
        run(con, f"INSERT INTO t VALUES ({n + 10}, NULL, 1)", f"INSERT INTO u VALUES ({n}, 1)")
        run(con, f"INSERT INTO _stillframe_global (id, parts) VALUES ('{n}', 1)", "UPDATE t SET n = n + 1")
        run(con, "UPDATE t JOIN u USING (id) SET t.n = 1, u.n = 2", "UNLOCK TABLES", "LOCK TABLES t WRITE")
        run(con, f"REPLACE INTO t VALUES ({n}, NULL, 5)", "DELETE FROM t WHERE id > 12", "UNLOCK TABLES")
    world.follow()


def test_a_number_that_was_struck_out_is_not_used(world: World) -> None:
    """As if the number had been taken, and struck out before the row was written."""
    world.run("INSERT INTO t VALUES (4, 'd', 40)")
    ((last,),) = rows(world.con, "SELECT max(seq) FROM _stillframe_log")
    struck = [last + 1, last + 2, last + 4]
    values = ", ".join(f"({n}, 0, 0)" for n in struck)
    world.run(f"INSERT INTO _stillframe_log (seq, relation, sign) VALUES {values}")
    world.run(*(f"INSERT INTO t VALUES ({n + 100}, NULL, 1)" for n in (1, 2, 3)))
    numbers = [n for (n,) in rows(world.con, "SELECT seq FROM _stillframe_log WHERE relation = 1")]
    assert numbers == [last, last + 3, last + 5, last + 6]
    assert world.follow() == Bag({(4, "d", 40): 1} | {(n + 100, None, 1): 1 for n in (1, 2, 3)})


def test_a_dropped_column_stops_no_writer_and_is_told(world: World) -> None:
    world.run("ALTER TABLE t DROP COLUMN n", "INSERT INTO t VALUES (4, 'd')", "DELETE FROM t WHERE id = 1")
    assert len(rows(world.con, "SELECT * FROM t")) == 3
    with pytest.raises(CaptureGap, match="column 'n' of table 't' changed"):
        world.source.position(ME, ["t"])
    world.run("ALTER TABLE t ADD COLUMN n INT")
    with pytest.raises(CaptureGap, match="without firing a trigger"):
        world.source.position(ME, ["t"])


def test_a_column_dropped_and_added_while_nobody_wrote_is_told(world: World) -> None:
    world.run("ALTER TABLE t DROP COLUMN n, ADD COLUMN n INT")
    with pytest.raises(CaptureGap, match="without firing a trigger"):
        world.source.position(ME, ["t"])


def test_triggers_of_the_user_are_honoured(mariadb_server: servers.MariadbServer) -> None:
    world = World(
        mariadb_server,
        "t",
        KEYED,
        FILL,
        "CREATE TABLE audit (id INT AUTO_INCREMENT PRIMARY KEY, n INT)",
        "CREATE TRIGGER older BEFORE INSERT ON t FOR EACH ROW SET NEW.n = NEW.n * 2",
        "CREATE TRIGGER oldest AFTER INSERT ON t FOR EACH ROW INSERT INTO audit (n) VALUES (NEW.n)",
    )
    world.run(
        "CREATE TRIGGER younger BEFORE UPDATE ON t FOR EACH ROW SET NEW.code = 'x'",
        "CREATE TRIGGER youngest AFTER UPDATE ON t FOR EACH ROW INSERT INTO audit (n) VALUES (NEW.n)",
        "INSERT INTO t VALUES (4, 'd', 4)",
        "UPDATE t SET n = 5 WHERE id = 4",
    )
    assert world.follow() == Bag({(4, "x", 5): 1})
    assert rows(world.con, "SELECT n FROM audit") == [(8,), (5,)]


def test_generated_columns(mariadb_server: servers.MariadbServer) -> None:
    world = World(
        mariadb_server,
        "t",
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, v INT AS (n + 1) VIRTUAL, s INT AS (n * 2) STORED,"
        " at TIMESTAMP NULL, fleeting INT AS (n + connection_id()) VIRTUAL,"
        " zoned DATE AS (date(at)) VIRTUAL)",
    )
    assert world.columns == ["id", "n", "v", "s", "at"]
    assert set(world.source.describe()["t"].refused) == {"fleeting", "zoned"}
    world.columns.remove("at")
    world.run("INSERT INTO t (id, n) VALUES (1, 1), (2, NULL)", "UPDATE t SET n = 5 WHERE id = 1")
    assert world.follow() == Bag({(1, 5, 6, 10): 1, (2, None, None, None): 1})


def test_timestamps_in_the_hour_that_comes_twice(mariadb_server: servers.MariadbServer) -> None:
    """The writer's time zone has the hour twice; in the log there are two instants all the same."""
    with mariadb_server.connect() as con:
        tables = rows(con, "SELECT count(*) FROM mysql.time_zone_name WHERE Name = 'Europe/Berlin'")
        if tables == [(0,)]:
            run(
                con,
                "INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (9001, 'N')",
                "INSERT INTO mysql.time_zone_name VALUES ('Europe/Berlin', 9001)",
                "INSERT INTO mysql.time_zone_transition_type"
                " VALUES (9001, 0, 7200, 1, 'S'), (9001, 1, 3600, 0, 'W')",
                "INSERT INTO mysql.time_zone_transition VALUES (9001, 1711846800, 0), (9001, 1729990800, 1)",
            )
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP(6) NULL)")
    world.run(
        "SET time_zone = '+00:00'",
        "INSERT INTO t VALUES (1, '2024-10-27 00:30:00'), (2, '2024-10-27 01:30:00')",
        "SET time_zone = 'Europe/Berlin'",
    )
    assert len(set(rows(world.con, "SELECT CAST(at AS CHAR) FROM t"))) == 1
    world.run("UPDATE t SET id = id + 10 ORDER BY id DESC")
    upto = world.source.position(ME, ["t"])
    change = bag(world.source.changes("t", ["id", "at"], world.position, upto))
    assert change == Bag(
        {
            (11, datetime(2024, 10, 27, 0, 30, tzinfo=UTC)): 1,
            (12, datetime(2024, 10, 27, 1, 30, tzinfo=UTC)): 1,
        }
    )


def test_what_the_writer_may_store_the_log_can_hold(mariadb_server: servers.MariadbServer) -> None:
    """Triggers run in a mode of their own: a value that the writer's mode let pass is logged as it is."""
    world = World(
        mariadb_server,
        "t",
        "CREATE TABLE t (id INT PRIMARY KEY, d DATE, e ENUM('a', 'b'), c CHAR(4), j JSON CHECK (id < 100))",
    )
    world.run("SET sql_mode = 'ALLOW_INVALID_DATES'")
    world.run("INSERT INTO t VALUES (1, '2024-02-31', 'x', 'ab  ', '[1]'), (2, '0000-00-00', 'b', '', NULL)")
    world.run(
        "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,STRICT_ALL_TABLES,NO_ZERO_DATE'", "UPDATE t SET id = id + 5"
    )
    logged = rows(
        world.con, "SELECT CAST(v1 AS CHAR), v2 FROM _stillframe_rows_1 WHERE seq BETWEEN 1 AND 1e6"
    )
    assert sorted(set(logged)) == [("0000-00-00", "b"), ("2024-02-31", "")]
    world.columns = ["id", "e", "c", "j"]
    world.run("SET sql_mode = ''")
    world.follow()


def test_a_transaction_counts_once_wherever_it_wrote(mariadb_server: servers.MariadbServer) -> None:
    world = World(mariadb_server, "t", KEYED, FILL, OTHER)
    world.position = world.source.attach(ME, ["t", "u"])
    world.run("BEGIN", "INSERT INTO u VALUES (1, 1)", "UPDATE t SET n = 0 WHERE id = 1", "COMMIT")
    world.run("INSERT INTO u VALUES (2, 1)", "BEGIN", "ROLLBACK")
    world.run(
        "BEGIN",
        "INSERT INTO _stillframe_global (id, parts) VALUES ('g', 3)",
        "DELETE FROM u WHERE id = 1",
        "COMMIT",
    )
    world.run("INSERT INTO _stillframe_global (id, parts) VALUES ('only a mark', 2)")
    upto = world.source.position(ME, ["t", "u"])
    told = world.source.transactions(["t", "u"], world.position, upto)
    assert [(t.rows, t.group, t.parts) for t in told] == [
        ({"u": 1, "t": 2}, "", 0),
        ({"u": 1}, "", 0),
        ({"u": 1}, "g", 3),
        ({}, "only a mark", 2),
    ]
    part = world.source.without(world.position, upto, [told[0].number, told[2].number])
    assert bag(world.source.state("t", ["id", "n"], part)) == Bag({(1, 10): 1, (2, 20): 1, (3, 30): 1})
    assert bag(world.source.state("u", ["id", "n"], part)) == Bag({(2, 1): 1})
    assert bag(world.source.changes("u", ["id"], part, upto)) == Bag()
    tagged = list(world.source.changes("u", ["id"], world.position, upto, tagged=True))
    assert [c.to_pylist() for c in tagged[0].columns] == [
        [1, 2, 1],
        [1, 1, -1],
        [told[0].number, told[1].number, told[2].number],
    ]
    assert [t.group for t in world.source.transactions(["t", "u"], part, upto)] == ["", "g"]
