"""Relations that are kept in the lake: views over them are as right as over their sources, which are asked
nothing but what changed."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shops import Shop
from stillframe.algebra import Column, Output, Project, Ref, Scan, Schema
from stillframe.algebra.types import BIGINT, DOUBLE
from stillframe.engine import Staged
from stillframe.errors import ProjectError
from stillframe.lake import reader
from stillframe.runtime import Warehouse, load_project, work
from stillframe.runtime.copies import columns_kept
from stillframe.runtime.copying import Worth
from stillframe.runtime.learning import Learning
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.statistics import Relation, Statistics, write_statistics
from stillframe.sources.sqlite.source import SqliteSource

pytestmark = pytest.mark.engine

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, who INTEGER, amount INTEGER, note TEXT);"
TOWNS = "CREATE TABLE towns (name TEXT);"
PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, town TEXT, name TEXT);"
VIEWS = {
    "joined": "SELECT o.id, p.name, o.amount FROM a.orders o JOIN b.people p ON p.id = o.who",
    "by_town": "SELECT p.town, count(*) AS n, sum(o.amount) AS s, max(o.amount) AS m"
    " FROM a.orders o JOIN b.people p ON p.id = o.who GROUP BY p.town",
    "how_many": "SELECT count(*) AS n FROM b.towns",
    "anything": "SELECT o.id FROM a.orders o WHERE EXISTS (SELECT 1 FROM b.towns)",
    "first": "SELECT id, who FROM a.orders"
    " QUALIFY row_number() OVER (PARTITION BY who ORDER BY amount, id) = 1",
    "alone": "SELECT id, name FROM b.people p WHERE NOT EXISTS (SELECT 1 FROM a.orders o WHERE o.who = p.id)",
    "outer_join": "SELECT p.id, o.amount FROM b.people p"
    " LEFT JOIN a.orders o ON o.who = p.id AND o.amount > 2",
}


def text(views: dict[str, str]) -> str:
    return "\n".join(f"CREATE MATERIALIZED VIEW {name} AS {select};" for name, select in views.items())


@pytest.fixture
def copied(shop: Shop) -> Shop:
    shop.source("a", ORDERS + "INSERT INTO orders VALUES (1, 1, 5, 'x'), (2, 1, 3, 'y'), (3, 2, 4, 'z');")
    shop.source(
        "b", TOWNS + PEOPLE + "INSERT INTO people VALUES (1, 'r', 'ann'), (2, 's', 'bob'), (3, 's', 'cy');"
    )
    shop.configure(extra="copies: all\n")
    shop.views(text(VIEWS))
    return shop


def change(shop: Shop, random: Random) -> None:
    for _ in range(random.randrange(1, 4)):
        number, who, amount = random.randrange(1, 9), random.randrange(1, 6), random.randrange(6)
        shop.write("a", f"INSERT OR REPLACE INTO orders VALUES ({number}, {who}, {amount}, 'n{amount}')")
        shop.write(
            "b", f"INSERT OR REPLACE INTO people VALUES ({who}, '{random.choice('rst')}', 'p{amount}')"
        )
        shop.write("a", f"DELETE FROM orders WHERE id = {random.randrange(1, 9)}")
        shop.write("b", random.choice(["INSERT INTO towns VALUES ('x')", "DELETE FROM towns"]))
        shop.write("b", f"DELETE FROM people WHERE id = {random.randrange(1, 6)}")


def assert_right(warehouse: Warehouse) -> None:
    for name, found in warehouse.verify().items():
        assert found.ok, (name, found)


def copies_in(warehouse: Warehouse) -> set[str]:
    frame = warehouse.frame()
    assert frame is not None
    return {name for name in frame.views if name.startswith("copy~")}


def test_sources_are_asked_for_changes_only(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    state = SqliteSource.state

    def counted(self: SqliteSource, *args: object, **named: object) -> object:
        asked.append(args[0])
        return state(self, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteSource, "state", counted)
    random = Random(7)
    with copied.open() as warehouse:
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~a.orders", "copy~b.people"}
        assert sorted(map(str, asked)) == ["orders", "people", "towns"], "each was read once, for all views"
        for _ in range(2 if copied.engine.kind == "spark" else 4):
            asked.clear()
            change(copied, random)
            result = warehouse.maintain()
            assert set(asked) <= {"towns"}, "which has no key, and of which no column is read"
            assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}
            assert_right(warehouse)
        assert set(warehouse.status()["views"]) == set(VIEWS), "copies are shown to nobody"


@pytest.mark.slow_on_spark
def test_views_that_are_computed_anew_from_copies_with_changes(
    copied: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that have a key are not added up: each is there as the last change has it."""
    whole = text(VIEWS).replace(" AS SELECT", " WITH (refresh_policy = 'full') AS SELECT")
    copied.views(whole)
    added_up: list[str] = []
    consolidated = work.consolidated_sql

    def seen(query: str, width: int) -> str:
        added_up.append(query)
        return consolidated(query, width)

    monkeypatch.setattr(work, "consolidated_sql", seen)
    random = Random(11)
    with copied.open() as warehouse:
        for _ in range(5):
            assert not warehouse.maintain().failures
            assert all(found.ok for found in warehouse.verify_all().values())
            change(copied, random)
        assert any(state.changes for state in warehouse.frame().views.values()), "nothing was tested"
        copied.views(
            "CREATE MATERIALIZED VIEW joined WITH (refresh_policy = 'full') AS " + VIEWS["joined"] + ";"
        )
        warehouse.maintain()
        added_up.clear()
        change(copied, random)
        assert warehouse.maintain().outcomes["joined"].mode == "full"
        assert not added_up
        assert warehouse.verify_all()["joined"].ok


def test_a_copy_has_its_key_though_no_view_reads_it(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells rows apart: neither who computes anew from the copy adds up rows, nor who settles it."""

    def added_up(*_: object, **__: object) -> str:
        raise AssertionError("rows were added up")

    monkeypatch.setattr(work, "consolidated_sql", added_up)
    monkeypatch.setattr(reader, "content_sql", added_up)
    select = "SELECT who, count(*) AS n, sum(amount) AS s FROM a.orders GROUP BY who"
    copied.views(f"CREATE MATERIALIZED VIEW by_who WITH (refresh_policy = 'full') AS {select};")
    random = Random(5)
    with copied.open() as warehouse:
        warehouse.refresh()
        for _ in range(3):
            change(copied, random)
            assert warehouse.maintain().outcomes["by_who"].mode == "full"
            assert warehouse.verify_all()["by_who"].ok
        copy = warehouse.frame().views["copy~a.orders"]
        assert copy.changes, "nothing was tested"
        assert (copy.schema.names, copy.schema.keys) == (("id", "who", "amount"), {frozenset({0})})
        warehouse.settle_due(everything=True)
        assert not warehouse.frame().views["copy~a.orders"].changes
        assert warehouse.verify_all()["by_who"].ok


def test_the_key_that_is_kept_is_the_one_that_tells_rows_apart() -> None:
    columns = tuple(Column(name, BIGINT, nullable=False) for name in "abcd")
    columns += (Column("e", DOUBLE, nullable=False), Column("f {}", BIGINT, nullable=False))
    keys = frozenset({frozenset({0, 1}), frozenset({1, 2}), frozenset({1, 2, 3})})

    def kept(keys: frozenset[frozenset[int]], *read: int) -> frozenset[int]:
        scan = Scan("s.t", Schema(columns, keys))
        outputs = tuple(Output(columns[i].name, Ref(i, BIGINT)) for i in read)
        return columns_kept([Project(scan, outputs)])["s.t"]

    assert kept(keys, 2) == {0, 1, 2}, "the shortest, and of these the first"
    assert kept(keys, 1, 2) == {0, 1, 2}
    assert kept(keys | {frozenset({3})}, 0, 1) == {0, 1, 3}
    assert kept(frozenset(), 3) == {3}
    assert kept(frozenset({frozenset({4})}), 3) == {3}, "not by a float"
    assert kept(frozenset({frozenset({5})}), 3) == {3}, "a table has no such column"
    assert kept(keys) == {0, 1}, "by which rows are counted"
    assert kept(frozenset()) == frozenset(), "how many rows there are is asked of the source"


def test_spark_knows_that_a_copy_with_changes_of_several_frames_is_small(copied: Shop) -> None:
    if copied.engine.kind != "spark":
        pytest.skip("of Spark's estimates")
    random = Random(6)
    with copied.open() as warehouse:
        warehouse.refresh()
        for _ in range(2):
            change(copied, random)
            warehouse.refresh()
        copy = warehouse.frame().views["copy~b.people"]
        assert len(reader.generations(copy)) == 2
        rows = reader.content(warehouse.engine.maintenance, warehouse.lake.path, copy)
        query = rows._jdf.queryExecution()  # type: ignore[operator]
        assert int(str(query.optimizedPlan().stats().sizeInBytes())) < 2**20


def test_a_view_that_reads_another_column(copied: Shop) -> None:
    with copied.open() as warehouse:
        warehouse.refresh()
        notes = {"notes": "SELECT id, note FROM a.orders WHERE amount > 3"}
        copied.views(text(notes), "more.sql")
        change(copied, Random(1))
        modes = {name: outcome.mode for name, outcome in warehouse.maintain().outcomes.items()}
        assert modes.pop("notes") == "full"
        assert set(modes.values()) <= {"incremental", "unchanged"}, "the others go on while copies are made"
        assert_right(warehouse)
        change(copied, Random(2))
        assert {o.mode for o in warehouse.maintain().outcomes.values()} <= {"incremental", "unchanged"}
        assert_right(warehouse)


def test_a_copy_that_nobody_reads_is_gone(copied: Shop) -> None:
    copied.views(text({"orders_only": "SELECT id, amount FROM a.orders"}), "views.sql")
    copied.views(text({"people_only": "SELECT id, name FROM b.people"}), "people.sql")
    with copied.open() as warehouse:
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~a.orders", "copy~b.people"}
        warehouse.drop("people_only")
        change(copied, Random(3))
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~a.orders"}
        assert_right(warehouse)


def test_a_copy_waits_only_for_views_that_were_shown(copied: Shop) -> None:
    copied.views(text({"orders_only": "SELECT id, amount FROM a.orders"}), "views.sql")
    copied.views(text({"people_only": "SELECT id, name FROM b.people"}), "people.sql")
    with copied.open() as warehouse:
        warehouse.refresh()
        copied.views(text({"people_only": "SELECT id, nothing FROM b.people"}), "people.sql")
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~a.orders", "copy~b.people"}
        warehouse.drop("people_only")
        copied.views(text({"never": "SELECT nothing FROM b.people"}), "never.sql")
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~a.orders"}


@pytest.mark.slow_on_spark
def test_one_view_goes_on_while_others_are_held(copied: Shop) -> None:
    random = Random(5)
    with copied.open() as warehouse:
        warehouse.refresh()
        for name in ("by_town", "joined"):
            change(copied, random)
            warehouse.refresh(name)
        change(copied, random)
        result = warehouse.maintain()
        assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}
        assert_right(warehouse)


def test_a_view_that_was_held_while_its_copy_was_made_anew_goes_forward(copied: Shop) -> None:
    strict = "CREATE MATERIALIZED VIEW joined WITH (refresh_policy = 'incremental_strict') AS "
    views = f"{strict} {VIEWS['joined']};"
    copied.views(views)
    with copied.open() as warehouse:
        warehouse.maintain()
        copied.views(f"{views} CREATE MATERIALIZED VIEW notes AS SELECT id, note FROM a.orders;")
        warehouse.maintain(["notes"])
        for number in (10, 11):
            copied.write("a", f"INSERT INTO orders VALUES ({number}, 1, 1, 'n')")
            result = warehouse.maintain()
            assert not result.failures
            assert result.outcomes["joined"].mode == "incremental"
        assert_right(warehouse)


def test_a_float_is_found_however_it_is_spelled(shop: Shop) -> None:
    def put(values: list[float]) -> None:
        (shop.root / "m").mkdir(exist_ok=True)
        rows = pa.table({"id": list(range(len(values))), "x": values})
        pq.write_table(rows, shop.root / "m" / "all.parquet")

    shop.source(
        "a", "CREATE TABLE p (id INTEGER PRIMARY KEY, x REAL); INSERT INTO p VALUES (1, 0.0), (2, 1.5);"
    )
    put([1.5])
    shop.configure(extra='  m: {files: "m/*.parquet", key: [id]}\ncopies: [a.p]\n')
    over_view = "SELECT m.id, low.id AS p FROM m.m JOIN low ON low.x = m.x"
    over_copy = "SELECT m.id, p.id AS p FROM m.m JOIN a.p ON p.x = m.x"
    shop.views(text({"low": "SELECT id, x FROM a.p", "over_view": over_view, "over_copy": over_copy}))
    with shop.open() as warehouse:
        warehouse.refresh()
        put([1.5, -0.0])
        assert {o.mode for o in warehouse.maintain().outcomes.values()} <= {"incremental", "unchanged"}
        assert_right(warehouse)


def test_a_full_refresh_reads_the_source(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with copied.open() as warehouse:
        warehouse.refresh()
        asked: list[object] = []
        state = SqliteSource.state

        def counted(self: SqliteSource, *args: object, **named: object) -> object:
            asked.append(args[0])
            return state(self, *args, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(SqliteSource, "state", counted)
        warehouse.refresh("joined", full=True)
        assert sorted(map(str, asked)) == ["orders", "people"]
        change(copied, Random(4))
        warehouse.refresh()
        assert_right(warehouse)


@pytest.mark.slow_on_spark
def test_only_some_relations(copied: Shop) -> None:
    copied.configure(extra="copies: [A.Orders]\n")
    with copied.open() as warehouse:
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~a.orders"}
        for seed in range(3):
            change(copied, Random(seed))
            warehouse.refresh()
            assert_right(warehouse)


@pytest.mark.parametrize("value", ["most", "[orders]", "[c.orders]", "3", "{a: b}"])
def test_what_copies_cannot_be(copied: Shop, value: str) -> None:
    copied.configure(extra=f"copies: {value}\n")
    with pytest.raises(ProjectError) as caught:
        load_project(copied.root)
    assert caught.value.hint


# -- the choice left to what was measured


def slow_reads(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float]) -> None:
    """What asking for rows of a relation takes is what these sessions say."""
    learned = Learning.staged

    def staged(self: Learning, kind: str, relation: str, staged: Staged, took: float) -> None:
        learned(self, kind, relation, staged, took if kind == "change" else seconds.get(relation, 0.0))

    monkeypatch.setattr(Learning, "staged", staged)


def test_a_relation_that_is_dear_to_ask_for_is_copied(copied: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    slow_reads(monkeypatch, {"b.people": 5.0})
    copied.configure(extra="copies: auto\n")
    copied.views(text({"joined": VIEWS["joined"]}))
    random = Random(11)
    with copied.open() as warehouse:
        warehouse.refresh()
        for _ in range(3):
            assert copies_in(warehouse) == set()
            change(copied, random)
            warehouse.refresh()
        told = warehouse.plan("joined")["copies"]
        assert told["b.people"]["wanted"] and not told["b.people"]["copied"]
        assert not told["a.orders"]["wanted"]
        for _ in range(3):
            change(copied, random)
            assert warehouse.maintain().outcomes["joined"].mode == "incremental"
            assert copies_in(warehouse) == {"copy~b.people"}
            assert_right(warehouse)
        told = warehouse.plan("joined")["copies"]["b.people"]
        assert told["copied"] and told["read"]


def test_a_view_that_a_live_protocol_leads_is_told_to_read_its_sources(copied: Shop) -> None:
    led = (
        "CREATE MATERIALIZED VIEW led WITH (algorithm = 'strobe') AS"
        " SELECT o.id, p.id AS who, p.name FROM a.orders o JOIN b.people p ON p.id = o.who;"
        "CREATE MATERIALIZED VIEW over_it AS SELECT name FROM led;"
    )
    copied.views(text({"joined": VIEWS["joined"]}) + "\n" + led)
    with copied.open() as warehouse:
        warehouse.refresh()
        for name, read in (("joined", True), ("led", False), ("over_it", False)):
            told = warehouse.plan(name)["copies"]
            assert {
                relation: (each["copied"], each["read"]) for relation, each in told.items()
            } == dict.fromkeys(("a.orders", "b.people"), (True, read))


def test_a_copy_that_is_dearer_to_keep_is_given_up(copied: Shop) -> None:
    copied.configure(extra="copies: auto\n")
    copied.views(text({"joined": VIEWS["joined"]}))
    dear = Statistics().with_relation("b.people", rows=3.0, read_seconds=9.0, changed=1.0, sessions=9)
    random = Random(12)
    with copied.open() as warehouse:
        warehouse.refresh()
        write_statistics(warehouse.project.warehouse, copied.engine_name, dear)
        change(copied, random)
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~b.people"}
        cheap = Statistics().with_relation("b.people", rows=3.0, read_seconds=0.001, changed=1e7, sessions=9)
        write_statistics(warehouse.project.warehouse, copied.engine_name, cheap)
        for _ in range(2):
            change(copied, random)
            assert warehouse.maintain().outcomes["joined"].mode == "incremental"
            assert copies_in(warehouse) == set()
            assert_right(warehouse)


def test_a_choice_is_not_changed_for_little() -> None:
    known = Relation(rows=1e6, read_seconds=0.05, changed=0.0, sessions=9)
    new, old = (Worth.of(known, BUILT_IN["sail"], 0.1, 36, kept=kept) for kept in (False, True))
    assert new.is_worth_it and old.is_worth_it
    close = Relation(rows=1e6, read_seconds=0.021, changed=0.0, sessions=9)
    new, old = (Worth.of(close, BUILT_IN["sail"], 0.1, 36, kept=kept) for kept in (False, True))
    assert not new.is_worth_it and old.is_worth_it
    once = Relation(read_seconds=9.0, sessions=1)
    assert not Worth.of(once, BUILT_IN["sail"], 0.1, 36, kept=False).is_worth_it
    never = Worth.of(Relation(rows=1e6, changed=1e6), BUILT_IN["sail"], 0.1, 36, kept=True)
    assert never.is_worth_it, "a copy is not given up for asking that was never measured"


def test_copies_stay_when_the_choice_is_left_to_what_is_measured(copied: Shop) -> None:
    with copied.open() as warehouse:
        warehouse.refresh()
    copied.configure(extra="copies: auto\n")
    random = Random(3)
    with copied.open() as warehouse:
        for _ in range(2):
            change(copied, random)
            result = warehouse.maintain()
            assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}
            assert copies_in(warehouse) == {"copy~a.orders", "copy~b.people"}
        assert_right(warehouse)


def test_a_relation_is_copied_by_its_key_where_no_column_is_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.source("a", ORDERS + "INSERT INTO orders VALUES (1, 1, 5, 'x');")
    shop.configure(extra="copies: all\n")
    shop.views(text({"how_many": "SELECT count(*) AS n FROM a.orders"}))
    with shop.open() as warehouse:
        warehouse.refresh()
        assert copies_in(warehouse) == {"copy~a.orders"}
        monkeypatch.setattr(SqliteSource, "state", lambda *_: pytest.fail("the source is asked"))
        shop.write("a", "INSERT INTO orders VALUES (2, 1, 5, 'x')", "UPDATE orders SET id = 3 WHERE id = 1")
        assert warehouse.maintain().outcomes["how_many"].mode == "incremental"
        assert [tuple(row) for row in warehouse.view("how_many").collect()] == [(2,)]
