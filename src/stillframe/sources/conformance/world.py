"""The world around a source, as whoever writes one describes it to the checks.

A world is one empty database of its own. The checks write to it as any program would, through its own driver,
and read the truth by plain SELECTs; the source under test is never asked what the truth is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from stillframe.algebra.bag import Bag
from stillframe.algebra.types import Type
from stillframe.sources.base import Source

INTEGER = "integer"
TEXT = "text"


class Feature(StrEnum):
    """What a database or a source may lack. A check that needs what a world does not offer is not run, and
    the report says so."""

    SEVERAL_RELATIONS = "the source has more than one relation"
    LOGGED = "changes are logged as they are made, not found by comparing states"
    OPEN_TOGETHER = "several writers have a transaction open at once"
    ATTACH_BESIDE_OPEN = "attaching waits for no transaction that has not touched the tables"
    TRANSACTIONS = "the source tells one transaction from another"
    ANY_CUT = "a state may lack any transactions, not only all from one on"
    COMMIT_ORDER = "the source knows the order of commits"
    PENDING = "the source says what waits, and since when"
    MARKS = "applications mark global transactions"
    CAPTURE_LIMIT = "a dead consumer is given up"
    TRIMS = "the log becomes shorter when everyone acknowledged"
    UPSERT = "upserts"
    REPLACE = "REPLACE, which pushes rows out"
    TRUNCATE = "TRUNCATE"
    TRUNCATE_CAPTURED = "TRUNCATE is captured"
    FOREIGN_KEYS = "foreign keys with cascades"
    CASCADES_CAPTURED = "cascades are captured"
    SCHEMA_DUMP = "the schema can be dumped"
    DROP_CAPTURE = "capture can be removed behind the source's back"
    DISABLE_CAPTURE = "capture can be switched off and on again"
    TRIM_LOG = "the log can be trimmed by someone else"
    REPLACE_DATABASE = "the database can be replaced by another"
    BACKUP = "an older copy can be restored"
    ADD_COLUMN = "columns can be added"
    DROP_COLUMN = "columns can be dropped"
    BYTES = "columns of bytes"
    RENAME_COLUMN = "columns can be renamed"
    RETYPE_COLUMN = "the type of a column can be changed"
    REFUSED_TYPES = "some types have no counterpart"
    READ_ONLY_ACCOUNT = "there are accounts that may only read"
    OTHER_ACCOUNTS = "other accounts write, too"
    SESSION_SETTINGS = "sessions have settings"
    GENERATED_KEYS = "the database makes keys, and tells a writer the last one"
    GENERATED_COLUMNS = "columns are computed from others"
    OWN_TRIGGERS = "applications have triggers"
    RESTART = "the server can be restarted"
    CRASH = "the server can crash"
    SECRET = "accounts have passwords"


class Conflict(Exception):
    """The database ended the transaction, so that another can go on."""


class Refused(Exception):
    """A statement broke a constraint. What came before it in its transaction stands after a rollback to a
    savepoint."""


@dataclass(frozen=True)
class Table:
    """A table to create. The type of a column is INTEGER (64 bits), TEXT (short, usable in a key) or a type
    as the database declares it; `constraints` are clauses every database has."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True)
class TypeCase:
    """A type as the database declares it, what it becomes, and its extremes: each a literal and the Python
    value that Arrow has for it."""

    declared: str
    type: Type
    values: tuple[tuple[str, Any], ...]


class Writer(ABC):
    """A connection of a program that writes. Outside of `begin` … `commit` each statement is a transaction.
    `touched` is how many rows the last statement changed."""

    touched: int = 0

    @abstractmethod
    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query, none for other statements. Raises Conflict or Refused."""

    @abstractmethod
    def close(self) -> None: ...

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")


class World(ABC):
    """Only `source` and `writer` are asked of every world; `offers` says which of the others are there. Where
    a source has one relation only, it is the table that was created first. Of many programs that write at
    once, each rests for up to `pause` seconds after a transaction, to let others write, or read."""

    offers: frozenset[Feature] = frozenset()
    declared: ClassVar[dict[str, str]] = {INTEGER: "BIGINT", TEXT: "VARCHAR(200)"}
    for_update = " FOR UPDATE"
    long_text = "TEXT"
    binary = "BLOB"
    nul_in_text = False
    types: tuple[TypeCase, ...] = ()
    refused_types: tuple[str, ...] = ()
    secret = ""
    ways_to_restore = 1
    session_settings: tuple[tuple[str, ...], ...] = ()
    generated_key = ""
    last_key = ""
    pause = 0.01

    def __init__(self) -> None:
        self._own: Writer | None = None

    @abstractmethod
    def source(self, capture_limit: int | None = None) -> Source:
        """The source under test, with an account that may do all it has to."""

    @abstractmethod
    def writer(self) -> Writer: ...

    def writers(self, count: int) -> list[Writer]:
        """Programs that write at once; a world may give each another isolation level."""
        return [self.writer() for _ in range(count)]

    def has(self, feature: Feature) -> bool:
        return feature in self.offers

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None

    # What is said in the database's own words.

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def literal(self, value: object) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"

    def numbers(self, count: int) -> str:
        """A table expression whose column `i` holds 1 to `count`."""
        raise NotImplementedError

    def delete_one(self, table: str, condition: str) -> str:
        """A statement that deletes one of the rows that meet the condition."""
        raise NotImplementedError

    def upsert(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        """A statement that inserts rows, or updates those whose key is there."""
        raise NotImplementedError

    def insert_new(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        """A statement that inserts the rows whose key is not there."""
        raise NotImplementedError

    def replace(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        """A statement that inserts rows, and pushes out those in their way."""
        raise NotImplementedError

    def mark(self, group: str, parts: int) -> str:
        """The statement by which an application says that its transaction is one of `parts` of `group`."""
        raise NotImplementedError

    def copying_trigger(self, name: str) -> tuple[str, ...]:
        """Statements that make a trigger: of each row inserted into items, it inserts one into entries."""
        raise NotImplementedError

    def drop_column(self, table: str, column: str) -> tuple[str, ...]:
        return (f"ALTER TABLE {self.quoted(table)} DROP COLUMN {self.quoted(column)}",)

    def retype(self, table: str, column: str) -> tuple[str, ...]:
        """Statements that make an INTEGER column a TEXT one."""
        raise NotImplementedError

    # What is done to the database.

    def schema_dump(self) -> str:
        raise NotImplementedError

    def drop_capture(self, relation: str) -> None:
        raise NotImplementedError

    def disable_capture(self, relation: str) -> None:
        raise NotImplementedError

    def enable_capture(self, relation: str) -> None:
        raise NotImplementedError

    def trim_log(self) -> None:
        """Remove all of the log that can be removed."""
        raise NotImplementedError

    def replace_database(self) -> None:
        """Put an empty database in the place of this one."""
        raise NotImplementedError

    def backup(self, way: int = 0) -> object:
        """A copy, by one of the `ways_to_restore`."""
        raise NotImplementedError

    def restore(self, copy: object) -> None:
        raise NotImplementedError

    def other_writer(self, *tables: str) -> Writer:
        """A connection of an account that may read and change these tables, and nothing else."""
        raise NotImplementedError

    def restart(self) -> None:
        raise NotImplementedError

    def crash(self) -> None:
        """The server ends at once, and is started again."""
        raise NotImplementedError

    def read_only_source(self) -> Source:
        raise NotImplementedError

    def unreachable_source(self) -> Source:
        """A source that knows `secret`, and whose server is not there."""
        raise NotImplementedError

    # What follows from these.

    @property
    def own(self) -> Writer:
        if self._own is None:
            self._own = self.writer()
        return self._own

    def run(self, *statements: str) -> None:
        """Each statement a transaction."""
        for statement in statements:
            self.own.execute(statement)

    def transact(self, *statements: str) -> None:
        """All statements one transaction."""
        self.own.begin()
        for statement in statements:
            self.own.execute(statement)
        self.own.commit()

    def create(self, *tables: Table) -> None:
        for table in tables:
            columns = [f"{self.quoted(n)} {self.declared.get(kind, kind)}" for n, kind in table.columns]
            if table.key:
                columns = [
                    c + (" NOT NULL" if n in table.key else "")
                    for c, n in zip(columns, table.names, strict=True)
                ]
                columns.append(f"PRIMARY KEY ({', '.join(map(self.quoted, table.key))})")
            body = ", ".join([*columns, *table.constraints])
            self.run(f"CREATE TABLE {self.quoted(table.name)} ({body})")
            for column in table.indexes:
                name = self.quoted(f"{table.name}_by_{column}")
                self.run(f"CREATE INDEX {name} ON {self.quoted(table.name)} ({self.quoted(column)})")

    def insert(self, table: Table, *rows: Sequence[object]) -> str:
        """A statement that inserts the rows."""
        return f"INSERT INTO {self.quoted(table.name)} {self.values(table, rows)}"

    def values(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        names = ", ".join(map(self.quoted, table.names))
        tuples = ", ".join("(" + ", ".join(map(self.literal, row)) + ")" for row in rows)
        return f"({names}) VALUES {tuples}"

    def truth(self, table: Table, columns: Sequence[str] | None = None) -> Bag:
        """The rows there are now, as another program sees them."""
        picked = ", ".join(map(self.quoted, columns or table.names))
        return Bag.of(self.own.execute(f"SELECT {picked} FROM {self.quoted(table.name)}"))
