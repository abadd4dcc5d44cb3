"""Files that cannot be read, views that are not there yet, and a warehouse that nobody made."""

from __future__ import annotations

import json
import signal
import time

import pytest

from stillframe.cli.main import main
from stillframe.lake import Lake

IDS = "CREATE MATERIALIZED VIEW ids AS SELECT id FROM shop.orders;\n"
HALF = "CREATE MATERIALIZED"


@pytest.fixture
def said(shop, capsys):
    """Status, document and errors of a command run in this process."""

    def run(*arguments):
        capsys.readouterr()
        status = main([*arguments, "--json", "--project", str(shop.root)])
        written = capsys.readouterr()
        return status, json.loads(written.out), written.err

    return run


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        (HALF.encode(), "BAD_STATEMENT", (1, 8)),
        (IDS.replace("ids", "others").encode() + HALF.encode(), "BAD_STATEMENT", (2, 8)),
        (b"CREATE MATERIALIZED VIEW v AS SELECT 'half", "SYNTAX", (1, 38)),
        (b"CREATE MATERIALIZED VIEW \xff", "UNREADABLE_FILE", (1, 1)),
        (b"-- again\n" + IDS.replace("ids", "IDS").encode(), "DEFINED_TWICE", (2, 1)),
    ],
    ids=["half a statement", "after a view", "open string", "not UTF-8", "defined twice"],
)
def test_a_file_that_cannot_be_read_is_refused_and_other_views_go_on(shop, said, content, code, place):
    shop.view(IDS, "ids.sql")
    (shop.root / "views" / "late.sql").write_bytes(content)
    (shop.root / "views" / ".#late.sql").symlink_to("nobody@nowhere")  # an editor's lock

    status, document, _ = said("check")
    assert ("others" in document["views"]) is (b"others" in content)
    refused = {name for name, view in document["views"].items() if not view["ok"]}
    assert (status, refused) == (2, {"late.sql"})
    (reason,) = document["views"]["late.sql"]["reasons"]
    assert (reason["code"], reason["file"], (reason["line"], reason["column"])) == (code, "late.sql", place)

    done = shop.command("refresh", "--json")
    modes = {name: view["mode"] for name, view in done.document["views"].items()}
    assert done.status == 1 and modes.pop("late.sql") == "refused" and set(modes.values()) == {"full"}
    assert {"ids", "order_facts"} <= set(modes)
    assert f"error[{code}]: file late.sql is refused: " in done.err
    assert shop.command("refresh", "ids").status == 0

    _, document, _ = said("status")
    assert document["views"]["late.sql"]["state"] == "refused"
    assert document["views"]["late.sql"]["reason"]["code"] == code
    assert document["views"]["ids"]["state"] == "current"
    assert said("drop", "repeat_orders")[0] == 0
    assert "CREATE" not in (shop.root / "views" / "repeat_orders.sql").read_text()


def test_the_views_of_a_file_that_cannot_be_read_are_held_and_not_dropped(shop, said):
    shop.view(IDS, "ids.sql")
    shop.done("refresh")
    shop.view(IDS + "'", "ids.sql")
    assert shop.command("refresh").status == 1
    views = said("frames", "--limit", "1")[1][0]["views"]
    assert (views["ids"]["state"], views["order_facts"]["state"]) == ("held", "current")
    status, document, err = said("drop", "ids")
    assert status == 2 and "ids.sql" in document["error"]["message"] and "error[BAD_PROJECT]" in err
    assert "ids" in said("frames", "--limit", "1")[1][0]["views"]
    status, document, _ = said("refresh", "ids")
    assert (status, document["error"]["code"]) == (2, "UNKNOWN_VIEW")
    assert "ids.sql" in document["error"]["detail"]
    shop.view(IDS, "ids.sql")
    assert shop.done("refresh", "--json").document["views"]["ids"]["mode"] == "unchanged"


def test_run_tells_once_of_a_half_saved_file_and_goes_on(shop):
    process = shop.start("run", "--every", "0.1s")
    try:
        _frame(shop, process, 1)
        shop.view(HALF, "late.sql")
        for order in (1, 2):  # the session of the first may have looked at the files before
            shop.write("shop", f"DELETE FROM orders WHERE id = {order}")
            _frame(shop, process, 1 + order)
        shop.view(IDS, "late.sql")
        assert _frame(shop, process, 4).views["ids"].rows == 28
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert err.count("error[") == 1 and err.startswith("error[BAD_STATEMENT]: file late.sql is refused: ")


def _frame(project, process, number):
    """The newest frame, once it is that far."""
    for _ in range(600):
        assert process.poll() is None, process.communicate()
        if (project.root / "warehouse" / "stillframe.json").exists():
            frame = Lake.open(project.root / "warehouse").newest()
            if frame is not None and frame.number >= number:
                return frame
        time.sleep(0.2)
    raise AssertionError("no such frame came")


def test_status_lists_views_that_no_frame_shows(shop, said, capsys):
    shop.done("refresh", "repeat_orders")
    shop.view(IDS, "ids.sql")
    shop.view("CREATE MATERIALIZED VIEW bad AS SELECT nothing FROM shop.orders;", "bad.sql")
    path = shop.root / "views" / "repeat_orders.sql"
    path.write_text(path.read_text().replace("SELECT", "SELECT nothing,", 1))
    _, document, _ = said("status")
    states = {name: view["state"] for name, view in document["views"].items()}
    assert states == {
        "order_facts": "new",
        "large_orders": "new",
        "ids": "new",
        "bad": "refused",
        "repeat_orders": "refused",
    }
    assert document["views"]["bad"]["reason"]["code"] == "UNKNOWN_COLUMN"
    assert document["views"]["repeat_orders"]["rows"] == 30
    assert len({tuple(sorted(view)) for view in document["views"].values()}) == 1
    assert main(["status", "--project", str(shop.root)]) == 0
    text = capsys.readouterr().out
    assert "bad: UNKNOWN_COLUMN: " in text
    assert ["ids", "new"] in [line.split()[:2] for line in text.splitlines()]


def test_only_what_maintains_views_makes_a_warehouse(shop, said):
    def made():
        return (shop.root / "warehouse").exists()

    assert said("check")[0] == 0 and said("check", "--offline")[0] == 0
    status, document, _ = said("status")
    assert (status, document["frame"], document["warehouse"]) == (0, None, str(shop.root / "warehouse"))
    assert said("frames")[:2] == (0, [])
    assert said("plan", "order_facts")[0] == said("attach")[0] == said("detach")[0] == 0
    assert said("rename", "repeat_orders", "pairs")[1]["frame"] is None
    assert said("drop", "pairs")[1]["frame"] is None
    for verb in (["show", "order_facts"], ["query", "SELECT 1"], ["verify"], ["compact"], ["vacuum"]):
        status, document, err = said(*verb)
        assert (status, document["error"]["code"]) == (1, "NO_WAREHOUSE")
        assert str(shop.root / "warehouse") in err and "refresh" in err
    assert not made()
    shop.done("refresh")
    assert made()


def test_check_offline_writes_nothing(shop, said):
    """A checkout that cannot be written to can be checked."""
    assert said("check")[0] == 0
    before = {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")}
    assert said("check", "--offline")[0] == 0
    assert {path: path.stat().st_mtime_ns for path in shop.root.rglob("*")} == before


def test_the_hint_of_a_rename_that_is_refused_can_be_followed(shop, said):
    shop.done("refresh")
    status, document, _ = said("rename", "order_facts", "facts")
    assert status == 2 and "large_orders" in document["error"]["message"]
    assert (
        document["error"]["hint"] == "define facts with the same query, let these read it, drop order_facts"
    )
    path = shop.root / "views" / "order_facts.sql"
    text = path.read_text()
    first, second = text.split("CREATE", 1)[1].split("CREATE", 1)
    facts = "CREATE" + first.replace("order_facts", "facts", 1)
    path.write_text(f"CREATE{first}{facts}CREATE{second.replace('order_facts', 'facts')}")
    assert set(shop.done("refresh", "--json").document["views"]) >= {"facts", "order_facts", "large_orders"}
    assert said("drop", "order_facts")[0] == 0
    assert shop.done("refresh", "--json").document["views"]["large_orders"]["mode"] == "unchanged"
