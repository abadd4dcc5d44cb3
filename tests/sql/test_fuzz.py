"""Whatever is done to a text, it resolves or it is refused; nothing else comes out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_shop import CATALOG

from stillframe.algebra import Project
from stillframe.errors import ProjectError
from stillframe.sql import Refused, parse_views, resolve

TEXTS = (Path(__file__).parent / "fuzz_texts.txt").read_text(encoding="utf-8").splitlines()
WORDS = """
    SELECT FROM WHERE JOIN ON USING AS WITH UNION ALL CASE WHEN END CAST NULL NOT IN IS LIKE OVER VALUES
    LATERAL GROUP BY ORDER LIMIT DISTINCT INTERVAL EXTRACT TRIM DATE STRUCT MAP ARRAY FILTER ESCAPE EXISTS
    :: || <=> -> => |> count(*) 1e400 t.* x->x DECIMAL(1,2) /* */ 9999999999999999999999999999999999999999999
"""
PIECES = [*"()[]{},.;:'\"`*+-/%=<>!|&~?@$#\\ \n0aLé", *WORDS.split(), "-- x\n"]
FILE_PIECES = [*PIECES, "CREATE MATERIALIZED VIEW v ", "WITH (", "algorithm = 'x'", ") AS "]


def mutated(chance: random.Random) -> str:
    text = chance.choice(TEXTS)
    for _ in range(chance.randint(1, 4)):
        at, to = sorted((chance.randint(0, len(text)), chance.randint(0, len(text))))
        match chance.randint(0, 3):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + chance.randint(1, 8) :]
            case 2:
                text = text[:at] + f" {chance.choice(PIECES)} " + text[at + chance.randint(0, 6) :]
            case 3:
                text = text[:at] + text[at : min(to, at + 30)] + text[at:]
    return text


@pytest.mark.parametrize("seed", range(20))
def test_mutations_resolve_or_are_refused(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        text = mutated(chance)
        try:
            assert isinstance(resolve(text, CATALOG), Project)
        except Refused as refused:
            for reason in refused.reasons:
                assert reason.code.isupper() and reason.message
                assert 1 <= reason.line <= text.count("\n") + 1
        except Exception as error:
            pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n{text}")


@given(st.lists(st.sampled_from(FILE_PIECES), max_size=12))
def test_files_parse_or_are_refused(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        for view in parse_views(text):
            assert view.select in text
    except ProjectError as error:
        assert error.message and error.hint
