"""Corners of live maintenance, each of which was wrong once. Sessions lose patience after a second here."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest

import servers
from shops import Shop
from stillframe.errors import SourceError, StillframeError
from stillframe.runtime import Warehouse
from stillframe.runtime.outcome import Step


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    patient = Warehouse._session

    def hasty(warehouse: Warehouse) -> Any:
        session = patient(warehouse)
        session.patience = 1.0
        return session

    monkeypatch.setattr(Warehouse, "_session", hasty)


def rows(warehouse: Warehouse, view: str, frame: int | None = None) -> Counter[tuple[Any, ...]]:
    table = warehouse.arrow(view, frame)
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


A = "CREATE TABLE r (id INTEGER PRIMARY KEY, v INTEGER);"
B = "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER);"
VA = "CREATE MATERIALIZED VIEW va {} AS SELECT id, v FROM a.r;"
VA2 = "CREATE MATERIALIZED VIEW va2 {} AS SELECT id, v FROM a.r;"
VB = "CREATE MATERIALIZED VIEW vb {} AS SELECT id, v FROM b.t;"
VC = "CREATE MATERIALIZED VIEW vc {} AS SELECT id, v FROM c.u;"


def mark(group: str, parts: int = 2) -> str:
    return f"INSERT INTO _stillframe_global VALUES ('{group}', {parts})"


def alg(name: str) -> str:
    return f"WITH (algorithm = '{name}')"


def two(shop: Shop) -> None:
    shop.source("a", A)
    shop.source("b", B)


def test_a_naive_view_lets_no_other_split_a_global_transaction(shop: Shop) -> None:
    two(shop)
    shop.source("c", "CREATE TABLE u (id INTEGER PRIMARY KEY, v INTEGER);")
    shop.views(VA.format("") + VB.format("") + VC.format(alg("basic")))
    with shop.open() as w:
        w.refresh()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        w.refresh()
        assert rows(w, "va") == Counter(), "tid view shows half of a global transaction"


def test_a_view_that_gives_up_lets_no_other_split(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format("") + VB.format("") + VA2.format(alg("t-strobe")))
    with shop.open() as w:
        w.refresh()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        w.maintain()
        assert rows(w, "va") == Counter(), "tid view shows half of a global transaction"


def test_a_part_shown_by_a_named_refresh_is_not_missing(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format("") + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
        w.refresh("va")
        shop.write("b", "INSERT INTO t VALUES (2, 2)")
        for _ in range(3):
            w.refresh()
        assert rows(w, "vb") == Counter({(1, 1): 1, (2, 2): 1})


def test_a_part_in_the_first_load_is_not_missing(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format("") + VB.format(""))
    with shop.open() as w:
        w.attach()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        w.refresh()
        shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
        shop.write("b", "INSERT INTO t VALUES (2, 2)")
        for _ in range(3):
            w.refresh()
        assert rows(w, "vb") == Counter({(1, 1): 1, (2, 2): 1})


def test_cut_moves_a_view_backwards_and_applies_twice(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format("") + VA2.format("") + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        w.refresh("va2")
        w.refresh()
        shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
        w.refresh()
        got = rows(w, "va2")
        assert got == Counter({(1, 1): 1}), got


def test_g_strobe_hears_of_parts_at_sources_it_does_not_read(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format(alg("g-strobe")) + VB.format(alg("g-strobe")))
    with shop.open() as w:
        w.refresh()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
        w.maintain()
        assert rows(w, "va") == Counter({(1, 1): 1})


def test_a_view_over_a_held_one_is_held(shop: Shop) -> None:
    two(shop)
    shop.views(
        VB.format(alg("t-strobe"))
        + VA.format("")
        + "CREATE MATERIALIZED VIEW top AS SELECT vb.id, vb.v, r.v AS rv FROM vb JOIN a.r r ON r.id = vb.id;"
    )
    with shop.open() as w:
        shop.write("a", "INSERT INTO r VALUES (1, 1)")
        shop.write("b", "INSERT INTO t VALUES (1, 1)")
        w.refresh()
        shop.write("b", mark("g"), "UPDATE t SET v = 2")
        w.maintain()
        got = w.verify()
        assert all(v.ok for v in got.values()), got


def test_a_bad_value_stops_only_its_views(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format(alg("eca")) + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.write("a", "INSERT INTO r VALUES (1, 'abc')")
        shop.write("b", "INSERT INTO t VALUES (1, 1)")
        w.maintain()
        assert rows(w, "vb") == Counter({(1, 1): 1})


def test_a_gap_stops_only_its_views(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format(alg("eca")) + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.write("a", "DROP TABLE r", A.strip(";"))
        shop.write("b", "INSERT INTO t VALUES (1, 1)")
        w.maintain()
        assert rows(w, "vb") == Counter({(1, 1): 1})


def test_a_division_by_zero_stops_only_its_view(shop: Shop) -> None:
    two(shop)
    shop.views(
        "CREATE MATERIALIZED VIEW va WITH (algorithm='eca') AS SELECT id, 10 / v AS q FROM a.r;"
        + VB.format("")
    )
    with shop.open() as w:
        w.refresh()
        shop.write("a", "INSERT INTO r VALUES (1, 0)")
        shop.write("b", "INSERT INTO t VALUES (1, 1)")
        w.maintain()
        assert rows(w, "vb") == Counter({(1, 1): 1})


def test_level_is_renamed(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format(""))
    with shop.open() as w:
        w.refresh()
        shop.views(VA.format(alg("basic")))
        shop.write("a", "INSERT INTO r VALUES (1, 1)")
        w.refresh()
        st = w.frame().views["va"]
        assert (st.algorithm, st.level) == ("basic", "none")


class Raising:
    def __init__(self, source, what):
        self.source, self.what = source, what

    def __getattr__(self, name):
        if name == self.what:

            def f(*a, **k):
                raise SourceError("down", code="UNREACHABLE")

            return f
        return getattr(self.source, name)


def test_a_source_that_fails_to_tell_stops_only_its_views(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format("") + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.write("b", "INSERT INTO t VALUES (1, 1)")
        w.sources["a"] = Raising(w.sources["a"], "transactions")
        w.maintain()
        assert rows(w, "vb") == Counter({(1, 1): 1})


def test_a_source_that_fails_to_answer_stops_only_its_views(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format(alg("eca")) + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.write("a", "INSERT INTO r VALUES (1, 1)")
        shop.write("b", "INSERT INTO t VALUES (1, 1)")
        w.sources["a"] = Raising(w.sources["a"], "changes")
        w.maintain()
        assert rows(w, "vb") == Counter({(1, 1): 1})


VV = "CREATE MATERIALIZED VIEW vv {} AS SELECT v FROM a.r;\n"


def test_a_view_ahead_of_the_cut_stays_where_it_is(shop: Shop) -> None:
    two(shop)
    shop.views(VA.format("") + VV.format("") + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        w.refresh("vv")
        w.refresh()
        mid = w.verify("vv")
        shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
        w.refresh()
        got = rows(w, "vv")
        assert mid.ok and got == Counter({(1,): 1}), got


def big(shop: Shop, n: int = 60) -> None:
    shop.source(
        "a",
        "CREATE TABLE r (id INTEGER PRIMARY KEY, v INTEGER, x INTEGER);"
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < {n})"
        " INSERT INTO r SELECT i, i, 1000+i FROM n;",
    )
    shop.source("b", B)
    shop.configure(extra="load_chunk: 20\n")


BIG = "CREATE MATERIALIZED VIEW big AS SELECT v FROM a.r;\n"


def test_a_load_ahead_of_the_cut_waits(shop: Shop) -> None:
    """A load's vector is past the cut of left-out: applied twice."""
    big(shop)
    shop.source("c", "CREATE TABLE r2 (id INTEGER PRIMARY KEY, v INTEGER);")
    SM = "CREATE MATERIALIZED VIEW sm AS SELECT id, v FROM a.s;\n"
    shop.write("a", "CREATE TABLE s (id INTEGER PRIMARY KEY, v INTEGER)")
    shop.views(SM + VB.format(""))
    with shop.open() as w:
        w.refresh()
        shop.views(SM + VB.format("") + BIG)
        w.attach()
        shop.write("a", mark("g"), "INSERT INTO r VALUES (500, 500, 0)")
        w.maintain()
        assert "big" not in w.frame().views, "it has what the frame leaves out"
        shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
        w.refresh()
        assert w.verify("big").ok and rows(w, "big")[(500,)] == 1


def test_a_text_changed_while_loading_is_loaded_anew(shop: Shop) -> None:
    big(shop)
    shop.views("CREATE MATERIALIZED VIEW big AS SELECT id, v FROM a.r;\n")
    with shop.open() as w:
        done = []

        def look(step, subject):
            if step is Step.LOADED and not done:
                done.append(1)
                shop.views("CREATE MATERIALIZED VIEW big AS SELECT id, x FROM a.r;\n")

        w.observe = look
        w.maintain()
        got = w.verify("big")
        assert got.ok, got


def test_a_dropped_view_lets_go_of_the_log(shop: Shop) -> None:
    big(shop)
    shop.views(BIG + VB.format("") + "CREATE MATERIALIZED VIEW sm AS SELECT id FROM a.r WHERE id < 3;\n")
    with shop.open() as w:
        w.observe = lambda s, x: (_ for _ in ()).throw(KeyboardInterrupt()) if s is Step.LOADED else None
        with pytest.raises(KeyboardInterrupt):
            w.load_due(["big"])
        w.observe = lambda s, x: None
    with shop.open() as w:
        w.drop("big")
        w.project  # noqa
        for _i in range(3):
            shop.write("a", "UPDATE r SET v = v + 1")
            w.refresh()
        st = w.sources["a"].log_status()
        left = (w.lake.path / "loading" / "big").exists()
        assert not left and st.rows < 30


def test_a_failing_load_stops_no_other(shop: Shop) -> None:
    big(shop)
    shop.views("CREATE MATERIALIZED VIEW big AS SELECT id, v FROM a.r;\n" + VB.format(""))
    shop.write("a", "INSERT INTO r VALUES (1000, 'abc', 1)")
    shop.write("b", "INSERT INTO t VALUES (1, 1)")
    with shop.open() as w:
        w.maintain()
        assert rows(w, "vb") == Counter({(1, 1): 1})


def test_a_failing_load_is_told(shop: Shop) -> None:
    big(shop)
    shop.views("CREATE MATERIALIZED VIEW big AS SELECT id, v FROM a.r;\n" + VB.format(""))
    shop.write("a", "INSERT INTO r VALUES (1000, 'abc', 1)")
    with shop.open() as w:
        stop = threading.Event()
        frames = []
        t = threading.Thread(target=w.run, args=[0.1], kwargs={"stop": stop, "on_result": frames.append})
        t.start()
        time.sleep(4)
        stop.set()
        t.join()
        assert "big" in w.frame().views, "nobody is told that the load fails"


def test_views_below_a_load_wait_quietly(shop: Shop) -> None:
    big(shop)
    shop.views(
        VB.format("") + "CREATE MATERIALIZED VIEW big AS SELECT id, v FROM a.r;"
        "CREATE MATERIALIZED VIEW top AS SELECT id FROM big;"
    )
    with shop.open() as w:
        hold = threading.Event()
        w.observe = lambda s, x: hold.wait(20) if s is Step.LOADED else None
        stop = threading.Event()
        frames = []
        t = threading.Thread(target=w.run, args=[0.1], kwargs={"stop": stop, "on_result": frames.append})
        t.start()
        time.sleep(4)
        n = len(frames)
        hold.set()
        stop.set()
        t.join()
        assert n <= 2, f"{n} frames although nothing changed"


def test_a_log_trimmed_while_a_load_begins(shop: Shop) -> None:
    big(shop)
    SM = "CREATE MATERIALIZED VIEW sm AS SELECT id FROM a.r WHERE id < 3;\n"
    shop.views(SM)
    with shop.open() as w:
        w.project  # noqa
        w.bring_forward(beside=False)
        big_text = SM + "CREATE MATERIALIZED VIEW big AS SELECT id, v FROM a.r;\n"
        shop.views(big_text)
        real = w.sources["a"]

        class Slow:
            def __getattr__(self, n):
                return getattr(real, n)

            def ranges(self, *a):
                if threading.current_thread().name == "loader":
                    shop.write("a", "UPDATE r SET v = v + 1")
                    w.bring_forward(beside=True)
                    # as the loop in the main thread does
                return real.ranges(*a)

        w.sources["a"] = Slow()
        err = []

        def load():
            try:
                w.load_due()
            except StillframeError as e:
                err.append(e)

        t = threading.Thread(target=load, name="loader")
        t.start()
        t.join()
        assert not err, str(err[0])


@pytest.mark.parametrize("algorithm", ["tid", "t-strobe"])
@pytest.mark.parametrize("how", ["everything", "one view", "a new view"])
def test_a_part_shown_by_a_view_that_begins_again_is_not_missing(
    shop: Shop, algorithm: str, how: str
) -> None:
    two(shop)
    text = VA.format(alg(algorithm)) + VB.format(alg(algorithm))
    shop.views(text)
    with shop.open() as w:
        w.refresh()
        shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
        w.refresh()
        if how == "a new view":
            shop.views(text + "CREATE MATERIALIZED VIEW n AS SELECT v FROM b.t;")
            w.refresh()
        else:
            w.refresh(*(["vb"] if how == "one view" else []), full=True)
        shop.write("a", mark("g"), "INSERT INTO r VALUES (1, 1)")
        shop.write("a", "INSERT INTO r VALUES (2, 2)")
        w.maintain()
        w.maintain()
        assert all(v.ok for v in w.verify_all().values())
        assert rows(w, "va") == Counter({(1, 1): 1, (2, 2): 1})
        assert rows(w, "vb") == Counter({(1, 1): 1})


@pytest.mark.parametrize("copies", ["none", "all"])
def test_who_takes_over_a_key_waits_for_who_gave_it_up(
    shop: Shop, postgres_server: servers.PostgresServer, copies: str
) -> None:
    """Of the two keys one is the row's own. Were the second transaction shown without the first, the view
    would have its key twice, and the row that came would leave with the one that was there."""
    postgres_server.database("heirs")
    shop.source("b", B)
    shop.configure(
        extra=f"  s: {{url: '{postgres_server.url('heirs')}', capture: triggers}}\ncopies: {copies}\n"
    )
    shop.views("CREATE MATERIALIZED VIEW people AS SELECT email, v FROM s.r;" + VB.format(""))
    with postgres_server.connect("heirs") as con:
        con.execute("CREATE TABLE r (id int PRIMARY KEY, email text NOT NULL UNIQUE, v int)")
        con.execute("INSERT INTO r VALUES (1, 'x', 1), (3, 'y', 3)")
        with shop.open() as w:
            w.refresh()
            with con.transaction():
                con.execute("INSERT INTO _stillframe.global (id, parts) VALUES ('g', 2)")
                con.execute("DELETE FROM r WHERE id = 1")
            con.execute("INSERT INTO r VALUES (2, 'x', 2)")
            con.execute("UPDATE r SET v = 4 WHERE id = 3")
            w.refresh()
            assert rows(w, "people") == Counter({("x", 1): 1, ("y", 4): 1}), "others do not wait"
            shop.write("b", mark("g"), "INSERT INTO t VALUES (1, 1)")
            w.refresh()
            assert rows(w, "people") == Counter({("x", 2): 1, ("y", 4): 1})
            w.settle_due(everything=True)
            assert rows(w, "people") == Counter({("x", 2): 1, ("y", 4): 1})
            assert all(found.ok for found in w.verify_all().values())
            w.detach()
