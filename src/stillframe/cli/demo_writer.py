"""A program that uses one of the demo's databases and knows nothing of views. Run as a script:

    python demo_writer.py shop|crm DATABASE SEED

It ends when its standard input is closed, so also when whoever started it is gone. It counts what it
committed and rolled back, one line of JSON each second and at the end. Imports nothing of Stillframe.
"""

from __future__ import annotations

import json
import random
import select
import sqlite3
import sys
import time
from collections.abc import Callable

PAUSE_SECONDS = 0.04
MOST_ORDERS = 260
ROLLED_BACK = 0.12
CITIES = ("Lyon", "Porto", "Gdansk", "Bergen", "Turku", "Ghent")
FIRST = ("Ada", "Brahim", "Chiara", "Dmitri", "Emeka", "Fatima", "Goran", "Hana", "Ines", "Jun")

Transaction = Callable[[sqlite3.Connection, random.Random], None]


def _some(database: sqlite3.Connection, chance: random.Random, table: str) -> int:
    """The id of a random row; 0 where there is none."""
    ids = database.execute(f"SELECT id FROM {table}").fetchall()
    return int(chance.choice(ids)[0]) if ids else 0


def _customer(chance: random.Random) -> int:
    """Any customer the other database may or may not have: nobody keeps the two in step."""
    return chance.randint(1, 80)


# -- shop


def place_orders(database: sqlite3.Connection, chance: random.Random) -> None:
    """Several statements in one transaction: the orders, and the stock they take."""
    for _ in range(chance.randint(1, 3)):
        product = _some(database, chance, "products")
        order = (_customer(chance), product, chance.randint(1, 4))
        database.execute("INSERT INTO orders (customer_id, product_id, quantity) VALUES (?, ?, ?)", order)
        database.execute("UPDATE products SET stock = stock - ? WHERE id = ?", (order[2], product))


def cancel_orders(database: sqlite3.Connection, chance: random.Random) -> None:
    (there,) = database.execute("SELECT COUNT(*) FROM orders").fetchone()
    for _ in range(8 if there > MOST_ORDERS else 1):
        database.execute("DELETE FROM orders WHERE id = ?", (_some(database, chance, "orders"),))


def hand_over_order(database: sqlite3.Connection, chance: random.Random) -> None:
    database.execute(
        "UPDATE orders SET customer_id = ? WHERE id = ?",
        (_customer(chance), _some(database, chance, "orders")),
    )


def change_price(database: sqlite3.Connection, chance: random.Random) -> None:
    price = f"{chance.randint(200, 6000) / 100:.2f}"
    database.execute(
        "UPDATE products SET price = ? WHERE id = ?", (price, _some(database, chance, "products"))
    )


# -- crm


def move_customer(database: sqlite3.Connection, chance: random.Random) -> None:
    database.execute(
        "UPDATE customers SET city = ? WHERE id = ?",
        (chance.choice(CITIES), _some(database, chance, "customers")),
    )


def join_club(database: sqlite3.Connection, chance: random.Random) -> None:
    """Two tables in one transaction."""
    customer = _customer(chance)
    name = f"{chance.choice(FIRST)} {customer}"
    database.execute(
        "INSERT INTO customers VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
        (customer, name, chance.choice(CITIES)),
    )
    database.execute(
        "INSERT INTO members (customer_id, discount) VALUES (?, ?)",
        (customer, chance.choice(("0.05", "0.10", "0.15"))),
    )


def leave_club(database: sqlite3.Connection, chance: random.Random) -> None:
    for _ in range(2):
        database.execute("DELETE FROM members WHERE id = ?", (_some(database, chance, "members"),))


def forget_customer(database: sqlite3.Connection, chance: random.Random) -> None:
    customer = _some(database, chance, "customers")
    database.execute("DELETE FROM members WHERE customer_id = ?", (customer,))
    database.execute("DELETE FROM customers WHERE id = ?", (customer,))


WORK: dict[str, dict[Transaction, int]] = {
    "shop": {place_orders: 5, cancel_orders: 4, hand_over_order: 3, change_price: 1},
    "crm": {move_customer: 4, join_club: 3, leave_club: 2, forget_customer: 1},
}


def work(kind: str, path: str, seed: int) -> None:
    chance = random.Random(seed)
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    tasks, weights = list(WORK[kind]), list(WORK[kind].values())
    counts = {"committed": 0, "rolled_back": 0}
    reported = time.monotonic()
    while not _told_to_end(chance.uniform(0.2, 1.8) * PAUSE_SECONDS):
        database.execute("BEGIN IMMEDIATE")
        chance.choices(tasks, weights)[0](database, chance)
        if chance.random() < ROLLED_BACK:
            database.execute("ROLLBACK")
            counts["rolled_back"] += 1
        else:
            database.execute("COMMIT")
            counts["committed"] += 1
        if time.monotonic() - reported > 1:
            reported = time.monotonic()
            print(json.dumps(counts), flush=True)
    database.close()
    print(json.dumps(counts), flush=True)


def _told_to_end(seconds: float) -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(readable)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
