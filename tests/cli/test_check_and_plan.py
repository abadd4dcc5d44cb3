"""check and plan: nothing is computed, so no engine is started."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

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


def test_check_says_how_each_view_is_maintained_and_stores_the_schemas(shop):
    done = shop.done("check")
    for view in ("order_facts", "large_orders", "repeat_orders"):
        assert any(line.split()[:2] == ["ok", view] for line in done.out.splitlines()), done
    document = shop.done("check", "--json").document
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
    assert done.out.splitlines() == before.splitlines()[:3]
    assert not (shop.root / "shop.db").exists()
    online = shop.command("check", "--json")
    assert (online.status, online.out) == (1, "")
    assert "error[NO_DATABASE]" in online.err


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
    assert texts.count("Δshop.orders") == 2 and texts.count("Δcrm.customers") == 1
    assert texts.count("⋈") == 6 and texts.count("+") == 2


def test_plans_that_are_not_there(shop, capsys):
    folder = ["--project", str(shop.root)]
    for expression in ("all", "tree"):
        assert main(["plan", "order_facts", "--expression", expression, *folder]) == 2
        assert "error[EXPRESSION_UNAVAILABLE]" in capsys.readouterr().err
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
