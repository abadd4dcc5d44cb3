"""differential: what the protocols ask for means to an engine what it means to the naive evaluator.

Worlds are small and protocols build few shapes, so a choice of plans shows every trait that any has; with
STILLFRAME_LONG=1 more are run, and all of them on Sail.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from plans_bench import Job, Respelled, other_sign, other_zero, values
from protocol_plans import asked, chosen, traits, worlds

from stillframe.algebra import (
    Bag,
    Column,
    Distinct,
    Join,
    KeyDelete,
    Monus,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    Type,
    UnionAll,
    call,
    evaluate,
)
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    decimal,
)
from stillframe.engine import Engine

pytestmark = pytest.mark.engine

LONG = os.environ.get("STILLFRAME_LONG") == "1"
PLANS = {"spark": 200, "sail": 5000} if LONG else {"spark": 30, "sail": 150}
TELLING = {
    "KeyDelete deletes some",
    "KeyDelete deletes by NULL",
    "KeyDelete by rows that went",
    "KeyDelete in KeyDelete",
    "KeyDelete rows that went",
    "Distinct of copies",
    "Distinct has NULL",
    "Monus of copies",
    "Join rows that went",
    "Join has NULL",
    "Project has no column",
    "Scan reads before",
    "Scan reads after",
    "Scan reads change",
}


def test_what_protocols_ask_for(engine: Engine, tmp_path: Path) -> None:
    every = asked(worlds(), 40 if LONG else 6)
    some = chosen(every, PLANS[engine.kind])
    shown = set[str]().union(*map(traits, some))
    assert shown >= TELLING, TELLING - shown
    found = values(engine, [(each.plan, dict(each.read)) for each in some], tmp_path)
    wrong = [(each, value) for each, value in zip(some, found, strict=True) if value != each.value]
    assert not wrong, _told(*wrong[0])


def _told(each: Any, value: Bag) -> str:
    read = "\n".join(f"{scan.relation} {scan.at}: {bag}" for scan, bag in each.read)
    return f"{each.algorithm}: {each.shape}\n{read}\nmeans {each.value}, but is {value}"


# Every type's awkward values.

VALUES: dict[Type, tuple[Any, ...]] = {
    BOOLEAN: (False, True),
    TINYINT: (0, -128, 127),
    SMALLINT: (0, -(2**15)),
    INT: (0, 2**31 - 1),
    BIGINT: (0, 2**63 - 1, -(2**63)),
    DOUBLE: (0.0, float("nan"), float("inf"), float("-inf"), 5e-324),
    decimal(38, 6): (Decimal(0), Decimal("1.000001"), Decimal(10) ** 31),
    STRING: ("", " ", "a", "A", "\x00", "é", "e\u0301"),
    BINARY: (b"", b"\x00", b"a"),
    DATE: (date(1970, 1, 1), date(1, 1, 1)),
    TIMESTAMP: (datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
}
ALL = Schema(tuple(Column(f"x{i}", type_) for i, type_ in enumerate(VALUES)))
LEFT, RIGHT = Scan("left", ALL), Scan("right", ALL)


def _awkward(random: Random) -> Bag:
    """Rows that differ in one value from the row of all neutral ones, or from that of NULLs."""
    neutral = tuple(of[0] for of in VALUES.values())
    rows = [neutral, (None,) * len(ALL)]
    for at, of in enumerate(VALUES.values()):
        rows += [(*base[:at], value, *base[at + 1 :]) for base in rows[:2] for value in (*of, None)]
    return Bag((row, random.choice((-1, 1, 2))) for row in rows if random.random() < 0.6)


def test_rows_are_compared_by_bag_identity(engine: Engine, tmp_path: Path) -> None:
    random = Random(1)
    read = {LEFT: _awkward(random), RIGHT: _awkward(random)}
    whole = tuple((i, i) for i in range(len(ALL)))
    plans: list[Plan] = [KeyDelete(LEFT, RIGHT, whole), Distinct(LEFT), Monus(LEFT, RIGHT)]
    few = {RIGHT: Bag(list(read[RIGHT].items())[:3]), LEFT: read[LEFT]}
    jobs: list[Job] = [(plan, read) for plan in plans]
    for pair in whole:
        one = Project(RIGHT, (Output("x", Ref(pair[0], ALL[pair[0]].type)),))
        jobs.append((KeyDelete(LEFT, one, ((pair[0], 0),)), few))
    assert _unequal(engine, jobs, tmp_path, other_sign) == []


# Nodes in each other, on rows that meet often.

PAIR = Schema((Column("k", BIGINT), Column("v", STRING)))
A, B, C = (Scan(name, PAIR) for name in "abc")


def _nested(random: Random, depth: int) -> Plan:
    if depth == 0 or random.random() < 0.1:
        return random.choice((A, B, C))
    first, second = (_nested(random, depth - 1) for _ in range(2))
    match random.choice(("delete", "delete", "distinct", "monus", "sum", "negate", "join")):
        case "delete":
            return KeyDelete(first, second, random.choice(((), ((0, 0),), ((1, 1),), ((0, 0), (1, 1)))))
        case "distinct":
            return Distinct(first)
        case "monus":
            return Monus(first, second)
        case "sum":
            return UnionAll((first, second))
        case "negate":
            return Negate(first)
    keys, texts = (Ref(0, BIGINT), Ref(2, BIGINT)), (Ref(1, STRING), Ref(3, STRING))
    conditions = (call(random.choice(("=", "<=>")), *keys), call(random.choice(("<=>", "<>")), *texts))
    return Project(Join((first, second), conditions), (Output("k", keys[1]), Output("v", texts[0])))


def _meeting(random: Random) -> Bag:
    rows = [(k, v) for k in (None, 0, 1) for v in (None, "", "a")]
    return Bag((row, random.choice((-1, 1, 1, 2))) for row in random.sample(rows, random.randrange(1, 6)))


def test_nodes_in_each_other(engine: Engine, tmp_path: Path) -> None:
    count = {"spark": 12, "sail": 200}[engine.kind] * (10 if LONG else 1)
    jobs: list[Job] = []
    number = 0
    while len(jobs) < count:
        number += 1
        random = Random(f"nested {number}")
        plan = _nested(random, 3)
        read = {scan: _meeting(random) for scan in (A, B, C)}
        if plan.inputs and evaluate(plan, read.__getitem__):
            jobs.append((plan, read))
    assert _unequal(engine, jobs, tmp_path) == []


def test_a_row_of_another_key_leaves_nothing_or_everything(engine: Engine, tmp_path: Path) -> None:
    """Compared on no column, any row agrees with any; rows that only pass agree with none."""
    state, none, some = Bag.of([(1, "a"), (None, None)]), Bag(), Bag({(2, "b"): -1})
    plan = KeyDelete(A, B, ())
    jobs = [(plan, {A: state, B: none}), (plan, {A: state, B: some})]
    assert values(engine, jobs, tmp_path) == [state, none]


def _unequal(engine: Engine, jobs: list[Job], folder: Path, respelled: Respelled = other_zero) -> list[str]:
    found = values(engine, jobs, folder, respelled)
    expected = [evaluate(plan, read.__getitem__) for plan, read in jobs]
    return [
        f"{plan} of {dict(read)} means {meant}, but is {value}"
        for (plan, read), meant, value in zip(jobs, expected, found, strict=True)
        if meant != value
    ]
