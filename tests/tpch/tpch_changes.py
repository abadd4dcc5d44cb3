"""Changes of the benchmark's tables, in transactions at their databases: its two refresh functions, and
random inserts, updates and deletes of every table.

Random values are drawn half from what the queries ask for, so that rows come into views and leave them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import count
from random import Random
from typing import Any

from tpch_aims import AIMED, AIMS, Aim
from tpch_oracle import Oracle
from tpch_sources import Sources, Statement
from tpch_tables import COLUMNS, HOME, KEYS
from tpch_values import (
    CENT,
    END,
    FEW,
    INSTRUCTIONS,
    MODES,
    PRIORITIES,
    REMARKS,
    START,
    TODAY,
    VALUES,
    any_date,
)

UNUSED_ORDER_KEYS = 8  # of any 32 keys in a row, the first eight are used


class Changes:
    """Random transactions. What there is to change is taken from what the oracle saw last."""

    def __init__(self, sources: Sources, oracle: Oracle, random: Random, scale: float) -> None:
        self.sources, self.oracle, self.random = sources, oracle, random
        self.at_once = max(1, round(1500 * scale))
        self._global = count(1)
        self._numbers = count(1_000_000)

    # -- the benchmark's own

    def one_frame(self, rounds: int) -> None:
        """Both refresh functions, and `rounds` transactions at each table."""
        self.insert_new_orders()
        self.delete_old_orders()
        for table in KEYS:
            for _ in range(1 if table in FEW else rounds):
                self.anything(table)
        self.move_lines()
        for aim in AIMS:
            self.take(aim)

    def insert_new_orders(self) -> None:
        """RF1: orders with keys from the gaps, and their lines."""
        used = set(self.oracle.values("orders", "o_orderkey"))
        gaps = [key for key in range(1, max(used)) if key % 32 >= UNUSED_ORDER_KEYS and key not in used]
        parts = self.oracle.values("part", "p_partkey", "p_retailprice")
        offers = dict[int, list[int]]()
        for part, supplier in self.oracle.values("partsupp", "ps_partkey", "ps_suppkey"):
            offers.setdefault(part, []).append(supplier)
        customers = self.oracle.values("customer", "c_custkey")
        orders, lines = [], []
        for key in self.random.sample(gaps, min(len(gaps), self.at_once)):
            ordered = any_date(self.random, START, END - timedelta(151))
            own = [self._line(key, i, ordered, parts, offers) for i in range(self.random.randrange(1, 8))]
            statuses = {line[9] for line in own}
            total = sum((line[5] * (1 - line[6]) * (1 + line[7]) for line in own), Decimal())
            orders.append(
                (
                    *(key, self.random.choice(customers), statuses.pop() if len(statuses) == 1 else "P"),
                    *(total.quantize(CENT), ordered, self.random.choice(PRIORITIES)),
                    *(f"Clerk#{self.random.randrange(1, 1000):09}", 0, self.random.choice(REMARKS)),
                )
            )
            lines += own
        self._together(
            [_insert("orders", row) for row in orders], [_insert("lineitem", row) for row in lines]
        )

    def _line(
        self, order: int, i: int, ordered: date, parts: list[Any], offers: dict[int, list[int]]
    ) -> tuple[Any, ...]:
        pick = self.random.randrange
        part, price = self.random.choice(parts)
        quantity = Decimal(pick(1, 51))
        shipped = ordered + timedelta(pick(1, 122))
        received = shipped + timedelta(pick(1, 31))
        return (
            *(order, part, self.random.choice(offers.get(part, [1])), i + 1),
            *(quantity, quantity * price, pick(11) * CENT, pick(9) * CENT),
            *(self.random.choice("RA") if received <= TODAY else "N", "O" if shipped > TODAY else "F"),
            *(shipped, ordered + timedelta(pick(30, 91)), received),
            *(self.random.choice(INSTRUCTIONS), self.random.choice(MODES), self.random.choice(REMARKS)),
        )

    def delete_old_orders(self) -> None:
        """RF2: the orders of the lowest keys, and their lines."""
        old = self.oracle.values("orders", "o_orderkey")[: self.at_once]
        self._together(
            [("DELETE FROM orders WHERE o_orderkey = %s", [key]) for key in old],
            [("DELETE FROM lineitem WHERE l_orderkey = %s", [key]) for key in old],
        )

    def _together(self, orders: list[Statement], lines: list[Statement]) -> None:
        """A global transaction: no frame shows orders without their lines."""
        name = f"refresh-{next(self._global)}"
        marks = "(id, parts) VALUES (%s, %s)"
        self.sources.write("maria", [*orders, (f"INSERT INTO _stillframe_global {marks}", [name, 2])])
        self.sources.write("pg", [*lines, (f"INSERT INTO _stillframe.global {marks}", [name, 2])])

    # -- anything else

    def move_lines(self) -> None:
        """Lines that go to other orders."""
        text = f"UPDATE lineitem SET l_orderkey = %s, l_linenumber = %s WHERE {_this('lineitem')}"
        self.sources.write(
            "pg",
            [
                (text, [*self._any_key("orders"), next(self._numbers), *self._any_key("lineitem")])
                for _ in range(3)
            ],
        )

    def anything(self, table: str) -> None:
        """One transaction of a few statements at one table."""
        how: list[Callable[[str], list[Statement]]]
        how = [self._update, self._update, self._update, self._delete, self._copy, self._again]
        if table in FEW:
            how = [self._update, self._swap, self._delete, self._again]
        statements: list[Statement] = []
        for _ in range(1 if table in FEW else self.random.randrange(2, 6)):
            statements += self.random.choice(how)(table)
        self.sources.write(HOME[table], statements)

    def take(self, aim: Aim) -> None:
        """A row that some view nearly shows, or shows."""
        row = self._any_row(aim.table, aim.where)
        if row is not None:
            sets = ", ".join(f"{name} = %s" for name in aim.values)
            text = f"UPDATE {aim.table} SET {sets} WHERE {_this(aim.table)}"
            key = [row[name] for name in KEYS[aim.table]]
            self.sources.write(HOME[aim.table], [(text, [*aim.values.values(), *key])])

    def _any_row(self, table: str, where: str = "") -> dict[str, Any] | None:
        names = [column.name for column in COLUMNS[table]]
        stored = f"{HOME[table]}.{table}" + (f" WHERE {where}" if where else "")
        (rows,) = self.oracle.con.execute(f"SELECT count(*) FROM {stored}").fetchall()[0]
        if not rows:
            return None
        order, skipped = ", ".join(KEYS[table]), self.random.randrange(rows)
        query = f"SELECT {', '.join(names)} FROM {stored} ORDER BY {order} LIMIT 1 OFFSET {skipped}"
        return dict(zip(names, self.oracle.con.execute(query).fetchall()[0], strict=True))

    def _some_row(self, table: str) -> dict[str, Any]:
        """Half of them near a view."""
        aimed = AIMED.get(table)
        near = self._any_row(table, self.random.choice(aimed)) if aimed and self.random.randrange(2) else None
        row = near or self._any_row(table)
        assert row is not None, f"no row is left in {table}"
        return row

    def _any_key(self, table: str) -> list[Any]:
        row = self._some_row(table)
        return [row[name] for name in KEYS[table]]

    def _update(self, table: str) -> list[Statement]:
        """Other values in one row, or one other value in rows that lie together."""
        key, where = self._any_key(table), _this(table)
        columns = [column.name for column in COLUMNS[table] if column.name in VALUES]
        chosen = self.random.sample(columns, min(len(columns), self.random.randrange(1, 4)))
        if self.random.randrange(4) == 0:
            where, key, chosen = f"{KEYS[table][0]} BETWEEN %s AND %s", [key[0], key[0] + 3], chosen[:1]
        sets = ", ".join(f"{name} = %s" for name in chosen)
        return [(f"UPDATE {table} SET {sets} WHERE {where}", [*map(self._value, chosen), *key])]

    def _value(self, column: str) -> Any:
        """Half of them asked for by some query, or a key that there is."""
        asked, usual = VALUES[column]
        if isinstance(asked, str):
            return self._any_key(asked)[0]
        return self.random.choice(asked) if self.random.randrange(2) else usual(self.random)

    def _delete(self, table: str) -> list[Statement]:
        row = self._some_row(table)
        if table in FEW and row[FEW[table][0]] in FEW[table][1]:
            return []
        return [(f"DELETE FROM {table} WHERE {_this(table)}", [row[name] for name in KEYS[table]])]

    def _swap(self, table: str) -> list[Statement]:
        """Two rows take each other's name."""
        name, (key,) = FEW[table][0], KEYS[table]
        one, other = self._some_row(table), self._some_row(table)
        text = f"UPDATE {table} SET {name} = %s WHERE {key} = %s"
        return [(text, [one[name], other[key]]), (text, [other[name], one[key]])]

    def _copy(self, table: str) -> list[Statement]:
        """A row like another but for its key; in place of any that has this key. Suppliers' names
        stay unique: an order by name then has no ties."""
        row = self._some_row(table)
        last = KEYS[table][-1]
        row[last] += self.random.choice((1, 7, 1000))
        if table == "supplier":
            row["s_name"] = f"Supplier#{row[last]:09}"
        return _delete_and_insert(table, row)

    def _again(self, table: str) -> list[Statement]:
        """A row that goes and comes back as it was when last looked at."""
        return _delete_and_insert(table, self._some_row(table))


def _this(table: str) -> str:
    return " AND ".join(f"{name} = %s" for name in KEYS[table])


def _insert(table: str, row: Sequence[Any]) -> Statement:
    return f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row


def _delete_and_insert(table: str, row: dict[str, Any]) -> list[Statement]:
    key = [row[name] for name in KEYS[table]]
    return [(f"DELETE FROM {table} WHERE {_this(table)}", key), _insert(table, list(row.values()))]
