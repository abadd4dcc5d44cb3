"""The consistency spectrum as a drawing: a row a level, a column a setting, a box an algorithm.

A pure function of the document `spectrum --json` prints. Every box links to its witness: to the file there
is, else to its line in the list below. A dashed box is where a paper puts what exploration puts elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import quote

Document = Mapping[str, Any]

_CHARACTER = 7.2  # pixels of one character of the 12 px monospace face
_MARGIN = 20
_LABELS = 96
_COLUMN = 246
_BOX = 22
_GAP = 6
_LINE = 18
_HEADER = 100
_COLOURS = {"equal": "#dbeafe", "above": "#dcfce7", "below": "#fecaca", None: "#f1f5f9"}
_WORDS = {
    "equal": "as the paper says",
    "above": "above what the paper promises",
    "below": "below what the paper promises",
    None: "no paper says",
}


def spectrum_svg(found: Document) -> str:
    settings = found["settings"]
    width = 2 * _MARGIN + _LABELS + len(settings) * _COLUMN
    title = "The consistency spectrum, derived by exploration"
    placed = [cell for cell in found["cells"] if cell["applicable"]]
    schedules = sum(cell["schedules"] for cell in placed)
    subtitle = f"{len(placed)} cells, {schedules:,} schedules explored, seed {found['seed']}"
    parts = [
        "<title>The consistency spectrum</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_MARGIN}" y="28" font-size="16" font-weight="bold">{title}</text>',
        f'<text x="{_MARGIN}" y="48" fill="#555">{escape(subtitle)}</text>',
    ]
    for number, setting in enumerate(settings):
        parts.append(_text(_left(number), _HEADER - 16, setting, ' font-weight="bold"'))
    top = float(_HEADER)
    for level in reversed(found["levels"]):
        row, height = _row(found, level, top)
        parts += row
        top += height
    parts.append(_rule(top, width))
    below, top = _below(found, top + 10)
    parts += below
    return "\n".join([_open(width, top + _MARGIN), *parts, "</svg>"]) + "\n"


def _open(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="12">'
    )


def _row(found: Document, level: str, top: float) -> tuple[list[str], float]:
    """One level, as high as its fullest cell."""
    width = 2 * _MARGIN + _LABELS + len(found["settings"]) * _COLUMN
    parts = [_rule(top, width), _text(_MARGIN, top + _GAP + 19, level, ' font-weight="bold"')]
    lines = 1
    for column, setting in enumerate(found["settings"]):
        x, line = 0.0, 0
        for cell, ghost in _standing(found, level, setting):
            wide = _box_width(cell, ghost)
            if x and x + wide > _COLUMN - _GAP:
                x, line = 0.0, line + 1
            place = _left(column) + x, top + 2 * _GAP + line * (_BOX + _GAP)
            parts.append(_ghost(cell, *place, wide) if ghost else _placed(cell, *place, wide))
            x += wide + _GAP
        lines = max(lines, line + 1)
    return parts, lines * (_BOX + _GAP) + 3 * _GAP


def _standing(found: Document, level: str, setting: str) -> Iterator[tuple[Document, bool]]:
    """Who stands in a cell: those found there, then those that only a paper puts there."""
    there = [cell for cell in found["cells"] if cell["setting"] == setting and cell["applicable"]]
    yield from ((cell, False) for cell in there if cell["level"] == level)
    for cell in there:
        if cell["level"] != level and cell["paper"] and cell["paper"]["level"] == level:
            yield cell, True


def _box_width(cell: Document, ghost: bool) -> float:
    number = 0 if ghost else len(str(cell["witness"]["number"])) + 1
    return (len(cell["algorithm"]) + number) * _CHARACTER + 14


def _placed(cell: Document, x: float, y: float, width: float) -> str:
    witness = cell["witness"]
    name = cell["algorithm"]
    after = x + 7 + (len(name) + 1) * _CHARACTER
    return (
        f'<a href="{escape(_target(witness))}"><title>{escape(_told(cell))}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BOX}" rx="5" '
        f'fill="{_COLOURS[cell["compared"]]}" stroke="#334155"/>'
        + _text(x + 7, y + 15, name)
        + _text(after, y + 15, str(witness["number"]), ' fill="#64748b" font-size="10"')
        + "</a>"
    )


def _ghost(cell: Document, x: float, y: float, width: float) -> str:
    paper = cell["paper"]
    told = f"{cell['algorithm']} stands here in the {paper['where']}"
    return (
        f"<g><title>{escape(told)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BOX}" rx="5" fill="white" '
        f'stroke="#94a3b8" stroke-dasharray="3 3"/>'
        + _text(x + 7, y + 15, cell["algorithm"], ' fill="#64748b"')
        + "</g>"
    )


def _target(witness: Document) -> str:
    files = witness.get("files")
    return quote(files.get("schedule", files["scenario"])) if files else f"#witness-{witness['number']}"


def _told(cell: Document) -> str:
    """What a pointer resting on a box is told: the level, the paper's word, and the witness in full."""
    witness, paper = cell["witness"], cell["paper"]
    lines = [f"{cell['algorithm']}, {cell['setting']}: {cell['level']}"]
    lines.append(f"{paper['where']}: {paper['level']}" if paper else _WORDS[None])
    if witness["schedule"] is None:
        lines.append(_explored(cell))
        return "\n".join(lines)
    lines.append(f"{_broken(witness)} fails in “{witness['name']}”:")
    lines += [f"{number}  {step}" for number, step in enumerate(witness["schedule"], 1)]
    if witness["reason"]:
        lines.append(witness["reason"])
    return "\n".join(lines)


def _broken(witness: Document) -> str:
    return "weak consistency" if witness["breaks"] == "weak" else str(witness["breaks"])


def _explored(cell: Document) -> str:
    return f"nothing breaks in {cell['scenarios']:,} scenarios, {cell['schedules']:,} schedules"


def _below(found: Document, top: float) -> tuple[list[str], float]:
    """The legend, what is not placed, and the list of witnesses where no files hold them."""
    parts = []
    x = float(_MARGIN)
    for compared, words in [*_WORDS.items(), ("paper", "where the paper puts what is found elsewhere")]:
        ghost = compared == "paper"
        look = 'fill="white" stroke="#94a3b8" stroke-dasharray="3 3"'
        if not ghost:
            look = f'fill="{_COLOURS[compared]}" stroke="#334155"'
        parts.append(f'<rect x="{x:.1f}" y="{top + 4:.1f}" width="18" height="12" rx="3" {look}/>')
        parts.append(_text(x + 24, top + 14, words))
        x += 24 + len(words) * _CHARACTER + 22
    top += 2 * _LINE
    for line in refusals(found):
        parts.append(_text(_MARGIN, top + 14, f"not placed: {line}", ' fill="#555"'))
        top += _LINE
    witnesses = [c for c in found["cells"] if c["witness"] is not None and "files" not in c["witness"]]
    top += _LINE if witnesses else 0
    for cell in witnesses:
        parts.append(_listed(cell, top + 14))
        top += _LINE
    return parts, top


def _listed(cell: Document, y: float) -> str:
    witness = cell["witness"]
    if witness["schedule"] is None:
        told = _explored(cell)
    else:
        told = f"{_broken(witness)} fails in “{witness['name']}” after {len(witness['schedule'])} steps"
    line = f"{witness['number']:>2}  {cell['algorithm']}, {cell['setting']}: {told}"
    return (
        f'<g id="witness-{witness["number"]}"><title>{escape(_told(cell))}</title>'
        + _text(_MARGIN, y, line, ' xml:space="preserve"')
        + "</g>"
    )


def refusals(found: Document) -> list[str]:
    """Who is not placed, in which settings, and why: one line for each reason."""
    whose: dict[str, dict[str, list[str]]] = {}
    for cell in found["cells"]:
        if not cell["applicable"]:
            why = (cell["reason"] or "accepts no scenario").removeprefix(f"{cell['algorithm']} ")
            whose.setdefault(why, {}).setdefault(cell["algorithm"], []).append(cell["setting"])
    lines = []
    for why, settings in whose.items():
        alike: dict[tuple[str, ...], list[str]] = {}
        for algorithm, there in settings.items():
            alike.setdefault(tuple(there), []).append(algorithm)
        for where, names in alike.items():
            each = "each " if len(names) > 1 else ""
            lines.append(f"{', '.join(names)} ({'; '.join(where)}): {each}{why}")
    return lines


def _left(column: int) -> float:
    return _MARGIN + _LABELS + column * _COLUMN


def _rule(y: float, width: float) -> str:
    return f'<line x1="{_MARGIN}" x2="{width - _MARGIN:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#cbd5e1"/>'


def _text(x: float, y: float, text: str, look: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}>{escape(text)}</text>'
