"""`capture: auto`: what the account may use is chosen once, and stays until it is detached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import servers
from stillframe.errors import SourceError
from stillframe.sources import Capture, SourceConfig, open_source
from stillframe.sources.auto import AutoSource


@pytest.fixture
def database(postgres_server: servers.PostgresServer) -> Iterator[psycopg.Connection]:  # type: ignore[type-arg]
    postgres_server.database("auto")
    with postgres_server.connect("auto") as con:
        con.execute("CREATE TABLE t (id int PRIMARY KEY)")
        con.execute("INSERT INTO t VALUES (1)")
        yield con
        con.execute("DROP SCHEMA IF EXISTS _stillframe CASCADE")


def test_an_owner_is_captured_by_triggers_and_it_stays_so(
    database: object, postgres_server: servers.PostgresServer, tmp_path: Path
) -> None:
    source = open_source("crm", SourceConfig(url=postgres_server.url("auto")), keep=tmp_path)
    assert isinstance(source, AutoSource)
    assert source.capture is Capture.TRIGGERS
    source.attach("me", ["t"])
    memory = tmp_path / "crm" / "capture.json"
    assert "triggers" in memory.read_text()
    memory.write_text('{"capture": "snapshot"}')
    assert source.capture is Capture.SNAPSHOT, "what was chosen once is not chosen again"
    memory.write_text('{"capture": "triggers"}')
    source.detach("me")
    assert not memory.exists()


def test_a_reader_gets_snapshots_and_is_told_what_it_lacks(
    database: psycopg.Connection,  # type: ignore[type-arg]
    postgres_server: servers.PostgresServer,
    tmp_path: Path,
) -> None:
    database.execute("DROP ROLE IF EXISTS auto_reader")
    database.execute("CREATE ROLE auto_reader LOGIN")
    database.execute("GRANT SELECT ON t TO auto_reader")
    url = postgres_server.url("auto", "auto_reader")
    source = open_source("crm", SourceConfig(url=url), keep=tmp_path)
    assert source.capture is Capture.SNAPSHOT
    lacking = {method.capture: method.missing for method in source.methods()}
    assert lacking.pop(Capture.SNAPSHOT) == ()
    assert lacking and all(lacking.values())
    position = source.attach("me", ["t"])
    (batch,) = source.state("t", ["id"], position)
    assert batch.column(0).to_pylist() == [1]
    source.detach("me")
    database.execute("DROP OWNED BY auto_reader")
    database.execute("DROP ROLE auto_reader")


def test_nothing_is_reached_before_it_is_needed(tmp_path: Path) -> None:
    nowhere = SourceConfig(url="postgresql://app:geheim@127.0.0.1:1/crm")
    source = open_source("crm", nowhere, keep=tmp_path)
    assert source.name == "crm" and "geheim" not in source.address + repr(source)
    with pytest.raises(SourceError) as caught:
        source.describe()
    assert "geheim" not in str(caught.value) + caught.value.hint
