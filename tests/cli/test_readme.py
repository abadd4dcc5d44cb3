"""The README's commands work as they stand, and its story is true."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from stillframe.runtime import Step

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# These set up what this test runs in, or take long and have tests of their own.
LEFT_OUT = ("make ", "pip ", "git ", "stillframe spectrum", "stillframe costs")
ON_SAIL = "sed -i 's/engine: spark, master: \"local\\[\\*\\]\"/engine: sail/' shop/stillframe.yml"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def script() -> str:
    """Every command in order, the made project put on Sail to save time."""
    lines = ["set -eux"]
    for line in "".join(blocks("sh")).splitlines():
        if line.startswith(LEFT_OUT):
            continue
        lines.append(line.replace("examples/", f"{ROOT}/examples/"))
        if line == "stillframe init shop":
            lines.append(ON_SAIL)
    return "\n".join(lines) + "\n"


def test_the_commands(tmp_path):
    assert ON_SAIL in script() and script().count("stillframe ") >= 7
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^order_facts +incremental +CHANGES +1 +1 ", run.stdout, re.MULTILINE), run.stdout
    assert len(re.findall(r"^\w+ +ok +2 ", run.stdout, re.MULTILINE)) == 3, run.stdout
    (snippet,) = blocks("python")
    python = [sys.executable, "-c", snippet]
    run = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "3 29 True"


BANK = """
CREATE TABLE checking (owner INTEGER PRIMARY KEY, balance INTEGER);
CREATE TABLE savings (owner INTEGER PRIMARY KEY, balance INTEGER);
INSERT INTO checking VALUES (1, 500);
INSERT INTO savings VALUES (1, 500);
"""
CRM = "CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO owners VALUES (1, 'Ann');"
REPORT = """
CREATE MATERIALIZED VIEW report AS SELECT o.name, c.balance + s.balance AS total
FROM bank.checking c JOIN crm.owners o ON o.id = c.owner JOIN bank.savings s ON s.owner = c.owner;
"""
TRANSFER = (
    "UPDATE checking SET balance = balance - 100 WHERE owner = 1",
    "UPDATE savings SET balance = balance + 100 WHERE owner = 1",
)


def test_a_copy_job_shows_money_that_never_was(tmp_path):
    """The README's table, step by step."""
    bank = sqlite3.connect(tmp_path / "bank.db")
    bank.executescript(BANK)
    (checking,) = bank.execute("SELECT balance FROM checking WHERE owner = 1").fetchone()
    for statement in TRANSFER:
        bank.execute(statement)
    bank.commit()
    (savings,) = bank.execute("SELECT balance FROM savings WHERE owner = 1").fetchone()
    assert checking + savings == 1100


@pytest.mark.engine
def test_a_frame_does_not(make_shop):
    """The same transfer after every single read of a session."""
    shop = make_shop("bank")
    shop.source("bank", BANK)
    shop.source("crm", CRM)
    shop.views(REPORT)
    wh = shop.open()
    totals, reads = [], []

    def interfere(step, subject):
        if step in (Step.FIXED, Step.STAGED):
            reads.append(subject)
            shop.write("bank", *TRANSFER)

    wh.observe = interfere
    for _ in range(3):
        wh.refresh()
        totals += [tuple(row) for row in wh.view("report").collect()]
    assert len(reads) > 6
    assert totals == [("Ann", 1000)] * 3
