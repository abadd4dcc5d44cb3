"""A program that writes to a MariaDB server; alone in its module, so that its processes start fast."""

from __future__ import annotations

import random
import time

import pymysql

ISOLATIONS = ("REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE")


def write(port: int, seed: int, transactions: int) -> None:
    """Transactions that each keep the sum of n over both tables at zero, and note in a journal, in the same
    commit, what they were; some roll back, wholly or to a savepoint, and some linger before they commit."""
    chance = random.Random(seed)
    con = pymysql.connect(host="127.0.0.1", port=port, user="root", database="c", autocommit=True)
    cursor = con.cursor()
    cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {ISOLATIONS[seed % len(ISOLATIONS)]}")
    for i in range(transactions):
        try:
            con.begin()
            n = chance.randrange(1, 100)
            cursor.execute("INSERT INTO a (who, n) VALUES (%s, %s)", (seed, n))
            if chance.random() < 0.3:
                cursor.execute("SAVEPOINT x")
                cursor.execute("INSERT INTO b (who, n) SELECT who, n FROM a LIMIT 3")
                cursor.execute("ROLLBACK TO x")
            cursor.execute("INSERT INTO b (who, n) VALUES (%s, %s)", (seed, -n))
            if chance.random() < 0.4:
                cursor.execute("UPDATE a SET who = -who WHERE id %% 7 = %s", (chance.randrange(7),))
            if chance.random() < 0.2:
                cursor.execute("DELETE a, b FROM a JOIN b ON a.id = b.id AND a.n = -b.n")
            cursor.execute("INSERT INTO journal VALUES (%s, %s)", (seed, i))
            if chance.random() < 0.3:
                time.sleep(chance.random() * 0.1)
            if chance.random() < 0.2:
                con.rollback()
            else:
                con.commit()
        except pymysql.err.OperationalError as error:
            if error.args[0] not in (1205, 1213, 1467):
                raise
            con.rollback()
    con.close()
