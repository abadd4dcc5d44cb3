"""`stillframe simulate`: the documents scripts rely on, what people read, and what is said about mistakes."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from stillframe.cli import output as outputs
from stillframe.cli.main import main
from stillframe.protocol import ALGORITHMS, PUBLISHED

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples" / "scenarios"
DELETION = str(EXAMPLES / "deletion-anomaly.yml")
INSERTION = str(EXAMPLES / "insertion-anomaly.yml")
PROMISED = "algorithm applicable reason schedules exhaustive level holds finals counterexample messages bytes"
NAMES = "basic rv sc eca eca-key eca-local lca strobe t-strobe g-strobe c-strobe c-t-strobe tid"
TWO_VIEWS = """\
name: two views
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: y, columns: [B, C], key: [B], rows: []}
views:
  all_of_it: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
  only_r1: SELECT r1.A FROM r1
updates: ["insert r2 [2, 3]", "insert r1 [4, 2]"]
"""


class Command:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """What a command writes; its errors where it fails."""
        assert main(["simulate", *arguments]) == status
        written = self.capsys.readouterr()
        self.err = written.err
        return written.err if status and "--json" not in arguments else written.out

    def document(self, *arguments: str, status: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", status=status))


@pytest.fixture
def simulate(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture
def two_views(tmp_path: Path) -> str:
    (tmp_path / "two.yml").write_text(TWO_VIEWS)
    return str(tmp_path / "two.yml")


def steps_of(text: str) -> list[str]:
    return re.findall(r"^ *\d+  (\S.*)$", text, re.MULTILINE)


# Documents


def test_all_algorithms_on_one_scenario(simulate: Command) -> None:
    document = simulate.document(INSERTION)
    assert document["scenario"] == "insertion anomaly" and simulate.err == ""
    results = {each["algorithm"]: each for each in document["results"]}
    assert " ".join(results) == NAMES
    for each in results.values():
        assert set(PROMISED.split()) <= set(each)
    assert {name for name, each in results.items() if not each["applicable"]} == {"eca-key"}
    refused = results["eca-key"]
    assert "key of every relation in the view" in refused["reason"] and refused["code"] == "KEY_NOT_IN_VIEW"
    assert refused["level"] is None and refused["finals"] == []
    assert all(
        each["exhaustive"] and each["schedules"] > 1 for each in results.values() if each["applicable"]
    )
    assert {name: results[name]["level"] for name in ("basic", "eca", "sc", "c-strobe")} == {
        "basic": "none",
        "eca": "strong",
        "sc": "complete",
        "c-strobe": "complete",
    }
    assert results["sc"]["counterexample"] is None and results["sc"]["messages"] == {"min": 0, "max": 0}
    assert results["eca"]["finals"] == [
        [{"row": [1, "Berlin"], "count": 1}, {"row": [2, "Berlin"], "count": 1}]
    ]
    assert results["eca"]["finals"] == [results["eca"]["expected"]]


def test_a_counterexample_says_what_it_breaks_and_why(simulate: Command) -> None:
    [basic] = simulate.document(INSERTION, "--algorithm", "basic")["results"]
    assert basic["holds"] == dict.fromkeys(
        ["convergence", "weak", "pairwise", "consistency", "completeness"], False
    )
    assert basic["schedules"] == 10 and basic["messages"] == {"min": 4, "max": 4}
    assert len(basic["finals"]) == 2
    example = basic["counterexample"]
    assert example["breaks"] == "convergence" and len(example["schedule"]) == 8
    assert example["views"][0] == [] and example["views"][-1] in basic["finals"]
    assert example["state"] == len(example["views"]) - 1 and "full cut (shop 2)" in example["reason"]


def test_the_example_of_the_interface(simulate: Command) -> None:
    results = simulate.document(DELETION, "--algorithm", "basic,strobe,c-strobe,eca")["results"]
    assert [(each["algorithm"], each["level"]) for each in results] == [
        ("basic", "none"),
        ("strobe", "strong"),
        ("c-strobe", "complete"),
        ("eca", None),
    ]
    strobe = results[1]
    assert strobe["finals"] == [[{"row": [3, 2, 3, 4], "count": 1}, {"row": [5, 2, 3, 4], "count": 1}]]
    assert strobe["holds"]["consistency"] and not strobe["holds"]["completeness"]
    assert strobe["counterexample"]["breaks"] == "completeness"


def test_several_scenarios_give_a_list(simulate: Command, two_views: str) -> None:
    documents = simulate.document(INSERTION, two_views, "--algorithm", "sc,eca")
    assert [each["scenario"] for each in documents] == ["insertion anomaly", "two views"]
    assert [(each["algorithm"], each["view"], each["applicable"]) for each in documents[1]["results"]] == [
        ("sc", "all_of_it", True),
        ("eca", "all_of_it", False),
        ("sc", "only_r1", True),
        ("eca", "only_r1", True),
    ]
    text = simulate(INSERTION, two_views, "--algorithm", "all")
    for heading in ("insertion anomaly:", "two views, view all_of_it:", "two views, view only_r1:"):
        assert len(re.findall(rf"^{heading}", text, re.MULTILINE)) == 1


def test_one_view_of_several(simulate: Command, two_views: str) -> None:
    document = simulate.document(two_views, "--algorithm", "sc", "--view", "only_r1")
    assert [each["view"] for each in document["results"]] == ["only_r1"]
    assert "there are: all_of_it, only_r1" in simulate(two_views, "--view", "v", status=2)


def test_published_algorithms_are_named_beside_all(simulate: Command) -> None:
    published = next(iter(PUBLISHED))
    document = simulate.document(INSERTION, "--algorithm", f"all,{published},basic")
    names = [each["algorithm"] for each in document["results"]]
    assert names == [*ALGORITHMS, published]
    alone = simulate.document(INSERTION, "--algorithm", f" {published.upper()} ,")
    assert [each["algorithm"] for each in alone["results"]] == [published]


def test_sampling_is_seeded(simulate: Command) -> None:
    arguments = (INSERTION, "--algorithm", "basic", "--schedules", "6")
    first, again, other = (
        simulate.document(*arguments, "--seed", seed)["results"][0] for seed in ("4", "4", "5")
    )
    assert first == again
    assert (first["schedules"], first["exhaustive"], first["seed"]) == (6, False, 4)
    assert (other["seed"], other["worlds"]) == (5, None)
    text = simulate(*arguments, "--seed", "4")
    assert "6 random schedules, seed 4" in text and "the simplest schedule found" in text
    assert simulate.document(INSERTION, "--schedules", "exhaustive", "--algorithm", "sc")["results"][0][
        "exhaustive"
    ]


# Text


def test_the_table_is_all_there_is_for_many_algorithms(simulate: Command) -> None:
    text = simulate(DELETION)
    rows = {line.split()[0]: line for line in text.splitlines() if line.split()[:1]}
    assert re.search(r"none +\d\.\de12 +\d+,\d+ +18-20 +84-140 +3 of 4 wrong", rows["basic"])
    assert re.search(r"complete +112 +\d+ +0 +0 +right", rows["sc"])
    assert "rv, eca, eca-key, eca-local, lca do not apply: each is for views over one source" in text
    assert "the right final view: [3, 2, 3, 4], [5, 2, 3, 4]" in text
    assert not steps_of(text)
    more = re.search(r"^  stillframe simulate (.*)$", text, re.MULTILINE)
    assert more and shlex.split(more[1]) == [DELETION, "--algorithm", "basic"]


def test_named_algorithms_are_explained(simulate: Command) -> None:
    text = simulate(INSERTION, "--algorithm", "basic,sc,eca-key")
    assert "basic breaks convergence: " in text and "sc is complete: no schedule" in text
    assert steps_of(text)[0] == "shop: U1 insert customers [7, Berlin]" and len(steps_of(text)) == 8
    assert "shows  [1, Berlin], [2, Berlin] ×2  (state 2)" in text
    assert "held    empty → [1, Berlin] → [1, Berlin], [2, Berlin]" in text
    assert "why     the last state, 2, is not the content of the full cut (shop 2)." in text
    assert "hint: select the key, or use eca or strobe" in text
    assert "name it:" not in text


def test_all_beside_a_name_explains_the_name_only(simulate: Command) -> None:
    text = simulate(INSERTION, "--algorithm", "all,eca")
    assert "eca breaks completeness" in text and "basic breaks" not in text
    assert text.count(" breaks ") == 1 and "--algorithm basic" in text


@pytest.mark.parametrize(
    ("file", "algorithms"),
    [(INSERTION, ",".join(["all", *PUBLISHED])), (DELETION, "basic,t-strobe")],
    ids=["all", "two"],
)
def test_a_terminal_of_80_columns_is_wide_enough(file: str, algorithms: str, monkeypatch: Any) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(outputs, "_console", lambda *_, **__: terminal)
    assert main(["simulate", file, "--algorithm", algorithms]) == 0
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).splitlines()
    tables = [line for line in lines if re.search(r" (right|wrong) *$", line)]
    assert len(tables) >= 2 and all(len(line.rstrip()) <= 80 for line in tables)


def test_faults_are_told_in_the_heading(simulate: Command, tmp_path: Path) -> None:
    file = tmp_path / "faults.yml"
    more = "channels: {x: [lose, reorder]}\nisolation: {y: read-committed}\ncrashes: 1\n"
    file.write_text(TWO_VIEWS + more)
    text = simulate(str(file), "--algorithm", "sc", "--schedules", "3")
    assert "2 transactions, 2 sources, 1 crash, x may lose, reorder, y read-committed; 3 random" in text


# Replaying


def test_a_printed_schedule_replays(simulate: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_text(simulate(INSERTION, "--algorithm", "basic", "--json"))
    example = json.loads(run.read_text())["results"][0]["counterexample"]
    for text in (
        run.read_text(),
        json.dumps(example["schedule"]),
        simulate(INSERTION, "--algorithm", "basic"),
    ):
        run.write_text(text)
        document = simulate.document(INSERTION, "--algorithm", "basic", "--schedule", str(run))
        [result] = document["results"]
        assert result["level"] == "none" and result["schedules"] == 1
        assert result["counterexample"]["schedule"] == example["schedule"]
        assert result["counterexample"]["views"] == example["views"]
        replayed = result["replay"]
        assert replayed["complete"] and replayed["possible"] == []
        assert [step["label"] for step in replayed["steps"]] == example["schedule"]
        assert replayed["steps"][-1]["view"] == example["views"][-1]
        assert replayed["steps"][2]["in_flight"] == [
            {"from": "shop", "to": "warehouse", "messages": ["U2"]},
            {"from": "warehouse", "to": "shop", "messages": ["Q[U1].shop"]},
        ]
        assert replayed["steps"][2]["state"] == "pending Q[U1]"


def test_a_replay_shows_each_step_closely(simulate: Command, tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(simulate(INSERTION, "--json"))
    text = simulate(INSERTION, "--algorithm", "eca", "--schedule", str(run))
    assert text.startswith("insertion anomaly, eca: 8 steps")
    assert text.count("moves  ") == 8 and "keeps  unanswered Q[U1].shop; collected U1" in text
    assert "level strong: it has convergence, weak, pairwise, consistency, and breaks completeness" in text
    again = tmp_path / "again.txt"
    again.write_text(text)
    assert simulate(INSERTION, "--algorithm", "eca", "--schedule", str(again)) == text


def test_a_schedule_that_ends_early_is_judged_as_it_stands(simulate: Command, tmp_path: Path) -> None:
    run = tmp_path / "early.yml"
    run.write_text("- shop: U1 insert customers [7, Berlin]\n- warehouse: receives U1 from shop\n")
    text = simulate(INSERTION, "--algorithm", "basic", "--schedule", str(run))
    assert "the schedule ends early and is judged as it stands" in text
    assert "next   shop: U2 insert orders [2, 7] | shop: answers Q[U1].shop" in text
    [result] = simulate.document(INSERTION, "--algorithm", "basic", "--schedule", str(run))["results"]
    assert not result["replay"]["complete"] and len(result["replay"]["possible"]) == 2
    assert not result["holds"]["convergence"] and result["holds"]["consistency"]


def test_a_schedule_that_does_not_fit_says_where(simulate: Command, tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text('["shop: U1 insert customers [7, Berlin]", "shop: answers Q[U1].shop"]')
    said = simulate(INSERTION, "--algorithm", "basic", "--schedule", str(run), status=2)
    assert "error[BAD_SCHEDULE]: step 2 is not possible: shop: answers Q[U1].shop" in said
    assert "possible there: shop: U2 insert orders [2, 7] | warehouse: receives U1 from shop" in said


def test_whose_schedule_it_is_must_be_clear(simulate: Command, two_views: str, tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    of_two = (two_views, "--schedule", str(run))
    run.write_text(simulate(INSERTION, "--json"))
    assert "several schedules" in simulate(INSERTION, "--schedule", str(run), status=2)
    run.write_text(simulate(two_views, "--json"))
    text = simulate(*of_two, "--algorithm", "basic", "--view", "all_of_it")
    assert text.startswith("two views, basic on view all_of_it: ")
    assert "no schedule of sc" in simulate(*of_two, "--algorithm", "sc", status=2)
    assert "one algorithm" in simulate(*of_two, "--algorithm", "basic,sc", status=2)
    assert "one scenario" in simulate(INSERTION, *of_two, status=2)
    run.write_text('["x: U1"]')
    assert "--algorithm NAME" in simulate(*of_two, status=2)
    assert "--view NAME" in simulate(*of_two, "--algorithm", "sc", status=2)
    assert "is for views over one source" in simulate(
        *of_two, "--algorithm", "eca", "--view", "all_of_it", status=2
    )
    assert "cannot be read" in simulate(INSERTION, "--schedule", str(tmp_path / "none"), status=2)


# Mistakes


def test_a_name_that_is_no_algorithm_is_answered_with_those_there_are(simulate: Command) -> None:
    said = simulate(INSERTION, "--algorithm", "strob", status=2)
    assert "error[USAGE]: there is no algorithm strob" in said and "hint: did you mean strobe?" in said
    assert all(name in said for name in (*ALGORITHMS, *PUBLISHED))
    assert "error[USAGE]" in simulate(INSERTION, "--algorithm", ",", status=2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("insert orders [2, 7]", "insert orders [2]"), "a row of 1"),
        (("insert orders [2, 7]", "delete orders [2, 7]"), "the row is not there"),
        (("updates:", "update:"), "unknown key update"),
        (("o.id, c.city", "o.id, c.town"), "town"),
        (("relations:", "relations: ["), "not YAML"),
    ],
)
def test_a_bad_scenario_is_bad_usage(
    simulate: Command, tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    file = tmp_path / "bad.yml"
    file.write_text(Path(INSERTION).read_text().replace(*change))
    err = simulate(INSERTION, str(file), status=2)
    assert "bad.yml" in err and said in err
    assert set(simulate.document(str(file), status=2)) == {"error"}


def test_a_view_that_cannot_be_computed_is_a_bad_scenario(simulate: Command, tmp_path: Path) -> None:
    file = tmp_path / "zero.yml"
    file.write_text(TWO_VIEWS.replace("SELECT r1.A FROM", "SELECT 1 / (r1.A - 4) AS q FROM"))
    assert "error[BAD_SCENARIO]" in simulate(str(file), "--view", "only_r1", status=2)


@pytest.mark.parametrize(
    "arguments",
    [[], [INSERTION, "--schedules", "0"], [INSERTION, "--schedules", "many"], [INSERTION, "--seed", "x"]],
)
def test_bad_usage(simulate: Command, arguments: list[str]) -> None:
    assert simulate(*arguments, status=2).startswith("error[USAGE]: ")


def test_a_file_that_is_not_there(simulate: Command) -> None:
    assert "error[BAD_SCENARIO]: nowhere.yml cannot be read" in simulate("nowhere.yml", status=2)


def test_too_many_worlds_is_a_failure_that_says_what_to_do(simulate: Command) -> None:
    few = (INSERTION, "--algorithm", "sc,basic", "--worlds", "10")
    err = simulate(*few, status=1)
    assert "error[TOO_MANY_WORLDS]: basic has more than 10 worlds" in err and "--schedules 1000" in err
    sc, basic = simulate.document(*few, status=1)["results"]
    assert sc["level"] == "complete" and "error" not in sc
    assert basic["level"] is None and basic["error"]["code"] == "TOO_MANY_WORLDS"
    assert set(PROMISED.split()) <= set(basic)


# Documentation


def test_the_page_for_users_shows_commands_that_run(
    simulate: Command, monkeypatch: Any, tmp_path: Path
) -> None:
    """Every command and every scenario of docs/simulator.md, in its order, in one folder."""
    page = (ROOT / "docs" / "simulator.md").read_text()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"```yaml\n# (\S+\.yml)\n(.*?)```", page, re.DOTALL):
        Path(name).write_text(text)
    commands = re.findall(r"^stillframe simulate (.*)$", page, re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        arguments, _, file = command.partition(" > ")
        written = simulate(*shlex.split(arguments))
        if file:
            Path(file).write_text(written)
