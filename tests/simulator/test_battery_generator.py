"""The batteries: every scenario is valid and replays, the mix is the one that algorithms are told apart by,
and the small ones are all there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations, product

import pytest

from stillframe.algebra import Bag, evaluate, scans
from stillframe.simulator import (
    Relation,
    Scenario,
    ScenarioError,
    Transaction,
    Update,
    exhaustive,
    is_sampled,
    read,
    scenarios,
    write,
)
from stillframe.simulator.battery import scenario as one_scenario

SEED, COUNT = 20260101, 600


@pytest.fixture(scope="module")
def battery() -> list[Scenario]:
    return list(scenarios(SEED, COUNT))


def test_what_is_written_reads_back_the_same(battery: list[Scenario]) -> None:
    for scenario in battery:
        assert read(write(scenario)) == scenario, write(scenario)


def test_a_scenario_depends_on_its_seed_and_number_alone(battery: list[Scenario]) -> None:
    assert list(scenarios(SEED, 20)) == battery[:20]
    assert one_scenario(SEED, 417) == battery[417]
    assert list(scenarios(SEED + 1, 20)) != battery[:20]
    assert len({write(replace(scenario, name="")) for scenario in battery}) > 0.98 * COUNT


def test_names_carry_seed_and_number_and_mark_what_is_sampled(battery: list[Scenario]) -> None:
    for number, scenario in enumerate(battery):
        four = len(scenario.transactions) == 4
        assert scenario.name == f"battery {SEED}/{number}" + (" four" if four else "")
        assert is_sampled(scenario) is four


def test_the_generator_has_not_changed_by_accident() -> None:
    """Seeds in reports name scenarios only as long as this holds."""
    assert write(one_scenario(1, 1)) == PINNED


def test_no_order_of_hashing_shows(battery: list[Scenario]) -> None:
    code = f"from stillframe.simulator import *; print(*map(write, scenarios({SEED}, 60)), sep='')"
    for hashing in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": hashing},
        )
        assert run.stdout.rstrip("\n") == "".join(map(write, battery[:60])).rstrip("\n"), run.stderr


# The mix


def view_states(scenario: Scenario) -> list[Bag]:
    """The view before and after each update, in the written order."""
    plan, bags = scenario.plan(), scenario.initial()
    states = [evaluate(plan, lambda scan: bags[scan.relation])]
    for update in updates_of(scenario):
        bags = {**bags, update.relation: bags[update.relation] + signed(update)}
        states.append(evaluate(plan, lambda scan: bags[scan.relation]))  # noqa: B023
    return states


def updates_of(scenario: Scenario) -> list[Update]:
    return [update for transaction in scenario.transactions for update in transaction.updates]


def signed(update: Update) -> Bag:
    return Bag({update.row: 1 if update.insert else -1})


def fails_without_compensation(scenario: Scenario) -> bool:
    """Whether the change of each update, all computed when everything has happened, is not the change."""
    plan, final, initial = scenario.plan(), scenario.final(), scenario.initial()
    after = evaluate(plan, lambda scan: final[scan.relation])
    view = evaluate(plan, lambda scan: initial[scan.relation])
    for update in updates_of(scenario):
        before = {**final, update.relation: final[update.relation] - signed(update)}
        view += after - evaluate(plan, lambda scan: before[scan.relation])  # noqa: B023
    return view != after


def largest_count(scenario: Scenario) -> int:
    bags = scenario.initial()
    most = max((n for bag in bags.values() for n in bag.values()), default=0)
    for update in updates_of(scenario):
        bags[update.relation] += signed(update)
        most = max(most, *bags[update.relation].values(), 0)
    return most


def keeps_key(scenario: Scenario, transaction: Transaction) -> bool:
    match transaction.updates:
        case (Update(name, False, old), Update(other, True, new)) if name == other:
            relation = scenario.relation(name)
            places = [relation.columns.index(column) for column in relation.key]
            return bool(places) and old != new and all(old[p] == new[p] for p in places)
    return False


def shown_columns(scenario: Scenario) -> tuple[set[str], dict[str, Relation]]:
    """Columns the view shows, and those equal to them; and which relation each alias stands for."""
    text = scenario.views[0][1]
    select, rest = re.fullmatch("SELECT (.*) FROM (.*)", text).groups()
    tables = rest.partition(" WHERE ")[0]
    uses = re.findall(r"(r\d)(?: (a|b)\b)?", re.sub(r"ON \S+ = \S+", "", tables))
    aliases = {alias or name: scenario.relation(name) for name, alias in uses}
    shown = {part.split(" AS ")[0] for part in select.split(", ") if not re.search("[-+*]", part)}
    for left, right in re.findall(r"(\w+\.\w+) = (\w+\.\w+)", rest):
        if shown & {left, right}:
            shown |= {left, right}
    return shown, aliases


def features(scenario: Scenario) -> set[str]:
    text, updates = scenario.views[0][1], updates_of(scenario)
    uses = [scan.relation for scan in scans(scenario.plan())]
    shown, aliases = shown_columns(scenario)
    columns = {f"{alias}.{c}" for alias, r in aliases.items() for c in r.columns}
    keys = {f"{alias}.{c}" for alias, r in aliases.items() for c in r.key}
    keyed = all(relation.key for relation in scenario.relations)
    plain = [t for t in scenario.transactions if t.group is None]
    rows = [row for r in scenario.relations for row in r.rows] + [u.row for u in updates]
    times = Counter((update.relation, update.row) for update in updates)
    return {
        f"{len(uses)} uses",
        f"{len(scenario.sources)} sources",
        f"{len(scenario.transactions)} transactions",
        f"{scenario.report} reports",
        f"{scenario.order} order",
        *(["self-join"] if len(set(uses)) < len(uses) else []),
        *(["several at one source"] if len(scenario.sources) < len(scenario.relations) else []),
        *(["single updates only"] if all(t.id[0] == "U" for t in scenario.transactions) else []),
        *(["local transaction"] if any(len(t.updates) > 1 for t in plain) else []),
        *(["modification"] if any(keeps_key(scenario, t) for t in plain) else []),
        *(["global transaction"] if len(plain) < len(scenario.transactions) else []),
        *(["back and forth"] if any(replace(u, insert=not u.insert) in updates for u in updates) else []),
        *(["thrice the same row"] if any(n > 2 for n in times.values()) else []),
        *(["insert"] if any(u.insert for u in updates) else []),
        *(["delete"] if not all(u.insert for u in updates) else []),
        *(["empty relation"] if not all(r.rows for r in scenario.relations) else []),
        *(["null"] if any(None in row for row in rows) else []),
        *([] if keyed else ["keyless"]),
        *(["duplicates"] if largest_count(scenario) > 1 else []),
        *(["keys shown"] if keyed and keys <= shown else []),
        *(["key hidden"] if keyed and not keys <= shown else []),
        *(["other column hidden"] if keyed and keys <= shown and columns - shown else []),
        *(["selection"] if re.search(r"(> 1|<> 2|<= 2|IN \()", text) else []),
        *(["computed column"] if " AS E" in text else []),
        *(["comparison"] if re.search(r"\.\w (<|<=|<>) \w+\.", text) else []),
        *(["two relations written"] if len({u.relation for u in updates}) > 1 else []),
        *(["view changes"] if len(set(view_states(scenario))) > 1 else []),
        *(["naive fails"] if fails_without_compensation(scenario) else []),
    }


SHARES = {
    "2 uses": (0.35, 0.65),
    "3 uses": (0.35, 0.65),
    "self-join": (0.05, 0.2),
    "1 sources": (0.25, 0.5),
    "2 sources": (0.3, 0.55),
    "3 sources": (0.08, 0.3),
    "several at one source": (0.3, 0.7),
    "1 transactions": (0.003, 0.06),
    "2 transactions": (0.2, 0.45),
    "3 transactions": (0.4, 0.7),
    "4 transactions": (0.05, 0.2),
    "single updates only": (0.35, 0.6),
    "local transaction": (0.25, 0.55),
    "modification": (0.08, 0.35),
    "global transaction": (0.08, 0.3),
    "back and forth": (0.2, 0.6),
    "thrice the same row": (0.02, 0.2),
    "insert": (0.7, 1),
    "delete": (0.5, 1),
    "empty relation": (0.2, 0.6),
    "null": (0.05, 0.25),
    "keyless": (0.1, 0.3),
    "duplicates": (0.03, 0.2),
    "keys shown": (0.3, 0.7),
    "key hidden": (0.15, 0.5),
    "other column hidden": (0.08, 0.4),
    "selection": (0.15, 0.4),
    "computed column": (0.1, 0.3),
    "comparison": (0.1, 0.3),
    "coordinator reports": (0.01, 0.1),
    "any order": (0.005, 0.08),
    "two relations written": (0.7, 1),
    "view changes": (0.7, 1),
    "naive fails": (0.4, 1),
}


def test_the_mix(battery: list[Scenario]) -> None:
    counted = Counter(feature for scenario in battery for feature in features(scenario))
    for feature in SHARES:
        print(f"{feature:24}{counted[feature] / COUNT:7.1%}")
    for feature, (least, most) in SHARES.items():
        assert least <= counted[feature] / COUNT <= most, feature


def test_what_is_asked_for_together_comes_together(battery: list[Scenario]) -> None:
    found = [features(scenario) for scenario in battery]
    for pair in combinations(("modification", "key hidden", "back and forth", "several at one source"), 2):
        assert sum(set(pair) <= each for each in found) >= 10, pair
    for sources, kind in product(("2 sources", "3 sources"), ("local transaction", "global transaction")):
        assert sum({sources, kind} <= each for each in found) >= 10, (sources, kind)


def test_scenarios_stay_small(battery: list[Scenario]) -> None:
    for scenario in battery:
        assert 1 <= len(scenario.relations) <= 3
        assert all(len(relation.rows) <= 2 for relation in scenario.relations)
        assert len(updates_of(scenario)) <= 5
        values = {v for update in updates_of(scenario) for v in update.row}
        assert values <= {1, 2, 3, None}


# All of the small ones


def brute_force(base: Scenario, length: int, domain: tuple[int, ...]) -> set[tuple[Update, ...]]:
    """Every sequence that the scenario itself lets happen."""
    possible = [
        Update(relation.name, insert, row)
        for relation in base.relations
        for insert in (True, False)
        for row in product(domain, repeat=len(relation.columns))
    ]
    found = set()
    for sequence in product(possible, repeat=length):
        transactions = tuple(Transaction(f"U{n}", (update,)) for n, update in enumerate(sequence, 1))
        try:
            replace(base, transactions=transactions)
        except ScenarioError:
            continue
        found.add(sequence)
    return found


@pytest.mark.parametrize(
    ("relations", "sources", "updates", "domain", "keys"),
    [
        (2, "xy", 2, (1, 2), None),
        (2, "xx", 2, (1, 2), [(), ("B", "C")]),
        (3, "xyy", 2, (1, 2), [("B",), ("B",), ()]),
        (2, "xy", 4, (1,), None),
    ],
)
def test_every_sequence_comes_once(
    relations: int, sources: str, updates: int, domain: tuple[int, ...], keys: list[tuple[str, ...]] | None
) -> None:
    found = list(exhaustive(relations, sources, updates, domain=domain, keys=keys))
    lengths = [len(scenario.transactions) for scenario in found]
    assert lengths == sorted(lengths)
    assert [relation.source for relation in found[0].relations] == list(sources)
    base = replace(found[0], transactions=())
    for length in range(1, updates + 1):
        got = [tuple(updates_of(each)) for each in found if len(each.transactions) == length]
        assert len(got) == len(set(got))
        assert set(got) == brute_force(base, length, domain)


def test_beginnings_are_given_or_all_taken() -> None:
    given = list(exhaustive(2, "xy", 1, rows=[[(1, 2)], [(2, 1)]]))
    assert all(each.relation("r1").rows == ((1, 2),) for each in given)
    beginnings = {each.relations for each in exhaustive(2, "xy", 1, rows=2)}
    assert len(beginnings) == 9 * 9  # none, one of four, or one of 2 x 2 pairs that differ in the key
    keyless = {each.relations for each in exhaustive(2, "xy", 1, rows=2, keys=[(), ("B",)])}
    assert len(keyless) == (1 + 4 + 10) * 9


def test_view_and_columns_are_given() -> None:
    view = "SELECT r1.A FROM r1 JOIN r2 ON r1.B = r2.B"
    domain = {"A": (1,), "B": (1, None), "C": (7,)}
    found = list(exhaustive(2, "xy", 2, domain=domain, view=view))
    assert {each.views for each in found} == {(("view", view),)}
    assert {update.row for each in found for update in updates_of(each)} == {(1, 1), (1, None), (1, 7)}


def renamings(scenario: Scenario) -> set[object]:
    """What the scenario is under every renaming of the values of columns; rows at first have no order."""
    columns = ("A", "B", "C", "D")
    found = set()
    for swaps in product(((1, 2), (2, 1)), repeat=len(columns)):
        names = dict(zip(columns, swaps, strict=True))

        def renamed(
            relation: Relation, row: tuple[int, ...], names: dict[str, tuple[int, int]] = names
        ) -> object:
            return tuple(names[c][value - 1] for c, value in zip(relation.columns, row, strict=True))

        rows = tuple(frozenset(renamed(r, row) for row in r.rows) for r in scenario.relations)
        updates = tuple(
            (u.relation, u.insert, renamed(scenario.relation(u.relation), u.row))
            for u in updates_of(scenario)
        )
        found.add((rows, updates))
    return found


@pytest.mark.parametrize(("relations", "updates", "rows"), [(2, 2, 1), (2, 1, 2), (3, 2, 0)])
def test_of_scenarios_equal_up_to_names_one_is_kept(relations: int, updates: int, rows: int) -> None:
    everything = list(exhaustive(relations, "xyz"[:relations], updates, rows=rows))
    kept = list(exhaustive(relations, "xyz"[:relations], updates, rows=rows, renaming=True))
    assert len(kept) < len(everything) / 3
    covered: set[object] = set().union(*map(renamings, kept))
    assert all(renamings(scenario) <= covered for scenario in everything)


PINNED = """\
name: battery 1/1
relations:
  r1: {source: x, columns: [A, B], key: [B], rows: [[3, 1]]}
  r2: {source: y, columns: [B, C], key: [C], rows: [[1, 3]]}
  r3: {source: z, columns: [C, D], key: [C, D], rows: [[3, 2]]}
view: |-
  SELECT r1.A FROM r1, r2, r3 WHERE r1.B = r2.B AND r2.C = r3.C
updates:
  - insert r3 [1, 3]
  - insert r2 [1, 1]
  - delete r1 [3, 1]
"""
