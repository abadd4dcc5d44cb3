"""Capture is exact also where tables and transactions are large, wide, or strangely named."""

from __future__ import annotations

from stillframe.algebra.bag import Bag
from stillframe.sources.conformance.child import Apart
from stillframe.sources.conformance.follow import bag, follow, same
from stillframe.sources.conformance.statements import ITEMS
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import INTEGER, TEXT, Feature, Table, World

LARGE = 100_000
MOST_ROWS_OF_A_BATCH = 65_536
MOST_MEMORY = 256  # MiB; the rows of the transaction are more

WIDE = Table(
    "wide",
    (("id", INTEGER), *((f"i{i}", INTEGER) for i in range(120)), *((f"t{i}", TEXT) for i in range(20))),
    key=("id",),
)


@promise()
def check_wide_rows(world: World) -> None:
    at = follow(world, WIDE)
    row = [*range(121), *(f"text {i} " * 10 for i in range(20))]
    world.run(world.insert(WIDE, row, [1, *[None] * 140]))
    at.step("wide rows")
    world.run("UPDATE wide SET i119 = -1, t19 = 'changed' WHERE id = 0")
    at.step("an update of the last columns")
    world.run("DELETE FROM wide WHERE id = 1")
    at.step("the end of a wide row")
    at.finish()


AWKWARD = ("Order", "select", "per%cent %s {} :x $1 ?", "ünï 日本", 'it\'s a "quoted" `one`')


@promise(Feature.SEVERAL_RELATIONS)
def check_tables_whose_names_need_quoting(world: World) -> None:
    tables = [
        Table(name, (("id", INTEGER), (name, INTEGER), ("Group", TEXT), (f"{name}2", TEXT)), key=("id",))
        for name in AWKWARD
    ]
    _goes_through(world, *tables)


@promise()
def check_columns_whose_names_need_quoting(world: World) -> None:
    _goes_through(world, Table("from", tuple((name, INTEGER) for name in AWKWARD), key=AWKWARD[:2]))


def _goes_through(world: World, *tables: Table) -> None:
    at = follow(world, *tables)
    for table in tables:
        world.run(world.insert(table, *([i] * len(table.names) for i in range(1, 4))))
    at.step("inserts")
    for table in tables:
        name, column = world.quoted(table.name), world.quoted(table.names[1])
        world.run(f"UPDATE {name} SET {column} = {column} + 10", f"DELETE FROM {name} WHERE {column} = 12")
    at.step("updates and deletes")
    at.finish()


@promise()
def check_a_transaction_of_100_000_rows(world: World) -> None:
    """In batches, none of them larger than another transaction would make them."""
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (-1, 0, "before")))
    after = at.source.position(at.consumer, at.names)
    world.transact(
        f"INSERT INTO items (id, n, note) SELECT i, i % 100, 'text of a row' FROM {world.numbers(LARGE)}",
        f"UPDATE items SET n = -1 WHERE id > {LARGE - 1000}",
        "DELETE FROM items WHERE id = 17",
    )
    upto = at.source.position(at.consumer, at.names)
    truth = world.truth(ITEMS)
    first = Bag({(-1, 0, "before"): 1})
    for what, found, expected in (
        ("changes", at.source.changes("items", ITEMS.names, after, upto), truth - first),
        ("state after", at.source.state("items", ITEMS.names, upto), truth),
        ("state before", at.source.state("items", ITEMS.names, after), first),
    ):
        batches = list(found)
        largest = max(batch.num_rows for batch in batches)
        assert largest <= MOST_ROWS_OF_A_BATCH, f"{what}: a batch of {largest} rows"
        same(bag(batches), expected, what)
    told = at.source.transactions(at.names, after, upto)
    assert len(told) == 1, f"one transaction became {len(told)}"


@promise(long=True)
def check_memory_stays_bounded(world: World) -> None:
    """A transaction of two million rows is read with little more memory than one of a single row."""
    at = follow(world, ITEMS)
    before = at.source.position(at.consumer, at.names)
    world.run(world.insert(ITEMS, (-1, 0, "one")))
    one = at.source.position(at.consumer, at.names)
    text = "'" + "some text of a row " * 10 + "'"
    world.run(f"INSERT INTO items (id, n, note) SELECT i, i, {text} FROM {world.numbers(20 * LARGE)}")
    many = at.source.position(at.consumer, at.names)
    with Apart(at.source) as apart:
        little = apart.read_changes("items", ITEMS.names, before, one)
        for what, much in (
            ("changes", apart.read_changes("items", ITEMS.names, one, many)),
            ("the state", apart.read_state("items", ITEMS.names, many)),
            ("the state before", apart.read_state("items", ITEMS.names, one)),
        ):
            assert little.well and much.well, f"reading {what} of many rows failed"
            more = (much.memory - little.memory) / 2**20
            print(f"{what}: {more:.0f} MiB more than for one row, in {much.seconds:.1f} s")
            assert more < MOST_MEMORY, f"reading {what} of two million rows took {more:.0f} MiB"


CHECKS: tuple[Check, ...] = (
    check_wide_rows,
    check_tables_whose_names_need_quoting,
    check_columns_whose_names_need_quoting,
    check_a_transaction_of_100_000_rows,
    check_memory_stays_bounded,
)
