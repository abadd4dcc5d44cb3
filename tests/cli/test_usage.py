"""Bad usage, bad projects, and what is said about them. No engine is started here."""

from __future__ import annotations

import json
import re

import pytest

from stillframe.cli.arguments import parser
from stillframe.cli.main import WITH_PROJECT, WITHOUT_PROJECT, main
from stillframe.runtime import load_project

VERBS = [*WITH_PROJECT, *WITHOUT_PROJECT]
PROMISED = """init demo check plan attach detach refresh run status show query frames verify drop rename
compact vacuum simulate spectrum costs calibrate"""
SECRET = "pa55:w@rd/x"


def said(err: str) -> dict[str, str]:
    """The parts of an error: its code, and message, detail and hint, each on one line."""
    parts = {}
    for line in err.splitlines():
        label, separator, text = line.partition(": ")
        assert separator, f"not a line of an error: {line!r}"
        code = re.fullmatch(r"error\[(\w+)\]", label)
        parts["message" if code else label] = text
        if code:
            parts["code"] = code[1]
    return parts


def test_the_command_knows_its_version_and_every_verb_with_an_example(project):
    assert re.fullmatch(r"stillframe \d+\.\d+\.\d+\n", project.done("--version").out)
    text = project.done("--help").out
    assert [verb for verb in VERBS if not re.search(rf"^    {verb} ", text, re.MULTILINE)] == []


@pytest.mark.parametrize("verb", VERBS)
def test_help_of(verb, capsys):
    with pytest.raises(SystemExit) as left:
        parser().parse_args([verb, "--help"])
    assert left.value.code == 0
    assert f"example:\n  stillframe {verb}" in capsys.readouterr().out


def test_every_verb_promised_is_there():
    assert set(VERBS) == set(PROMISED.split())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["show"],
        ["show", "v", "--limit", "-1"],
        ["calibrate", "--rows", "9999"],
        ["calibrate", "--engine", "duck"],
        ["show", "v", "--format", "xml"],
        ["refresh", "--nothing"],
        ["demo", "--seconds", "0"],
        ["plan", "v", "--expression", "forest"],
    ],
)
def test_bad_usage_is_status_2(arguments, capsys):
    assert main(arguments) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert said(written.err)["code"] == "USAGE"
    assert "--help" in said(written.err)["hint"]


def test_options_stand_before_or_after_the_verb(tmp_path, capsys):
    missing = str(tmp_path / "nowhere")
    for arguments in (["--project", missing, "check"], ["check", "--project", missing]):
        assert main(arguments) == 2
        assert missing in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "not valid YAML"),
        ("- just\n- a list\n", "must be a mapping"),
        ("warehouse: ./w\n", "needs a name"),
        ("name: x\nsauces: {}\n", "unknown key sauces"),
        ("name: x\nsources: {shop: {file: shop.db}}\n", "needs a url"),
        ("name: x\nsources: {1: {url: 'sqlite:///a.db'}}\n", "cannot name a source"),
        ("name: x\nretention: soon\nsources: {}\n", "not a duration"),
        ("name: x\nspark: {engine: sial}\nsources: {}\n", "no engine 'sial'"),
        ("name: x\nspark: {maaster: local}\nsources: {}\n", "unknown key maaster"),
        ("name: x\nwarehouse: ./stillframe.yml\nsources: {}\n", "warehouse cannot be at"),
        ("name: x\nwarehouse: ./stillframe.yml/deep\nsources: {}\n", "warehouse cannot be at"),
    ],
)
def test_a_bad_project_is_status_2(text, words, project, capsys):
    project.configure(text)
    for verb in ("status", "refresh"):
        assert main([verb, "--project", str(project.root)]) == 2
        written = capsys.readouterr()
        assert written.out == ""
        assert words in said(written.err)["message"]


def test_a_folder_without_a_project_is_status_2_and_says_what_to_do(project):
    done = project.command("status", "--json")
    parts = said(done.err)
    assert done.status == 2 and "stillframe init" in parts["hint"]
    assert done.document == {"error": {"detail": "", **parts}}


@pytest.mark.parametrize(
    "arguments",
    [["--json"], ["fly", "--json"], ["show", "v", "--limit", "-1", "--json"], ["show", "--format", "json"]],
)
def test_bad_usage_is_one_document_too(arguments, capsys):
    assert main(arguments) == 2
    written = capsys.readouterr()
    error = json.loads(written.out)["error"]
    assert error["code"] == "USAGE" and set(error) == {"code", "message", "detail", "hint"}
    assert said(written.err)["message"] == error["message"]


SOMEWHERE = "sources: {crm: {url: 'sqlite:///crm.db'}}\n"


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nsources: {crm: {url: 'postgresql://app:${THE_NAME}@127.0.0.1/crm'}}\n",
        "name: ${THE_NAME}\n" + SOMEWHERE,
        "name: x\nwarehouse: ./${THE_NAME}\n" + SOMEWHERE,
        "name: x\nspark: {remote: 'sc://h;token=${THE_NAME}'}\n" + SOMEWHERE,
        "name: x\nspark: {conf: {spark.a: '${THE_NAME}'}}\n" + SOMEWHERE,
        "name: x\nsettle: {files: '${THE_NAME}'}\n" + SOMEWHERE,
    ],
    ids=["url", "name", "warehouse", "remote", "conf", "settle"],
)
def test_a_variable_may_stand_in_any_value_and_a_missing_one_is_named(text, project, capsys, monkeypatch):
    monkeypatch.delenv("THE_NAME", raising=False)
    project.configure(text)
    assert main(["check", "--project", str(project.root)]) == 2
    assert "THE_NAME" in said(capsys.readouterr().err)["message"]
    monkeypatch.setenv("THE_NAME", "7")
    found = load_project(project.root)
    assert "7" in str(found) and "THE_NAME" not in str(found)


def test_what_a_variable_holds_is_never_read_as_yaml(project, monkeypatch):
    monkeypatch.setenv("TOKEN", "a: [b}# '\"${TOKEN}")
    project.configure("name: x\nspark: {remote: 'sc://h;token=${TOKEN}'}\n" + SOMEWHERE)
    assert load_project(project.root).spark["remote"] == "sc://h;token=a: [b}# '\"${TOKEN}"


@pytest.mark.parametrize(
    "text",
    [
        "name: x\nsources: {crm: {url: 'oracle://app:${CRM_PASSWORD}@127.0.0.1/crm'}}\n",
        "name: x\nsources: {crm: {url: 'sqlite://app:${CRM_PASSWORD}@127.0.0.1/crm'}}\n",
        f"name: x\nsources: {{crm: {{url: 'postgresql://app:{SECRET}@127.0.0.1/crm' }}\n",
        f"name: x\nsources: {{crm: {{url: 'sqlite://h/crm?password={SECRET}'}}}}\n",
    ],
    ids=["unknown kind", "bad sqlite url", "broken YAML", "named in the query"],
)
def test_a_password_is_not_printed(text, project, capsys, monkeypatch):
    monkeypatch.setenv("CRM_PASSWORD", SECRET)
    project.configure(text)
    assert main(["check", "--project", str(project.root)]) == 2
    written = capsys.readouterr()
    assert "error[" in written.err
    for part in (SECRET, "pa55", "w@rd"):
        assert part not in written.out + written.err


def test_an_unexpected_failure_is_one_line_and_a_hint(project, capsys, monkeypatch):
    def broken(*_):
        raise RuntimeError("the roof leaks\nin two places")

    monkeypatch.setattr("stillframe.cli.main.open_project", broken)
    monkeypatch.delenv("STILLFRAME_DEBUG", raising=False)
    assert main(["check"]) == 1
    parts = said(capsys.readouterr().err)
    assert parts["message"] == "RuntimeError: the roof leaks"
    assert "STILLFRAME_DEBUG=1" in parts["hint"]
    monkeypatch.setenv("STILLFRAME_DEBUG", "1")
    assert main(["check"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_watching_is_refused_where_it_cannot_be(shop, capsys):
    for arguments in (["--json"], []):
        assert main(["status", "--watch", "--project", str(shop.root), *arguments]) == 2
        assert said(capsys.readouterr().err)["code"] == "USAGE"
