"""Tables and plots, made anew from the results that were kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tpch.plots import Curve, plot
from benchmarks.tpch.policies import AUTO, CHOICES

Result = Mapping[str, Any]


def report(folder: Path) -> Path:
    """`report.md` and the plots it shows, beside the results."""
    parts = ["# The paper's view under TPC-H\n\nMade by `python -m benchmarks.tpch report`; see there.\n"]
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        made = {"paper": _paper, "sweep": _sweep, "peers": _peers, "growth": _growth}[document["experiment"]]
        good = [one for one in document["measurements"] if "failed" not in one]
        parts.append(f"## {path.stem}\n\n{_where(good)}\n")
        parts += made(folder, path.stem, good)
        parts += [_failure(one) for one in document["measurements"] if "failed" in one]
    written = folder / "report.md"
    written.write_text("\n".join(parts), encoding="utf-8")
    return written


def _where(found: Sequence[Result]) -> str:
    if not found:
        return "Nothing was measured."
    machine = found[0]["machine"]
    versions: dict[str, str] = {}
    for one in found:
        versions |= one["versions"]
    named = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    loads = [one["machine"]["load_average"][0] for one in found]
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB,"
        f" Python {machine['python']}; {named}. Load average {min(loads):g} to {max(loads):g}."
    )


def _failure(one: Result) -> str:
    last = (one["failed"].strip().splitlines() or ["no word"])[-1]
    return f"Failed: {one['who']}, {one['workload']['percent']:g} %: `{last}`\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    return str(value)


def _drawn(folder: Path, name: str, title: str, x: str, curves: Sequence[Curve], y: str = "seconds") -> str:
    (folder / f"{name}.svg").write_text(plot(title, x, y, curves), encoding="utf-8")
    return f"![{title}]({name}.svg)\n"


# -- the paper's experiment


def _paper(folder: Path, stem: str, found: Sequence[Result]) -> Iterator[str]:
    for engine in sorted({one["engine"] for one in found}):
        for figure, x in (("figure 4", "changes, % of each relation"), ("figure 5", "scale factor")):
            mine = [one for one in found if (one["engine"], one["figure"]) == (engine, figure)]
            if not mine:
                continue
            key = "percent" if figure == "figure 4" else "scale"
            names = list(mine[0]["strategies"])
            rows = [
                [
                    one["workload"][key],
                    *(one["strategies"][name]["median"] for name in names),
                    one["strategies"]["n-term"]["median"] / one["strategies"]["tree"]["median"],
                    all(one["strategies"][name]["exact"] for name in names),
                ]
                for one in mine
            ]
            yield f"### {figure}, {engine}: seconds for one change of the view\n"
            yield _table([x, *names, "n-term / tree", "exact"], rows)
            curves = [
                Curve(name, [(one["workload"][key], one["strategies"][name]["median"]) for one in mine])
                for name in names
            ]
            yield _drawn(folder, f"{stem}-{engine}-{figure[-1]}", f"{figure}, {engine}", x, curves)
    for engine in sorted({one["engine"] for one in found}):
        largest = max(
            (one for one in found if one["engine"] == engine), key=lambda one: one["workload"]["percent"]
        )
        relations = list(largest["strategies"]["tree"]["scans"])
        rows = [
            [
                name,
                *(f"{one['scans'][relation]} ({one['scans_by_plan'][relation]})" for relation in relations),
            ]
            for name, one in largest["strategies"].items()
        ]
        yield f"### {engine}: scans of each relation, counted in plans; in brackets by the expression\n"
        yield _table(["strategy", *relations], rows)
    yield (
        "The paper claims, for changes within 10 %: both incremental strategies beat recomputation, and the"
        " tree beats n terms; over base sizes of 50 to 200 % it gains about 100 % on recomputation and 80 %"
        " on n terms.\n"
    )


# -- refreshes of Stillframe and peers


def _spent(one: Result) -> Mapping[str, Any]:
    """The work that counts: settling included, and warm where there were frames enough."""
    work = one["work"]
    found: Mapping[str, Any] = work.get("refresh and settling") or work.get("refresh") or work["warming"]
    return found


def _row(one: Result) -> list[object]:
    spent = _spent(one)
    return [
        one["who"],
        one["work"]["load"]["median"],
        spent["median"],
        spent["p95"],
        spent["cpu_seconds"] / spent["times"],
        spent["bytes_written"] / spent["times"] / 1e6,
        one["peak_memory_bytes"] / 2**20,
        spent["times"],
        all(view["exact"] for view in one["exact"].values()),
        one["machine"].get("commit", ""),
        one.get("at", ""),
    ]


HEADS = (
    "who",
    "load s",
    "median s",
    "95 % s",
    "CPU s",
    "MB written",
    "peak MiB",
    "frames",
    "exact",
    "commit",
    "begun",
)


def _sweep(folder: Path, stem: str, found: Sequence[Result]) -> Iterator[str]:
    for engine in sorted({one["engine"] for one in found}):
        mine = [one for one in found if one["engine"] == engine]
        sizes = sorted((size for one in mine for size in one["sizes"]), key=lambda size: size["percent"])
        taken = {name: {size["percent"]: size[name]["median"] for size in sizes} for name in (*CHOICES, AUTO)}
        best = {percent: min(taken[name][percent] for name in CHOICES) for percent in taken[AUTO]}
        chosen = {size["percent"]: _anew(size["chosen"]) for size in sizes}
        yield f"### {engine}: median seconds of a refresh, settling included, over the rounds\n"
        rows = [[p, *(taken[name][p] for name in taken), right, chosen[p]] for p, right in best.items()]
        yield _table(["change, %", *taken, "right choice", "`auto` computed anew"], rows)
        ratio = sum(taken[AUTO].values()) / sum(best.values())
        yield f"`auto` takes {ratio:.2f} times what always choosing right takes, over the sweep.\n"
        yield f"Computing anew is the cheaper {_crossover(taken)}.\n"
        exact = all(view["exact"] for one in mine for view in one["exact"].values())
        commits = ", ".join(sorted({one["machine"].get("commit", "") for one in mine}))
        yield f"Exact after the last change: {_cell(exact)}. Commit {commits}.\n"
        curves = [Curve(policy, sorted(points.items())) for policy, points in taken.items()]
        title = f"Refresh by size of changes, {engine}"
        yield _drawn(folder, f"{stem}-{engine}", title, "changes, % of each relation", curves)


def _anew(chosen: Sequence[Mapping[str, str]]) -> str:
    """In how many rounds the view was; copies of relations never are."""
    computed = sum(any(did.startswith("full") for did in one.values()) for one in chosen)
    return f"{computed} of {len(chosen)}"


def _crossover(taken: Mapping[str, Mapping[float, float]]) -> str:
    """From which size of changes on; between two sizes as if both ways grew evenly between them."""
    ahead = [(p, taken["full"][p] - taken["incremental"][p]) for p in sorted(taken["full"])]
    for (before, lead), (after, lag) in itertools.pairwise(ahead):
        if lead > 0 >= lag:
            return f"from about {before + (after - before) * lead / (lead - lag):.2g} % on"
    return "at no size that was measured" if all(lead > 0 for _, lead in ahead) else "at every size"


def _peers(folder: Path, stem: str, found: Sequence[Result]) -> Iterator[str]:
    for spread in sorted({one["workload"]["spread"] for one in found}, reverse=True):
        curves: dict[str, list[tuple[float, float]]] = {}
        for percent in sorted({one["workload"]["percent"] for one in found}):
            mine = [
                one
                for one in found
                if (one["workload"]["spread"], one["workload"]["percent"]) == (spread, percent)
            ]
            if not mine:
                continue
            mine.sort(key=lambda one: not _is_ours(one))
            yield f"### {percent:g} % of every relation, {spread}\n"
            yield _table(HEADS, [_row(one) for one in mine])
            yield from _ratios(mine)
            for one in mine:
                curves.setdefault(one["who"], []).append((percent, _spent(one)["median"]))
        title = f"Refresh, side by side, {spread} changes"
        drawn = [Curve(name, points) for name, points in curves.items()]
        yield _drawn(folder, f"{stem}-{spread}", title, "changes, % of each relation", drawn)


def _commit(one: Result) -> str:
    return str(one["machine"].get("commit", "")).rstrip("+")


def _is_ours(one: Result) -> bool:
    return str(one["who"]).startswith("stillframe")


def _ratios(mine: Sequence[Result]) -> Iterator[str]:
    """Of what was measured of one commit: another day's machine is another machine."""
    ours = [one for one in mine if _is_ours(one)]
    rows = [
        [f"{other['who']} / {one['who']}", _spent(other)["median"] / _spent(one)["median"]]
        for one in ours
        for other in mine
        if other not in ours and _commit(other) == _commit(one)
    ]
    if rows:
        yield _table(["median refresh", "ratio"], rows)
    for one in ours:
        phases = sorted(one["phases"].items(), key=lambda phase: -phase[1]["total"])[:8]
        named = ", ".join(f"{name} {phase['median']:.3f}" for name, phase in phases)
        alone = one["work"]["refresh"]["median"]
        yield f"{one['who']}: {alone:.3f} s without settling; phases, median s: {named}.\n"


def _growth(folder: Path, stem: str, found: Sequence[Result]) -> Iterator[str]:
    kinds = (("size", "size of the view"), ("count", "views over the same relations"))
    for engine in sorted({one["engine"] for one in found}):
        for key, x in kinds:
            mine = [one for one in found if one["engine"] == engine and key in one]
            if not mine:
                continue
            points = [(one[key], _spent(one)["median"]) for one in mine]
            grown: list[object] = [""]
            grown += [late / early for (_, early), (_, late) in itertools.pairwise(points)]
            rows = [[at, taken, ratio] for (at, taken), ratio in zip(points, grown, strict=True)]
            yield f"### {engine}: by {x}\n"
            yield _table([x, "median s", "times the one before"], rows)
            yield _drawn(folder, f"{stem}-{engine}-{key}", f"Refresh, {engine}", x, [Curve(engine, points)])
