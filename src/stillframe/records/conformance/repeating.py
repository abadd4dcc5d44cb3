"""Managers that work on the same records at once, two on each stream: what comes again, to whomever, does no
harm. With signatures a record tells what it reflects, and is kept when it vanishes, until the next session;
with counters it tells nothing, and is gone at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from stillframe.algebra import Ref
from stillframe.records.aggregates import Aggregates, Measure
from stillframe.records.conformance.world import ORDERS, THREADS, Check, Maker, at_once, key_of, made, same
from stillframe.records.entry import STREAMS, Entry, Image, Position, Row
from stillframe.records.extremes import Extreme
from stillframe.records.manager import Manager, forget
from stillframe.records.program import ViewClass
from stillframe.records.store import ABSENT, RecordStore
from stillframe.records.view import Served

ROWS, GROUPS, SESSIONS = 192, 6, 3

Folded = Callable[[Sequence[Decimal]], Any]


def _image(number: int, session: int) -> Image | None:
    """The row of a number after a session, if there is one. Those of a group come and go together."""
    if not session or (number + session) % 3 == 0:
        return None
    return Image(key_of(number % GROUPS).values, (Decimal(f"{number * session % ROWS}.{session:02}"),))


def _groups(session: int, folded: Folded) -> dict[Row, Row]:
    values: dict[Row, list[Decimal]] = {}
    for image in (_image(number, session) for number in range(ROWS)):
        if image is not None:
            values.setdefault(image.key, []).append(image.values[0])
    return {key: (folded(those),) for key, those in values.items()}


def _entries(session: int, stream: int) -> Iterator[Entry]:
    for place, number in enumerate(range(stream, ROWS, STREAMS)):
        before, after = _image(number, session - 1), _image(number, session)
        yield Entry(stream, Position(session, place), before, after)


def check_repeated(make: Maker, view: ViewClass, folded: Folded) -> None:
    made(make)
    shown = {column: at for at, column in enumerate((*ORDERS.key, 2))}
    outputs = tuple(Ref(shown[at], column.type) for at, column in enumerate(ORDERS.schema))
    served = Served("aggregate", view, (), outputs, ORDERS.key, "strong")
    for session in range(1, SESSIONS + 1):
        store, groups = make(session), _groups(session, folded)
        store.fence(session)
        forget(store, session - 1)
        assert not _hidden(store, session - 1), "what vanished is never forgotten"

        def ask(questions: Sequence[Any], groups: dict[Row, Row] = groups) -> list[Row | None]:
            return [groups.get(question) for question in questions]

        def work(n: int, session: int = session, ask: Any = ask) -> None:
            manager = Manager(served, make(session), ask, since=1)
            for stream in range(n % (THREADS // 2), STREAMS, THREADS // 2):
                manager.take(_entries(session, stream))

        at_once(work)
        rows = [(number, region, *values) for (region, number), values in groups.items()]
        assert same(store.scan(), rows), f"session {session}: what came again did harm"
        kept = bool(_hidden(store, session))
        assert kept == (view.signed and session > 1), "what vanished is kept for its signature alone"


def _hidden(store: RecordStore, session: int) -> int:
    """How many of the records that are not there after a session are known."""
    keys = [key_of(n) for n in range(GROUPS) if _image(n, session) is None]
    return sum(version != ABSENT for version, _ in store.kept(keys))


SUM = Aggregates((Measure("sum", ORDERS.schema[2].type, 0),))


def check_repeated_with_signatures(make: Maker) -> None:
    check_repeated(make, SUM, sum)


def check_repeated_with_counters(make: Maker) -> None:
    check_repeated(make, Extreme(signed=False), min)


CHECKS: tuple[Check, ...] = (check_repeated_with_signatures, check_repeated_with_counters)
