"""One view of every class, over the same two relations."""

from __future__ import annotations

from random import Random

from shops import Shop

TABLES = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, region TEXT, customer INTEGER, amount INTEGER);
CREATE TABLE returns (id INTEGER PRIMARY KEY, region TEXT, customer INTEGER, amount INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
"""

REGIONS = ("'US'", "'ÄÖ:%'", "NULL", "''")
CLASSES = {
    "selection": ("strong", "SELECT id, region, customer, amount FROM shop.orders WHERE amount < 60"),
    "projected": ("strong", "SELECT id, region FROM shop.orders"),
    "moved": ("strong", "SELECT id, region, amount FROM shop.orders"),
    "dropped": ("strong", "SELECT DISTINCT region, customer FROM shop.orders"),
    "summed": (
        "strong",
        "SELECT region, SUM(amount) AS total, COUNT(*) AS n, AVG(amount) AS mean FROM shop.orders"
        " GROUP BY region",
    ),
    "least": ("weak", "SELECT region, MIN(amount) AS least FROM shop.orders GROUP BY region"),
    "most": ("strong", "SELECT region, MAX(amount) AS most FROM shop.orders GROUP BY region"),
    "both": (
        "strong",
        "SELECT region, MIN(amount) AS least, SUM(amount) AS total FROM shop.orders GROUP BY region",
    ),
    "named": (
        "strong",
        "SELECT o.id, o.amount, c.name FROM shop.orders o JOIN shop.customers c ON c.id = o.customer",
    ),
    "together": ("strong", "SELECT id, region FROM shop.orders UNION SELECT id, region FROM shop.returns"),
    "shared": ("strong", "SELECT id, region FROM shop.orders INTERSECT SELECT id, region FROM shop.returns"),
    "kept": ("weak", "SELECT id, region FROM shop.orders EXCEPT SELECT id, region FROM shop.returns"),
}
# The same classes in their other variants: with base access where the ones above keep data, and the reverse.
VARIANTS = {
    "lowest": ("strong", "SELECT region, MIN(amount) AS least FROM shop.orders GROUP BY region"),
    "highest": ("weak", "SELECT region, MAX(amount) AS most FROM shop.orders GROUP BY region"),
    "either": ("weak", CLASSES["together"][1]),
    "common": ("weak", CLASSES["shared"][1]),
    "other": ("strong", CLASSES["kept"][1]),
}
KEYS = {"moved": "region, id"}  # what records are found by, where that is more than the view's key
IDEMPOTENT = ("selection", "projected", "moved", "least", "most", "both", "named", "kept")


def views(url: str, names: tuple[str, ...] = tuple(CLASSES), test_and_set: str = "") -> str:
    return "\n".join(_view(name, url, test_and_set) for name in names)


def _view(name: str, url: str, test_and_set: str) -> str:
    level, query = (CLASSES | VARIANTS)[name]
    more = f", test_and_set = '{test_and_set}'" if test_and_set else ""
    more += f", key = '{KEYS[name]}'" if name in KEYS else ""
    return (
        f"CREATE MATERIALIZED VIEW {name} WITH (serve = '{url}', consistency = '{level}'{more}) AS {query};"
    )


class Writer:
    """Changes by a seed. Half of them are of the region EU."""

    def __init__(self, shop: Shop, seed: int, customers: int = 5) -> None:
        self.shop, self.random, self.customers = shop, Random(seed), customers
        self.ids: dict[str, set[int]] = {"orders": set(), "returns": set()}
        self.next = 1
        shop.source("shop", TABLES)
        shop.write("shop", *(f"INSERT INTO customers VALUES ({i}, 'c{i}')" for i in range(customers)))

    def _row(self) -> tuple[str, int, str]:
        region = (
            "'EU'" if self.random.random() < 0.5 else self.random.choice(["'US'", "'ÄÖ:%'", "NULL", "''"])
        )
        amount = self.random.choice(["NULL", *map(str, range(0, 100, 7))])
        return region, self.random.randrange(self.customers), amount

    def write(self, changes: int) -> None:
        statements = []
        for _ in range(changes):
            table = "orders" if self.random.random() < 0.7 else "returns"
            ids = self.ids[table]
            kind = self.random.random()
            if kind < 0.1:
                customer = self.random.randrange(self.customers)
                statements.append(f"UPDATE customers SET name = name || '!' WHERE id = {customer}")
            elif not ids or kind < 0.5:
                number = self.random.choice([self.next, *(self.ids["orders"] - ids)][:3])
                self.next = max(self.next, number) + 1
                ids.add(number)
                region, customer, amount = self._row()
                statements.append(f"INSERT INTO {table} VALUES ({number}, {region}, {customer}, {amount})")
            else:
                number = self.random.choice(sorted(ids))
                if kind < 0.7:
                    ids.discard(number)
                    statements.append(f"DELETE FROM {table} WHERE id = {number}")
                else:
                    region, customer, amount = self._row()
                    statements.append(
                        f"UPDATE {table} SET region = {region}, customer = {customer}, amount = {amount}"
                        f" WHERE id = {number}"
                    )
        self.shop.write("shop", *statements)
