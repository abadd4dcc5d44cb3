"""Small worlds of records with a point: the paper's examples, and those that tell one level from the next."""

from __future__ import annotations

from functools import cache

from stillframe.simulator.reading import read
from stillframe.simulator.scenario import Scenario

_ONE = "r: {{source: x, columns: [K, X, Y], key: [K], rows: {rows}}}"
_JOIN = (
    "r: {{source: x, columns: [K, X], key: [K], rows: {rows}}}",
    "s: {{source: x, columns: [K, Y], key: [K], rows: {partners}}}",
)
_SETS = (_ONE, "s: {{source: x, columns: [K, X], key: [K], rows: {partners}}}")


def _case(name: str, view: str, relations: tuple[str, ...], updates: tuple[str, ...], **rows: str) -> str:
    lines = [f"name: {name}", "relations:", *(f"  {relation.format(**rows)}" for relation in relations)]
    return "\n".join([*lines, f"view: {view}", f"updates: [{', '.join(updates)}]"])


def _to(relation: str, before: str, after: str) -> str:
    return f'["delete {relation} {before}", "insert {relation} {after}"]'


SUM = "SELECT X, SUM(Y) AS S FROM r GROUP BY X"
COUNT = "SELECT X, COUNT(*) AS C FROM r GROUP BY X"
MIN = "SELECT X, MIN(Y) AS M FROM r GROUP BY X"
MAX = "SELECT X, MAX(Y) AS M FROM r GROUP BY X"
SELECTION = "SELECT K, X, Y FROM r WHERE Y < 25"
JOIN = "SELECT r.K, r.X, s.Y FROM r JOIN s ON r.X = s.K"
SETS = "SELECT K, X FROM r {} SELECT K, X FROM s"

CASES = {
    "example 1": _case(
        "concurrent update propagation",
        SUM,
        (_ONE,),
        (_to("r", "[2, 1, 200]", "[2, 2, 200]"), _to("r", "[4, 2, 400]", "[4, 1, 400]")),
        rows="[[1, 1, 100], [2, 1, 200], [3, 2, 300], [4, 2, 400]]",
    ),
    "example 2": _case(
        "a view update that is done twice",
        SUM,
        (_ONE,),
        ('"insert r [3, 1, 100]"',),
        rows="[[1, 1, 100], [2, 1, 200]]",
    ),
    "example 3": _case(
        "updates of one record that race",
        SELECTION,
        (_ONE,),
        (
            _to("r", "[1, 1, 5]", "[1, 1, 10]"),
            _to("r", "[1, 1, 10]", "[1, 1, 20]"),
            _to("r", "[1, 1, 20]", "[1, 1, 15]"),
        ),
        rows="[[1, 1, 5]]",
    ),
    "footnote 4": _case(
        "a record that moves to another group and back",
        COUNT,
        (_ONE,),
        (
            '"insert r [1, 2, 2]"',
            '"delete r [1, 2, 2]"',
            '"insert r [1, 1, 1]"',
            '"delete r [1, 1, 1]"',
            '"insert r [1, 1, 1]"',
        ),
        rows="[]",
    ),
    "section 2.3": _case(
        "two columns of a record change one after the other",
        "SELECT K, X, Y FROM r",
        (_ONE,),
        (_to("r", "[1, 1, 1]", "[1, 1, 2]"), _to("r", "[1, 1, 2]", "[1, 2, 2]")),
        rows="[[1, 1, 1]]",
    ),
    "section 2.1.3": _case(
        "a least value that is gone by the time its entry is met",
        MIN,
        (_ONE,),
        ('"delete r [1, 1, 4]"', '"insert r [2, 1, 2]"', _to("r", "[2, 1, 2]", "[2, 1, 5]")),
        rows="[[1, 1, 4]]",
    ),
    "section 2.1.3, greatest": _case(
        "a greatest value that is gone by the time its entry is met",
        MAX,
        (_ONE,),
        ('"delete r [1, 1, 4]"', '"insert r [2, 1, 6]"', _to("r", "[2, 1, 6]", "[2, 1, 3]")),
        rows="[[1, 1, 4]]",
    ),
    "section 2.2": _case(
        "a partner that changes twice before its row is met",
        JOIN,
        _JOIN,
        ('"insert r [1, 1]"', _to("s", "[1, 7]", "[1, 8]"), _to("s", "[1, 8]", "[1, 9]")),
        rows="[]",
        partners="[[1, 7]]",
    ),
    "section 2.4": _case(
        "two records that meet for a moment",
        SETS.format("INTERSECT"),
        _SETS,
        (
            '"insert s [1, 3]"',
            _to("r", "[1, 1, 0]", "[1, 2, 0]"),
            _to("r", "[1, 2, 0]", "[1, 3, 0]"),
            _to("s", "[1, 3]", "[1, 2]"),
        ),
        rows="[[1, 1, 0]]",
        partners="[]",
    ),
    "a group that vanishes": _case(
        "a group that vanishes and comes again",
        COUNT,
        (_ONE,),
        ('"insert r [1, 1, 0]"', '"delete r [2, 1, 0]"'),
        rows="[[2, 1, 0]]",
    ),
    "a row that comes and goes": _case(
        "a row that comes and goes",
        COUNT,
        (_ONE,),
        ('"insert r [1, 1, 0]"', '"delete r [1, 1, 0]"'),
        rows="[]",
    ),
    "a group with a zero": _case(
        "a group with a zero",
        SUM,
        (_ONE,),
        ('"insert r [2, 1, 0]"', '"delete r [1, 1, 5]"'),
        rows="[[1, 1, 5]]",
    ),
    **{
        f"looked at twice, {operation}": _case(
            "the other side is looked at twice before its entries are met",
            SETS.format(operation),
            _SETS,
            (
                '"insert s [1, 1]"',
                _to("r", "[1, 1, 0]", "[1, 1, 1]"),
                '"delete s [1, 1]"',
                _to("r", "[1, 1, 1]", "[1, 1, 2]"),
            ),
            rows="[[1, 1, 0]]",
            partners="[]",
        )
        for operation in ("INTERSECT", "EXCEPT")
    },
    **{
        f"comes and goes, {operation}": _case(
            "a row of one side comes and goes",
            SETS.format(operation),
            _SETS,
            ('"insert r [1, 1, 0]"', '"delete r [1, 1, 0]"'),
            rows="[]",
            partners=partners,
        )
        for operation, partners in (("UNION", "[]"), ("INTERSECT", "[[1, 1]]"), ("EXCEPT", "[]"))
    },
    "two rows that go": _case(
        "a group of two rows that go, and are followed by others",
        COUNT,
        (_ONE,),
        ('"delete r [1, 1, 0]"', '"delete r [2, 1, 0]"', '"insert r [3, 2, 0]"'),
        rows="[[1, 1, 0], [2, 1, 0]]",
    ),
    "a row that moves on": _case(
        "a row that moves on while its session is repeated",
        COUNT,
        (_ONE,),
        ('"insert r [1, 1, 0]"', _to("r", "[1, 1, 0]", "[1, 2, 0]")),
        rows="[]",
    ),
}


@cache
def case(name: str) -> Scenario:
    return read(CASES[name])
