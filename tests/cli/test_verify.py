"""verify: status 0 when exact, 3 when somebody went behind our back."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq


def test_an_exact_warehouse_and_one_whose_file_was_changed(shop):
    shop.done("refresh")
    shop.write("shop", "DELETE FROM orders WHERE id = 1")
    done = shop.done("verify", "--json")
    assert {name: v["ok"] for name, v in done.document["views"].items()} == dict.fromkeys(
        ("order_facts", "large_orders", "repeat_orders"), True
    )
    status = shop.here("status")
    assert status["views"]["order_facts"]["verified_through"] == 1
    forge(shop, "order_facts")
    done = shop.command("verify", "--json")
    assert done.status == 3, done
    view = done.document["views"]["order_facts"]
    assert (view["ok"], view["frame"], view["missing"], view["extra"]) == (False, 1, 1, 1)
    assert {row["is"]: row["row"]["name"] for row in view["sample"]}["extra"] == "Mallory"
    assert done.document["views"]["large_orders"]["ok"]
    text = shop.command("verify", "order_facts")
    assert text.status == 3
    assert "drift" in text.out and "Mallory" in text.out and "large_orders" not in text.out


def forge(project, view):
    """Change one row of one file of a view, behind everyone's back."""
    (file,) = [
        path
        for path in (project.root / "warehouse").rglob("*.parquet")
        if view in str(path) and pq.read_metadata(path).num_rows == 30
    ]
    table = pq.read_table(file)
    names = ["Mallory", *table.column("name").to_pylist()[1:]]
    field = table.schema.get_field_index("name")
    table = table.set_column(
        field, table.schema.field(field), pa.array(names, table.schema.field(field).type)
    )
    pq.write_table(table, file)


def test_a_row_deleted_from_the_log_is_drift(shop):
    """The last row leaves no gap, only a state that never was; any other leaves a gap, too."""
    shop.done("refresh")
    shop.write("shop", "DELETE FROM orders WHERE id = 4")
    shop.write("shop", "DELETE FROM _stillframe_log WHERE seq = (SELECT MAX(seq) FROM _stillframe_log)")
    done = shop.command("verify", "order_facts", "--json")
    assert done.status == 3, done
    view = done.document["views"]["order_facts"]
    assert (view["missing"], view["extra"]) == (0, 1) and view["sample"][0]["row"]["id"] == 4
    shop.write("shop", "DELETE FROM orders WHERE id = 1")
    shop.write("shop", "DELETE FROM orders WHERE id = 2")
    shop.write("shop", "DELETE FROM orders WHERE id = 3")
    shop.write("shop", "DELETE FROM _stillframe_log WHERE seq = (SELECT MAX(seq) - 1 FROM _stillframe_log)")
    done = shop.command("verify", "--json")
    assert done.status == 3, done
    view = done.document["views"]["order_facts"]
    assert not view["ok"] and "missing" in view["reason"]
    assert "error[CAPTURE_GAP]" in done.err
    refreshed = shop.command("refresh", "--json")
    assert refreshed.status == 1
    assert refreshed.document["views"]["order_facts"]["reason"] == "CAPTURE_GAP"
    assert shop.here("status")["views"]["order_facts"]["state"] == "stopped"
    assert shop.done("refresh", "--full", "--json").document["views"]["order_facts"]["mode"] == "full"
    assert shop.done("verify").out.count("ok") == 3
