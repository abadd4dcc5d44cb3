"""The maintenance algorithms of the literature as pure state machines: events in, actions out, no rows."""

from stillframe.protocol.base import Need, Protocol, Setting
from stillframe.protocol.registry import ALGORITHMS, PUBLISHED, make
from stillframe.protocol.view import JoinView, NotApplicable, join_view

__all__ = [
    "ALGORITHMS",
    "PUBLISHED",
    "JoinView",
    "Need",
    "NotApplicable",
    "Protocol",
    "Setting",
    "join_view",
    "make",
]
