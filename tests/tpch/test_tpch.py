"""TPC-H: its 22 queries as views over tables in PostgreSQL, MariaDB and SQLite. After each frame of its
refresh functions and of random changes, every view equals what DuckDB makes of its text over their rows.

STILLFRAME_SEED replays a campaign.
"""

from __future__ import annotations

import os

import pytest
from tpch_campaign import TEXTS, campaign

import servers
from shops import Shop

pytestmark = pytest.mark.engine

SEED = int(os.environ.get("STILLFRAME_SEED", "22"))
NOT_YET: dict[str, dict[str, str]] = {"sail": {}, "spark": {}}
# Views that are recomputed, and why; all others are maintained incrementally.
RECOMPUTED: dict[str, str] = {}


def run(
    shop: Shop,
    postgres: servers.PostgresServer,
    mariadb: servers.MariadbServer,
    scale: float,
    frames: int,
    rounds: int,
) -> None:
    print(f"STILLFRAME_SEED={SEED}")
    ran = campaign(shop, postgres, mariadb, scale, SEED)
    refused = ran.refused()
    print("refused", refused)
    views = [view for view in TEXTS if view not in refused]
    try:
        ran.run(views, frames, rounds)
    finally:
        print(ran.report())
    print("moved", dict(ran.moved))
    assert refused == NOT_YET[shop.engine_name]
    assert ran.recomputed.keys() == RECOMPUTED.keys()
    assert not [view for view in views if not ran.moved[view]], "no change reached these views"


def test_every_frame_is_exact(
    shop: Shop, postgres_server: servers.PostgresServer, mariadb_server: servers.MariadbServer
) -> None:
    run(shop, postgres_server, mariadb_server, 0.01, 5, 2)


@pytest.mark.long
def test_every_frame_is_exact_at_length(
    shop: Shop, postgres_server: servers.PostgresServer, mariadb_server: servers.MariadbServer
) -> None:
    run(shop, postgres_server, mariadb_server, 0.1, 20, 5)
