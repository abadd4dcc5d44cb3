"""The verb `costs`: what the algorithms cost, by closed forms and counted, as tables, drawings or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from stillframe.cli.curves_svg import curves_svg, figures, file_name
from stillframe.cli.output import Output, table
from stillframe.errors import ProjectError
from stillframe.simulator.cost_curves import KINDS, Scope, Study
from stillframe.simulator.cost_notes import notes

_IN_A_TABLE = 6  # columns of numbers that eighty characters hold
_NOT_COUNTED = "·"


def costs(options: argparse.Namespace, output: Output) -> int:
    folder = _folder(options.svg)
    with _progress(output.err) as report:
        study = Study(_scope(options), report).run()
    document = {**study.document(), "notes": notes(study)}
    for renderable in _told(document, given=options.k is not None):
        output.text(renderable)
    if folder is not None:
        drawn = _draw(document, folder)
        document["drawn"] = [str(path) for path in drawn]
        output.say(f"{len(drawn)} drawings in {folder}")
    output.document(document)
    return 0


def _scope(options: argparse.Namespace) -> Scope:
    usual = Scope(seed=options.seed, cs=options.c or Scope.cs)
    if options.k is None:
        return usual
    return Scope(ks=options.k, cs=usual.cs, seed=options.seed, worst=max(options.k), compared=options.k)


def _folder(name: str | None) -> Path | None:
    """Made before anything is counted, so that a bad name costs no time."""
    if name is None:
        return None
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProjectError(
            f"cannot make the folder {name}",
            detail=error.strerror or str(error),
            hint="--svg takes a folder to draw into",
            code="USAGE",
        ) from error
    return folder


def _draw(document: Mapping[str, Any], folder: Path) -> list[Path]:
    drawn = []
    for figure in figures(document):
        path = folder / file_name(figure)
        path.write_text(curves_svg(document, figure), encoding="utf-8")
        drawn.append(path)
    return drawn


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str], None]]:
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("counting") as status:
        yield lambda text: status.update(Text(f"counting: {text}"))


# Text.


def _told(document: Mapping[str, Any], *, given: bool) -> Iterator[RenderableType]:
    p = document["parameters"]
    yield Text(
        f"RV recomputes the view, ECA compensates. Relations of C = {p['C']} rows, each with J = {p['J']}"
        f" partners; sigma = {p['sigma']:g} of the joined rows shown, S = {p['S']} bytes of each;"
        f" K = {p['K']} rows to a block."
    )
    yield Text(
        "formula: as printed. degenerate: counted where its assumptions hold. random: counted, inserts into"
        " random relations. steady: counted, inserts and deletes in turn."
    )
    for figure in ("6.1", "6.2", "6.3", "6.3n", "6.4", "6.5"):
        yield Text()
        yield from _figure(document, figure)
        yield from _notes(document, figure)
    if not given:
        yield Text()
        yield Text(f"{_NOT_COUNTED} not counted, for time; --k counts every case it names.", style="dim")
    yield from (Text(), _title("where ECA begins to cost more than recomputing once"), _crossovers(document))
    for sources, words in (("one", "one source"), ("three", "three sources, one relation each")):
        k = document["compared"][-1]
        yield from (Text(), _title(f"all algorithms, {k} updates, {words}"), _others(document, sources))
    yield from _notes(document, "others")
    yield from (Text(), _title("C-Strobe: most compensating queries for one insert"), _c_strobe(document))
    yield from _notes(document, "c-strobe")


def _notes(document: Mapping[str, Any], figure: str) -> Iterator[RenderableType]:
    for note in document["notes"]:
        if note["figure"] == figure:
            yield Padding(Text(note["text"], style="dim"), (0, 0, 0, 2), expand=False)


def _figure(document: Mapping[str, Any], figure: str) -> Iterator[RenderableType]:
    curves = [curve for curve in document["curves"] if curve["figure"] == figure]
    xs = document["c" if curves[0]["x"] == "C" else "k"]
    yield _title(f"{figure}  {document['titles'][figure]}")
    for start in range(0, len(xs), _IN_A_TABLE):
        yield _part(curves, xs[start : start + _IN_A_TABLE])


def _title(text: str) -> RenderableType:
    return Text(text, style="italic")


def _part(curves: Sequence[Mapping[str, Any]], xs: Sequence[int]) -> RenderableType:
    heads = [f"{curves[0]['x']} = {x}" if n == 0 else str(x) for n, x in enumerate(xs)]
    made = table("", " ", *heads, right=heads)
    for series in dict.fromkeys((curve["algorithm"], curve["case"]) for curve in curves):
        own = {c["kind"]: dict(c["points"]) for c in curves if (c["algorithm"], c["case"]) == series}
        kinds = [kind for kind in KINDS if kind in own]
        for place, kind in enumerate(kinds):
            name = " ".join(series) if place == 0 else ""
            made.add_row(name, kind, *(_number(own[kind].get(x)) for x in xs))
    return made


def _crossovers(document: Mapping[str, Any]) -> RenderableType:
    counted = KINDS[1:]
    heads = ("figure", "ECA", "formula", "text", *counted)
    made = table(*heads, right=heads[2:])
    for entry in document["crossovers"]:
        found = [_bracket(entry[kind]) if kind in entry else "" for kind in counted]
        formula = f"{entry['x']} = {entry['formula']:.2f}".removesuffix(".00")
        made.add_row(entry["figure"], entry["case"], formula, entry["text"], *found)
    return made


def _bracket(between: Sequence[int | None]) -> str:
    low, high = between
    if high is None:
        return f"> {low}"
    if low is None:
        return f"<= {high}"
    return str(high) if low == high - 1 else f"{low} to {high}"


def _others(document: Mapping[str, Any], sources: str) -> RenderableType:
    k = document["compared"][-1]
    columns = [(schedule, y) for schedule in ("apart", "together") for y in ("queries", "messages", "bytes")]
    heads = [f"{schedule}\n{y}" for schedule, y in columns]
    made = table("", *heads, right=heads)
    found: dict[str, dict[str, Any]] = {}
    for curve in document["curves"]:
        if curve["figure"].startswith(sources):
            found.setdefault(curve["algorithm"], {})[curve["figure"]] = dict(curve["points"])[k]
    for algorithm, numbers in found.items():
        row = [_number(numbers[f"{sources}-{schedule}-{y}"]) for schedule, y in columns]
        made.add_row(algorithm, *row)
    return made


def _c_strobe(document: Mapping[str, Any]) -> RenderableType:
    heads = ("relations n", "(n-1)!", "sum", "counted")
    made = table(*heads, right=heads)
    for entry in document["c_strobe"]:
        values = (entry["relations"], entry["factorial"], entry["sum"], entry["counted"])
        made.add_row(*map(str, values))
    return made


def _number(value: float | None) -> str:
    if value is None:
        return _NOT_COUNTED
    return str(int(value)) if value == int(value) else f"{value:.1f}"
