"""Which columns a name can mean at some point of a query."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stillframe.algebra.plan import Plan
from stillframe.algebra.scalar import Ref
from stillframe.algebra.types import VOID, Type

# While the expressions of a SELECT are resolved, what is computed later stands as a column from here on:
MEASURED = 1 << 20  # aggregates
FLAGGED = MEASURED + (1 << 16)  # whether keys are of a row's grouping set
ASKED = 1 << 21  # answers of queries inside
WINDOWED = 1 << 22  # window functions
THERE = 1 << 23  # columns of a query inside, seen beside those around it
COUNTED = 1 << 24  # aggregates of a query inside


@dataclass(frozen=True, slots=True)
class Visible:
    """A column of a FROM clause. `hidden` columns (the right side's of USING) answer only to a qualified
    name. A column whose type has no counterpart is there with the reason in `refused`."""

    name: str
    qualifier: tuple[str, ...]
    position: int = -1
    type: Type = VOID
    hidden: bool = False
    refused: str = ""

    def answers_to(self, name: str, qualifier: tuple[str, ...]) -> bool:
        if self.name.lower() != name.lower():
            return False
        return self.within(qualifier) if qualifier else not self.hidden

    def within(self, qualifier: tuple[str, ...]) -> bool:
        wanted = tuple(part.lower() for part in qualifier)
        own = tuple(part.lower() for part in self.qualifier)
        return own[len(own) - len(wanted) :] == wanted and len(wanted) <= len(own)

    @property
    def ref(self) -> Ref:
        return Ref(self.position, self.type, self.name)


@dataclass(frozen=True, slots=True)
class From:
    """A plan and the columns it shows, in the order `*` lists them."""

    plan: Plan
    columns: tuple[Visible, ...]

    def find(self, name: str, qualifier: tuple[str, ...] = ()) -> tuple[Visible, ...]:
        return tuple(column for column in self.columns if column.answers_to(name, qualifier))

    def star(self, qualifier: tuple[str, ...] = ()) -> tuple[Visible, ...]:
        """What `*` or `q.*` stands for; a qualified star shows hidden columns, and first."""
        if not qualifier:
            return tuple(column for column in self.columns if not column.hidden)
        within = [column for column in self.columns if column.within(qualifier)]
        return tuple(sorted(within, key=lambda column: not column.hidden))

    def shifted(self, by: int) -> tuple[Visible, ...]:
        return tuple(replace(c, position=c.position + by) if not c.refused else c for c in self.columns)

    def renamed(self, alias: str, names: tuple[str, ...] = ()) -> From:
        """Seen under one alias, and under new names where there are any; hidden columns end here."""
        shown = self.star()
        labels = names or tuple(column.name for column in shown)
        return From(
            self.plan,
            tuple(replace(c, name=n, qualifier=(alias,)) for c, n in zip(shown, labels, strict=True)),
        )

    @property
    def listing(self) -> str:
        shown = [".".join((*c.qualifier[-1:], c.name)) for c in self.columns if c.name]
        return ", ".join(dict.fromkeys(shown)) or "none"
