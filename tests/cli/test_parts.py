"""Views that are split into parts: nobody sees the parts, and they go where their view goes."""

from __future__ import annotations

import json

import pytest

from stillframe.cli.main import main

GROUPS = (
    "CREATE MATERIALIZED VIEW by_customer AS SELECT customer_id, count(*) AS n, sum(quantity) AS total"
    " FROM shop.orders GROUP BY customer_id;\n"
)


@pytest.fixture
def said(shop, capsys):
    def run(*arguments):
        capsys.readouterr()
        status = main([*arguments, "--json", "--project", str(shop.root)])
        return status, json.loads(capsys.readouterr().out)

    return run


def test_parts_are_seen_by_nobody_and_go_where_their_view_goes(shop, said):
    shop.view(GROUPS, "groups.sql")
    shop.done("refresh")
    for verb in (["check"], ["status"], ["refresh"], ["verify"]):
        status, document = said(*verb)
        assert status == 0 and not [name for name in document["views"] if "~" in name], verb
        assert "by_customer" in document["views"]
    _, frames = said("frames", "--limit", "1")
    assert not [name for name in frames[0]["views"] if "~" in name]
    _, plan = said("plan", "by_customer")
    assert [(part["view"], part["keywise"]["operator"]) for part in plan["parts"]] == [
        ("by_customer~1", "aggregate")
    ]
    assert said("show", "by_customer~1")[0] != 0
    assert said("rename", "by_customer", "spending")[0] == 0
    shop.done("refresh")
    status, document = said("verify", "spending")
    assert status == 0 and document["views"]["spending"]["ok"]
    assert said("drop", "spending")[0] == 0
    assert not {"spending", "by_customer"} & said("status")[1]["views"].keys()
    shop.done("refresh")


def test_a_sum_that_overflows_stops_its_view_and_nothing_else(shop, said):
    shop.view(
        "CREATE MATERIALIZED VIEW large AS SELECT sum(CAST(id AS BIGINT) * 4000000000000000000) AS s"
        " FROM shop.orders WHERE id <= 2;\n",
        "large.sql",
    )
    done = shop.command("refresh", "--json")
    assert done.status == 1
    assert done.document["views"]["large"]["mode"] == "stopped"
    assert done.document["views"]["order_facts"]["mode"] in ("full", "unchanged")
