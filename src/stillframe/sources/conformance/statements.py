"""Capture is complete and exact, whatever one writer does, statement by statement."""

from __future__ import annotations

from stillframe.algebra.bag import Bag
from stillframe.sources.conformance.follow import follow, same
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import INTEGER, TEXT, Feature, Refused, Table, World

ITEMS = Table("items", (("id", INTEGER), ("n", INTEGER), ("note", TEXT)), key=("id",))
ENTRIES = Table("entries", (("item", INTEGER), ("n", INTEGER), ("note", TEXT)))


def tables_of(world: World) -> tuple[Table, ...]:
    """Both, where a source can have both."""
    return (ITEMS, ENTRIES) if world.has(Feature.SEVERAL_RELATIONS) else (ITEMS,)


@promise()
def check_every_statement_is_captured(world: World) -> None:
    at = follow(world, ITEMS)
    for what, statement in (
        ("an insert", world.insert(ITEMS, (1, 10, "a"))),
        ("an insert of many rows", world.insert(ITEMS, *((i, i * 10, f"row {i}") for i in range(2, 40)))),
        ("an insert of a query", "INSERT INTO items (id, n, note) SELECT id + 1000, n, note FROM items"),
        ("an update of one row", "UPDATE items SET n = 11 WHERE id = 1"),
        ("an update of many rows", "UPDATE items SET n = n + 1, note = 'x' WHERE id > 20 AND id < 1020"),
        ("an update of no row", "UPDATE items SET n = 0 WHERE id = 999"),
        ("an update to NULL", "UPDATE items SET note = NULL, n = NULL WHERE id < 5"),
        ("an update from NULL", "UPDATE items SET note = 'was NULL' WHERE note IS NULL"),
        ("a delete of one row", "DELETE FROM items WHERE id = 7"),
        ("a delete of no row", "DELETE FROM items WHERE id = 999"),
        ("a row that comes back", world.insert(ITEMS, (7, 70, "row 7"))),
        ("a delete of all rows", "DELETE FROM items"),
        ("nothing", "DELETE FROM items"),
        ("a new beginning", world.insert(ITEMS, (1, 10, "a"))),
    ):
        world.run(statement)
        at.step(what)
    at.finish()


@promise(Feature.SEVERAL_RELATIONS)
def check_transactions_of_several_tables(world: World) -> None:
    at = follow(world, ITEMS, ENTRIES)
    world.transact(
        world.insert(ITEMS, (1, 1, "a"), (2, 2, "b"), (3, 3, "c")),
        world.insert(ENTRIES, (1, 1, "a"), (1, 1, "a"), (2, 5, "b")),
        "UPDATE items SET n = n + 100 WHERE id < 3",
        "DELETE FROM entries WHERE item = 2",
    )
    at.step("a transaction on two tables")
    world.transact("DELETE FROM items", "UPDATE entries SET n = 0")
    at.step("another transaction on two tables")
    at.finish()


@promise()
def check_transactions_of_many_statements(world: World) -> None:
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 2, "b"), (3, 3, "c")))
    world.transact(
        world.insert(ITEMS, (4, 4, "d")),
        "UPDATE items SET n = 40 WHERE id = 4",
        "UPDATE items SET n = 41 WHERE id = 4",
        "DELETE FROM items WHERE id = 4",
        "DELETE FROM items WHERE id = 1",
        world.insert(ITEMS, (1, 0, "again")),
        "UPDATE items SET note = 'twice' WHERE id = 1",
    )
    at.step("a transaction that changes its own rows")
    world.transact("UPDATE items SET n = n + 1", "UPDATE items SET n = n - 1")
    made = at.step("a transaction that takes back what it does")
    same(made["items"], Bag(), "changes that cancel")
    at.finish()


@promise()
def check_rolled_back_is_never_seen(world: World) -> None:
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 2, "b")))
    at.step("an insert")
    writer = world.own
    writer.begin()
    writer.execute(world.insert(ITEMS, (3, 3, "gone")))
    writer.execute("UPDATE items SET n = 0")
    writer.execute("DELETE FROM items WHERE id = 1")
    writer.rollback()
    at.step("a rollback")
    world.run("UPDATE items SET n = 5 WHERE id = 2")
    at.step("an update after a rollback")
    writer.begin()
    writer.execute("DELETE FROM items")
    writer.rollback()
    world.transact(world.insert(ITEMS, (4, 4, "kept")))
    at.step("a commit after a rollback")
    at.finish()


@promise()
def check_savepoints(world: World) -> None:
    at = follow(world, ITEMS)
    writer = world.own
    writer.begin()
    writer.execute(world.insert(ITEMS, (1, 1, "kept")))
    writer.execute("SAVEPOINT one")
    writer.execute(world.insert(ITEMS, (2, 2, "gone")))
    writer.execute("UPDATE items SET n = 0")
    writer.execute("ROLLBACK TO SAVEPOINT one")
    writer.execute(world.insert(ITEMS, (3, 3, "kept")))
    writer.execute("SAVEPOINT two")
    writer.execute(world.insert(ITEMS, (4, 4, "kept")))
    writer.execute("RELEASE SAVEPOINT two")
    writer.commit()
    at.step("a savepoint taken back and one released")
    writer.begin()
    writer.execute("SAVEPOINT outer_one")
    writer.execute("UPDATE items SET n = n + 10 WHERE id = 1")
    writer.execute("SAVEPOINT inner_one")
    writer.execute("DELETE FROM items WHERE id = 3")
    writer.execute("RELEASE SAVEPOINT inner_one")
    writer.execute("ROLLBACK TO SAVEPOINT outer_one")
    writer.execute("UPDATE items SET n = n + 1 WHERE id = 4")
    writer.commit()
    at.step("a released savepoint inside one taken back")
    writer.begin()
    writer.execute("SAVEPOINT again")
    for n in range(5):
        writer.execute(world.insert(ITEMS, (50 + n, n, "try")))
        if n != 3:
            writer.execute("ROLLBACK TO SAVEPOINT again")
    writer.execute("ROLLBACK TO SAVEPOINT again")
    writer.execute("DELETE FROM items WHERE id = 1")
    writer.commit()
    at.step("one savepoint taken back many times")
    at.finish()


@promise()
def check_refused_statements_leave_nothing(world: World) -> None:
    """A statement that breaks a constraint half-way."""
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (5, 5, "there")))
    at.step("an insert")
    writer = world.own
    _refused(world, world.insert(ITEMS, (3, 3, "x"), (4, 4, "x"), (5, 0, "collides")))
    at.step("a refused insert")
    writer.begin()
    writer.execute(world.insert(ITEMS, (1, 1, "kept")))
    writer.execute("SAVEPOINT before_it")
    _refused(world, world.insert(ITEMS, (8, 8, "x"), (1, 0, "collides")))
    writer.execute("ROLLBACK TO SAVEPOINT before_it")
    writer.execute(world.insert(ITEMS, (2, 2, "kept")))
    writer.commit()
    at.step("a transaction that survives a refused statement")
    at.finish()


def _refused(world: World, statement: str) -> None:
    try:
        world.own.execute(statement)
    except Refused:
        return
    raise AssertionError(f"the world does not say Refused of {statement}")


@promise()
def check_tables_without_keys(world: World) -> None:
    at = follow(world, ENTRIES)
    for what, statement in (
        ("equal rows", world.insert(ENTRIES, *[(1, 1, "a")] * 3, (2, 2, "b"))),
        ("one more of them", world.insert(ENTRIES, (1, 1, "a"))),
        ("the end of one of them", world.delete_one("entries", "item = 1")),
        ("an update that makes rows equal", "UPDATE entries SET item = 1, n = 1, note = 'a' WHERE item = 2"),
        ("an update of equal rows", "UPDATE entries SET n = 2"),
        ("an update that changes nothing", "UPDATE entries SET n = n"),
        ("the end of one of four", world.delete_one("entries", "n = 2")),
        ("rows of NULLs", world.insert(ENTRIES, *[(None, None, None)] * 2, (None, 1, None))),
        ("the end of one row of NULLs", world.delete_one("entries", "item IS NULL AND n IS NULL")),
        ("the end of the others", "DELETE FROM entries WHERE item IS NULL"),
        ("the end of all equal rows", "DELETE FROM entries"),
    ):
        world.run(statement)
        at.step(what)
    at.finish()


@promise()
def check_updates_that_change_nothing(world: World) -> None:
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, None, None)))
    at.step("inserts")
    for statement in ("UPDATE items SET n = n", "UPDATE items SET id = id", "UPDATE items SET note = note"):
        world.run(statement)
        made = at.step(statement)
        assert not any(made.values()), f"{statement} changed something: {made}"
    at.finish()


@promise()
def check_keys_that_change(world: World) -> None:
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, *((i, i, f"row {i}") for i in range(1, 6))))
    at.step("an insert")
    for what, statements in (
        ("a new key for one row", ["UPDATE items SET id = 100 WHERE id = 1"]),
        ("new keys for all rows", ["UPDATE items SET id = id + 1000"]),
        (
            "two rows that swap their keys",
            [
                "UPDATE items SET id = -1 WHERE id = 1002",
                "UPDATE items SET id = 1002 WHERE id = 1003",
                "UPDATE items SET id = 1003 WHERE id = -1",
            ],
        ),
        (
            "a key that another row had",
            ["DELETE FROM items WHERE id = 1004", "UPDATE items SET id = 1004 WHERE id = 1005"],
        ),
        (
            "a key there and back",
            ["UPDATE items SET id = 7 WHERE id = 1002", "UPDATE items SET id = 1002 WHERE id = 7"],
        ),
    ):
        world.transact(*statements)
        at.step(what)
    at.finish()


@promise(Feature.UPSERT)
def check_upserts(world: World) -> None:
    at = follow(world, ITEMS)
    for what, statement in (
        ("an upsert that inserts", world.upsert(ITEMS, [(1, 1, "a"), (2, 2, "b")])),
        ("an upsert that updates", world.upsert(ITEMS, [(1, 10, "A")])),
        ("an upsert that does both", world.upsert(ITEMS, [(2, 20, "B"), (3, 3, "c"), (1, 11, None)])),
        ("an upsert that changes nothing", world.upsert(ITEMS, [(3, 3, "c")])),
        ("an insert of what is not there", world.insert_new(ITEMS, [(3, 0, "no"), (4, 4, "d")])),
        ("an insert of what is there", world.insert_new(ITEMS, [(3, 0, "no"), (4, 0, "no")])),
    ):
        world.run(statement)
        at.step(what)
    writer = world.own
    writer.begin()
    writer.execute(world.upsert(ITEMS, [(1, 99, "gone"), (9, 9, "gone")]))
    writer.rollback()
    at.step("an upsert that was rolled back")
    at.finish()


CODED = Table(
    "coded",
    (("id", INTEGER), ("code", TEXT), ("n", INTEGER)),
    key=("id",),
    constraints=("UNIQUE (code)",),
)


@promise(Feature.REPLACE)
def check_rows_pushed_out_by_replace(world: World) -> None:
    at = follow(world, CODED)
    world.run(world.insert(CODED, *((i, f"c{i}", i) for i in range(1, 8))))
    at.step("an insert")
    for what, rows in (
        ("of a new row", [(20, "c20", 0)]),
        ("by its key", [(1, "c1", 100)]),
        ("by its code", [(30, "c2", 0)]),
        ("of two rows at once", [(3, "c4", 0)]),
        ("by the same row", [(5, "c5", 5)]),
        ("of a row it has just put there", [(40, "c40", 1), (40, "c6", 2), (41, "c6", 3)]),
    ):
        world.run(world.replace(CODED, rows))
        at.step(f"REPLACE {what}")
    world.own.begin()
    world.own.execute(world.replace(CODED, [(7, "c5", 0)]))
    world.own.rollback()
    at.step("REPLACE that was rolled back")
    at.finish()


PARENT = Table("parent", (("id", INTEGER), ("note", TEXT)), key=("id",))
CHILD = Table(
    "child",
    (("id", INTEGER), ("parent_id", INTEGER), ("n", INTEGER)),
    key=("id",),
    constraints=("FOREIGN KEY (parent_id) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE",),
)
GRANDCHILD = Table(
    "grandchild",
    (("id", INTEGER), ("child_id", INTEGER)),
    key=("id",),
    constraints=("FOREIGN KEY (child_id) REFERENCES child (id) ON DELETE SET NULL ON UPDATE CASCADE",),
)


@promise(Feature.FOREIGN_KEYS, Feature.CASCADES_CAPTURED)
def check_cascades_are_captured(world: World) -> None:
    at = follow(world, PARENT, CHILD, GRANDCHILD)
    world.run(
        world.insert(PARENT, *((i, f"p{i}") for i in range(1, 6))),
        world.insert(CHILD, *((10 + i, 1 + i % 5, i) for i in range(10))),
        world.insert(GRANDCHILD, *((100 + i, 10 + i % 10) for i in range(20))),
    )
    at.step("inserts")
    for what, statements in (
        ("a delete that cascades", ["DELETE FROM parent WHERE id = 1"]),
        ("an update of a key that cascades", ["UPDATE parent SET id = 22 WHERE id = 2"]),
        ("an update of the middle of a chain", ["UPDATE child SET id = 99 WHERE id = 13"]),
        (
            "both in one transaction",
            ["UPDATE parent SET id = 33 WHERE id = 3", "DELETE FROM parent WHERE id = 33"],
        ),
        ("a delete of all", ["DELETE FROM parent"]),
    ):
        world.transact(*statements)
        at.step(what)
    at.finish()


@promise(Feature.TRUNCATE, Feature.TRUNCATE_CAPTURED)
def check_truncation_is_captured(world: World) -> None:
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 2, "b")))
    at.step("inserts")
    world.run("TRUNCATE TABLE items")
    at.step("TRUNCATE")
    world.run(world.insert(ITEMS, (1, 1, "again")))
    at.step("an insert after TRUNCATE")
    at.finish()


CHECKS: tuple[Check, ...] = (
    check_every_statement_is_captured,
    check_transactions_of_several_tables,
    check_transactions_of_many_statements,
    check_rolled_back_is_never_seen,
    check_savepoints,
    check_refused_statements_leave_nothing,
    check_tables_without_keys,
    check_updates_that_change_nothing,
    check_keys_that_change,
    check_upserts,
    check_rows_pushed_out_by_replace,
    check_cascades_are_captured,
    check_truncation_is_captured,
)
