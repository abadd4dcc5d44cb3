"""Signatures: which entries of the log a record reflects.

    signature = (session, how far into each stream of that session)

Law: of the entries that touch a record, it reflects exactly those of earlier sessions, and of this session
those of each stream up to its mark. It holds because a manager goes through a stream in order (`entry`), and
because a session begins when the one before it is done. So an entry is recognised however often and to
whomever it comes, also when streams are dealt out anew between two runs; and a signature has at most
`STREAMS` marks, however long the log.

Without marks (`COUNTER`, counter-based test-and-set) an entry of this session is always taken for a new one:
for programs that may repeat an entry, and are the cheaper for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stillframe.records.entry import Touch


class Signature(NamedTuple):
    session: int = 0
    marks: tuple[tuple[int, int], ...] | None = ()  # by stream, in order

    def reflects(self, touch: Touch) -> bool:
        return not self.unseen((touch,))

    def unseen(self, touches: Iterable[Touch]) -> tuple[Touch, ...]:
        """Those that it does not reflect."""
        here, marks = self.session, dict(self.marks or ())

        def new(stream: int, session: int, number: int) -> bool:
            return number > marks.get(stream, -1) if session == here else session > here

        return tuple(touch for touch in touches if new(touch.stream, *touch.position))

    def after(self, touches: Iterable[Touch]) -> Signature:
        """Of the record that reflects these too."""
        if self.marks is None:
            return Signature(max(self.session, *(touch.position.session for touch in touches)), None)
        session, marks = self.session, dict(self.marks)
        for touch in touches:
            if touch.position.session > session:
                session, marks = touch.position.session, {}
            marks[touch.stream] = max(touch.position.number, marks.get(touch.stream, -1))
        return Signature(session, tuple(sorted(marks.items())))


COUNTER = Signature(marks=None)
