"""show, query, frames and status, of a project refreshed once."""

from __future__ import annotations

import io
import subprocess
from decimal import Decimal

import pytest
from rich.console import Console

from conftest import COMMAND
from stillframe.cli.main import main
from stillframe.cli.output import cell, json_safe, redact
from stillframe.cli.reading import status_text


def expected(project):
    """order_facts, as SQLite computes it."""
    orders = project.ask(
        "shop",
        "SELECT o.id, customer_id, name, quantity, price FROM orders o JOIN products p ON p.id = product_id",
    )
    customers = {row[0]: row[1:] for row in project.ask("crm", "SELECT id, name, city FROM customers")}
    return sorted(
        [order, *customers[customer], product, f"{quantity * Decimal(str(price)):.2f}"]
        for order, customer, product, quantity, price in orders
    )


def test_show_as_json_has_every_row_with_decimals_as_strings(settled):
    document = settled.done("show", "order_facts", "--limit", "0", "--json").document
    assert document["columns"] == ["id", "name", "city", "product", "amount"]
    assert sorted(document["rows"]) == expected(settled)
    assert len(document["rows"]) == 30 and not document["more"] and document["frame"] == 1


def test_show_says_when_there_are_more_rows(settled):
    done = settled.done("show", "order_facts")
    assert "20 rows, frame 1" in done.out
    assert "more rows" in done.err
    done = settled.done("show", "large_orders", "--limit", "2", "--format", "csv")
    header, *rows = done.out.splitlines()
    assert header == "id,name,amount" and len(rows) == 2
    assert "more rows" in done.err


def test_query_sees_the_views_of_one_frame_and_prints_every_kind_of_value(settled):
    done = settled.done(
        "query",
        """SELECT COUNT(*) AS n, CAST('NaN' AS DOUBLE) AS nan, CAST('-Infinity' AS DOUBLE) AS inf,
           CAST(1.10 AS DECIMAL(38,2)) AS d, X'00FF' AS b, DATE'0001-01-02' AS day,
           TIMESTAMP'9999-12-31 23:59:59.999999' AS t, CAST(NULL AS INT) AS nothing, TRUE AS yes,
           'a"[b]' AS s, 2 AS n FROM order_facts o JOIN large_orders l ON l.id = o.id""",
        "--json",
    )
    names = ["n", "nan", "inf", "d", "b", "day", "t", "nothing", "yes", "s", "n"]
    assert done.document["columns"] == names
    day, moment = "0001-01-02", "9999-12-31T23:59:59.999999Z"
    assert done.document["rows"] == [
        [16, "NaN", "-Infinity", "1.10", "00ff", day, moment, None, True, 'a"[b]', 2]
    ]


def test_failures_while_reading(settled, capsys):
    bad_sql = settled.command("query", "SELEKT 1", "--json")
    assert bad_sql.status == 2 and bad_sql.document["error"]["code"] == "BAD_QUERY"
    assert bad_sql.err.startswith("error[BAD_QUERY]: ") and "order_facts" in bad_sql.err
    for bad in ("SELECT nope FROM order_facts", "SELECT id FROM nope"):
        assert settled.command("query", bad).status == 2
    bad_row = settled.command("query", "SELECT id / (id - id) FROM order_facts", "--json")
    assert bad_row.status == 1 and bad_row.document["error"]["code"] == "EVALUATION_FAILED"
    assert "query" in bad_row.document["error"]["message"]
    folder = ["--project", str(settled.root)]
    assert main(["show", "nope", *folder]) == 2
    assert "order_facts" in capsys.readouterr().err
    assert main(["show", "order_facts", "--frame", "99", *folder]) == 1
    assert "error[NO_SUCH_FRAME]" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_failure(settled):
    shell = f"{' '.join(COMMAND)} show order_facts --limit 0 --format csv | head -1; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", shell], cwd=settled.root, capture_output=True, text=True, timeout=180)
    assert run.stdout.splitlines() == ["id,name,city,product,amount", "0"], run
    assert run.stderr == ""


def test_frames_lists_every_frame_with_its_vector(settled, capsys):
    (frame,) = settled.here("frames")
    assert frame["frame"] == 1
    assert set(frame["views"]) == {"order_facts", "large_orders", "repeat_orders"}
    vectors = [view["vector"] for view in frame["views"].values()]
    assert vectors[0] == vectors[1] == vectors[2] and set(vectors[0]) == {"shop", "crm"}
    assert main(["frames", "--project", str(settled.root)]) == 0
    position = vectors[0]["shop"]["position"]
    assert f"shop@{position}" in capsys.readouterr().out


def test_status_shows_lag_logs_and_what_is_settled(settled, capsys):
    settled.write("crm", "UPDATE customers SET city = 'Turku' WHERE id = 1")
    document = settled.here("status")
    assert document["frame"] == 1
    view = document["views"]["order_facts"]
    assert view["frame"] == 1 and view["level"] == "strong" and view["mode"] == "full"
    assert view["lag"]["shop"]["transactions"] == 0 and view["lag"]["crm"]["transactions"] > 0
    assert view["verified_through"] is None and view["unsettled_rows"] == 0
    assert document["sources"]["crm"]["log_rows"] > document["sources"]["shop"]["log_rows"] > 0
    assert [c["name"] for c in document["sources"]["crm"]["consumers"]] == ["shop"]
    assert main(["status", "--project", str(settled.root)]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("order_facts", "never", "shop at", "settled", "900 s"))
    settled.write("crm", "UPDATE customers SET city = 'Lyon' WHERE id = 1")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_status_can_be_read_on_a_terminal_of_any_width(settled, width):
    """Wide: a line for each view. Narrow: a line for each value, so that no name is cut to pieces."""
    screen = Console(width=width, file=io.StringIO(), force_terminal=False)
    screen.print(status_text(settled.here("status")))
    lines = screen.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    of_view = [line.split() for line in lines if "repeat_orders" in line.split()]
    assert of_view[0][-1] == "never" if width == 200 else of_view == [["view", "repeat_orders"]]
    assert (["state", "current"] in [line.split() for line in lines]) is (width < 200)


def test_values_that_json_does_not_have():
    assert json_safe({1: (float("nan"), float("inf"), 1.5, b"\x00", {2})}) == {
        "1": ["NaN", "Infinity", 1.5, "00", [2]]
    }


def test_control_characters_do_not_reach_the_terminal():
    assert cell("a\x1b[31m\n").plain == "a\\x1b[31m\\n"


def test_urls_lose_their_passwords_and_nothing_else():
    assert redact("postgresql://app:a:b@c@host:5432/x?y=1") == "postgresql://app:***@host:5432/x?y=1"
    assert redact("see https://host:80/a and mail me@here") == "see https://host:80/a and mail me@here"
    assert redact("sqlite:///x.db?token=abc&mode=ro") == "sqlite:///x.db?token=***&mode=ro"
