"""Copies: relations that are kept in the lake, so that bringing a view forward asks their sources nothing but
what changed.

A copy is a view of the columns that views read of one relation, and of its key, hidden like the parts of a
view. It goes forward by the relation's own change; whoever read the relation reads the copy. Law: a copy at
the frame's vector has the relation's rows there, so no plan can tell the one from the other.

The key is kept though no view may read it: which rows leave is told by it alone, so that states are read
without adding up rows, and changes are folded in file by file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from stillframe.algebra import Literal, Output, Plan, Project, Ref, Scan, Schema, normalize, relations, scans
from stillframe.algebra.plan import map_scans
from stillframe.change import columns_read, merged
from stillframe.errors import ProjectError
from stillframe.lake.frame import ViewState
from stillframe.runtime.choosing import TOP
from stillframe.runtime.definitions import COPIES, COPY, Definitions, View
from stillframe.sql import ViewText, can_be_column

AUTO, ALL, NONE = "auto", "all", "none"


@dataclass(frozen=True)
class Copies:
    """Which relations a project wants copied; `auto` are those whose copies are cheaper than asking."""

    every: bool = False
    named: tuple[str, ...] = ()
    auto: bool = False

    @classmethod
    def parse(cls, value: object) -> Copies:
        match value:
            case "all" | "none" | "auto":
                return cls(every=value == ALL, auto=value == AUTO)
            case list() if all(isinstance(name, str) and "." in name for name in value):
                return cls(named=tuple(value))
        raise ProjectError(
            f"copies cannot be {value!r}",
            hint="copies: auto, all, none, or a list of relations: [shop.orders]",
        )

    def wanted(self, read: Collection[str], worth: Callable[[str], bool]) -> frozenset[str]:
        """Of the relations that views read, those to copy; names are compared without regard to case."""
        if self.every:
            return frozenset(read)
        if self.auto:
            return frozenset(name for name in read if worth(name))
        known = {relation.lower(): relation for relation in read}
        return frozenset(known[name.lower()] for name in self.named if name.lower() in known)


def copy_name(relation: str) -> str:
    return f"{COPY}{relation}"


def with_copies(
    definitions: Definitions,
    copies: Copies,
    shown: Mapping[str, ViewState] | None = None,
    worth: Callable[[str], bool] = lambda relation: False,
) -> Definitions:
    """The definitions with copies before the views that read them. A view that shows every transaction, and
    one that a live protocol leads, read their sources themselves. So does, for one session, a view that the
    newest frame shows, when a copy is yet to be made or was made since the view was last maintained: it goes
    forward, and need not be computed anew."""
    shown = shown or {}
    reading = [
        view
        for view in definitions.views.values()
        if not view.conducted and view.level != TOP and view.served is None
    ]
    wanted = copies.wanted({relation for view in reading for relation in view.relations}, worth)
    if not wanted:
        return definitions
    columns = columns_kept(view.plan for view in reading)
    # Of some without a key no column is read: how many rows they have is asked of their sources.
    wanted = frozenset(name for name in wanted if columns[name])
    schemas = {scan.relation: scan.schema for view in reading for scan in scans(view.plan)}
    made = {name: _copy(name, schemas[name], columns[name]) for name in sorted(wanted)}
    kept: dict[str, View] = {view.name: view for view in made.values()}
    ready = {name: copy for name, copy in made.items() if _is_there(copy, shown.get(copy.name))}
    for view in definitions.views.values():
        if view not in reading:
            kept[view.name] = view
            continue
        state = shown.get(view.name)
        goes_on = state is not None and state.vector is not None and state.definition == view.text.select
        since = made_since(shown, view.name)
        known = {name: copy for name, copy in ready.items() if copy.name not in since}
        kept[view.name] = _over(view, known if goes_on else made, columns)
    return replace(definitions, views=kept)


def columns_kept(plans: Iterable[Plan]) -> dict[str, frozenset[int]]:
    """What copies have of the relations that these plans read, by position."""
    plans = tuple(plans)
    keys = {scan.relation: _key_kept(scan.schema) for plan in plans for scan in scans(plan)}
    return {name: read | keys[name] for name, read in merged(map(columns_read, plans)).items()}


def _key_kept(schema: Schema) -> frozenset[int]:
    """The key that rows are told apart by: none that a table could not hold, or that is compared by more than
    its bytes."""
    key = schema.identity
    fit = all(can_be_column(schema[i].name) and schema[i].type.name != "DOUBLE" for i in key)
    return key if fit else frozenset()


def made_since(shown: Mapping[str, ViewState], name: str) -> frozenset[str]:
    """The copies that may not have been there, as they are, when a view was last maintained. One whose plain
    rows are those of a frame was there in that frame."""
    last = shown[name].session.get("frame", 0) if name in shown else 0
    return frozenset(copy for copy, state in shown.items() if state.owner == COPIES and state.settled > last)


def _is_there(copy: View, state: ViewState | None) -> bool:
    return state is not None and state.vector is not None and state.definition == copy.text.select


def _copy(relation: str, schema: Schema, columns: frozenset[int]) -> View:
    positions = sorted(columns)
    plan = Project(
        Scan(relation, schema),
        tuple(Output(schema[i].name, Ref(i, schema[i].type, schema[i].name)) for i in positions),
    )
    select = f"SELECT {', '.join(schema[i].name for i in positions)} FROM {relation}"
    text = ViewText(copy_name(relation), {}, select)
    source = relation.split(".", 1)[0]
    return View(text, plan, (relation,), (), frozenset({source}), owner=COPIES)


def _over(view: View, copies: Mapping[str, View], columns: Mapping[str, frozenset[int]]) -> View:
    """The view, reading copies. Columns that no view reads are NULL, and nobody looks at them."""

    def read(scan: Scan, _: int | None) -> Plan:
        if scan.relation not in copies:
            return scan
        copy = copies[scan.relation]
        place = {position: i for i, position in enumerate(sorted(columns[scan.relation]))}
        return Project(
            Scan(copy.name, copy.schema, scan.at),
            tuple(
                Output(c.name, Ref(place[i], c.type, c.name) if i in place else Literal(None, c.type))
                for i, c in enumerate(scan.schema)
            ),
        )

    plan = normalize(map_scans(view.plan, read))
    reads = relations(plan)
    names = {copy.name for copy in copies.values()}
    upstream = tuple(name for name in reads if name in view.upstream or name in names)
    return replace(view, plan=plan, reads=reads, upstream=upstream, query=view.query or view.plan)
