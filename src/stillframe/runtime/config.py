"""stillframe.yml: what a project says of itself. Passwords come from the environment and stay there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from stillframe.errors import ProjectError
from stillframe.runtime.copies import NONE, Copies
from stillframe.sources.opening import CAPTURES, IGNORED, TRUSTED, SourceConfig

FILE = "stillframe.yml"
SCHEMAS = "stillframe.schemas.json"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
ENGINES = ("spark", "sail")
DRIVER, ENGINE = "driver", "engine"  # who computes small changes


@dataclass(frozen=True)
class SettleBound:
    """When a view's change files are folded into its plain table: at a share of its `rows`, or after so many
    `seconds`; and how many `files` of changes lie side by side before they are merged."""

    rows: float = 0.5
    files: int = 8
    seconds: float = 900.0


@dataclass(frozen=True)
class Project:
    name: str
    root: Path
    warehouse: Path
    sources: Mapping[str, SourceConfig]
    spark: Mapping[str, Any] = field(default_factory=dict)
    retention: timedelta = timedelta(hours=24)
    settle: SettleBound = SettleBound()
    load_chunk: int = 250_000  # rows that a first load reads at a time
    small_changes: str = DRIVER
    copies: Copies = field(default_factory=Copies)
    target_lag: float | None = None  # seconds; without it, `run` shows changes as soon as it sees them
    memory: int | None = (
        None  # bytes of the lake's columns that are held; without it, a share of what there is
    )

    @property
    def views(self) -> Path:
        return self.root / "views"


def load_project(root: Path) -> Project:
    path = root / FILE
    if not path.is_file():
        raise ProjectError(
            f"no {FILE} in {root}",
            hint="run `stillframe init DIR` to make a project, or give its folder with --project",
        )
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ProjectError(f"{FILE} is not valid YAML", detail=str(error).replace("\n", " ")) from error
    if not isinstance(document, dict):
        raise ProjectError(f"{FILE} must be a mapping with name, warehouse and sources")
    document = _expanded(document)
    known = {
        "name",
        "warehouse",
        "spark",
        "sources",
        "retention",
        "settle",
        "load_chunk",
        "copies",
        "small_changes",
        "target_lag",
        "memory",
    }
    _only(document, known, FILE)
    name = document.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ProjectError(
            f"{FILE} needs a name",
            hint="name: identifies this warehouse to its sources, which others may share",
        )
    return Project(
        name=name,
        root=root,
        warehouse=root / str(document.get("warehouse", "warehouse")),
        sources={source: _source(source, config) for source, config in _mapping(document, "sources").items()},
        spark=_spark(_mapping(document, "spark")),
        retention=_duration("retention", document.get("retention", "24h")),
        settle=_settle(_mapping(document, "settle")),
        load_chunk=_chunk(document.get("load_chunk", Project.load_chunk)),
        small_changes=_small_changes(document.get("small_changes", DRIVER)),
        copies=_copies(document.get("copies", NONE), _mapping(document, "sources")),
        target_lag=_target(document.get("target_lag")),
        memory=_memory(document.get("memory")),
    )


def _copies(value: Any, sources: Mapping[str, Any]) -> Copies:
    copies = Copies.parse(value)
    for relation in copies.named:
        if relation.split(".", 1)[0].lower() not in {str(source).lower() for source in sources}:
            raise ProjectError(
                f"copies: {relation} is of no source", hint=f"there are: {', '.join(map(str, sources))}"
            )
    return copies


def _small_changes(value: Any) -> str:
    if value not in (DRIVER, ENGINE):
        raise ProjectError(f"small_changes cannot be {value!r}", hint=f"small_changes: {DRIVER} or {ENGINE}")
    return str(value)


def _target(value: Any) -> float | None:
    seconds = None if value is None else _duration("target_lag", value).total_seconds()
    if seconds == 0:
        raise ProjectError("target_lag is a time above 0", hint="target_lag: 10s")
    return seconds


def _memory(value: Any) -> int | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]i?B|B)?", str(value))
    if found is None:
        raise ProjectError(f"memory: {value!r} is not a size", hint="memory: 512MiB, or 2GB, or 0")
    unit = found[2] or "B"
    return int(float(found[1]) * (1024 if "i" in unit else 1000) ** "BKMGT".index(unit[0]))


def _chunk(value: Any) -> int:
    if not isinstance(value, int) or value < 1:
        raise ProjectError(f"load_chunk is a number of rows, not {value!r}", hint="load_chunk: 250000")
    return value


def _source(name: str, config: Any) -> SourceConfig:
    if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
        raise ProjectError(
            f"{name!r} cannot name a source", hint="use letters, digits and _; views say name.table"
        )
    if not isinstance(config, dict) or ("url" in config) == ("files" in config):
        raise ProjectError(
            f"source {name} needs a url or files",
            hint=f'{name}: {{url: "sqlite:///shop.db"}}, or {name}: {{files: "{name}/*.csv"}}',
        )
    if "files" in config:
        return _files(name, config)
    _only(config, {"url", "schema", "capture", "capture_limit", "foreign_keys"}, f"source {name}")
    capture = config.get("capture", CAPTURES[0])
    if capture not in CAPTURES:
        raise ProjectError(f"source {name}: no capture {capture!r}", hint=f"there are: {', '.join(CAPTURES)}")
    limit = config.get("capture_limit")
    if isinstance(limit, str) and limit.isdecimal():  # a number out of the environment
        limit = int(limit)
    if limit is not None and (not isinstance(limit, int) or limit <= 0):
        raise ProjectError(f"source {name}: capture_limit is a number of log rows, not {limit!r}")
    schema, trust = config.get("schema"), config.get("foreign_keys", IGNORED)
    if trust not in (IGNORED, TRUSTED):
        raise ProjectError(
            f"source {name}: foreign_keys cannot be {trust!r}", hint=f"foreign_keys: {IGNORED} or {TRUSTED}"
        )
    return SourceConfig(
        str(config["url"]), None if schema is None else str(schema), capture, limit, foreign_keys=trust
    )


def _files(name: str, config: Mapping[str, Any]) -> SourceConfig:
    _only(config, {"files", "key", "columns"}, f"source {name}")
    key = config.get("key") or []
    if not isinstance(key, list) or not all(isinstance(column, str) for column in key):
        raise ProjectError(f"source {name}: key is a list of columns", hint=f"{name}: {{key: [id]}}")
    columns = {str(column): str(type_) for column, type_ in _mapping(config, "columns").items()}
    return SourceConfig(files=str(config["files"]), key=tuple(key), columns=columns)


def _spark(config: Mapping[str, Any]) -> Mapping[str, Any]:
    _only(config, {"engine", "master", "remote", "conf"}, "spark")
    engine = config.get("engine", ENGINES[0])
    if engine not in ENGINES:
        raise ProjectError(f"no engine {engine!r}", hint=f"engine is {' or '.join(ENGINES)}")
    _mapping(config, "conf")
    return config


def _settle(config: Mapping[str, Any]) -> SettleBound:
    _only(config, {"rows", "files", "seconds"}, "settle")
    try:
        return SettleBound(
            rows=float(config.get("rows", SettleBound.rows)),
            files=int(config.get("files", SettleBound.files)),
            seconds=float(config.get("seconds", SettleBound.seconds)),
        )
    except (TypeError, ValueError) as error:
        raise ProjectError(
            "settle takes numbers: rows (a fraction), files, seconds", detail=str(error)
        ) from error


def _only(document: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = [str(key) for key in document if key not in known]
    if unknown:
        raise ProjectError(
            f"{where}: unknown key {', '.join(unknown)}", hint=f"known keys: {', '.join(sorted(known))}"
        )


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise ProjectError(f"{key} in {FILE} must be a mapping")
    return value


def _expanded(value: Any) -> Any:
    """The same document, every string in it expanded. What a variable holds is never read as YAML."""
    match value:
        case str():
            return _expand(value)
        case dict():
            return {key: _expanded(item) for key, item in value.items()}
        case list():
            return [_expanded(item) for item in value]
    return value


def _expand(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        value = os.environ.get(match[1])
        if value is None:
            raise ProjectError(
                f"{FILE} uses ${{{match[1]}}}, which is not set", hint=f"export {match[1]}=… and try again"
            )
        return value

    return _VARIABLE.sub(replace, text)


def parse_duration(text: str) -> timedelta:
    """`90s`, `15m`, `24h`, `7d`, or plain seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text)
    if not match:
        raise ProjectError(f"{text!r} is not a duration", hint="write 90s, 15m, 24h or 7d")
    return timedelta(**{_UNITS[match[2] or "s"]: float(match[1])})


def _duration(setting: str, value: Any) -> timedelta:
    try:
        return parse_duration(str(value))
    except ProjectError as error:
        raise ProjectError(f"{setting}: {error.message}", hint=error.hint) from None


def bare_project(path: Path, sources: Mapping[str, str | Mapping[str, Any]], name: str) -> Project:
    """A project without a file."""
    configs = {
        source: SourceConfig(config) if isinstance(config, str) else SourceConfig(**config)
        for source, config in sources.items()
    }
    return Project(name=name, root=Path.cwd(), warehouse=path.resolve(), sources=configs)
