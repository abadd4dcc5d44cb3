"""Verbs that explain and examine: check, plan, verify."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text
from rich.tree import Tree

from stillframe.cli.output import Output, cell, redact, table
from stillframe.cli.plan_svg import plan_svg
from stillframe.cli.progress import progress
from stillframe.errors import ProjectError
from stillframe.runtime import Verification, Warehouse

DRIFT = 3


def check(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    views = warehouse.check(offline=options.offline)
    document: dict[str, Any] = {"views": views}
    for name, view in views.items():
        if view["ok"]:
            how = "incrementally" if view["incremental"] else "by recomputing"
            output.text(
                Text.assemble(("ok       ", "green"), f"{name}  {view['level']}, {view['algorithm']}, {how}")
            )
        for reason in view["reasons"]:
            _print_reason(name, reason, output)
    if not views:
        output.say("there are no views; write one into views/")
    if not options.offline:
        stored = warehouse.store_schemas()
        document["schemas"] = str(stored)
        output.say(f"the sources' schemas are stored in {stored.name}", style="dim")
    output.document(document)
    return 0 if all(view["ok"] for view in views.values()) else ProjectError.exit_status


def _print_reason(name: str, reason: Mapping[str, Any], output: Output) -> None:
    place = f"views/{reason['file']}:{reason['line']}:{reason['column']}"
    output.text(
        Text.assemble(("refused  ", "red"), f"{name}  {place}: {reason['code']}: {redact(reason['message'])}")
    )
    if reason["text"]:
        output.say(f"         at: {reason['text']}")
    if reason["hint"]:
        output.say(f"         hint: {reason['hint']}", style="cyan")


# -- plan


def plan(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    if options.expression != "n-term":
        raise ProjectError(
            f"the change of a view cannot be had as {options.expression!r} yet",
            detail="one form exists: n terms for a join of n relations",
            hint="leave --expression out, or give n-term",
            code="EXPRESSION_UNAVAILABLE",
        )
    found = warehouse.plan(options.view)
    if options.svg:
        Path(options.svg).write_text(plan_svg(found), encoding="utf-8")
        found = {**found, "svg": options.svg}
        output.note(f"drawn into {options.svg}")
    output.text(plan_tree(found))
    output.document(found)
    return 0


def plan_tree(found: Mapping[str, Any]) -> Tree:
    """What a refresh runs when every relation changed; terms of unchanged relations are left out then."""
    root = Tree(Text(f"{found['view']}: {found['level']}, algorithm {found['algorithm']}", style="bold"))
    root.add(Text(f"why: {found['why']}", style="dim"))
    if found["key"]:
        root.add(Text(f"key: {', '.join(found['key'])}"))
    change = root.add(Text(f"change = sum of {len(found['tree'])} terms ({found['expression']})"))
    for term in found["tree"]:
        branch = change.add(Text(" ⋈ ".join(term["join"]), style="cyan"))
        for read in term["reads"]:
            how = f"rows with {read['by']}" if read["by"] else "every row"
            branch.add(Text(f"reads {read['relation']} {read['at']} the change, from {read['from']}: {how}"))
    cost = found["cost"]
    pending = ", ".join(f"{s} {'?' if n is None else n}" for s, n in cost["pending_changes"].items())
    branch = root.add(Text(f"cost: {cost['reads']} reads, {cost['whole_reads']} of them whole relations"))
    branch.add(Text(f"changes waiting: {pending or 'the view is not there yet'}"))
    others = root.add(Text("not taken"))
    for other in found["alternatives"]:
        others.add(
            Text(f"{other['mode']}: {other['reads']} reads, {other['whole_reads']} whole; {other['why_not']}")
        )
    return root


# -- verify


def verify(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    with progress(warehouse, output.err, "recomputing the views from their sources"):
        found = warehouse.verify_all(options.views, frame=options.frame)
    output.text(verification_table(found))
    for name, verification in found.items():
        _print_sample(name, verification, output)
    output.document({"views": {name: v.to_json() for name, v in found.items()}}, data=True)
    for name, verification in found.items():
        if verification.error is not None:
            output.error(verification.error, f"view {name}")
    return 0 if all(v.ok for v in found.values()) else DRIFT


def verification_table(found: Mapping[str, Verification]) -> Any:
    made = table(
        "view", "result", "frame", "rows", "missing", "extra", right=("frame", "rows", "missing", "extra")
    )
    for name, v in found.items():
        made.add_row(
            name,
            Text("ok", style="green") if v.ok else Text("drift", style="bold red"),
            *map(str, (v.frame, v.rows, v.missing, v.extra)),
        )
    return made


def _print_sample(name: str, verification: Verification, output: Output) -> None:
    if not verification.sample:
        return
    columns = list(verification.sample[0]["row"])
    made = table("", "times", *columns, right=("times",), title=f"{name}, some of the rows that differ")
    for row in verification.sample:
        made.add_row(row["is"], str(row["count"]), *(cell(row["row"][column]) for column in columns))
    output.text(made)
