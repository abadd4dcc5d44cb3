"""Log capture for MariaDB: what the binary log tells, what it does not, and how that is told."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from mariadb_world import ME, PASSWORD, LogWorld, account, bag, log_account, rows, run
from mariadb_writer import write

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources import Capture, Keys
from stillframe.sources.mariadb.binlog import MariadbLogSource
from stillframe.sources.mariadb.triggers import MariadbSource

KEYED = "CREATE TABLE t (id INT PRIMARY KEY, code VARCHAR(20) UNIQUE, n INT)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"


@pytest.fixture
def world(mariadb_server: servers.MariadbServer) -> LogWorld:
    return LogWorld(mariadb_server, "t", KEYED, FILL)


@pytest.fixture
def own_server() -> Iterator[servers.MariadbServer]:
    """For what is done to a whole server."""
    with servers.mariadb(*servers.BINLOG) as server:
        yield server


def test_statements_in_the_order_of_their_commits(world: LogWorld) -> None:
    slow = world.connect()
    run(slow, "BEGIN", "INSERT INTO t VALUES (10, 'slow', 1)")
    world.run("UPDATE t SET n = 21 WHERE id = 2", "UPDATE t SET id = id + 20 WHERE id = 1")
    slow.commit()
    world.run(
        "BEGIN", "DELETE FROM t WHERE id = 2", "SAVEPOINT x", "DELETE FROM t", "ROLLBACK TO x", "COMMIT"
    )
    upto = world.source.position(ME, ["t"])
    told = world.source.transactions(["t"], world.position, upto)
    assert [t.rows for t in told] == [{"t": 2}, {"t": 2}, {"t": 1}, {"t": 1}]
    (batch,) = world.source.changes("t", ["id", "n"], world.position, upto, tagged=True)
    ids, _, signs, tags = (c.to_pylist() for c in batch.columns)
    assert (ids, signs) == ([2, 2, 1, 21, 10, 2], [-1, 1, -1, 1, 1, -1])
    assert tags == [told[i].number for i in (0, 0, 1, 1, 2, 3)]
    assert world.source.commit_order and world.source.capture is Capture.LOG
    world.follow()


GONE: list[tuple[str, str, Callable[[LogWorld], None]]] = [
    ("was truncated", "TRUNCATED", lambda w: w.run("TRUNCATE t")),
    ("was truncated", "TRUNCATED", lambda w: w.run("TRUNCATE TABLE `w`.`t`", FILL)),
    ("defined anew", "CAPTURE_GAP", lambda w: w.run("DROP TABLE t", KEYED, FILL)),
    ("defined anew", "CAPTURE_GAP", lambda w: w.run("CREATE OR REPLACE TABLE t LIKE e", FILL)),
    ("defined anew", "CAPTURE_GAP", lambda w: w.run("RENAME TABLE t TO old, e TO t")),
    ("defined anew", "CAPTURE_GAP", lambda w: w.run("ALTER TABLE t RENAME TO old", "ALTER TABLE e RENAME t")),
    ("defined anew", "CAPTURE_GAP", lambda w: w.run("ALTER TABLE t DROP COLUMN n, ADD COLUMN n INT")),
    ("changed its columns", "TABLE_CHANGED", lambda w: w.run("ALTER TABLE t ADD COLUMN extra INT FIRST")),
    ("changed its columns", "TABLE_CHANGED", lambda w: w.run("ALTER TABLE t MODIFY n BIGINT")),
    ("changed its columns", "TABLE_CHANGED", lambda w: w.run("ALTER TABLE t DROP COLUMN n")),
    ("is gone", "CAPTURE_GAP", lambda w: w.run("DROP TABLE t")),
    (
        "cannot be captured any more",
        "CASCADE_NOT_CAPTURED",
        lambda w: w.run(
            "CREATE TABLE p (id INT PRIMARY KEY)", "INSERT INTO p VALUES (10), (20), (30)",
            "ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES p (id) ON DELETE SET NULL",
        ),
    ),
    (
        "written by an XA transaction",
        "CAPTURE_GAP",
        lambda w: w.run("XA START 'x'", "DELETE FROM t", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"),
    ),
    ("lack columns", "CAPTURE_GAP", lambda w: w.run("SET binlog_row_image = MINIMAL", "UPDATE t SET n = 5")),
    (
        "as a statement, not as rows",
        "CAPTURE_GAP",
        lambda w: w.run("SET binlog_format = STATEMENT", "UPDATE t SET n = 5 WHERE id = 1"),
    ),
]  # fmt: skip


@pytest.mark.parametrize("message, code, happens", GONE)
def test_gaps(world: LogWorld, message: str, code: str, happens: Callable[[LogWorld], None]) -> None:
    world.run("CREATE TABLE e LIKE t", "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (3, 'c', 30)")
    world.follow()
    happens(world)
    with pytest.raises(CaptureGap, match=message) as gap:
        world.source.check(world.position, ["t"])
    assert gap.value.code == code and "refresh --full" in gap.value.hint
    for asked in (
        lambda: world.state(world.position),
        lambda: world.source.position(ME, ["t"]),
        lambda: world.source.behind(["t"], world.position),
    ):
        with pytest.raises(CaptureGap):
            asked()
    if code != "CASCADE_NOT_CAPTURED" and message != "is gone":
        old = world.position
        world.position = world.source.attach(ME, ["t"])
        world.columns = list(world.source.describe()["t"].schema.names)
        world.rows = world.present()
        world.run(
            "SET binlog_row_image = FULL, binlog_format = ROW", "INSERT IGNORE INTO t (id) VALUES (70), (71)"
        )
        world.follow()
        with pytest.raises(CaptureGap, match="installed later"):
            world.source.check(old, ["t"])


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE u LIKE t", "INSERT INTO u SELECT * FROM t", "TRUNCATE u", "DROP TABLE u"],
        ["CREATE TABLE c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES t (id))", "TRUNCATE c"],
        ["ALTER TABLE t ADD COLUMN extra INT DEFAULT 5", "UPDATE t SET extra = 6"],
        ["ALTER TABLE t ADD INDEX (n)", "DROP INDEX code ON t", "CREATE INDEX i ON t (n)"],
        ["ALTER TABLE t COMMENT 'RENAME, DROP COLUMN n'", "OPTIMIZE TABLE t", "ALTER TABLE t FORCE"],
        ["CREATE TRIGGER mine AFTER INSERT ON t FOR EACH ROW SET @x = 1", "DROP TRIGGER mine"],
        ["CREATE TEMPORARY TABLE t (id INT)", "INSERT INTO t VALUES (1)", "DROP TEMPORARY TABLE t"],
        ["CREATE VIEW v AS SELECT * FROM t", "CREATE OR REPLACE VIEW v AS SELECT id FROM t", "DROP VIEW v"],
        ["CREATE DATABASE IF NOT EXISTS elsewhere", "CREATE OR REPLACE TABLE elsewhere.t (id INT)"],
        ["FLUSH LOGS", "INSERT INTO t VALUES (8, 'h', 1)", "FLUSH LOGS"],
        ["SET GLOBAL binlog_checksum = NONE", "INSERT INTO t VALUES (8, 'h', 1)",
         "SET GLOBAL binlog_checksum = CRC32"],
        ["SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
         "INSERT INTO t SELECT seq + 100, seq, 7 FROM seq_1_to_300", "SET GLOBAL log_bin_compress = OFF"],
    ],
)  # fmt: skip
def test_no_gaps(world: LogWorld, statements: list[str]) -> None:
    world.run(*statements, "INSERT INTO t (id, code, n) VALUES (70, 'x', 1)")
    world.follow()
    world.run("UPDATE t SET n = n + 1")
    world.follow()
    world.source.acknowledge(ME, world.position)
    assert world.follow() == Bag()


def test_groups_that_end_in_rollback(world: LogWorld) -> None:
    """A transaction that wrote to a table without transactions is in the log though it was rolled back."""
    world.run("CREATE TABLE m (id INT) ENGINE=MyISAM")
    world.run("BEGIN", "INSERT INTO t VALUES (50, NULL, 1)", "INSERT INTO m VALUES (1)", "ROLLBACK")
    world.run("BEGIN", "INSERT INTO m VALUES (2)", "INSERT INTO t VALUES (51, NULL, 1)", "COMMIT")
    assert world.follow() == Bag({(51, None, 1): 1})
    assert (
        sum(t.rows.get("t", 0) for t in world.source.transactions(["t"], world.position, world.position)) == 0
    )


def test_a_purged_log_is_a_gap(world: LogWorld) -> None:
    world.run("FLUSH LOGS", "INSERT INTO t VALUES (9, 'i', 1)", "FLUSH LOGS")
    ((last, *_),) = rows(world.con, "SHOW MASTER STATUS")
    for _ in range(50):  # the server keeps what it would need itself after a crash, for a moment
        world.run(f"PURGE BINARY LOGS TO '{last}'")
        if len(rows(world.con, "SHOW BINARY LOGS")) == 1:
            break
        time.sleep(0.1)
    with pytest.raises(CaptureGap, match="purged"):
        world.source.check(world.position, ["t"])
    with pytest.raises(CaptureGap, match="purged"):
        world.source.position(ME, ["t"])
    world.position = world.source.attach(ME, ["t"])
    world.rows = world.present()
    world.run("DELETE FROM t WHERE id = 9")
    world.follow()


@pytest.mark.parametrize("writes", [0, 1, 30])
def test_a_log_begun_anew_is_a_gap(own_server: servers.MariadbServer, writes: int) -> None:
    world = LogWorld(own_server, "t", KEYED, FILL)
    world.follow()
    world.run("RESET MASTER", *(f"INSERT INTO t VALUES ({i + 100}, NULL, 1)" for i in range(writes)))
    with pytest.raises(CaptureGap, match=r"restored from an older copy|purged"):
        world.source.check(world.position, ["t"])


def test_a_server_that_was_killed_goes_on(own_server: servers.MariadbServer) -> None:
    durable = "SET GLOBAL innodb_flush_log_at_trx_commit = 1, GLOBAL sync_binlog = 1"
    run(own_server.connect(), durable)
    world = LogWorld(own_server, "t", KEYED, FILL)
    world.run("INSERT INTO t VALUES (4, 'd', 40)")
    world.follow()
    world.run("INSERT INTO t VALUES (5, 'e', 50)")
    own_server.stop(kill=True)
    own_server.start()
    run(own_server.connect(), durable)
    world.con = world.connect()
    world.run("INSERT INTO t VALUES (6, 'f', 60)")
    world.follow()


def test_another_server_in_its_place(world: LogWorld, own_server: servers.MariadbServer) -> None:
    other = LogWorld(own_server, "t", KEYED, FILL)
    with pytest.raises(CaptureGap, match="another database"):
        other.source.check(world.position, ["t"])


def test_marks_of_global_transactions(world: LogWorld) -> None:
    world.run(
        "BEGIN",
        "INSERT INTO _stillframe_global (id, parts) VALUES ('g', 3)",
        "DELETE FROM t WHERE id = 1",
        "COMMIT",
    )
    world.run(
        "INSERT INTO t VALUES (9, NULL, 9)", "INSERT INTO _stillframe_global (id, parts) VALUES ('ü', 2)"
    )
    upto = world.source.position(ME, ["t"])
    told = world.source.transactions(["t"], world.position, upto)
    assert [(t.rows, t.group, t.parts) for t in told] == [({"t": 1}, "g", 3), ({"t": 1}, "", 0), ({}, "ü", 2)]
    part = world.source.without(world.position, upto, [told[0].number])
    assert bag(world.source.state("t", ["id"], part)) == Bag({(n,): 1 for n in (1, 2, 3, 9)})
    assert bag(world.source.changes("t", ["id"], part, upto)) == Bag({(1,): -1})
    assert [t.group for t in world.source.transactions(["t"], part, upto)] == ["g"]
    world.source.acknowledge(ME, part)
    assert bag(world.source.changes("t", ["id"], world.position, part)) == Bag({(9,): 1})


def test_keys_and_ranges_of_the_past(mariadb_server: servers.MariadbServer) -> None:
    """A row that left or came into what is asked for counts on one side only."""
    world = LogWorld(
        mariadb_server,
        "t",
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9) COLLATE utf8mb4_general_ci, KEY (s))",
        "INSERT INTO t SELECT seq, char(97 + seq % 5) FROM seq_1_to_40",
    )
    world.run(
        "UPDATE t SET s = upper(s) WHERE id < 20",
        "DELETE FROM t WHERE id % 7 = 0",
        "UPDATE t SET id = id + 100 WHERE s = 'b'",
    )
    for column, values, kind in (("s", ["a", "B"], pa.string()), ("id", [3, 7, 14, 21, 101], pa.int32())):
        found = bag(
            world.source.state("t", ["id", "s"], world.position, Keys(column, pa.array(values, kind)))
        )
        place = world.columns.index(column)
        wanted = {row: 1 for row, _ in world.rows.items() if row[place] in values}
        assert found.is_state and all(found[row] == 1 for row in wanted)
        assert all(world.rows[row] == count for row, count in found.items())
    total = Bag()
    for within in world.source.ranges("t", 9):
        part = bag(world.source.state("t", ["s", "id"], world.position, within=within))
        assert part.is_state
        total += part
    assert total == Bag({(row[1], row[0]): 1 for row, _ in world.rows.items()})


def test_detach_leaves_no_trace_and_spares_triggers(world: LogWorld) -> None:
    triggers = MariadbSource("s", world.source.url)
    start = triggers.attach("other", ["t"])
    world.run(
        "BEGIN",
        "INSERT INTO _stillframe_global (id, parts) VALUES ('g', 2)",
        "DELETE FROM t WHERE id = 2",
        "COMMIT",
    )
    world.follow()
    world.source.acknowledge(ME, world.position)
    world.source.detach(ME)
    upto = triggers.position("other", ["t"])
    assert [(t.rows, t.group) for t in triggers.transactions(["t"], start, upto)] == [({"t": 1}, "g")]
    world.position, world.rows = world.source.attach(ME, ["t"]), world.present()
    triggers.detach("other")
    world.run(
        "BEGIN",
        "INSERT INTO _stillframe_global (id, parts) VALUES ('h', 2)",
        "DELETE FROM t WHERE id = 3",
        "COMMIT",
    )
    upto = world.source.position(ME, ["t"])
    assert [t.group for t in world.source.transactions(["t"], world.position, upto)] == ["h"]
    world.source.detach(ME)
    assert rows(world.con, "SHOW TABLES") == [("t",)]


def test_rights_and_settings(mariadb_server: servers.MariadbServer) -> None:
    world = LogWorld(mariadb_server, "t", KEYED)
    world.source.detach(ME)

    def missing() -> str:
        return "; ".join(next(m.missing for m in world.source.methods() if m.capture is Capture.LOG))

    assert missing() == ""
    account(mariadb_server, "w")
    assert "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.*" in missing()
    with pytest.raises(SourceError) as refused:
        world.source.attach(ME, ["t"])
    assert refused.value.code == "CAPTURE_UNAVAILABLE" and PASSWORD not in str(refused.value)
    log_account(mariadb_server, "w")
    con = mariadb_server.connect()
    for setting, usual, word in (
        ("binlog_row_image = MINIMAL", "FULL", "binlog_row_image"),
        ("binlog_format = MIXED", "ROW", "binlog_format"),
    ):
        run(con, f"SET GLOBAL {setting}")
        try:
            assert word in missing()
            with pytest.raises(SourceError, match="binary log"):
                world.source.attach(ME, ["t"])
        finally:
            run(con, f"SET GLOBAL {setting.split()[0]} = {usual}")
    world.run("CREATE TABLE h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
    with pytest.raises(SourceError, match="cannot be captured") as refused:
        world.source.attach(ME, ["h"])
    assert "versioned" in refused.value.detail


WRITERS, TRANSACTIONS, SEED = 4, 100, 20240301


def test_positions_under_writers(mariadb_server: servers.MariadbServer) -> None:
    mariadb_server.database("c")
    con = mariadb_server.connect("c")
    for table in "ab":
        run(con, f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, who INT, n INT, KEY (n))")
    run(con, "CREATE TABLE journal (who INT, i INT)")
    source = MariadbLogSource("s", log_account(mariadb_server, "c"))
    tables = {"a": ["id", "who", "n"], "b": ["id", "who", "n"], "journal": ["who", "i"]}
    positions = [source.attach(ME, list(tables))]
    spawn = multiprocessing.get_context("spawn")
    writers = [
        spawn.Process(target=write, args=(mariadb_server.port, SEED + i, TRANSACTIONS))
        for i in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    seen = [{t: bag(source.state(t, columns, positions[0])) for t, columns in tables.items()}]
    going = True
    while going:
        going = any(writer.is_alive() for writer in writers)
        position = source.position(ME, list(tables))
        if position != positions[-1]:
            positions.append(position)
            seen.append({t: bag(source.state(t, columns, position)) for t, columns in tables.items()})
    assert all(writer.exitcode == 0 for writer in writers)
    assert len(positions) > 4, f"seed {SEED}"
    told = 0
    order: dict[int, list[int]] = {}
    for i in range(1, len(positions)):
        before, after = positions[i - 1 : i + 1]
        committed = source.transactions(list(tables), before, after)
        told += len(committed)
        for table, columns in tables.items():
            assert seen[i - 1][table] + bag(source.changes(table, columns, before, after)) == seen[i][table]
        assert sum(row[2] * count for t in "ab" for row, count in seen[i][t].items()) == 0, f"seed {SEED}"
        for batch in source.changes("journal", ["who", "i"], before, after):
            for who, line in zip(*(c.to_pylist() for c in batch.columns[:2]), strict=True):
                order.setdefault(who, []).append(line)
    print(f"seed {SEED}: {len(positions)} positions, {told} transactions")
    assert all(lines == sorted(lines) for lines in order.values())
    assert told == sum(map(len, order.values())) == len(rows(con, "SELECT * FROM journal"))
    for table, columns in tables.items():
        assert seen[-1][table] == Bag.of(rows(con, f"SELECT {', '.join(columns)} FROM {table}"))
        assert bag(source.state(table, columns, positions[1])) == seen[1][table]
