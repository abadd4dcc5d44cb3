"""A scenario: relations at sources, views over them, and transactions in the order they happen.

Scenarios are values: frozen, hashable, valid once they exist. What is wrong with one is said when it is
built, as a `ScenarioError`, or as the SQL reader's `Refused` for the text of a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from stillframe.algebra import Bag, Column, Plan, Row, Schema
from stillframe.algebra.bag import canonical
from stillframe.algebra.types import BIGINT, DOUBLE
from stillframe.simulator import validity
from stillframe.simulator.yaml_text import flow
from stillframe.sql import Names, resolve

V = TypeVar("V", covariant=True)
ONLY_VIEW = "view"


class Frozen(Mapping[str, V]):
    """A mapping that is a value."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"Frozen({self._items!r})"


@dataclass(frozen=True)
class Relation:
    """No two rows agree on all columns of `key`; without one, rows may repeat."""

    name: str
    source: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Update:
    """One row comes, or one copy of it goes."""

    relation: str
    insert: bool
    row: Row

    def __str__(self) -> str:
        return f"{'insert' if self.insert else 'delete'} {self.relation} {flow(self.row)}"


@dataclass(frozen=True)
class Transaction:
    """Updates that happen at once. `group` names a global transaction, and is then also its `id`."""

    id: str
    updates: tuple[Update, ...]
    group: str | None = None

    def __str__(self) -> str:
        texts = [str(update) for update in self.updates]
        if self.group is not None:
            return flow({"global": self.group, "updates": texts})
        return texts[0] if len(texts) == 1 and not self.id.startswith("T") else flow(texts)


@dataclass(frozen=True)
class Scenario:
    """`views` are names and SQL texts; the one of a file that says `view:` is called "view". `params` are
    options by algorithm. `channels` are the faults of each source's channels; `isolation` is
    "serializable" where nothing is said. The warehouse may crash up to `crashes` times."""

    name: str
    relations: tuple[Relation, ...]
    views: tuple[tuple[str, str], ...]
    transactions: tuple[Transaction, ...] = ()
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=Frozen)
    channels: Mapping[str, frozenset[str]] = field(default_factory=Frozen)
    isolation: Mapping[str, str] = field(default_factory=Frozen)
    report: str = "per-source"
    centralised: bool = False
    width: int = 4
    order: str = "written"
    crashes: int = 0

    def __post_init__(self) -> None:
        options = {algorithm: Frozen(given) for algorithm, given in self.params.items()}
        object.__setattr__(self, "params", Frozen(options))
        object.__setattr__(self, "channels", Frozen({s: frozenset(f) for s, f in self.channels.items()}))
        object.__setattr__(self, "isolation", Frozen(self.isolation))
        validity.check_relations(self)
        validity.check_transactions(self)
        validity.check_types(self)
        self._widen()
        validity.check_replay(self)
        validity.check_settings(self)
        validity.check_views(self)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """In order of first appearance."""
        return tuple(dict.fromkeys(relation.source for relation in self.relations))

    @cached_property
    def _by_name(self) -> dict[str, Relation]:
        return {relation.name: relation for relation in self.relations}

    def relation(self, name: str) -> Relation:
        return self._by_name[name]

    def source_of(self, relation: str) -> str:
        return self._by_name[relation].source

    def relations_of(self, source: str) -> tuple[Relation, ...]:
        return tuple(relation for relation in self.relations if relation.source == source)

    def parts(self, transaction: Transaction) -> dict[str, tuple[Update, ...]]:
        """A transaction's updates by the source they happen at, each source's in order."""
        parts: dict[str, tuple[Update, ...]] = {}
        for update in transaction.updates:
            source = self.source_of(update.relation)
            parts[source] = (*parts.get(source, ()), update)
        return parts

    def initial(self) -> dict[str, Bag]:
        return {relation.name: Bag.of(relation.rows) for relation in self.relations}

    def final(self) -> dict[str, Bag]:
        """What the relations hold when every update has happened; the same in every order."""
        states = self.initial()
        for transaction in self.transactions:
            for update in transaction.updates:
                states[update.relation] += Bag({update.row: 1 if update.insert else -1})
        return states

    @cached_property
    def _schemas(self) -> tuple[tuple[str, Schema], ...]:
        return tuple((relation.name, self._schema(relation)) for relation in self.relations)

    def schema(self, relation: str) -> Schema:
        """Types are those of the values that ever come; a key column is not nullable."""
        return dict(self._schemas)[relation]

    def names(self) -> Names:
        """A catalog in which views name relations without their source."""
        return Names(views=dict(self._schemas))

    def plan(self, view: str = ONLY_VIEW) -> Plan:
        """What a view's text means, over scans of relations by their bare names."""
        return _plan(dict(self.views)[view], self._schemas, view)

    def isolation_of(self, source: str) -> str:
        return self.isolation.get(source, validity.ISOLATIONS[0])

    def values_of(self, relation: Relation, position: int) -> list[Any]:
        """Every value a column ever holds, as often as it is written."""
        values = [row[position] for row in relation.rows]
        for transaction in self.transactions:
            values += [u.row[position] for u in transaction.updates if u.relation == relation.name]
        return values

    def renumbered(self) -> Scenario:
        """With the ids that the places of the transactions give."""
        return replace(self, transactions=tuple(numbered(self.transactions)))

    def _schema(self, relation: Relation) -> Schema:
        columns = []
        for position, name in enumerate(relation.columns):
            type_ = validity.column_type(self.values_of(relation, position)) or BIGINT
            columns.append(Column(name, type_, name not in relation.key))
        key = frozenset(map(relation.columns.index, relation.key))
        return Schema(tuple(columns), frozenset({key} if key else ()))

    def _widen(self) -> None:
        """Whole numbers in a column of DOUBLE become doubles; every float becomes the one that stands for
        its equals."""
        doubles = {name: [c.type == DOUBLE for c in schema] for name, schema in self._schemas}
        if not any(map(any, doubles.values())):
            return

        def widened(relation: str, row: Row) -> Row:
            pairs = zip(row, doubles[relation], strict=True)
            return canonical(float(v) if double and v is not None else v for v, double in pairs)

        relations = (replace(r, rows=tuple(widened(r.name, row) for row in r.rows)) for r in self.relations)
        object.__setattr__(self, "relations", tuple(relations))
        transactions = []
        for each in self.transactions:
            updates = (replace(u, row=widened(u.relation, u.row)) for u in each.updates)
            transactions.append(replace(each, updates=tuple(updates)))
        object.__setattr__(self, "transactions", tuple(transactions))
        self.__dict__.pop("_by_name", None)


def numbered(transactions: Iterable[Transaction]) -> Iterator[Transaction]:
    """Each called by its place: `U1` a single update, `T1` a list, a global one by its own name."""
    for number, transaction in enumerate(transactions, 1):
        listed = len(transaction.updates) > 1 or transaction.id.startswith("T")
        yield replace(transaction, id=transaction.group or f"{'T' if listed else 'U'}{number}")


@lru_cache(maxsize=4096)
def _plan(text: str, schemas: tuple[tuple[str, Schema], ...], view: str) -> Plan:
    return resolve(text, Names(views=dict(schemas)), "" if view == ONLY_VIEW else view)
