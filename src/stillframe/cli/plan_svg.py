"""A change plan as a drawing: one row a term, its change joined with the states it meets; below, the tree by
which a join's changes are propagated, and the steps that come of it.

A pure function of the document `plan --json` prints. Each state's box says how its rows are found: by a key
of what is already there, or by reading the relation whole. A leaf says how often its input is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

_CHARACTER = 7.2  # pixels of one character of the 12 px monospace face
_BOX_HEIGHT = 52
_ROW = 84
_GAP = 34
_MARGIN = 20
_LINE = 22
_DOWN = 76  # from a node to what stands below it
_SIDE = 18
_HEADER = 64
_CHANGE = "#fde68a"
_STATE = "#dbeafe"
_WHOLE = "#fecaca"


def plan_svg(plan: Mapping[str, Any]) -> str:
    rows = [_boxes(term) for term in plan["tree"]]
    trees, widest, bottom = _propagations(plan, _HEADER + len(rows) * _ROW)
    widest = max([widest, *(sum(_width(lines) + _GAP for lines, _ in row) for row in rows)])
    title = f"{'recomputation' if plan.get('mode') == 'full' else 'change'} of {plan['view']}"
    subtitle = f"{plan['algorithm']}, {plan['level']}, {len(rows)} terms"
    width = max(widest, len(title) * _CHARACTER * 1.3, len(subtitle) * _CHARACTER) + 2 * _MARGIN + _GAP
    height = round(bottom) + _MARGIN
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
    return "\n".join([*parts, *trees, "</svg>"]) + "\n"


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
        if position:
            parts.append(_sign("⋈", x - _GAP / 2, middle))
        parts += _box(lines, colour, x, top)
        x += _width(lines) + _GAP
    return parts


def _box(lines: list[str], colour: str, x: float, top: float) -> list[str]:
    parts = [
        f'<rect x="{x:.0f}" y="{top:.0f}" width="{_width(lines):.0f}" height="{_BOX_HEIGHT}" rx="6" '
        f'fill="{colour}" stroke="#334155"/>'
    ]
    for number, line in enumerate(lines):
        weight = ' font-weight="bold"' if number == 0 else ""
        parts.append(f'<text x="{x + 10:.0f}" y="{top + 21 + number * 18:.0f}"{weight}>{escape(line)}</text>')
    return parts


def _sign(text: str, x: float, middle: float) -> str:
    return f'<text x="{x:.0f}" y="{middle + 5:.0f}" font-size="16" text-anchor="middle">{text}</text>'


def _propagations(plan: Mapping[str, Any], top: float) -> tuple[list[str], float, float]:
    """What is drawn of the joins below `top`, how wide it is, and where it ends."""
    parts, widest = list[str](), 0.0
    for found in plan.get("propagation", ()) if plan.get("mode") != "full" else ():
        if found["steps"]:
            drawn, width, top = _propagation(found, top)
            parts += drawn
            widest = max(widest, width)
    return parts, widest, top


def _propagation(found: Mapping[str, Any], top: float) -> tuple[list[str], float, float]:
    title = f"propagated as {found['family']}"
    parts = [f'<text x="{_MARGIN}" y="{top + 14:.0f}" font-size="14" font-weight="bold">{title}</text>']
    top, wide = top + 30, 0.0
    if found["tree"] is not None:
        drawn = _tree(found["tree"], found["reads"], float(_MARGIN), top)
        parts += drawn.parts
        top, wide = drawn.bottom, drawn.width
    for step in found["steps"]:
        top += _LINE
        parts.append(f'<text x="{_MARGIN}" y="{top:.0f}">{escape(step["text"])}</text>')
        wide = max(wide, len(step["text"]) * _CHARACTER)
    return parts, wide, top + _LINE


@dataclass(frozen=True)
class _Drawn:
    parts: list[str]
    width: float
    middle: float  # from the left of the picture
    bottom: float


def _tree(tree: Mapping[str, Any], reads: Mapping[str, int], left: float, top: float) -> _Drawn:
    """Blocks from left to right, in the order in which their changes are propagated."""
    if "blocks" not in tree:
        name, changes = tree["input"], tree["changes"]
        lines = [name, f"{'changes, ' if changes else ''}read {reads.get(name, 0)}×"]
        width = _width(lines)
        parts = _box(lines, _CHANGE if changes else _STATE, left, top)
        return _Drawn(parts, width, left + width / 2, top + _BOX_HEIGHT)
    blocks: list[_Drawn] = []
    x = left
    for block in tree["blocks"]:
        blocks.append(_tree(block, reads, x, top + _DOWN))
        x += blocks[-1].width + _SIDE
    middle = (blocks[0].middle + blocks[-1].middle) / 2
    lines = [
        f'<line x1="{middle:.0f}" y1="{top + 24:.0f}" x2="{block.middle:.0f}" y2="{top + _DOWN:.0f}" '
        'stroke="#334155"/>'
        for block in blocks
    ]
    parts = [*lines, _sign("⋈", middle, top + 12), *(part for block in blocks for part in block.parts)]
    return _Drawn(parts, x - _SIDE - left, middle, max(block.bottom for block in blocks))
