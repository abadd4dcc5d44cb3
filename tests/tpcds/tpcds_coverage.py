"""Which of the 99 queries can be views, and how each would be maintained. Writes docs/tpcds.md:

python tests/tpcds/tpcds_coverage.py
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tpcds_texts import SOURCE, catalog, texts

from stillframe.change import how
from stillframe.engine import EngineRefused, ScalarWriter, select_sql
from stillframe.sql import Refused, resolved

PAGE = Path(__file__).parents[2] / "docs" / "tpcds.md"
INCREMENTAL, RECOMPUTED, REFUSED = "incremental", "with recomputation", "refused"
_HEAD = f"""# TPC-DS

The benchmark's 99 queries, each as a view over one source of its 24 tables: what `stillframe check` says.
`python tests/tpcds/tpcds_coverage.py` writes this page. `pytest tests/tpcds` finds it out of date, finds that
no query crashes, and maintains a sample of the views over random changes against DuckDB; `make test-long`
maintains all of them.

The texts are those of DuckDB's extension, translated by three rules: names are quoted with backquotes and
have no blanks, tables are relations of the source `{SOURCE}`, and an output without a name gets one.

- *Incremental*: each operator brings its rows forward, or finds the keys that a change touches and evaluates
  only those.
- *With recomputation*: an operator within the query is evaluated whole when what it reads changes, for the
  reason told; all else in the query is incremental.
- *Refused*: the codes say why.

"""


@dataclass(frozen=True)
class Answer:
    kind: str
    codes: tuple[str, ...] = ()
    why: str = ""
    hint: str = ""


@cache
def answers() -> dict[int, Answer]:
    return {number: _answer(text) for number, text in sorted(texts().items())}


def _answer(text: str) -> Answer:
    try:
        plan, operators = resolved(text, catalog())
        for sail in (False, True):
            select_sql(plan, lambda scan: scan.relation, ScalarWriter(sail=sail))
    except Refused as refused:
        codes = tuple(dict.fromkeys(reason.code for reason in refused.reasons))
        first = refused.reasons[0]
        return Answer(REFUSED, codes, first.message, first.hint)
    except EngineRefused as refused:
        return Answer(REFUSED, (f"{refused.code} on Sail",), refused.message, refused.hint or "")
    anew = [found for operator in operators if not (found := how(operator.plan)).incremental]
    if not anew:
        return Answer(INCREMENTAL)
    codes = Counter(found.code for found in anew)
    why = "; ".join(dict.fromkeys(found.words for found in anew))
    return Answer(
        RECOMPUTED, tuple(f"{code} × {n}" if n > 1 else code for code, n in codes.items()), why, anew[0].hint
    )


def page() -> str:
    found = answers()
    counted = Counter(answer.kind for answer in found.values())
    lines = [
        _HEAD,
        "| | queries |\n| --- | --- |\n",
        f"| parsed | {sum('SYNTAX' not in answer.codes for answer in found.values())} |\n",
        *(f"| {kind} | {counted[kind]} |\n" for kind in (INCREMENTAL, RECOMPUTED, REFUSED)),
        "\n| query | | why | hint |\n| --- | --- | --- | --- |\n",
    ]
    for number, answer in found.items():
        codes = " ".join(f"`{code}`" for code in answer.codes)
        cells = (str(number), answer.kind, f"{codes} {answer.why}".strip(), answer.hint)
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(Counter(answer.kind for answer in answers().values()))
