"""TPC-H: its 22 queries as views over tables in PostgreSQL, MariaDB and SQLite. After each frame of its
refresh functions and of random changes, every view equals what DuckDB makes of its text over their rows.

STILLFRAME_SEED replays a campaign. Apache Spark takes many times as long for so little data: there some of
the views go through two frames, and all of them only in the longer campaign.
"""

from __future__ import annotations

import os
from collections.abc import Collection

import pytest
from tpch_campaign import TEXTS, campaign

import servers
from shops import Shop

pytestmark = pytest.mark.engine

SEED = int(os.environ.get("STILLFRAME_SEED", "22"))
# Views that are recomputed, and why. All the others are maintained incrementally.
RECOMPUTED: dict[str, str] = {}
# Averages, a quotient, the first rows of an order, a value of all rows.
ON_SPARK = ("q1", "q14", "q18", "q22")


def run(
    shop: Shop,
    postgres: servers.PostgresServer,
    mariadb: servers.MariadbServer,
    scale: float,
    frames: int,
    rounds: int,
    views: Collection[str] = tuple(TEXTS),
) -> None:
    print(f"STILLFRAME_SEED={SEED}")
    ran = campaign(shop, postgres, mariadb, scale, SEED)
    assert ran.refused() == {}
    try:
        ran.run(views, frames, rounds)
    finally:
        print(ran.report())
    assert set(ran.recomputed) == set(RECOMPUTED).intersection(views), ran.recomputed
    unmoved = [view for view in views if not ran.moved[view]]
    assert len(views) < len(TEXTS) or not unmoved, f"no change reached {unmoved}"


def test_every_frame_is_exact(
    shop: Shop, postgres_server: servers.PostgresServer, mariadb_server: servers.MariadbServer
) -> None:
    if shop.engine_name == "spark":
        run(shop, postgres_server, mariadb_server, 0.01, 2, 2, ON_SPARK)
    else:
        run(shop, postgres_server, mariadb_server, 0.01, 5, 2)


@pytest.mark.long
def test_every_frame_is_exact_at_length(
    shop: Shop, postgres_server: servers.PostgresServer, mariadb_server: servers.MariadbServer
) -> None:
    if shop.engine_name == "spark":
        run(shop, postgres_server, mariadb_server, 0.01, 5, 2)
    else:
        run(shop, postgres_server, mariadb_server, 0.1, 20, 5)
