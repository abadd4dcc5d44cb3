"""Statements of the binary log, as far as it takes to see what they do to which table."""

from __future__ import annotations

import re

from stillframe.sources.mariadb.events import Query

_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20
_EXECUTED = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_COMMENT = r"/\*.*?\*/|--(?=\s|$)[^\n]*|#[^\n]*"
_QUOTED = re.compile(rf"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|{_COMMENT}", re.DOTALL)
_QUOTED_PLAINLY = re.compile(rf"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|{_COMMENT}", re.DOTALL)
_FOR_ONE = re.compile(r"\s*SET\s+STATEMENT\b.*?\bFOR\b", re.IGNORECASE | re.DOTALL)


def bare(query: Query) -> str:
    """A statement without its texts and comments, but with what only looks like a comment."""
    ansi = query.mode & _ANSI_QUOTES
    quoted = _QUOTED_PLAINLY if query.mode & _NO_BACKSLASH_ESCAPES else _QUOTED

    def kept(found: re.Match[str]) -> str:
        name = found[0][1:-1].replace('""', '"').replace("`", "``")
        return f"`{name}`" if ansi and found[0].startswith('"') else " "

    return _FOR_ONE.sub(" ", quoted.sub(kept, _EXECUTED.sub(r" \1 ", query.text)))
