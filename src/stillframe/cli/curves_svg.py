"""Curves as a drawing: a pure function of the document `costs --json` prints.

A colour is an algorithm and case. A formula is a line; counts are marks, one shape a kind. Curves with the
same points are drawn once and named together. An axis whose values span more than a factor of 50 is
logarithmic; zero then lies on its foot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from textwrap import wrap
from typing import Any

Point = tuple[float, float]

_LEFT, _TOP, _WIDTH, _HEIGHT, _BOTTOM = 76, 62, 520, 330, 56
_LEGEND, _LINE, _CHARACTER = 24, 18, 7.2
_COLOURS = (
    "#b91c1c", "#f59e0b", "#1d4ed8", "#059669", "#7c3aed", "#db2777", "#0891b2",
    "#65a30d", "#78350f", "#475569", "#ea580c", "#4338ca", "#000000",
)  # fmt: skip
_WORDS = {
    "formula": "formula",
    "degenerate": "counted, degenerate",
    "random": "counted, random inserts",
    "steady": "counted, random, size steady",
}
_SPAN = 50
_LEGEND_WIDTH = 30  # characters


def figures(document: Mapping[str, Any]) -> list[str]:
    """The figures a document has curves for, in its order."""
    there = {curve["figure"] for curve in document["curves"]}
    return [name for name in document["titles"] if name in there]


def file_name(figure: str) -> str:
    return f"figure-{figure}.svg" if figure[0].isdigit() else f"{figure}.svg"


def curves_svg(document: Mapping[str, Any], figure: str) -> str:
    curves = [_drawn(document, curve) for curve in document["curves"] if curve["figure"] == figure]
    curves = [curve for curve in curves if curve["points"]]
    merged = _merged(curves)
    kinds = [kind for kind in _WORDS if any(curve["kind"] == kind for curve in curves)]
    alone = len(kinds) == 1
    chart = Chart.around([point for curve in curves for point in curve["points"]])
    title = f"{figure}: {document['titles'][figure]}" if figure[0].isdigit() else document["titles"][figure]
    names = [_lines(curves, group) for group in merged]
    legend = [line for lines in names for line in lines] + ([] if alone else [_WORDS[k] for k in kinds])
    widest = max(map(len, legend), default=0) * _CHARACTER
    width = max(_LEFT + _WIDTH + _LEGEND + 34 + widest + 16, len(title) * _CHARACTER * 1.35 + 40)
    height = max(_TOP + _HEIGHT + _BOTTOM, _TOP + len(legend) * _LINE + 40)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="monospace" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="20" y="28" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="20" y="48" fill="#555">{escape(_subtitle(document, curves[0]["x"]))}</text>',
        *chart.axes(curves[0]["x"], curves[0]["y"]),
    ]
    colours = _colours(document)
    for group in merged:
        for curve in curves:
            if _series(curve) == group[0]:
                parts += chart.curve(curve["points"], curve["kind"], colours[group[0]], alone=alone)
    keys = [colours[group[0]] for group in merged]
    parts += _legend(list(zip(keys, names, strict=True)), [] if alone else kinds)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawn(document: Mapping[str, Any], curve: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of counts beside a formula, those asked for; crossovers have some more."""
    if curve["kind"] == "formula" or not curve["figure"][0].isdigit():
        return curve
    asked = document[curve["x"].lower()]
    return {**curve, "points": [point for point in curve["points"] if point[0] in asked]}


def _colours(document: Mapping[str, Any]) -> dict[str, str]:
    """One for each series, the same in every figure like it."""
    found: dict[str, str] = {}
    for formulas in (True, False):
        curves = [c for c in document["curves"] if c["figure"][0].isdigit() is formulas]
        names = dict.fromkeys(map(_series, curves))
        found |= {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    return found


def _series(curve: Mapping[str, Any]) -> str:
    case = curve["case"]
    return f"{curve['algorithm']} {case}" if case in ("best", "worst") else str(curve["algorithm"])


def _merged(curves: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Series with the same points of every kind, together."""
    groups: dict[Any, list[str]] = {}
    for name in dict.fromkeys(map(_series, curves)):
        points = [(c["kind"], tuple(map(tuple, c["points"]))) for c in curves if _series(c) == name]
        groups.setdefault(tuple(points), []).append(name)
    return list(groups.values())


def _lines(curves: Sequence[Mapping[str, Any]], group: Sequence[str]) -> list[str]:
    """How a legend names series drawn as one; zero, which a logarithmic axis cannot show, is said."""
    nothing = all(y == 0 for curve in curves if _series(curve) == group[0] for _, y in curve["points"])
    return wrap(", ".join(group) + (" (always 0)" if nothing else ""), _LEGEND_WIDTH, break_on_hyphens=False)


def _subtitle(document: Mapping[str, Any], x: str) -> str:
    """The parameters that do not vary."""
    p = {**document["parameters"], "seed": document["seed"]}
    return ", ".join(f"{name} = {value:g}" for name, value in p.items() if name != x)


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    logarithmic: bool

    @classmethod
    def around(cls, values: Sequence[float], *, may_be_logarithmic: bool) -> Axis:
        positive = [value for value in values if value > 0] or [1.0]
        if may_be_logarithmic and max(positive) / min(positive) > _SPAN:
            return cls(10 ** floor(log10(min(positive))), 10 ** ceil(log10(max(positive)) - 1e-9), True)
        step = _step(max(positive))
        return cls(0.0, ceil(max(positive) / step - 1e-9) * step, False)

    def share(self, value: float) -> float:
        if not self.logarithmic:
            return (value - self.low) / (self.high - self.low)
        return log10(max(value, self.low) / self.low) / log10(self.high / self.low)

    def ticks(self) -> Iterator[tuple[float, bool]]:
        """(value, whether it is named)."""
        if not self.logarithmic:
            step = _step(self.high)
            yield from ((n * step, True) for n in range(round(self.high / step) + 1))
            return
        decades = round(log10(self.high / self.low))
        for decade in range(decades + 1):
            power = self.low * 10**decade
            yield power, True
            if decade < decades:
                yield from ((power * n, n in (2, 5) and decades < 3) for n in range(2, 10))


def _step(high: float) -> float:
    """A round step that makes four to ten of a length."""
    power = 10.0 ** floor(log10(high))
    return float(next(power * n for n in (0.1, 0.2, 0.5, 1) if high / (power * n) <= 10))


@dataclass(frozen=True)
class Chart:
    across: Axis
    up: Axis

    @classmethod
    def around(cls, points: Sequence[Sequence[float]]) -> Chart:
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        return cls(Axis.around(xs, may_be_logarithmic=False), Axis.around(ys, may_be_logarithmic=True))

    def at(self, point: Sequence[float]) -> Point:
        x = _LEFT + self.across.share(point[0]) * _WIDTH
        return x, _TOP + _HEIGHT - self.up.share(point[1]) * _HEIGHT

    def axes(self, x: str, y: str) -> Iterator[str]:
        foot = _TOP + _HEIGHT
        for value, named in self.up.ticks():
            _, at = self.at((0, value))
            colour = "#cbd5e1" if named else "#f1f5f9"
            yield f'<path d="M{_LEFT} {at:.1f}h{_WIDTH}" stroke="{colour}"/>'
            if named:
                yield f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{_short(value)}</text>'
        for value, _ in self.across.ticks():
            at, _ = self.at((value, 0))
            yield f'<path d="M{at:.1f} {foot}v5" stroke="#334155"/>'
            yield f'<text x="{at:.1f}" y="{foot + 20}" text-anchor="middle">{_short(value)}</text>'
        yield f'<path d="M{_LEFT} {_TOP}v{_HEIGHT}h{_WIDTH}" fill="none" stroke="#334155"/>'
        place = f'x="{_LEFT + _WIDTH}" y="{foot + 40}" text-anchor="end" font-weight="bold"'
        yield f"<text {place}>{escape(x)}</text>"
        scale = " (logarithmic)" if self.up.logarithmic else ""
        middle = _TOP + _HEIGHT / 2
        turn = f'transform="rotate(-90 18 {middle:.0f})" text-anchor="middle" font-weight="bold"'
        yield f'<text x="18" y="{middle:.0f}" {turn}>{escape(y + scale)}</text>'

    def curve(
        self, points: Sequence[Sequence[float]], kind: str, colour: str, *, alone: bool
    ) -> Iterator[str]:
        """A line where there is a formula, or nothing but counts; marks where there are counts."""
        places = [self.at(point) for point in points]
        if kind == "formula" or alone:
            path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        if kind != "formula":
            mark = _MARKS["dot" if alone else kind]
            yield from (mark(x, y, colour) for x, y in places)


def _ring(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.8" fill="{colour}"/>'


def _cross(x: float, y: float, colour: str) -> str:
    d = f"M{x - 3.5:.1f} {y - 3.5:.1f}l7 7m0 -7l-7 7"
    return f'<path d="{d}" stroke="{colour}" stroke-width="1.4"/>'


def _plus(x: float, y: float, colour: str) -> str:
    d = f"M{x - 4.5:.1f} {y:.1f}h9m-4.5 -4.5v9"
    return f'<path d="{d}" stroke="{colour}" stroke-width="1.4"/>'


_MARKS: Mapping[str, Callable[[float, float, str], str]] = {
    "degenerate": _ring,
    "random": _cross,
    "steady": _plus,
    "dot": _dot,
}


def _legend(series: Sequence[tuple[str, list[str]]], kinds: Sequence[str]) -> Iterator[str]:
    x, y = _LEFT + _WIDTH + _LEGEND, _TOP + 10
    for colour, lines in series:
        yield f'<path d="M{x} {y - 4}h24" stroke="{colour}" stroke-width="3"/>'
        for line in lines:
            yield f'<text x="{x + 32}" y="{y}">{escape(line)}</text>'
            y += _LINE
    y += _LINE // 2
    for kind in kinds:
        if kind == "formula":
            yield f'<path d="M{x} {y - 4}h24" stroke="#475569" stroke-width="1.6"/>'
        else:
            yield _MARKS[kind](x + 12, y - 4, "#475569")
        yield f'<text x="{x + 32}" y="{y}" fill="#475569">{escape(_WORDS[kind])}</text>'
        y += _LINE


def _short(value: float) -> str:
    """A number as short as it can be said."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
