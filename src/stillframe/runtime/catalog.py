"""The sources' relations as JSON: for checks offline, and remembered for a source that is down."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stillframe.errors import ProjectError, SourceError, StillframeError
from stillframe.sources.base import Relation, Source

Catalog = dict[str, dict[str, Relation]]


@dataclass(frozen=True)
class Reached:
    """The sources' relations, of a source that is down those it had when it was last reached; `away` says
    what is wrong with those that are down."""

    relations: Catalog
    away: Mapping[str, StillframeError]

    @property
    def unreached(self) -> dict[str, StillframeError]:
        """Sources nothing is known of."""
        return {name: error for name, error in self.away.items() if name not in self.relations}


def reach(sources: Mapping[str, Source], path: Path) -> Reached:
    """Views of a source that is down are stopped or refused with the reason, and the others go on. What is
    found is remembered at `path`, if its folder is there and can be written to."""
    remembered = read_catalog(path) if path.is_file() else {}
    found = _described(sources, remembered)
    if found.relations != remembered and path.parent.is_dir():
        with suppress(OSError):
            write_catalog(path, found.relations)
    return found


def _described(sources: Mapping[str, Source], remembered: Catalog) -> Reached:
    catalog: Catalog = {}
    away: dict[str, StillframeError] = {}
    for name, source in sources.items():
        try:
            catalog[name] = source.describe()
        except SourceError as error:
            away[name] = error
            if name in remembered:
                catalog[name] = remembered[name]
    return Reached(catalog, away)


def store(sources: Mapping[str, Source], path: Path) -> None:
    """Write the snapshot for checks offline; of a source that is down it keeps what it had."""
    before = read_catalog(path) if path.is_file() else {}
    found = _described(sources, before).relations
    if found != before:
        write_catalog(path, found)


def stored(sources: Mapping[str, Source], path: Path) -> Reached:
    """The relations as the snapshot has them."""
    if not path.is_file():
        raise ProjectError(
            f"there is no stored snapshot of the sources' schemas ({path.name})",
            hint="run `stillframe check` once where the sources can be reached, and keep the file",
        )
    relations = {name: tables for name, tables in read_catalog(path).items() if name in sources}
    missing = {name: _not_stored(name, path) for name in sources if name not in relations}
    return Reached(relations, missing)


def _not_stored(source: str, path: Path) -> StillframeError:
    return SourceError(
        f"{path.name} has no schema of source {source!r}",
        hint="run `stillframe check` once where it can be reached",
        code="NO_SCHEMA",
    )


def reached_or_remembered(sources: Mapping[str, Source], path: Path) -> Catalog:
    return reach(sources, path).relations


def read_catalog(path: Path) -> Catalog:
    document = json.loads(path.read_text(encoding="utf-8"))
    return {
        source: {name: Relation.from_json(relation) for name, relation in tables.items()}
        for source, tables in document.items()
    }


def write_catalog(path: Path, catalog: Mapping[str, Mapping[str, Relation]]) -> None:
    document = {
        source: {name: relation.to_json() for name, relation in sorted(tables.items())}
        for source, tables in sorted(catalog.items())
    }
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    draft.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    draft.replace(path)
