"""`stillframe costs`: its document, its tables, its drawings."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from rich.console import Console

from stillframe.cli import costs as verb
from stillframe.cli.curves_svg import Axis, curves_svg, figures, file_name
from stillframe.cli.main import main
from stillframe.protocol import ALGORITHMS
from stillframe.simulator.cost_curves import Scope, Study
from stillframe.simulator.cost_notes import notes

ASKED = ["costs", "--k", "6,3", "--c", "4,12"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def study():
    return Study(Scope(ks=(3, 6), cs=(4, 12), worst=6, compared=(3, 6))).run()


@pytest.fixture(scope="module")
def document(study):
    return json.loads(json.dumps({**study.document(), "notes": notes(study)}))


@pytest.fixture
def counted(study, monkeypatch):
    """What a run counts, without the time it takes."""
    asked = []
    monkeypatch.setattr(verb, "Study", lambda scope, report: asked.append(scope) or study)
    monkeypatch.setattr(Study, "run", lambda self: self)
    return asked


def curve(document, **wanted):
    (found,) = [c for c in document["curves"] if all(c[key] == value for key, value in wanted.items())]
    return dict(found["points"])


def test_the_document_has_curves_of_every_kind(document):
    for each in document["curves"]:
        assert set(each) == {"figure", "x", "y", "algorithm", "case", "kind", "points"}
    assert {c["kind"] for c in document["curves"]} == {"formula", "degenerate", "random", "steady"}
    for figure in ("6.1", "6.2", "6.3", "6.4", "6.5"):
        own = [c for c in document["curves"] if c["figure"] == figure]
        assert {(c["algorithm"], c["case"]) for c in own if c["kind"] == "formula"} == {
            ("rv", "best"), ("rv", "worst"), ("eca", "best"), ("eca", "worst")
        }  # fmt: skip


def test_counts_stand_beside_formulas(document):
    asked = {"figure": "6.3", "algorithm": "eca", "case": "best"}
    assert curve(document, kind="formula", **asked)[6] == 192
    assert curve(document, kind="degenerate", **asked)[6] == 192
    assert curve(document, kind="random", **asked)[6] != 192
    assert curve(document, figure="6.2", algorithm="rv", case="best", kind="degenerate") == {4: 128, 12: 384}


def test_every_algorithm_that_applies_is_compared(document):
    one = {c["algorithm"] for c in document["curves"] if c["figure"] == "one-together-bytes"}
    three = {c["algorithm"] for c in document["curves"] if c["figure"] == "three-together-bytes"}
    assert one == set(ALGORITHMS)
    assert one - three == {"rv", "eca", "eca-key", "eca-local", "lca"}
    assert curve(document, figure="one-apart-messages", algorithm="basic")[6] == 12
    assert curve(document, figure="one-apart-messages", algorithm="eca-key")[6] == 6
    assert set(curve(document, figure="three-together-messages", algorithm="sc").values()) == {0}


def test_crossovers_are_found_in_formulas_and_counts(document):
    found = {(c["figure"], c["case"]): c for c in document["crossovers"]}
    assert found["6.2", "best"]["degenerate"] == [None, 4]
    assert found["6.3", "best"]["formula"] == 100
    assert found["6.3", "best"]["degenerate"] == [6, None]
    assert found["6.4", "worst"]["degenerate"] == [2, 3]
    assert found["6.5", "worst"]["degenerate"] == [5, 6]
    assert (found["6.5", "worst"]["first"], found["6.5", "best"]["first"]) == (6, 9)


def test_c_strobe_is_counted_against_the_factorial(document):
    assert [(e["relations"], e["factorial"], e["counted"]) for e in document["c_strobe"]] == [
        (2, 1, 0), (3, 2, 2), (4, 6, 9), (5, 24, 40)
    ]  # fmt: skip
    assert all(entry["sum"] == entry["counted"] for entry in document["c_strobe"])


def test_the_usual_scope_counts_both_sides_of_every_crossover(study):
    usual = Study(Scope())
    ks = usual._ks("degenerate")
    assert {2, 3, 5, 6, 8, 9, 29, 30, 99, 100} <= set(ks)


def test_json_is_one_document(counted, capsys):
    assert main([*ASKED, "--json"]) == 0
    said = capsys.readouterr()
    assert {"curves", "crossovers", "c_strobe", "notes", "parameters"} <= set(json.loads(said.out))
    assert said.err == ""
    (scope,) = counted
    assert (scope.ks, scope.cs, scope.worst, scope.compared) == ((3, 6), (4, 12), 6, (3, 6))


def test_text_is_quiet_on_stderr_and_names_every_figure(counted, capsys):
    assert main(ASKED) == 0
    said = capsys.readouterr()
    assert said.err == ""
    for words in ("6.2  bytes", "6.5  reads", "where ECA begins", "three sources", "C-Strobe"):
        assert words in said.out
    assert "\n  The text says 5 < k < 8." in said.out


def test_eighty_columns_hold_every_table(document):
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    for renderable in verb._told(document, given=False):
        console.print(renderable, highlight=False)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "rv best     formula" in text  # side by side, not stacked


def test_more_columns_than_fit_become_more_tables(document):
    many = {**document, "k": list(range(1, 14))}
    assert len(list(verb._figure(many, "6.3"))) == 1 + 3


@pytest.mark.parametrize("given", ["0", "a", "3,,4", "-1", "3;4", ""])
def test_what_is_no_list_of_numbers_is_bad_usage(given, capsys):
    assert main(["costs", "--k", given]) == 2
    assert "numbers from 1" in capsys.readouterr().err


def test_a_folder_that_cannot_be_is_refused_before_counting(tmp_path, counted, capsys):
    (tmp_path / "file").write_text("")
    assert main([*ASKED, "--svg", str(tmp_path / "file" / "in")]) == 2
    assert "--svg takes a folder" in capsys.readouterr().err
    assert not counted


# Drawings.


def test_every_figure_is_drawn(counted, document, tmp_path, capsys):
    assert main([*ASKED, "--svg", str(tmp_path / "new"), "--json"]) == 0
    drawn = json.loads(capsys.readouterr().out)["drawn"]
    assert sorted(drawn) == sorted(str(path) for path in (tmp_path / "new").iterdir())
    assert {"figure-6.2.svg", "figure-6.5.svg", "one-apart-bytes.svg"} <= {
        path.name for path in (tmp_path / "new").iterdir()
    }
    for figure in figures(document):
        text = (tmp_path / "new" / file_name(figure)).read_text()
        assert text == curves_svg(document, figure)


def shapes(document, figure):
    root = ElementTree.fromstring(curves_svg(document, figure))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    return root, texts, width, height


def test_a_drawing_names_axes_series_and_kinds(document):
    _, texts, _, _ = shapes(document, "6.3")
    assert {"6.3: bytes over k updates", "k", "bytes (logarithmic)", "rv best", "eca worst"} <= set(texts)
    assert {"formula", "counted, degenerate"} <= set(texts)
    assert "C = 100, S = 4, sigma = 0.5, J = 4, K = 20, seed = 0" in texts
    assert "S = 4, sigma = 0.5, J = 4, K = 20, seed = 0" in shapes(document, "6.2")[1]


def test_a_drawing_names_equal_curves_together_and_zero(document):
    _, texts, _, _ = shapes(document, "three-together-messages")
    assert "strobe, t-strobe, g-strobe" in texts
    assert "sc (always 0)" in texts


def test_everything_drawn_is_inside(document):
    for figure in figures(document):
        root, _, width, height = shapes(document, figure)
        for mark in root.iter(f"{SVG}circle"):
            assert 0 < float(mark.attrib["cx"]) < width and 0 < float(mark.attrib["cy"]) < height
        for text in root.iter(f"{SVG}text"):
            x, y = float(text.attrib["x"]), float(text.attrib["y"])
            end = x + (len(text.text) * 7.2 if "text-anchor" not in text.attrib else 0)
            assert 0 <= x <= end <= width, text.text
            assert 0 < y <= height, text.text


@pytest.mark.parametrize(
    ("values", "high", "logarithmic", "named"),
    [
        ([1, 7], 7, False, 8),
        ([0, 100], 100, False, 11),
        ([0], 1, False, 11),
        ([3, 9600], 10_000, True, 5),
        ([0, 2, 120], 1000, True, 4),
    ],
)
def test_axes_reach_over_their_values_in_round_steps(values, high, logarithmic, named):
    axis = Axis.around(values, may_be_logarithmic=True)
    assert (axis.high, axis.logarithmic) == (high, logarithmic)
    assert all(0 <= axis.share(value) <= 1 for value in values)
    assert sum(is_named for _, is_named in axis.ticks()) == named
