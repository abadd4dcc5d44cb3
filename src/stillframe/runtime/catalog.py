"""The sources' relations as JSON: for checks offline, and remembered for a source that is down."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from stillframe.errors import SourceError
from stillframe.sources.base import Relation, Source

Catalog = dict[str, dict[str, Relation]]


def reached_or_remembered(sources: Mapping[str, Source], path: Path) -> Catalog:
    """The sources' relations, of a source that is down those it had when it was last reached: its views
    are stopped with the reason, and the others go on."""
    remembered = read_catalog(path) if path.is_file() else {}
    catalog: Catalog = {}
    for name, source in sources.items():
        try:
            catalog[name] = source.describe()
        except SourceError:
            if name not in remembered:
                raise
            catalog[name] = remembered[name]
    if catalog != remembered:
        write_catalog(path, catalog)
    return catalog


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
