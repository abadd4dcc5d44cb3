"""Capture leaves others as they were: programs of any account write as before, and see what they saw."""

from __future__ import annotations

from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap
from stillframe.sources.conformance.follow import ME, Follow, changes_of, follow, same, state_of
from stillframe.sources.conformance.statements import ENTRIES, ITEMS
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import INTEGER, TEXT, Feature, Table, World


@promise(Feature.OTHER_ACCOUNTS)
def check_accounts_that_may_only_write(world: World) -> None:
    """They have no rights on what capture has installed, and need none; they can mark transactions."""
    at = follow(world, ITEMS, ENTRIES)
    writer = world.other_writer("items", "entries")
    for what, statement in (
        ("an insert", world.insert(ITEMS, (1, 1, "a"), (2, 2, "b"))),
        ("an update", "UPDATE items SET n = n + 1"),
        ("a delete", "DELETE FROM items WHERE id = 1"),
    ):
        writer.execute(statement)
        at.step(f"{what} by another account")
    start = at.position
    writer.begin()
    writer.execute(world.mark("by another", 2))
    writer.execute(world.insert(ENTRIES, (1, 1, "a")))
    writer.commit()
    at.step("a marked transaction of another account")
    told = at.source.transactions(at.names, start, at.position)
    assert [(each.group, each.parts) for each in told] == [("by another", 2)], f"told is {told}"
    writer.close()
    at.finish()


@promise(Feature.SESSION_SETTINGS)
def check_sessions_with_other_settings(world: World) -> None:
    """Values of every type mean what they mean, whatever time zone, mode or alphabet their writer has set."""
    columns = tuple((f"v{i}", case.declared) for i, case in enumerate(world.types))
    table = Table("typed", (("id", INTEGER), *columns), key=("id",))
    world.create(table)
    names = ", ".join(name for name, _ in columns)
    for i in range(3):
        values = ", ".join(
            (*case.values, ("NULL", None))[i % (len(case.values) + 1)][0] for case in world.types
        )
        world.run(f"INSERT INTO typed (id, {names}) VALUES ({i}, {values})")
    source = world.source()
    before = source.attach(ME, ["typed"])
    first = state_of(source, table, before)
    for number, settings in enumerate(world.session_settings, 1):
        shift, what = number * 1000, f"by a session with {'; '.join(settings)}"
        writer = world.writer()
        for setting in settings:
            writer.execute(setting)
        writer.begin()
        writer.execute(
            f"INSERT INTO typed (id, {names}) SELECT id + {shift}, {names} FROM typed WHERE id < 10"
        )
        writer.execute(f"UPDATE typed SET id = id + 500 WHERE id >= {shift}")
        writer.execute(f"DELETE FROM typed WHERE id = {shift + 502}")
        writer.commit()
        writer.close()
        upto = source.position(ME, ["typed"])
        made = _shifted(first, shift + 500, {0, 1})
        same(changes_of(source, table, before, upto), made, f"rows copied {what}")
        same(state_of(source, table, upto), first + made, f"state with rows copied {what}")
        world.run(f"DELETE FROM typed WHERE id >= {shift}")
        before = source.position(ME, ["typed"])
        same(changes_of(source, table, upto, before), -made, f"the end of rows copied {what}")


def _shifted(rows: Bag, by: int, ids: set[int]) -> Bag:
    return Bag(((row[0] + by, *row[1:]), count) for row, count in rows.items() if row[0] in ids)


@promise(Feature.GENERATED_KEYS)
def check_writers_see_the_keys_they_were_given(world: World) -> None:
    """Capture has numbers of its own; who asks for the last one it was given means another."""
    world.run(f"CREATE TABLE numbered (id {world.generated_key}, note {world.declared[TEXT]})")
    numbered = Table("numbered", (("id", INTEGER), ("note", TEXT)), key=("id",))
    for i in range(3):
        world.run(f"INSERT INTO numbered (note) VALUES ('before {i}')")
    expected = _last_key(world)
    at = Follow(world, numbered)
    for i in range(3):
        world.run(f"INSERT INTO numbered (note) VALUES ('after {i}')")
        touched = world.own.touched
        found = _last_key(world)
        assert touched == 1, f"one row was inserted, the writer was told {touched}"
        assert found == expected + i + 1, f"row {expected + i + 1} was inserted, the writer was told {found}"
        at.step("an insert")
    world.run("UPDATE numbered SET note = 'x'")
    assert world.own.touched == 6, f"six rows were updated, the writer was told {world.own.touched}"
    assert _last_key(world) == expected + 3, "an update changed the last key"
    world.run("DELETE FROM numbered WHERE id > 2")
    assert world.own.touched == 4, f"four rows were deleted, the writer was told {world.own.touched}"
    at.step("an update and a delete")


def _last_key(world: World) -> int:
    ((key,),) = world.own.execute(f"SELECT {world.last_key}")
    return int(key)


@promise(Feature.OWN_TRIGGERS)
def check_triggers_of_the_application(world: World) -> None:
    """What they write is captured too, whether they were there before capture or came later."""
    world.create(ITEMS, ENTRIES)
    world.run(*world.copying_trigger("first_copy"))
    at = Follow(world, ITEMS, ENTRIES)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 2, "b")))
    made = at.step("an insert that fires a trigger")
    assert made["entries"].size == 2, f"the trigger wrote two rows, captured are {made['entries']}"
    if at.source.transactional:
        told = at.source.transactions(at.names, at.history[0][0], at.position)
        assert len(told) == 1, f"one statement became {told}"
    world.run(*world.copying_trigger("second_copy"))
    world.run(world.insert(ITEMS, (3, 3, "c")))
    try:
        made = at.step("an insert that fires two triggers")
    except CaptureGap:
        at = Follow(world, ITEMS, ENTRIES)
        world.run(world.insert(ITEMS, (4, 4, "d")))
        made = at.step("an insert that fires two triggers, after attaching again")
    assert made["entries"].size == 2, f"two triggers wrote a row each, captured are {made['entries']}"
    world.own.begin()
    world.own.execute(world.insert(ITEMS, (5, 5, "gone")))
    world.own.rollback()
    at.step("a rollback of what triggers wrote")


@promise(Feature.GENERATED_COLUMNS)
def check_generated_columns(world: World) -> None:
    """They are captured like others, or refused by name."""
    integer = world.declared[INTEGER]
    computed = Table(
        "computed",
        (("id", INTEGER), ("n", INTEGER), ("double_n", f"{integer} GENERATED ALWAYS AS (n * 2) STORED")),
        key=("id",),
    )
    world.create(computed)
    relation = world.source().describe()["computed"]
    assert ("double_n" in relation.schema.names) is not ("double_n" in relation.refused)
    if "double_n" in relation.refused:
        computed = Table("computed", computed.columns[:2], computed.key)
    at = Follow(world, computed)
    for statement in (
        "INSERT INTO computed (id, n) VALUES (1, 1), (2, 2)",
        "UPDATE computed SET n = 10 WHERE id = 1",
        "DELETE FROM computed WHERE id = 2",
    ):
        world.run(statement)
        at.step(statement)


@promise(Feature.RESTART)
def check_the_server_is_restarted(world: World) -> None:
    at = follow(world, ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a")))
    at.step("an insert")
    world.run("UPDATE items SET n = 2")
    world.restart()
    at.step("an update, and a restart")
    world.run(world.insert(ITEMS, (2, 2, "b")))
    at.step("an insert after a restart")
    at.finish()


@promise(Feature.CRASH)
def check_the_server_crashes(world: World) -> None:
    """If it has forgotten what it had confirmed, that is a gap. A transaction that was open is gone."""
    at = follow(world, ITEMS)
    for i in range(5):
        world.run(world.insert(ITEMS, (i, i, "a")))
    at.step("inserts")
    writer = world.writer()
    writer.begin()
    writer.execute("UPDATE items SET n = -1 WHERE id = 1")
    world.run(world.insert(ITEMS, (10, 10, "just before")))
    world.crash()
    try:
        at.step("a crash")
    except CaptureGap as told:
        print(f"the server forgot: {told}")
        at = Follow(world, ITEMS)
    world.run(world.insert(ITEMS, (20, 20, "after")), "DELETE FROM items WHERE id = 1")
    at.step("writes after a crash")
    at.finish()


CHECKS: tuple[Check, ...] = (
    check_accounts_that_may_only_write,
    check_sessions_with_other_settings,
    check_writers_see_the_keys_they_were_given,
    check_triggers_of_the_application,
    check_generated_columns,
    check_the_server_is_restarted,
    check_the_server_crashes,
)
