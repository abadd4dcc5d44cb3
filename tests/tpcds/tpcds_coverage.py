"""Which of the 99 queries can be views, and how each would be maintained. Writes docs/tpcds.md:

python tests/tpcds/tpcds_coverage.py
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tpcds_texts import SOURCE, catalog, texts

from stillframe.algebra import Aggregate, Plan, Semi, Window
from stillframe.change.keywise import Keywise, keyed_inputs
from stillframe.change.parts import split
from stillframe.engine import EngineRefused, ScalarWriter, select_sql
from stillframe.sql import Refused, resolve

PAGE = Path(__file__).parents[2] / "docs" / "tpcds.md"
INCREMENTAL, RECOMPUTED, REFUSED = "incremental", "with recomputation", "refused"
_HEAD = f"""# TPC-DS

The benchmark's 99 queries, each as a view over one source of its 24 tables: what `stillframe check` says.
`python tests/tpcds/tpcds_coverage.py` writes this page. `pytest tests/tpcds` finds it out of date, finds that
no query crashes, and maintains a sample of the views over random changes against DuckDB; `make test-long`
maintains all of them.

The texts are those of DuckDB's extension, translated by three rules: names are quoted with backquotes and
have no blanks, tables are relations of the source `{SOURCE}`, and an output without a name gets one.

- *Incremental*: each operator finds the keys that a change touches, and evaluates only those. An `ORDER BY`
  with `LIMIT` at the end is chosen anew from the part below it, which is kept.
- *With recomputation*: an operator within the query has no key to go by (an aggregate without `GROUP BY`, a
  window without `PARTITION BY`, a condition that is no equality), and is evaluated whole when what it reads
  changes; all else in the query is incremental.
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
        plan = resolve(text, catalog())
        for sail in (False, True):
            select_sql(plan, lambda scan: scan.relation, ScalarWriter(sail=sail))
    except Refused as refused:
        codes = tuple(dict.fromkeys(reason.code for reason in refused.reasons))
        first = refused.reasons[0]
        return Answer(REFUSED, codes, first.message, first.hint)
    except EngineRefused as refused:
        return Answer(REFUSED, (f"{refused.code} on Sail",), refused.message, refused.hint or "")
    parts, rest = split(plan, "v")
    operators = [*parts.values(), rest]
    whole = [_operator(part) for part in operators if isinstance(part, Keywise) and _has_no_key(part)]
    ends = next((_operator(p) for p in reversed(operators) if isinstance(p, Keywise)), "")
    if whole and whole[-1] == ends and ends.startswith("first"):
        whole.pop()
    found = Counter(whole)
    why = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in found.items())
    return Answer(RECOMPUTED if whole else INCREMENTAL, (), why)


def _has_no_key(plan: Keywise) -> bool:
    return any(not side.keys for side in keyed_inputs(plan))


def _operator(plan: Plan) -> str:
    match plan:
        case Aggregate():
            return "aggregate of everything"
        case Window():
            return "window over everything" if plan.keep is None else f"first {plan.keep}"
        case Semi():
            return "anti-join" if plan.anti else "semi-join"
    return "join"


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
