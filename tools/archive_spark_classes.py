"""Apache Spark's classes in an archive that a JVM maps at its start: `archive_spark_classes.py FILE`.

More than half of what a short run of Spark costs is loading 20 000 classes and compiling them. Tests start
many such runs; they are given this archive and the quick one of the two compilers (see the Makefile). A JVM
that cannot use the archive goes on without it.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount DECIMAL(10,2));
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO orders VALUES (1, 1, 10.5), (2, 1, 20), (3, 2, 1);
INSERT INTO customers VALUES (1, 'ann'), (2, 'bob');
"""
CHANGES = "UPDATE orders SET amount = 7 WHERE id = 1; DELETE FROM customers WHERE id = 2;"
VIEWS = {
    "facts": "SELECT o.id, c.name, o.amount FROM shop.orders o JOIN shop.customers c ON c.id = o.customer",
    "totals": "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM shop.orders GROUP BY customer",
}


def some_frames(folder: Path) -> None:
    """What most runs do, so that its classes are met."""
    from stillframe import Warehouse

    database = folder / "shop.db"
    with closing(sqlite3.connect(database)) as writer:
        writer.executescript(TABLES)
        with Warehouse(path=folder / "warehouse", sources={"shop": f"sqlite:///{database}"}) as warehouse:
            for name, text in VIEWS.items():
                warehouse.create_view(name, text)
            warehouse.refresh()
            writer.executescript(CHANGES)
            warehouse.refresh(settle=True)
            assert all(verdict.ok for verdict in warehouse.verify_all().values())
            gateway = warehouse.engine.caller.sparkContext._gateway
    gateway.proc.stdin.close()  # which ends the JVM; it writes the archive then
    gateway.proc.wait()


def main() -> None:
    archive = Path(sys.argv[1]).absolute()
    if len(sys.argv) > 2:
        some_frames(Path(sys.argv[2]))
        return
    made = archive.with_suffix(".new")
    options = f"-XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=error:stderr"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, __file__, str(archive), folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options},
            check=True,
        )
    made.replace(archive)


if __name__ == "__main__":
    main()
