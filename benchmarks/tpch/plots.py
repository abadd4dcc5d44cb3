"""A plot of a few curves, as SVG text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

LEFT, TOP, WIDTH, HEIGHT, LEGEND = 70, 50, 520, 320, 250
COLOURS = ("#b91c1c", "#1d4ed8", "#059669", "#f59e0b", "#7c3aed", "#0891b2", "#78350f", "#db2777", "#000000")
SPAN = 20  # an axis whose values span more than this factor is logarithmic


@dataclass(frozen=True)
class Curve:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    low: float
    high: float
    logarithmic: bool

    @classmethod
    def around(cls, values: Sequence[float]) -> Axis:
        least, most = min(values), max(values)
        if least > 0 and most / least > SPAN:
            return cls(10.0 ** floor(log10(least)), 10.0 ** ceil(log10(most)), True)
        return cls(0.0, most * 1.05 or 1.0, False)

    def share(self, value: float) -> float:
        if self.logarithmic:
            return log10(value / self.low) / log10(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> Iterator[float]:
        if self.logarithmic:
            for power in range(round(log10(self.low)), round(log10(self.high)) + 1):
                yield 10.0**power
            return
        step = 10.0 ** floor(log10(self.high))
        step = next(one for one in (step / 5, step / 2, step, step * 2) if self.high / one <= 8)
        for count in range(int(self.high / step) + 1):
            yield count * step


def plot(title: str, x: str, y: str, curves: Sequence[Curve]) -> str:
    """The curves with their names beside them; the same input gives the same text."""
    across = Axis.around([point[0] for curve in curves for point in curve.points])
    up = Axis.around([point[1] for curve in curves for point in curve.points])
    width, height = LEFT + WIDTH + LEGEND, TOP + HEIGHT + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="26" font-size="16" font-weight="bold">{escape(title)}</text>',
        *_axes(across, up, x, y),
    ]
    for place, curve in enumerate(curves):
        colour = COLOURS[place % len(COLOURS)]
        at = [
            (LEFT + across.share(a) * WIDTH, TOP + HEIGHT - up.share(b) * HEIGHT)
            for a, b in sorted(curve.points)
        ]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in at)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in at]
        beside = TOP + 12 + 20 * place
        parts.append(f'<circle cx="{LEFT + WIDTH + 20}" cy="{beside - 4}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + WIDTH + 32}" y="{beside}">{escape(curve.name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(across: Axis, up: Axis, x: str, y: str) -> Iterator[str]:
    foot = TOP + HEIGHT
    for value in up.ticks():
        at = foot - up.share(value) * HEIGHT
        yield f'<path d="M{LEFT} {at:.1f}h{WIDTH}" stroke="#cbd5e1"/>'
        yield f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>'
    for value in across.ticks():
        at = LEFT + across.share(value) * WIDTH
        yield f'<path d="M{at:.1f} {foot}v5" stroke="#334155"/>'
        yield f'<text x="{at:.1f}" y="{foot + 20}" text-anchor="middle">{value:g}</text>'
    yield f'<path d="M{LEFT} {TOP}v{HEIGHT}h{WIDTH}" fill="none" stroke="#334155"/>'
    yield f'<text x="{LEFT + WIDTH}" y="{foot + 42}" text-anchor="end" font-weight="bold">{escape(x)}</text>'
    middle = TOP + HEIGHT / 2
    turn = f'transform="rotate(-90 18 {middle:.0f})" text-anchor="middle" font-weight="bold"'
    yield f'<text x="18" y="{middle:.0f}" {turn}>{escape(y)}</text>'
