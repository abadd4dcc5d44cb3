"""Verbs that change something: refresh, run, attach, detach, drop, rename, compact, vacuum."""

from __future__ import annotations

import json
import signal
import sqlite3
import time

import pytest

from stillframe.cli.main import main
from stillframe.lake import Lake

OVERFLOW = "CREATE MATERIALIZED VIEW sums AS SELECT id, quantity + 1 AS more FROM shop.orders;"
REFUSED = "CREATE MATERIALIZED VIEW totals AS SELECT city, rand() AS n FROM crm.customers;"


def ids(project, view, *more):
    document = project.done("show", view, "--limit", "0", "--json", *more).document
    return sorted(row[0] for row in document["rows"])


def test_a_life_of_frames(shop):
    first = shop.done("refresh").out
    assert [line.split()[:3] for line in first.splitlines() if "NEW" in line] == [
        [view, "full", "NEW"] for view in ("order_facts", "large_orders", "repeat_orders")
    ]
    assert first.splitlines()[-1] == "frame 1"
    shop.write("shop", "DELETE FROM orders WHERE id = 1", "INSERT INTO orders VALUES (100, 1, 5, 2)")
    document = shop.done("refresh", "--settle", "--json").document
    assert document["frame"] == 2 and set(document["vector"]) == {"shop", "crm"}
    view = document["views"]["order_facts"]
    assert (view["mode"], view["reason"], view["algorithm"]) == ("incremental", "CHANGES", "tid")
    assert (view["rows_in"], view["rows_out"]) == (2, 2) and view["seconds"] > 0
    assert ids(shop, "order_facts") == sorted({*range(2, 31), 100})
    assert 1 in ids(shop, "order_facts", "--frame", "1")
    status = shop.here("status")
    assert {v["settled_frame"] for v in status["views"].values()} == {2}
    assert "full" in shop.done("refresh", "order_facts", "--full").out
    states = {name: v["state"] for name, v in shop.here("frames")[0]["views"].items()}
    assert states["order_facts"] == "current" and states["repeat_orders"] == "held"


def test_a_stopped_and_a_refused_view_are_status_1_and_the_others_go_on(shop):
    shop.view(OVERFLOW, "sums.sql")
    shop.view(REFUSED, "totals.sql")
    shop.write(
        "shop", "UPDATE orders SET quantity = 9223372036854775807 WHERE id = 1", "DELETE FROM products"
    )
    done = shop.command("refresh", "--json")
    assert done.status == 1
    views = done.document["views"]
    assert views["sums"]["mode"] == "stopped" and views["totals"]["mode"] == "refused"
    assert views["order_facts"]["mode"] == "full"
    assert "view sums is stopped: " in done.err and "view totals is refused: " in done.err
    again = shop.command("refresh", "totals")
    assert again.status == 2 and again.out == ""
    content = shop.command("show", "sums")
    assert content.status == 1 and "has no content" in content.err


def test_two_processes_refreshing_at_once_apply_nothing_twice(shop):
    shop.done("refresh")
    shop.write("shop", "INSERT INTO orders VALUES (100, 1, 5, 2)", "DELETE FROM orders WHERE id = 2")
    running = [shop.start("refresh", "--json") for _ in range(2)]
    ended = [process.communicate(timeout=180) for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    documents = [json.loads(out) for out, _ in ended]
    assert sorted(d["frame"] for d in documents) == [2, 3]
    assert sorted(d["views"]["order_facts"]["rows_in"] for d in documents) == [0, 2]
    assert ids(shop, "order_facts") == sorted({*range(1, 31), 100} - {2})


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_run_follows_changes_and_ends_cleanly_when_told_to(shop, how):
    process = shop.start("run", "--every", "0.1s", *(["--json"] if how == signal.SIGINT else []))
    try:
        wait_for(shop, process, at_least(1))
        shop.write("shop", "INSERT INTO orders VALUES (100, 1, 5, 2)")
        wait_for(shop, process, at_least(2))
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    if how == signal.SIGINT:
        document = json.loads(out)
        assert [frame["frame"] for frame in document["frames"]] == [1, 2]
        assert document["count"] == 2 and document["frames"][1]["views"]["order_facts"] == "incremental"
    else:
        assert [line.split()[1] for line in out.splitlines() if line.startswith("frame ")] == ["1", "2"]
        assert out.splitlines()[-1].startswith("2 frames, ")
    assert err == ""


def wait_for(project, process, holds):
    """Until the newest frame is as it should be."""
    for _ in range(600):
        assert process.poll() is None, process.communicate()
        frame = Lake.open(project.root / "warehouse", create=True).newest()
        if frame is not None and holds(frame):
            return
        time.sleep(0.2)
    raise AssertionError(f"the newest frame is {frame}")


def at_least(number):
    return lambda frame: frame.number >= number


def test_run_waits_for_a_source_that_is_away(shop):
    shop.done("refresh")
    (shop.root / "crm.db").rename(shop.root / "away.db")
    process = shop.start("run", "--every", "0.1s")
    try:
        assert "error[NO_DATABASE]" in process.stderr.readline()
        (shop.root / "away.db").rename(shop.root / "crm.db")
        shop.write("crm", "DELETE FROM customers WHERE id = 1")
        wait_for(shop, process, lambda frame: frame.views["order_facts"].rows == 27)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()


def traces(project, source):
    names = project.ask(source, "SELECT name FROM sqlite_master WHERE name LIKE '%stillframe%'")
    return [name for (name,) in names]


def test_attach_and_detach_leave_no_trace(shop, capsys):
    folder = ["--project", str(shop.root)]
    assert main(["attach", "--json", *folder]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "attached": {"shop": ["orders", "products"], "crm": ["customers"]}
    }
    assert traces(shop, "shop") and traces(shop, "crm")
    assert main(["detach", *folder]) == 0
    assert traces(shop, "shop") == traces(shop, "crm") == []


def test_drop_rename_compact_and_vacuum(shop, capsys):
    shop.done("refresh")
    folder = ["--project", str(shop.root)]

    assert main(["drop", "order_facts", *folder]) == 2
    assert "large_orders" in capsys.readouterr().err
    assert shop.here("drop", "large_orders") == {"dropped": "large_orders", "frame": 2}
    assert "large_orders" not in (shop.root / "views" / "order_facts.sql").read_text()
    assert shop.here("rename", "repeat_orders", "pairs") == {
        "renamed": "repeat_orders",
        "to": "pairs",
        "frame": 3,
    }
    assert set(shop.here("frames")[0]["views"]) == {"order_facts", "pairs"}
    shop.write("shop", "DELETE FROM orders WHERE id = 1")
    assert shop.done("refresh", "--json").document["views"]["pairs"]["mode"] == "incremental"
    assert shop.done("compact", "--json").document["settled"] == {"order_facts": 4, "pairs": 4}
    removed = shop.here("vacuum", "--retention", "0s")
    assert removed["frames"] > 0 and removed["files"] > 0
    assert [frame["frame"] for frame in shop.here("frames")] == [4]
    assert shop.done("show", "pairs", "--json").document["frame"] == 4
    assert main(["vacuum", "--retention", "soon", *folder]) == 2


def test_init_makes_a_project_and_never_touches_another(project, capsys):
    done = project.command("init", "new/shop", "--json")
    assert done.status == 0, done
    made = project.root / "new" / "shop"
    assert all((made / file).is_file() for file in done.document["files"])
    for name in ("shop", "crm"):
        (mode,) = sqlite3.connect(made / f"{name}.db").execute("PRAGMA journal_mode").fetchone()
        assert mode == "wal"
    assert main(["init", str(made)]) == 2
    assert "error[NOT_EMPTY]" in capsys.readouterr().err


@pytest.mark.engine
def test_a_project_as_it_is_made(make_project, engine_name):
    """From `init` to `verify` on the engine under test."""
    project = make_project("shop", engine_name).init()
    assert project.done("refresh", "--json").document["frame"] == 1
    project.write("crm", "UPDATE customers SET city = 'Turku' WHERE id = 1")
    document = project.done("refresh", "--json").document
    assert document["views"]["order_facts"]["mode"] == "incremental"
    sql = "SELECT COUNT(*) AS n FROM order_facts WHERE city = 'Turku'"
    assert project.done("query", sql, "--json").document["rows"] == [[3]]
    assert {v["ok"] for v in project.done("verify", "--json").document["views"].values()} == {True}
