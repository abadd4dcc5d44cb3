"""YAML as scenario files use it: the scalars of YAML 1.2's core schema, and dates.

So `no`, `on` and `1:30` are text and `1e3` is a number, as JSON readers expect. A mapping that names a key
twice is an error. `parse(flow(value)) == value` for every value a scenario can hold.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from typing import Any

import yaml
from yaml.constructor import ConstructorError

_BARE = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_ENDLESS = 1 << 30
_INDICATORS = "-+0123456789."


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012  (the parser's own way of declaring them)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            problem = "write the value out: *names are not read here"
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise ConstructorError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        first: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise ConstructorError(None, None, "a list or mapping cannot be a key", key_node.start_mark)
            if key in first:
                problem = f"the key {key} is there twice (first on line {first[key]})"
                raise ConstructorError(None, None, problem, key_node.start_mark)
            first[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 16 if "0x" in text else 8 if "0o" in text else 10)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    text = loader.construct_scalar(node).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _date(loader: _Loader, node: yaml.ScalarNode) -> date:
    return date.fromisoformat(loader.construct_scalar(node))


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+", _INDICATORS),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        _INDICATORS,
    ),
    ("timestamp", r"[0-9]{4}-[0-9]{2}-[0-9]{2}", _INDICATORS),
):
    for _start in _first:
        _Loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), ["" if _start == "\0" else _start]
        )
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _date)


def parse(text: str) -> Any:
    """The one document of a text; `yaml.YAMLError` where it is none."""
    try:
        return yaml.load(text, _Loader)
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None
    except ValueError as error:
        raise yaml.YAMLError(str(error)) from error


def flow(value: Any) -> str:
    """A value in one line, as it stands inside brackets."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _special(value) or repr(value)
        case int():
            return str(value)
        case date():
            return value.isoformat()
        case str():
            return value if _BARE.fullmatch(value) and parse(value) == value else quoted(value)
        case Mapping():
            return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(map(flow, value)) + "]"
    return quoted(str(value))


def quoted(text: str) -> str:
    dumped: str = yaml.safe_dump(text, default_style='"', width=_ENDLESS, allow_unicode=True)
    return dumped.rstrip("\n")


def line(text: str) -> str:
    """A text as the item of a block list or the value of a block mapping: bare where that says the same."""
    try:
        if text and parse(f"- {text}") == [text]:
            return text
    except yaml.YAMLError:
        pass
    return quoted(text)


def block(text: str, indent: int) -> str:
    """A text of any length as the value of a block mapping: in lines of its own where that says the same."""
    margin = " " * indent
    style = "|" if text.endswith("\n") else "|-"
    lines = f"{style}\n" + "".join(f"{margin}{each}\n" for each in text.removesuffix("\n").split("\n"))
    try:
        if parse(f"x: {lines}") == {"x": text}:
            return lines
    except yaml.YAMLError:
        pass
    return quoted(text) + "\n"


def _special(value: float) -> str:
    if value != value:
        return ".nan"
    return {float("inf"): ".inf", float("-inf"): "-.inf"}.get(value, "")
