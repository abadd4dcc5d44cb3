"""A log that is not what it was is named, never passed over; after attaching again capture is exact."""

from __future__ import annotations

from functools import partial

from stillframe.errors import CaptureGap
from stillframe.sources.conformance.follow import (
    ME,
    Follow,
    changes_of,
    follow,
    gap,
    raises,
    same,
    state_of,
)
from stillframe.sources.conformance.statements import CHILD, ENTRIES, GRANDCHILD, ITEMS, PARENT, tables_of
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import Feature, Table, World


def fill(world: World, n: int = 2) -> None:
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, n, "b"), (3, 3, "c")))
    if world.has(Feature.SEVERAL_RELATIONS):
        world.run(world.insert(ENTRIES, (1, 1, "a")))


def goes_on(at: Follow, what: str) -> None:
    """The other table is not concerned."""
    if ENTRIES in at.tables:
        at.world.run(at.world.insert(ENTRIES, (4, 4, "goes on")))
        upto, now = at.source.position(ME, ["entries"]), at.world.truth(ENTRIES)
        same(state_of(at.source, ENTRIES, upto), now, f"state of another table after {what}")
        made = now - at.history[-1][1]["entries"]
        same(
            changes_of(at.source, ENTRIES, at.position, upto), made, f"changes of another table after {what}"
        )


def followed(world: World) -> Follow:
    at = follow(world, *tables_of(world))
    fill(world)
    world.run("UPDATE items SET n = 20 WHERE id = 2")
    at.step("inserts and an update")
    return at


def _is_a_gap(at: Follow, what: str) -> CaptureGap:
    """However it is asked, and whatever was written since; nothing is taken for exact."""
    source, old = at.source, at.position
    said = gap(f"check after {what}", lambda: source.check(old, ["items"]))
    gap(f"state after {what}", lambda: source.state("items", ITEMS.names, old))

    def changes() -> list[object]:
        upto = source.position(ME, ["items"])
        return list(source.changes("items", ITEMS.names, old, upto))

    gap(f"changes after {what}", changes)
    if at.world.has(Feature.PENDING):
        gap(f"behind after {what}", lambda: source.behind(["items"], old))
    return said


def _attach_again(at: Follow, what: str) -> None:
    """It works, the old position stays a gap, and capture is exact from the new one."""
    old, world = at.position, at.world
    again = Follow(world, *at.tables)
    gap(f"the old position after {what} and attaching again", lambda: again.source.check(old, ["items"]))
    gap(
        f"the old state after {what} and attaching again",
        lambda: again.source.state("items", ["id"], old),
    )
    world.run(world.insert(ITEMS, (77, 7, "after")), "UPDATE items SET n = -7 WHERE id = 77")
    again.step(f"writes after {what} and attaching again")


@promise(Feature.DROP_CAPTURE)
def check_capture_dropped_behind_our_back(world: World) -> None:
    at = followed(world)
    world.drop_capture("items")
    world.run("DELETE FROM items WHERE id = 1")
    _is_a_gap(at, "capture was dropped")
    goes_on(at, "capture was dropped")
    _attach_again(at, "capture was dropped")


@promise(Feature.DISABLE_CAPTURE)
def check_capture_switched_off_and_on_again(world: World) -> None:
    """As it is now, capture looks whole; a change in between was lost."""
    at = followed(world)
    world.disable_capture("items")
    _is_a_gap(at, "capture was switched off")
    world.run("DELETE FROM items WHERE id = 1")
    world.enable_capture("items")
    world.run("UPDATE items SET n = 30 WHERE id = 3")
    _is_a_gap(at, "capture was switched off and on again")
    _attach_again(at, "capture was switched off and on again")


@promise(Feature.TRIM_LOG)
def check_log_trimmed_by_someone_else(world: World) -> None:
    at = followed(world)
    world.run("DELETE FROM items WHERE id = 1", "UPDATE items SET n = 21 WHERE id = 2")
    world.trim_log()
    _is_a_gap(at, "the log was trimmed")
    world.run("UPDATE items SET n = 22 WHERE id = 2")
    _is_a_gap(at, "the log was trimmed and written to")
    _attach_again(at, "the log was trimmed")


@promise(Feature.TRIM_LOG)
def check_log_trimmed_when_nothing_waited(world: World) -> None:
    """Then nothing was lost, which is not known, or it is: what is told is exact or a gap."""
    at = followed(world)
    world.trim_log()
    world.run("UPDATE items SET n = 22 WHERE id = 2")
    try:
        at.step("an update after the log was trimmed")
    except CaptureGap:
        _attach_again(at, "the log was trimmed")


@promise(Feature.REPLACE_DATABASE)
def check_another_database_in_its_place(world: World) -> None:
    at = followed(world)
    world.replace_database()
    world.create(*at.tables)
    fill(world, 20)
    _is_a_gap(at, "the database was replaced")
    _attach_again(at, "the database was replaced")


@promise(Feature.BACKUP)
def check_restored_from_an_older_copy(world: World) -> None:
    for way in range(world.ways_to_restore):
        at = followed(world)
        copy = world.backup(way)
        world.run("DELETE FROM items WHERE id = 1", world.insert(ITEMS, (9, 9, "lost")))
        at.step("writes that the copy does not have")
        world.restore(copy)
        _is_a_gap(at, f"an older copy was restored, way {way}")
        _attach_again(at, f"an older copy was restored, way {way}")
        at.source.detach(ME)
        world.run(*(f"DROP TABLE {name}" for name in at.names))


@promise(Feature.BACKUP)
def check_restored_and_written_as_much_again(world: World) -> None:
    """The log is as long as it was, and is another one."""
    at = followed(world)
    copy = world.backup()
    world.run("UPDATE items SET n = 5 WHERE id = 1", world.insert(ITEMS, (9, 9, "lost")))
    at.step("writes that the copy does not have")
    world.restore(copy)
    world.run("UPDATE items SET n = 6 WHERE id = 1", world.insert(ITEMS, (8, 8, "other")))
    _is_a_gap(at, "a copy was restored and written to as often")
    world.run(*(world.insert(ITEMS, (50 + i, 0, "more")) for i in range(3)))
    _is_a_gap(at, "a copy was restored and written to more often")
    _attach_again(at, "a copy was restored and written to")


@promise()
def check_detached_meanwhile(world: World) -> None:
    at = followed(world)
    at.source.detach(ME)
    world.run("DELETE FROM items WHERE id = 1")
    _is_a_gap(at, "capture was detached")
    _attach_again(at, "capture was detached")


@promise()
def check_table_dropped_and_created_again(world: World) -> None:
    at = followed(world)
    world.run("DROP TABLE items")
    logged = world.has(Feature.LOGGED)
    if logged:
        raises("the state of a table that is gone", lambda: at.source.state("items", ["id"], at.position))
    raises("the position of a table that is gone", lambda: at.source.position(ME, ["items"]))
    goes_on(at, "a table was dropped")
    world.create(ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 20, "b"), (3, 3, "c")))
    if logged:
        _is_a_gap(at, "the table was created again")
        _attach_again(at, "the table was created again")
    else:
        at.step("a table that was created again")


@promise(Feature.TRUNCATE, unless=[Feature.TRUNCATE_CAPTURED])
def check_truncation_is_named(world: World) -> None:
    """Where TRUNCATE is not captured it is a gap called TRUNCATED, also once the table is full again."""
    at = followed(world)
    world.run("TRUNCATE TABLE items")
    said = _is_a_gap(at, "TRUNCATE")
    assert "TRUNCATED" in f"{said.code} {said}".upper(), f"the gap is not called TRUNCATED: {said}"
    goes_on(at, "TRUNCATE")
    world.run(world.insert(ITEMS, (1, 1, "a"), (2, 20, "b"), (3, 3, "c")))
    _is_a_gap(at, "TRUNCATE and the same rows again")
    _attach_again(at, "TRUNCATE")


@promise(Feature.FOREIGN_KEYS, unless=[Feature.CASCADES_CAPTURED])
def check_cascades_not_captured_are_refused(world: World) -> None:
    """A table that a cascade changes is refused by name; the others are captured."""
    world.create(PARENT, CHILD, GRANDCHILD)
    source = world.source()
    for table in (CHILD, GRANDCHILD):
        said = raises(
            f"attaching {table.name}",
            partial(source.attach, ME, [table.name]),
            "CASCADE_NOT_CAPTURED",
        )
        assert table.name in str(said), f"the error does not name the table: {said}"
    Follow(world, PARENT).step("attaching the table without a parent")


@promise(Feature.FOREIGN_KEYS, unless=[Feature.CASCADES_CAPTURED])
def check_a_cascade_added_later_is_a_gap(world: World) -> None:
    plain = Table(CHILD.name, CHILD.columns, CHILD.key)
    world.create(PARENT, plain)
    at = Follow(world, PARENT, plain)
    world.run("INSERT INTO parent (id) VALUES (1)", "INSERT INTO child (id, parent_id) VALUES (1, 1)")
    at.step("inserts")
    world.run(f"ALTER TABLE child ADD CONSTRAINT late {CHILD.constraints[0]}")
    world.run("DELETE FROM parent")
    raises(
        "the state of a table a cascade has changed", lambda: at.source.state("child", ["id"], at.position)
    )
    raises("its position", lambda: at.source.position(ME, ["child"]))
    upto = at.source.position(ME, ["parent"])
    same(state_of(at.source, PARENT, upto), world.truth(PARENT), "the table the cascade came from")


CHECKS: tuple[Check, ...] = (
    check_capture_dropped_behind_our_back,
    check_capture_switched_off_and_on_again,
    check_log_trimmed_by_someone_else,
    check_log_trimmed_when_nothing_waited,
    check_another_database_in_its_place,
    check_restored_from_an_older_copy,
    check_restored_and_written_as_much_again,
    check_detached_meanwhile,
    check_table_dropped_and_created_again,
    check_truncation_is_named,
    check_cascades_not_captured_are_refused,
    check_a_cascade_added_later_is_a_gap,
)
