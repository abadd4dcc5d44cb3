"""`init`: a project that runs as it is, with two small databases of its own."""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

from stillframe.cli.output import Output
from stillframe.errors import ProjectError

TEMPLATES = Path(__file__).with_name("templates")

CUSTOMERS = ("Ada", "Brahim", "Chiara", "Dmitri", "Emeka", "Fatima", "Goran", "Hana", "Ines", "Jun")
CITIES = ("Lyon", "Porto", "Gdansk", "Bergen")
PRODUCTS = (("tea", "3.50"), ("coffee", "7.20"), ("cocoa", "5.10"), ("mug", "12.00"), ("kettle", "39.90"))

SHOP = """
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price DECIMAL(10,2) NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL,
  product_id INTEGER NOT NULL REFERENCES products (id),
  quantity INTEGER NOT NULL
);
CREATE INDEX orders_customer ON orders (customer_id);
CREATE INDEX orders_product ON orders (product_id);
"""
CRM = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL);\n"


def init(options: argparse.Namespace, output: Output) -> int:
    folder = fresh_folder(Path(options.dir))
    files = {
        "stillframe.yml": "stillframe.yml",
        "views/order_facts.sql": "order_facts.sql",
        "views/repeat_orders.sql": "repeat_orders.sql",
        "README.md": "project_readme.md",
        ".gitignore": "gitignore",
    }
    (folder / "views").mkdir()
    for path, template in files.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        (folder / path).write_text(text.replace("@NAME@", _name(folder)), encoding="utf-8")
    _make_databases(folder)
    made = [*files, "shop.db", "crm.db"]
    output.say(f"made a project in {folder}: {', '.join(made)}")
    output.say(f"next: cd {folder} && stillframe refresh && stillframe show order_facts")
    output.document({"project": str(folder), "files": made})
    return 0


def fresh_folder(folder: Path) -> Path:
    """The folder, made if need be; one with something in it is refused."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(
            f"{folder} is there already and not an empty folder", hint="name a new folder", code="NOT_EMPTY"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProjectError(f"{folder} cannot be made", detail=str(error)) from error
    return folder


def _name(folder: Path) -> str:
    """A word that YAML takes for a string."""
    word = "".join(c if c.isascii() and c.isalnum() else "_" for c in folder.resolve().name)
    return word if word.strip("_") and word[0].isalpha() else f"project_{word}"


def _make_databases(folder: Path) -> None:
    orders = [(n, 1 + n * 7 % len(CUSTOMERS), 1 + n * 3 % len(PRODUCTS), 1 + n % 4) for n in range(1, 31)]
    customers = [(n + 1, name, CITIES[n % len(CITIES)]) for n, name in enumerate(CUSTOMERS)]
    products = [(n + 1, name, price) for n, (name, price) in enumerate(PRODUCTS)]
    with _database(folder / "shop.db", SHOP) as shop:
        shop.executemany("INSERT INTO products VALUES (?, ?, ?)", products)
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", orders)
        shop.commit()
    with _database(folder / "crm.db", CRM) as crm:
        crm.executemany("INSERT INTO customers VALUES (?, ?, ?)", customers)
        crm.commit()


def _database(path: Path, ddl: str) -> closing[sqlite3.Connection]:
    """A database in WAL mode, in which a reader never waits for a writer."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(ddl)
    return closing(connection)
