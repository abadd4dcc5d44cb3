"""`stillframe spectrum`: table, picture, document and the files of its witnesses."""

from __future__ import annotations

import io
import json
import re
import shlex
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from rich.console import Console

from stillframe.cli import spectrum as verb
from stillframe.cli.main import main
from stillframe.cli.spectrum_svg import spectrum_svg
from stillframe.protocol import ALGORITHMS, Setting
from stillframe.simulator import spectrum as derived

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def cells():
    return derived.spectrum(0, 0, workers=1)


@pytest.fixture
def explored(cells, monkeypatch):
    """What a run explores, without the time it takes."""
    asked = []

    def made(seed, each, *, workers, told):
        asked.append((seed, each))
        for cell in cells:
            told(cell)
        return cells

    monkeypatch.setattr(derived, "spectrum", made)
    return asked


def told(capsys, *arguments: str):
    assert main(["spectrum", "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def rendered(found, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(verb.Grid(found))
    return console.file.getvalue()


def test_the_command_needs_no_project_and_says_one_document(project):
    done = project.done("spectrum", "--scenarios", "0", "--seed", "7", "--json")
    assert done.err == ""
    found = done.document
    assert (found["seed"], found["scenarios"]) == (7, 0)
    assert [(c["algorithm"], c["setting"]) for c in found["cells"]] == [
        (name, setting) for name in ALGORITHMS for setting in Setting
    ]
    basic = found["cells"][1]
    assert (basic["level"], basic["paper"]["level"], basic["compared"]) == ("none", "none", "equal")
    assert basic["witness"]["breaks"] == "convergence"
    assert basic["witness"]["schedule"][0].startswith("x: U1 ")


def test_options_reach_the_exploration(explored, capsys):
    found = told(capsys, "--scenarios", "5", "--seed", "3")
    assert explored == [(3, 5)]
    assert "svg" not in found and "witnesses" not in found
    assert told(capsys)["scenarios"] == derived.EACH


def test_text_holds_table_legend_refusals_and_witnesses(explored, capsys):
    assert main(["spectrum"]) == 0
    written = capsys.readouterr()
    assert written.err == ""
    assert written.out.index("complete ") < written.out.index("convergent ") < written.out.index("none ")
    assert re.search(r"^none +2 = basic", written.out, re.MULTILINE)
    assert "= as the paper says" in written.out
    refused = "rv, eca, eca-key, eca-local, lca (many sources, single updates; global transactions)"
    assert f"not placed: {refused}: each is for views over one source" in written.out
    assert re.search(
        r"^ 2  basic +one source +convergence +two inserts that meet, 8 steps", written.out, re.M
    )
    assert re.search(r"^ 1  basic +centralised +nothing +\d+ scenarios, \d+ schedules", written.out, re.M)
    assert "--witnesses DIR" in written.out


@pytest.mark.parametrize("width", [60, 79, 80, 96, 100, 120, 400])
def test_the_table_fits_and_holds_every_cell(width, cells):
    found = derived.document(cells)
    text = rendered(found, width)
    assert max(map(len, text.splitlines())) <= width
    assert ("─" in text) == (width >= 80)
    for cell in found["cells"]:
        if cell["applicable"]:
            mark = verb.MARKS[cell["compared"]]
            name = re.escape(cell["algorithm"])
            assert re.search(rf"\b{cell['witness']['number']} ?{mark} ?{name}(?![\w-])", text), cell


def test_an_algorithm_stands_under_its_setting_and_in_its_level(cells):
    found = derived.document(cells)
    grid = verb.Grid(found)
    for cell in found["cells"]:
        for level in found["levels"]:
            there = [entry.plain for entry in grid.entries(level, cell["setting"], wide=True)]
            names = [text.split()[-1] for text in there]
            assert (cell["algorithm"] in names) == (cell["level"] == level)
            paper = cell["paper"] and cell["paper"]["level"]
            papers = cell["applicable"] and paper == level != cell["level"]
            assert (f"({cell['algorithm']})" in names) == bool(papers)


def test_marks_tell_below_from_above(cells):
    found = derived.document(cells)
    (strobe,) = (
        c for c in found["cells"] if (c["algorithm"], c["setting"]) == ("strobe", str(Setting.ONE_SOURCE))
    )
    strobe |= {"level": "weak", "compared": "below"}
    text = rendered(found, 100)
    assert f"{strobe['witness']['number']} ↓ strobe" in text and "(strobe)" in text
    assert "#fecaca" in spectrum_svg(found).split("</a>")[[*_names(found)].index(("strobe", "weak"))]


def _names(found):
    """Algorithms in the order they are drawn."""
    for level in reversed(found["levels"]):
        for setting in found["settings"]:
            for cell in found["cells"]:
                if (cell["level"], cell["setting"]) == (level, setting):
                    yield cell["algorithm"], level


def test_witness_files_are_replayed_by_the_command_that_is_printed(explored, capsys, tmp_path):
    folder = tmp_path / "a folder"
    found = told(capsys, "--witnesses", str(folder))
    assert found["witnesses"] == str(folder)
    expected = set()
    for cell in found["cells"]:
        if not cell["applicable"]:
            continue
        witness = cell["witness"]
        files = {kind: Path(path) for kind, path in witness["files"].items()}
        expected |= set(files.values())
        assert files["scenario"].read_text() == witness["scenario"]
        command = shlex.split(witness["replay"])
        assert command[:2] == ["stillframe", "simulate"]
        assert main([*command[1:], "--json"]) == 0
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert result["level"] == cell["level"]
        if witness["breaks"] is None:
            assert set(files) == {"scenario"} and result["exhaustive"]
        else:
            assert json.loads(files["schedule"].read_text()) == witness["schedule"]
            assert result["replay"]["complete"] and not result["holds"][witness["breaks"]]
    assert set(folder.iterdir()) == expected


def test_the_text_says_how_to_replay(explored, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["spectrum", "--witnesses", "w"]) == 0
    command = "stillframe simulate w/02-basic.yml --algorithm basic --schedule w/02-basic.json"
    assert f"replay, for example, 2: {command}\n" in capsys.readouterr().out


def links(picture: Path) -> dict[str, ElementTree.Element]:
    return {a.attrib["href"]: a for a in ElementTree.parse(picture).iter(f"{SVG}a")}


def test_the_picture_links_each_box_to_its_file(explored, capsys, tmp_path):
    picture = tmp_path / "pictures" / "spectrum.svg"
    picture.parent.mkdir()
    found = told(capsys, "--svg", str(picture), "--witnesses", str(tmp_path / "files & more"))
    assert found["svg"] == str(picture)
    linked = links(picture)
    by_number = {c["witness"]["number"]: c for c in found["cells"] if c["applicable"]}
    assert len(linked) == len(by_number)
    for href, box in linked.items():
        name, number = (text.text for text in box.iter(f"{SVG}text"))
        cell = by_number[int(number)]
        target = (picture.parent / unquote(href)).resolve()
        assert not href.startswith("/") and target.is_file() and target.name.startswith(f"{int(number):02}-")
        assert cell["algorithm"] == name
        tooltip = box.find(f"{SVG}title").text
        assert all(step in tooltip for step in cell["witness"]["schedule"] or ["nothing breaks in"])
        assert tooltip.startswith(f"{name}, {cell['setting']}: {cell['level']}")


def test_without_files_the_picture_links_to_its_own_list(explored, capsys, tmp_path):
    picture = tmp_path / "spectrum.svg"
    found = told(capsys, "--svg", str(picture))
    root = ElementTree.parse(picture).getroot()
    anchors = {f"#{g.attrib['id']}" for g in root.iter(f"{SVG}g") if "id" in g.attrib}
    assert set(links(picture)) == anchors
    assert len(anchors) == sum(cell["applicable"] for cell in found["cells"])
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {*ALGORITHMS, *found["levels"], *found["settings"]} <= texts
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for box in root.iter(f"{SVG}rect"):
        if box.attrib["width"] != "100%":
            assert float(box.attrib["x"]) + float(box.attrib["width"]) <= width
            assert float(box.attrib["y"]) + float(box.attrib["height"]) <= height


def test_no_boxes_overlap(cells):
    root = ElementTree.fromstring(spectrum_svg(derived.document(cells)))
    boxes = [
        tuple(float(box.attrib[side]) for side in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.attrib["width"] != "100%"
    ]
    for place, (x, y, width, height) in enumerate(boxes):
        for left, top, wide, high in boxes[:place]:
            assert x >= left + wide or left >= x + width or y >= top + high or top >= y + height


@pytest.mark.parametrize("arguments", [["--scenarios", "-1"], ["--seed", "x"], ["--project", "."], ["more"]])
def test_bad_usage_is_status_2(arguments, explored, capsys):
    assert main(["spectrum", *arguments]) == 2
    assert "error[USAGE]" in capsys.readouterr().err and explored == []


@pytest.mark.parametrize("option", ["--svg", "--witnesses"])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(option, explored, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["spectrum", option, str(tmp_path / "file" / "below")]) == 2
    written = capsys.readouterr()
    assert "error[USAGE]" in written.err and written.out == "" and explored == []


def test_a_terminal_sees_cells_being_done_and_a_pipe_nothing(cells):
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with verb._progress(console) as heard:
            for cell in cells[:3]:
                heard(cell)
        written = console.file.getvalue()
        assert ("3 of 65 cells; basic, many sources, single updates" in written) == terminal
        assert bool(written) == terminal
