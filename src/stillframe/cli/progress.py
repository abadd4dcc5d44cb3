"""What a session is doing, in one line on a terminal; nothing when stderr goes elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from stillframe.runtime import Warehouse
from stillframe.runtime.outcome import Step, unobserved

_WORDS = {
    Step.STARTED: "starting a session",
    Step.FIXED: "sources fixed; reading changes",
    Step.LOADED: "loading {subject}",
    Step.STAGED: "read {subject}",
    Step.AHEAD: "read {subject} for the next frame",
    Step.WRITTEN: "wrote {subject}",
    Step.COMPUTED: "publishing the frame",
    Step.PUBLISHED: "published frame {subject}",
    Step.ACKNOWLEDGED: "settling",
    Step.REWRITTEN: "rewrote files of {subject}",
    Step.SETTLED: "settled {subject}",
    Step.MERGED: "merged the changes of {subject}",
}


def describe(step: Step, subject: str) -> str:
    return _WORDS[step].format(subject=subject)


@contextmanager
def progress(warehouse: Warehouse, console: Console, begin: str) -> Iterator[None]:
    """Show the warehouse's steps while the block runs."""
    if not console.is_terminal:
        yield
        return
    with console.status(begin) as status:
        warehouse.observe = lambda step, subject: status.update(Text(describe(step, subject)))
        try:
            yield
        finally:
            warehouse.observe = unobserved
