"""check and plan: nothing is computed, so no engine is started."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from stillframe.cli.main import main
from stillframe.cli.plan_svg import plan_svg

BAD = """\
-- the second is refused
CREATE MATERIALIZED VIEW good AS SELECT id FROM crm.customers;

CREATE MATERIALIZED VIEW bad AS
SELECT id,
       nothing
FROM crm.customers;
"""


ALWAYS = """\
CREATE MATERIALIZED VIEW always WITH (refresh_policy = 'full') AS
SELECT o.id, c.name FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id;
"""


def test_check_says_how_each_view_is_maintained_and_stores_the_schemas(shop):
    done = shop.done("check")
    for view in ("order_facts", "large_orders", "repeat_orders"):
        assert any(line.split()[:2] == ["ok", view] for line in done.out.splitlines()), done
    document = shop.done("check", "--json").document
    operators = document["views"]["order_facts"].pop("operators")
    assert [(o["operator"], o["rule"], o["incremental"]) for o in operators] == [
        ("JOIN", "product", True)
    ] * 2
    assert [(o["line"], o["column"], o["code"]) for o in operators] == [(5, 6, None), (6, 6, None)]
    assert document["views"]["order_facts"] == {
        "ok": True,
        "level": "strong",
        "algorithm": "tid",
        "incremental": True,
        "reasons": [],
    }
    schemas = json.loads((shop.root / "stillframe.schemas.json").read_text())
    assert set(schemas) == {"shop", "crm"} and set(schemas["shop"]) == {"orders", "products"}


def test_check_offline_needs_no_database(shop, capsys):
    folder = str(shop.root)
    assert main(["check", "--offline", "--project", folder]) == 2
    assert "stillframe check" in capsys.readouterr().err
    assert main(["check", "--project", folder]) == 0
    before = capsys.readouterr().out
    for name in ("shop.db", "crm.db"):
        (shop.root / name).unlink()
    done = shop.done("check", "--offline")
    assert done.out.splitlines() == [x for x in before.splitlines() if x.startswith(("ok ", "    "))]
    assert not (shop.root / "shop.db").exists()
    before = (shop.root / "stillframe.schemas.json").read_text()
    online = shop.command("check", "--json")
    assert online.status == 1 and not online.document["sources"]["crm"]["ok"]
    assert "error[NO_DATABASE]" in online.err
    assert (shop.root / "stillframe.schemas.json").read_text() == before


def test_a_refused_view_has_its_place_in_the_file(shop, capsys):
    shop.view(BAD, "bad.sql")
    assert main(["check", "--project", str(shop.root)]) == 2
    out = capsys.readouterr().out
    assert "views/bad.sql:6:8: UNKNOWN_COLUMN" in out and "hint: " in out
    assert main(["check", "--json", "--project", str(shop.root)]) == 2
    views = json.loads(capsys.readouterr().out)["views"]
    assert views["good"]["ok"] and not views["bad"]["ok"]
    (reason,) = views["bad"]["reasons"]
    assert (reason["file"], reason["line"], reason["column"]) == ("bad.sql", 6, 8)
    assert reason["code"] == "UNKNOWN_COLUMN" and reason["message"] and reason["hint"]
    assert main(["plan", "bad", "--project", str(shop.root)]) == 2
    assert "error[UNKNOWN_COLUMN]" in capsys.readouterr().err


def test_plan_as_tree_document_and_drawing(shop):
    text = shop.done("plan", "repeat_orders").out
    assert "change = sum of 3 terms" in text
    assert "Δshop.orders ⋈ shop.orders@before ⋈ crm.customers@before" in text
    document = shop.done("plan", "repeat_orders", "--json", "--svg", "p.svg").document
    assert document["algorithm"] == "tid"
    assert [term["change"] for term in document["tree"]] == ["shop.orders", "shop.orders", "crm.customers"]
    assert document["cost"]["terms"] == 3
    assert [other["mode"] for other in document["alternatives"]] == ["full"]
    texts = [node.text for node in ET.parse(shop.root / "p.svg").iter() if node.tag.endswith("text")]
    texts = texts[: texts.index("propagated as tree")]
    assert texts.count("Δshop.orders") == 2 and texts.count("Δcrm.customers") == 1
    assert texts.count("⋈") == 6 and texts.count("+") == 2


def test_a_plan_has_queries_and_estimated_costs(settled):
    """1 changed order: its customer is met by key; all else would be read whole."""
    settled.write("shop", "INSERT INTO orders VALUES (100, 1, 5, 2)")
    document = settled.here("plan", "order_facts", "--expression", "all")
    settled.write("shop", "DELETE FROM orders WHERE id = 100")
    assert document["next"] == {"mode": "incremental", "reason": "CHANGES"}
    assert document["cost"]["pending_changes"] == {"shop.orders": 1, "shop.products": 0, "crm.customers": 0}
    assert document["cost"]["relation_rows"] == {"shop.orders": 31, "shop.products": 5, "crm.customers": 10}
    asked = [(q["source"], q["table"], q["kind"], q["by"], q["rows"]) for q in document["queries"]]
    assert asked == [
        ("shop", "orders", "changes", None, 1),
        ("shop", "products", "changes", None, 0),
        ("crm", "customers", "changes", None, 0),
        ("shop", "products", "state", "id = Δshop.orders.product_id", 1),
        ("crm", "customers", "state", "id = Δshop.orders.customer_id", 1),
    ]
    assert (document["cost"]["queries"], document["cost"]["rows"]) == (5, 3)
    (full,) = document["alternatives"]
    assert (full["mode"], full["queries"], full["rows"]) == ("full", 3, 46)
    text = settled.done("plan", "order_facts").out
    assert "crm: customers (id, name, city) where id = Δshop.orders.customer_id" in text
    assert "not taken" in text and "about 45 rows in 3 queries" in text.split("full: about ")[1]


def test_the_plan_of_a_view_that_is_always_recomputed(shop):
    shop.view(ALWAYS, "always.sql")
    document = shop.here("plan", "always")
    assert document["mode"] == "full" and document["next"] == {"mode": "full", "reason": "NEW"}
    (term,) = document["tree"]
    assert term["join"] == ["shop.orders@after", "crm.customers@after"]
    assert [read["by"] for read in term["reads"]] == [None, None]
    assert (document["cost"]["queries"], document["cost"]["rows"]) == (2, 40)
    (other,) = document["alternatives"]
    assert other["mode"] == "incremental" and "refresh_policy" in other["why_not"]
    text = shop.done("plan", "always", "--svg", "p.svg").out
    assert "recomputed = sum of 1 term" in text and "change = " not in text
    assert "recomputation of always" in (shop.root / "p.svg").read_text()


def test_check_refuses_what_the_engine_of_the_project_would(shop, capsys):
    """A DOUBLE becomes another DECIMAL on Sail; nothing is started to find that out."""
    third = "CAST(CAST(price AS DOUBLE) / 3 AS DECIMAL(10,2))"
    shop.view(f"CREATE MATERIALIZED VIEW thirds AS SELECT id, {third} AS third FROM shop.products;", "t.sql")
    assert main(["check", "--json", "--project", str(shop.root)]) == 2
    views = json.loads(capsys.readouterr().out)["views"]
    (reason,) = views["thirds"]["reasons"]
    assert not views["thirds"]["ok"] and views["order_facts"]["ok"]
    assert (reason["code"], reason["file"], reason["line"]) == ("ENGINE_DIFFERS", "t.sql", 1)
    path = shop.root / "stillframe.yml"
    path.write_text(path.read_text().replace("engine: sail", "engine: spark"))
    assert shop.here("check")["views"]["thirds"]["ok"]


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("how", ["NO_DATABASE", "NOT_WAL"])
def test_check_names_a_source_it_cannot_use_as_the_reason_of_its_views(shop, capsys, how, remembered):
    shop.view("CREATE MATERIALIZED VIEW ids AS SELECT id FROM shop.orders;", "ids.sql")
    if remembered:
        shop.done("attach")
        shop.done("refresh", "ids")
    if how == "NO_DATABASE":
        (shop.root / "crm.db").rename(shop.root / "away.db")
    else:
        assert shop.ask("crm", "PRAGMA journal_mode = DELETE") == [("delete",)]
    assert main(["check", "--json", "--project", str(shop.root)]) == 1
    written = capsys.readouterr()
    document = json.loads(written.out)
    assert document["views"]["ids"]["ok"]
    assert document["views"]["repeat_orders"]["reasons"][0]["code"] == how
    assert not document["views"]["large_orders"]["ok"]
    assert (document["sources"]["shop"]["ok"], document["sources"]["crm"]["code"]) == (True, how)
    assert f"error[{how}]" in written.err
    assert main(["check", "--project", str(shop.root)]) == 1
    told = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("source ")]
    assert told == [
        ["source", "shop", "captured", "by", "triggers"],
        ["source", "crm", "away,", "to", "be", "captured", "by", "triggers"],
    ]
    assert set(json.loads((shop.root / "stillframe.schemas.json").read_text())) == {"shop"}
    done = shop.command("refresh", "--json")
    assert done.status == 1 and done.document["views"]["ids"]["mode"] in ("full", "unchanged")
    assert done.document["views"]["repeat_orders"]["reason"] == how
    named = shop.command("refresh", "repeat_orders")
    assert named.status == 1 and f"error[{how}]" in named.err


def test_the_change_of_a_join_in_each_form(shop):
    """Of three relations that change: 2³ − 1 terms, 3, or a tree, which reads no more than 3 terms do."""
    found = {
        form: shop.here("plan", "order_facts", "--expression", form)["propagation"][0]
        for form in ("all", "n-term", "tree")
    }
    terms = {form: sum(len(step["terms"]) for step in one["steps"]) for form, one in found.items()}
    assert (terms["all"], terms["n-term"]) == (7, 3)
    assert found["n-term"]["steps"][0]["text"].count("Δ") == 4
    assert sum(found["tree"]["reads"].values()) <= sum(found["n-term"]["reads"].values()) == 6
    assert found["tree"]["cost"] <= found["n-term"]["cost"] == found["tree"]["alternatives"]["n-term"]
    assert set(found["all"]["alternatives"]) == {"tree", "n-term", "recomputation"}


def test_plans_that_are_not_there(shop, capsys):
    folder = ["--project", str(shop.root)]
    assert main(["plan", "nope", *folder]) == 2
    err = capsys.readouterr().err
    assert "error[UNKNOWN_VIEW]" in err and "order_facts" in err


def test_a_drawing_says_how_rows_are_found():
    term = {
        "change": "s.<a>",
        "join": ["Δs.<a>", "s.b@before", "t.c@before"],
        "reads": [
            {"relation": "s.b", "at": "before", "by": "id = Δs.<a>.id", "from": "s"},
            {"relation": "t.c", "at": "before", "by": None, "from": "t"},
        ],
    }
    plan = {"view": "v & w", "algorithm": "tid", "level": "strong", "tree": [term]}
    texts = [node.text for node in ET.fromstring(plan_svg(plan)).iter() if node.tag.endswith("text")]
    assert texts[0] == "change of v & w"
    assert texts[3:] == [
        "Δs.<a>",
        "its change",
        "⋈",
        "s.b@before",
        "by id = Δs.<a>.id",
        "⋈",
        "t.c@before",
        "read whole",
    ]


def leaf(place, name, *, changes):
    return {"input": name, "place": place, "changes": changes}


def test_a_drawing_shows_the_tree_by_which_changes_are_propagated():
    inner = {"blocks": [leaf(1, "b", changes=True), leaf(2, "c", changes=False)]}
    found = {
        "family": "tree",
        "steps": [{"text": "Δ(b⋈c) = Δb ⋈ c"}, {"text": "Δ(a⋈b⋈c) = a ⋈ Δ(b⋈c)"}],
        "tree": {"blocks": [leaf(0, "a", changes=False), inner]},
        "reads": {"a": 1, "c": 1},
    }
    plan = {"view": "v", "algorithm": "tid", "level": "strong", "tree": [], "propagation": [found]}
    picture = ET.fromstring(plan_svg(plan))
    texts = [node.text for node in picture.iter() if node.tag.endswith("text")]
    first, second = (step["text"] for step in found["steps"])
    assert texts[2:] == [
        *("propagated as tree", "⋈", "a", "read 1×", "⋈", "b", "changes, read 0×", "c", "read 1×"),
        *(first, second),
    ]
    tops = {
        node.text: float(node.get("y")) for node in picture.iter() if node.text in ("a", "b", "c", second)
    }
    assert tops["a"] < tops["b"] == tops["c"] < tops[second] < float(picture.get("height"))


def test_a_drawing_shows_the_expression_that_is_asked_for(shop):
    for family in ("tree", "n-term", "all"):
        file = shop.root / f"{family}.svg"
        shop.done("plan", "order_facts", "--expression", family, "--svg", str(file))
        steps = shop.done("plan", "order_facts", "--expression", family, "--json").document["propagation"][0]
        texts = [node.text for node in ET.parse(file).iter() if node.tag.endswith("text")]
        assert f"propagated as {family}" in texts
        assert texts[-len(steps["steps"]) :] == [step["text"] for step in steps["steps"]]
