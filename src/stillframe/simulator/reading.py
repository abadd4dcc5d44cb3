"""Scenario files to scenarios. This file knows their shape; what can happen is `validity`'s to say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stillframe.algebra import Row
from stillframe.simulator.scenario import ONLY_VIEW, Relation, Scenario, Transaction, Update
from stillframe.simulator.validity import ScenarioError
from stillframe.simulator.yaml_text import flow, parse
from stillframe.sql import Refused

KEYS = (
    *("name", "relations", "view", "views", "updates", "params", "channels", "isolation"),
    *("report", "centralised", "width", "order", "crashes"),
)
_RELATION_KEYS = ("source", "columns", "key", "rows")
_GLOBAL_KEYS = ("global", "updates")
_UPDATE = re.compile(r"\s*(insert|delete)\s+(\w+)\s*(\[.*\])\s*", re.IGNORECASE | re.DOTALL)
_FORMS = (
    'an entry is `insert r1 [1, 2]`, a list of such texts in quotes, or {global: g1, updates: ["…", "…"]}'
)


def load(path: str | Path) -> Scenario:
    """The scenario of a file; errors name the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} cannot be read", detail=str(error)) from error
    try:
        return read(text, path.stem)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error.message}", detail=error.detail, hint=error.hint) from error
    except Refused as refused:
        raise Refused(refused.reasons, f"{refused.view} of {path}".strip()) from refused


def read(text: str, name: str = "scenario") -> Scenario:
    """The scenario that a text describes; `name` is for one that gives none."""
    try:
        document = parse(text)
    except yaml.YAMLError as error:
        raise _not_yaml("this is not YAML", error) from error
    if document is None:
        raise ScenarioError("the file is empty", hint=f"a scenario has the keys {', '.join(KEYS[:5])}")
    top = _mapping(document, "the scenario")
    _only(top, KEYS, "the scenario")
    return Scenario(
        name=_text(top.get("name", name), "name"),
        relations=tuple(
            _relation(relation, _mapping(given, f"relation {relation}"))
            for relation, given in _mapping(top.get("relations"), "relations").items()
        ),
        views=_views(top),
        transactions=tuple(
            _transaction(number, given)
            for number, given in enumerate(_list(top, "updates", "the scenario"), 1)
        ),
        params={
            algorithm: _options(algorithm, given)
            for algorithm, given in _mapping(top.get("params"), "params").items()
        },
        channels={
            source: _faults(source, given)
            for source, given in _mapping(top.get("channels"), "channels").items()
        },
        isolation=_mapping(top.get("isolation"), "isolation"),
        **{key: top[key] for key in KEYS[-5:] if key in top},
    )


def _relation(name: str, given: Mapping[str, Any]) -> Relation:
    where = f"relation {name}"
    _only(given, _RELATION_KEYS, where)
    for key in ("source", "columns"):
        if key not in given:
            hint = f"{name}: {{source: x, columns: [A, B], key: [A], rows: [[1, 2]]}}"
            raise ScenarioError(f"{where} needs {key}", hint=hint)
    return Relation(
        name=name,
        source=_text(given["source"], f"{where}: source"),
        columns=_texts(given, "columns", where),
        key=_texts(given, "key", where),
        rows=tuple(
            _row(row, f"row {number} of {name}: {flow(row)}")
            for number, row in enumerate(_list(given, "rows", where), 1)
        ),
    )


def _views(top: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if ("view" in top) == ("views" in top):
        many = "view and views are both there" if "view" in top else "there is neither view nor views"
        raise ScenarioError(many, hint="write view: SELECT …, or views: {name: SELECT …, …}")
    if "view" in top:
        return ((ONLY_VIEW, _text(top["view"], "view")),)
    views = _mapping(top["views"], "views")
    return tuple((name, _text(text, f"view {name}")) for name, text in views.items())


def _transaction(number: int, given: Any) -> Transaction:
    where = f"entry {number} of updates: {given if isinstance(given, str) else flow(given)}"
    match given:
        case str():
            return Transaction(f"U{number}", (_update(given, where),))
        case list():
            return Transaction(f"T{number}", tuple(_update(each, where) for each in given))
        case {"global": name}:
            _only(given, _GLOBAL_KEYS, where)
            group = _text(name, f"entry {number} of updates: global")
            return Transaction(
                group, tuple(_update(each, where) for each in _list(given, "updates", where)), group
            )
    raise ScenarioError("this is not a transaction", detail=where, hint=_FORMS)


def _update(text: Any, where: str) -> Update:
    match = _UPDATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ScenarioError(f"this is not an update: {flow(text)}", detail=where, hint=_FORMS)
    try:
        row = parse(match[3])
    except yaml.YAMLError as error:
        problem = _not_yaml(f"this is not a row: {match[3]}", error)
        raise ScenarioError(problem.message, detail=where, hint=f"{_FORMS}; {problem.detail}") from error
    return Update(match[2], match[1].lower() == "insert", _row(row, where))


def _row(value: Any, where: str) -> Row:
    if not isinstance(value, list):
        raise ScenarioError("a row is a list of values", detail=where, hint="rows: [[1, 2], [3, 4]]")
    return tuple(value)


def _options(algorithm: str, given: Any) -> Mapping[str, Any]:
    options = _mapping(given, f"params of {algorithm}")
    for option, value in options.items():
        if not isinstance(value, (bool, int, float, str)):
            raise ScenarioError(
                f"params of {algorithm}: {option} is one value, not {flow(value)}",
                hint="params: {rv: {s: 2}, eca: {batch: true}}",
            )
    return options


def _faults(source: str, given: Any) -> frozenset[str]:
    return frozenset(_texts({"faults": given}, "faults", f"channels of {source}"))


def _not_yaml(message: str, error: yaml.YAMLError) -> ScenarioError:
    detail = str(error)
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        place = f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}"
        detail = f"{place}: {error.problem or error.context}"
    hint = "put an update in 'quotes' where it stands inside brackets, or holds `: ` or ` #`"
    return ScenarioError(message, detail=" ".join(detail.split()), hint=hint)


def _only(given: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = [flow(key) for key in given if key not in known]
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        raise ScenarioError(
            f"{where}: unknown key{plural} {', '.join(unknown)}", hint=f"known keys: {', '.join(known)}"
        )


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Nothing stands for an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ScenarioError(f"{where} is a mapping, not {flow(value)}")
    for key in value:
        _text(key, f"{where}: a key")
    return value


def _list(given: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = given.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ScenarioError(f"{where}: {key} is a list, not {flow(value)}")
    return value


def _texts(given: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    return tuple(_text(each, f"{where}: each of {key}") for each in _list(given, key, where))


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise ScenarioError(f"{where} is text, not {flow(value)}", hint='put "quotes" around it')
    return value
