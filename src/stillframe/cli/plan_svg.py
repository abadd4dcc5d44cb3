"""A change plan as a drawing: one row a term, its change joined with the states it meets.

A pure function of the document `plan --json` prints. Each state's box says how its rows are found: by a key
of what is already there, or by reading the relation whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

_CHARACTER = 7.2  # pixels of one character of the 12 px monospace face
_BOX_HEIGHT = 52
_ROW = 84
_GAP = 34
_MARGIN = 20
_HEADER = 64
_CHANGE = "#fde68a"
_STATE = "#dbeafe"
_WHOLE = "#fecaca"


def plan_svg(plan: Mapping[str, Any]) -> str:
    rows = [_boxes(term) for term in plan["tree"]]
    widest = max((sum(_width(lines) + _GAP for lines, _ in row) for row in rows), default=0)
    title = f"{'recomputation' if plan.get('mode') == 'full' else 'change'} of {plan['view']}"
    subtitle = f"{plan['algorithm']}, {plan['level']}, {len(rows)} terms"
    width = max(widest, len(title) * _CHARACTER * 1.3, len(subtitle) * _CHARACTER) + 2 * _MARGIN + _GAP
    height = _HEADER + len(rows) * _ROW + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" font-family="monospace" font-size="12">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_MARGIN}" y="28" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="{_MARGIN}" y="48" fill="#555">{escape(subtitle)}</text>',
    ]
    for number, row in enumerate(rows):
        parts += _row(row, _HEADER + number * _ROW, first=number == 0)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _boxes(term: Mapping[str, Any]) -> list[tuple[list[str], str]]:
    """The lines and the colour of each box, in the order of the join."""
    reads = list(term["reads"])
    boxes: list[tuple[list[str], str]] = []
    for name in term["join"]:
        if name.startswith("Δ"):
            boxes.append(([name, "its change"], _CHANGE))
            continue
        read = next((r for r in reads if f"{r['relation']}@{r['at']}" == name), None)
        if read is not None:
            reads.remove(read)
        how = f"by {read['by']}" if read and read["by"] else "read whole"
        boxes.append(([name, how], _STATE if read and read["by"] else _WHOLE))
    return boxes


def _width(lines: list[str]) -> float:
    return max(map(len, lines)) * _CHARACTER + 20


def _row(row: list[tuple[list[str], str]], top: float, *, first: bool) -> list[str]:
    middle = top + _BOX_HEIGHT / 2
    parts = [f'<text x="{_MARGIN}" y="{middle + 4:.0f}" font-size="16">{"" if first else "+"}</text>']
    x = float(_MARGIN + _GAP / 2)
    for position, (lines, colour) in enumerate(row):
        width = _width(lines)
        if position:
            place = f'x="{x - _GAP / 2:.0f}" y="{middle + 5:.0f}"'
            parts.append(f'<text {place} font-size="16" text-anchor="middle">⋈</text>')
        parts.append(
            f'<rect x="{x:.0f}" y="{top}" width="{width:.0f}" height="{_BOX_HEIGHT}" rx="6" '
            f'fill="{colour}" stroke="#334155"/>'
        )
        for number, line in enumerate(lines):
            weight = ' font-weight="bold"' if number == 0 else ""
            parts.append(f'<text x="{x + 10:.0f}" y="{top + 21 + number * 18}"{weight}>{escape(line)}</text>')
        x += width + _GAP
    return parts
