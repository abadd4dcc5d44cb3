"""Scenario files: what they say, what they may not say, and that what is written reads back the same."""

from __future__ import annotations

import pickle
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenario_mistakes import MISTAKES, small

from stillframe.algebra import Bag, evaluate, scans
from stillframe.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING
from stillframe.errors import ProjectError
from stillframe.simulator import Relation, Scenario, ScenarioError, Transaction, Update, load, read, write
from stillframe.simulator.yaml_text import flow, parse
from stillframe.sql import Refused, resolve

EXAMPLE = """\
name: deletion anomaly
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: y, columns: [B, C], key: [B], rows: []}
  r3: {source: z, columns: [C, D], key: [C], rows: [[3, 4]]}
view: >
  SELECT r1.A, r1.B, r2.C, r3.D FROM r1 JOIN r2 ON r1.B = r2.B JOIN r3 ON r2.C = r3.C
updates:
  - insert r2 [2, 3]
  - delete r1 [1, 2]
  - ["insert r1 [3, 2]", "insert r1 [4, 9]"]               # one source-local transaction
  - {global: g1, updates: ["insert r1 [5, 2]", "insert r3 [6, 1]"]}
"""
OPTIONAL = """\
params: {rv: {s: 2}, c-strobe: {k: 3}, eca: {batch: true}}
channels: {x: [lose, repeat, reorder], y: [lose]}
isolation: {x: read-committed}
report: coordinator
centralised: true
width: 8
order: any
crashes: 2
"""


# What a file says


def test_the_example_of_the_interface() -> None:
    scenario = read(EXAMPLE, "unused")
    assert scenario.name == "deletion anomaly"
    assert scenario.sources == ("x", "y", "z")
    assert scenario.relation("r1") == Relation("r1", "x", ("A", "B"), ("A",), ((1, 2),))
    assert scenario.source_of("r3") == "z"
    assert scenario.transactions == (
        Transaction("U1", (Update("r2", True, (2, 3)),)),
        Transaction("U2", (Update("r1", False, (1, 2)),)),
        Transaction("T3", (Update("r1", True, (3, 2)), Update("r1", True, (4, 9)))),
        Transaction("g1", (Update("r1", True, (5, 2)), Update("r3", True, (6, 1))), "g1"),
    )
    assert list(scenario.parts(scenario.transactions[3])) == ["x", "z"]
    assert [name for name, _ in scenario.views] == ["view"]
    defaults = (scenario.report, scenario.centralised, scenario.width, scenario.order, scenario.crashes)
    assert defaults == ("per-source", False, 4, "written", 0)
    assert scenario.isolation_of("x") == "serializable"


def test_plans_scan_relations_by_their_bare_names() -> None:
    scenario = read(EXAMPLE)
    plan = resolve(scenario.views[0][1], scenario.names())
    assert plan == scenario.plan()
    assert [scan.relation for scan in scans(plan)] == ["r1", "r2", "r3"]
    final = scenario.final()
    assert evaluate(plan, lambda scan: final[scan.relation]) == Bag.of([(3, 2, 3, 4), (5, 2, 3, 4)])
    assert scenario.schema("r1").keys == {frozenset({0})}
    assert [column.nullable for column in scenario.schema("r1")] == [False, True]


def test_optional_keys() -> None:
    scenario = read(EXAMPLE + OPTIONAL)
    assert scenario.params == {"rv": {"s": 2}, "c-strobe": {"k": 3}, "eca": {"batch": True}}
    assert scenario.channels == {"x": {"lose", "repeat", "reorder"}, "y": {"lose"}}
    assert scenario.isolation_of("x") == "read-committed"
    assert (scenario.report, scenario.order) == ("coordinator", "any")
    assert (scenario.centralised, scenario.width, scenario.crashes) == (True, 8, 2)


def test_several_views() -> None:
    text = small().replace("view: SELECT", "views: {a: SELECT r1.A FROM r1, b: 'SELECT")
    text = text.replace("r1.B = r2.B", "r1.B = r2.B'}")
    scenario = read(text)
    assert [name for name, _ in scenario.views] == ["a", "b"]
    assert [scan.relation for scan in scans(scenario.plan("a"))] == ["r1"]
    assert read(write(scenario)) == scenario


def test_scenarios_are_values() -> None:
    one, other = read(EXAMPLE + OPTIONAL), read(EXAMPLE + OPTIONAL)
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != read(EXAMPLE + OPTIONAL.replace("s: 2", "s: 3"))


def test_a_file_without_a_name_is_called_after_its_path(tmp_path: Path) -> None:
    path = tmp_path / "lost update.yml"
    path.write_text(small().replace("name: small\n", ""))
    assert load(path).name == "lost update"


def test_a_list_of_one_is_a_transaction_and_a_global_one_may_stay_at_one_source() -> None:
    updates = "[[delete r1 [1, 2]], {global: g, updates: ['insert r1 [1, 3]']}]"
    scenario = read(small(updates.replace("[delete r1 [1, 2]]", "['delete r1 [1, 2]']")))
    assert [transaction.id for transaction in scenario.transactions] == ["T1", "g"]
    assert read(write(scenario)) == scenario


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ('["a, b] [c", 1]', "a, b] [c"),
        ("['it''s', 1]", "it's"),
        ("[plain text, 1]", "plain text"),
        ('["2", 1]', "2"),
        ("[no, 1]", "no"),
        ("[1:30, 1]", "1:30"),
    ],
)
def test_text_in_rows(row: str, value: str) -> None:
    quoted = "'" + f"insert r2 {row}".replace("'", "''") + "'"
    text = small(f"[{quoted}]", rows="[]").replace("r1.B = r2.B", "r1.A > r2.C")
    scenario = read(text)
    assert scenario.transactions[0].updates[0].row == (value, 1)
    assert scenario.schema("r2").types == (STRING, BIGINT)


@pytest.mark.parametrize(
    ("values", "type_", "kept"),
    [
        ("1, -2, null", BIGINT, (1, -2, None)),
        ("true, false", BOOLEAN, (True, False)),
        ("a, b", STRING, ("a", "b")),
        ("0.5, 1e3", DOUBLE, (0.5, 1000.0)),
        ("1, 0.5", DOUBLE, (1.0, 0.5)),
        ("2024-02-29", DATE, (date(2024, 2, 29),)),
        ("null", BIGINT, (None,)),
        ("", BIGINT, ()),
    ],
)
def test_types_are_those_of_the_values(values: str, type_: object, kept: tuple[object, ...]) -> None:
    rows = "[" + ", ".join(f"[{value}]" for value in values.split(", ") if value) + "]"
    text = f"relations: {{r: {{source: x, columns: [A], rows: {rows}}}}}\nview: SELECT r.A FROM r"
    scenario = read(text)
    assert scenario.schema("r").types == (type_,)
    assert [repr(row) for row in scenario.relation("r").rows] == [repr((value,)) for value in kept]


def test_updates_count_for_a_columns_type() -> None:
    scenario = read(small("[insert r1 [3.5, 2]]").replace("[insert r1 [3.5, 2]]", "['insert r1 [3.5, 2]']"))
    assert scenario.schema("r1").types == (DOUBLE, BIGINT)
    assert repr(scenario.relation("r1").rows) == "((1.0, 2),)"


# What a file may not say


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake(mistake: str) -> None:
    text, message, detail, hint = MISTAKES[mistake]
    with pytest.raises(ScenarioError) as caught:
        read(text)
    error = caught.value
    assert isinstance(error, ProjectError)
    assert (error.code, error.exit_status) == ("BAD_SCENARIO", 2)
    assert re.search(message, error.message), error.message
    assert re.search(detail, error.detail), error.detail
    assert hint in error.hint, error.hint


def test_without_mistakes_the_small_scenario_is_read() -> None:
    assert read(small("['delete r1 [1, 2]', 'insert r1 [1, 3]']")).final()["r1"] == Bag.of([(1, 3)])
    assert read(small(rows="[[1, 2], [1, 2]]", key="[]")).initial()["r1"] == Bag({(1, 2): 2})


def test_a_modification_keeps_its_key_when_the_old_row_goes_first() -> None:
    scenario = read(small("[['delete r1 [1, 2]', 'insert r1 [1, 3]']]"))
    assert scenario.transactions[0].id == "T1"


def test_a_view_that_does_not_resolve_is_refused_with_every_reason(tmp_path: Path) -> None:
    text = small().replace("r1.A, r2.C FROM", "r1.Q, r2.R FROM")
    with pytest.raises(Refused) as caught:
        read(text)
    assert [reason.code for reason in caught.value.reasons] == ["UNKNOWN_COLUMN", "UNKNOWN_COLUMN"]
    assert caught.value.exit_status == 2
    path = tmp_path / "wrong.yml"
    path.write_text(text)
    with pytest.raises(Refused, match=r"view of .*wrong\.yml: "):
        load(path)


def test_errors_of_a_file_name_it(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(small(rows="7"))
    with pytest.raises(ScenarioError, match=r"bad\.yml: relation r1: rows is a list"):
        load(path)
    path.write_bytes(b"name: \xff\xfe")
    with pytest.raises(ScenarioError, match=r"bad\.yml cannot be read"):
        load(path)
    with pytest.raises(ScenarioError, match=r"none\.yml cannot be read"):
        load(tmp_path / "none.yml")


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(ScenarioError, match="this is not YAML"):
        read("params: " + "[" * 5000)


# What is written reads back the same

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,3}", fullmatch=True)
VALUES = {
    "whole": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(),
    "text": st.text(max_size=8) | st.sampled_from(["null", "no", "1", "a: b", " #x", "'", '"', "]", "é\n"]),
    "truth": st.booleans(),
    "date": st.dates(),
}


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique_by=str.lower))
    relations, transactions = [], []
    for name in names:
        columns = draw(st.lists(NAMES, min_size=1, max_size=3, unique_by=str.lower))
        kinds = [VALUES[draw(st.sampled_from(sorted(VALUES)))] for _ in columns]
        row = st.tuples(*(st.none() | kind for kind in kinds))
        rows = draw(st.lists(row, max_size=3))
        source = draw(st.sampled_from("xyz"))
        relations.append(Relation(name, source, tuple(columns), (), tuple(rows)))
        updates = [Update(name, True, new) for new in draw(st.lists(row, max_size=2))]
        if rows:
            updates.append(Update(name, False, rows[0]))
        if len(updates) > 1 and draw(st.booleans()):
            transactions.append(Transaction(f"T{name}", tuple(updates)))
        elif updates and draw(st.booleans()):
            group = f"g {name}"
            transactions.append(Transaction(group, tuple(updates), group))
        else:
            transactions += [Transaction(f"U{name}{i}", (update,)) for i, update in enumerate(updates)]
    space = draw(st.sampled_from(["", " ", "\n", "\n\n", "\n  ", " -- é\n"]))
    view = f"{space}SELECT 1 AS one {space}FROM `{names[0]}` {space}"
    many = draw(st.booleans())
    source = relations[0].source
    option = st.integers() | st.booleans() | st.text(max_size=5) | st.floats(allow_nan=False)
    return Scenario(
        name=draw(st.text(max_size=10)),
        relations=tuple(relations),
        views=(("view", view), ("other", view)) if many else (("view", view),),
        transactions=tuple(transactions),
        params=draw(st.dictionaries(st.sampled_from(["rv", "eca"]), st.dictionaries(NAMES, option))),
        channels={source: draw(st.frozensets(st.sampled_from(["lose", "repeat", "reorder"])))},
        isolation=draw(st.sampled_from([{}, {source: "read-committed"}])),
        report=draw(st.sampled_from(["per-source", "coordinator"])),
        centralised=draw(st.booleans()),
        width=draw(st.integers(1, 9)),
        order=draw(st.sampled_from(["written", "any"])),
        crashes=draw(st.integers(0, 2)),
    ).renumbered()


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_what_is_written_reads_back_the_same(scenario: Scenario) -> None:
    text = write(scenario)
    again = read(text, "another name")
    assert again == scenario
    assert repr(again.relations) == repr(scenario.relations)  # 1, 1.0 and true are equal, and not the same
    assert repr(again.transactions) == repr(scenario.transactions)
    assert write(again) == text


@given(st.recursive(st.none() | st.one_of(*VALUES.values()), lambda inner: st.lists(inner, max_size=3)))
def test_a_value_in_one_line_reads_back_the_same(value: object) -> None:
    assert repr(parse(flow(value))) == repr(value)
    assert "\n" not in flow(value)


def test_what_is_written_looks_like_the_interface() -> None:
    written = write(read(EXAMPLE + OPTIONAL))
    expected = re.sub(r" {3,}#.*", "", EXAMPLE).replace("view: >", "view: |")
    assert written == expected + OPTIONAL


def test_ids_come_from_places() -> None:
    scenario = read(EXAMPLE)
    fewer = Scenario("fewer", scenario.relations, scenario.views, scenario.transactions[2:])
    assert [transaction.id for transaction in fewer.transactions] == ["T3", "g1"]
    assert read(write(fewer)) == fewer.renumbered()
    assert [transaction.id for transaction in fewer.renumbered().transactions] == ["T1", "g1"]
