"""Signatures: which entries of the log a record reflects.

    signature = (session, how far into each stream of that session)

Law: of the entries that touch a record, it reflects exactly those of earlier sessions, and of this session
those of each stream up to its mark. It holds because a manager goes through a stream in order (`entry`), and
because a session begins when the one before it is done. So an entry is recognised however often and to
whomever it comes, also when streams are dealt out anew between two runs; and a signature has at most
`STREAMS` marks, however long the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stillframe.records.entry import Touch


class Signature(NamedTuple):
    session: int = 0
    marks: tuple[tuple[int, int], ...] = ()  # by stream, in order

    def reflects(self, touch: Touch) -> bool:
        if touch.position.session != self.session:
            return touch.position.session < self.session
        return touch.position.number <= dict(self.marks).get(touch.stream, -1)

    def after(self, touches: Iterable[Touch]) -> Signature:
        """Of the record that reflects these too."""
        session, marks = self.session, dict(self.marks)
        for touch in touches:
            if touch.position.session > session:
                session, marks = touch.position.session, {}
            marks[touch.stream] = max(touch.position.number, marks.get(touch.stream, -1))
        return Signature(session, tuple(sorted(marks.items())))
