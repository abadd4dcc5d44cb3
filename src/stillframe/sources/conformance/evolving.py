"""What an administrator may change: columns come, go and change their types; accounts have few rights."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from stillframe.errors import SourceError
from stillframe.sources.conformance.follow import ME, Follow, changes_of, raises, same, state_of
from stillframe.sources.conformance.gaps import followed, goes_on
from stillframe.sources.conformance.statements import ITEMS
from stillframe.sources.conformance.suite import Check, promise
from stillframe.sources.conformance.world import TEXT, Feature, Table, World


@promise(Feature.ADD_COLUMN)
def check_an_added_column_goes_unnoticed(world: World) -> None:
    """By those who do not ask for it; who attaches again has it from there on."""
    at = followed(world)
    world.run(f"ALTER TABLE items ADD COLUMN extra {world.declared[TEXT]}")
    at.step("a column that was added")
    world.run(
        "UPDATE items SET extra = 'x', n = 100 WHERE id = 1", "UPDATE items SET extra = 'y' WHERE id = 2"
    )
    world.run("INSERT INTO items (id, n, note, extra) VALUES (50, 5, 'new', 'z')")
    at.step("writes to a column that was added")
    raises(
        "a column that is not captured yet",
        lambda: at.source.changes("items", ["id", "extra"], at.history[0][0], at.position),
    )
    start = at.source.attach(ME, ["items"])
    wider = Table("items", (*ITEMS.columns, ("extra", TEXT)), ITEMS.key)
    same(state_of(at.source, wider, start), world.truth(wider), "the state with a column that was added")
    at.step("attaching again")
    before = world.truth(wider)
    world.run("UPDATE items SET extra = 'w' WHERE id = 2", "DELETE FROM items WHERE id = 50")
    upto = at.source.position(ME, ["items"])
    same(changes_of(at.source, wider, start, upto), world.truth(wider) - before, "changes with that column")
    at.step("writes")
    at.finish()


@promise(Feature.DROP_COLUMN)
def check_a_dropped_column_stops_its_relation_only(world: World) -> None:
    at = followed(world)
    _altered(world, *world.drop_column("items", "note"))
    _stopped(at, "note")


@promise(Feature.RETYPE_COLUMN)
def check_a_retyped_column_stops_its_relation_only(world: World) -> None:
    at = followed(world)
    _altered(world, *world.retype("items", "n"))
    world.run("UPDATE items SET n = 'many' WHERE id = 1")
    _stopped(at, "n")


@promise(Feature.RENAME_COLUMN)
def check_a_renamed_column_stops_its_relation_only(world: World) -> None:
    at = followed(world)
    _altered(world, "ALTER TABLE items RENAME COLUMN note TO remark")
    _stopped(at, "note")


def _altered(world: World, *statements: str) -> None:
    """By another program than the one that writes, which has used the table before, and will again."""
    administrator = world.writer()
    for statement in statements:
        administrator.execute(statement)
    administrator.close()


def _stopped(at: Follow, column: str) -> None:
    """Who reads the column is told; who writes, and who reads other tables, is not concerned."""
    world, source = at.world, at.source
    world.run(
        "INSERT INTO items (id) VALUES (60)",
        "UPDATE items SET id = 61 WHERE id = 60",
        "DELETE FROM items WHERE id = 3",
    )

    def changes() -> list[object]:
        upto = source.position(ME, ["items"])
        return list(source.changes("items", ITEMS.names, at.position, upto))

    acts: list[tuple[str, Callable[[], object]]] = [("changes", changes)]
    if world.has(Feature.LOGGED):
        acts.append(("state", lambda: source.state("items", ITEMS.names, at.position)))
    for what, act in acts:
        said = raises(f"{what} with column {column!r} changed", act)
        assert "items" in str(said) or column in str(said), f"the error names nothing: {said}"
    goes_on(at, f"column {column!r} changed")
    rest = tuple((name, kind) for name, kind in ITEMS.columns if name != column)
    again = Follow(world, Table("items", rest, ITEMS.key), *at.tables[1:])
    world.run("INSERT INTO items (id) VALUES (62)", "DELETE FROM items WHERE id = 61")
    again.step("writes after attaching again")


@promise(Feature.READ_ONLY_ACCOUNT)
def check_an_account_that_only_reads(world: World) -> None:
    """It is offered snapshots, told what the others lack, and nothing is installed when it tries."""
    world.create(ITEMS)
    world.run(world.insert(ITEMS, (1, 1, "a")))
    source = world.read_only_source()
    assert "items" in source.describe(), "an account that may read sees nothing"
    usable = [str(m.capture) for m in source.methods() if not m.missing]
    assert usable == ["snapshot"], f"an account that may only read is offered {usable}"
    assert all(all(m.missing) for m in source.methods()), "a missing right has no name"
    before = world.schema_dump()
    said = raises("attaching with an account that only reads", lambda: source.attach(ME, ["items"]))
    assert said.hint, f"no hint of which right is missing: {said}"
    assert world.schema_dump() == before, "something was installed"
    Follow(world, ITEMS).step("attaching with another account")


@promise(Feature.SECRET)
def check_passwords_are_never_shown(world: World) -> None:
    world.create(ITEMS)
    source = world.source()
    unreachable = world.unreachable_source()
    said: list[SourceError] = []
    for act in (
        lambda: unreachable.describe(),
        lambda: unreachable.attach(ME, ["items"]),
        lambda: source.attach(ME, ["nowhere"]),
    ):
        said.append(raises("a source that cannot be used as asked", act))
    for error in said:
        told: BaseException | None = error
        while told is not None:
            parts = [str(told), repr(told), getattr(told, "detail", ""), getattr(told, "hint", "")]
            assert not _shows(world, *parts), f"a password is in {type(told).__name__}"
            told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    for each in (source, unreachable):
        shown = f"{each!r} {each} {each.name} {each.address} {each.methods() if each is source else ''}"
        assert not _shows(world, shown), "a password is in the repr or the address of a source"


def _shows(world: World, *texts: str) -> bool:
    """Also as a part of an address."""
    forms = {form.lower() for form in (world.secret, quote(world.secret), quote(world.secret, safe=""))}
    return any(form in text.lower() for form in forms for text in texts)


CHECKS: tuple[Check, ...] = (
    check_an_added_column_goes_unnoticed,
    check_a_dropped_column_stops_its_relation_only,
    check_a_retyped_column_stops_its_relation_only,
    check_a_renamed_column_stops_its_relation_only,
    check_an_account_that_only_reads,
    check_passwords_are_never_shown,
)
