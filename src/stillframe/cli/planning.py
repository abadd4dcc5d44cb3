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
from stillframe.errors import ProjectError, SourceError, StillframeError
from stillframe.runtime import Verification, Warehouse
from stillframe.runtime.deciding import seconds

DRIFT = 3


def check(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    views = warehouse.check(offline=options.offline)
    document: dict[str, Any] = {"views": views}
    reasons = [reason for view in views.values() for reason in view["reasons"]]
    for name, view in views.items():
        if view["ok"]:
            how = "incrementally" if view["incremental"] else "in part by recomputing"
            if not any(operator["code"] for operator in view["operators"]) and not view["incremental"]:
                how = "by recomputing"
            if kept := view.get("records"):
                base = f"reads the base for {kept['reads_base']}" if kept["reads_base"] else "reads no base"
                how = f"{kept['class']}, {base}, test-and-set by {kept['test_and_set']}"
            output.text(
                Text.assemble(("ok       ", "green"), f"{name}  {view['level']}, {view['algorithm']}, {how}")
            )
        for operator in view["operators"] if view["ok"] else ():
            output.text(operator_text(operator))
        for reason in view["reasons"]:
            _print_reason(name, reason, output)
    if not views:
        output.say("there are no views; write one into views/")
    away = {} if options.offline else dict(warehouse.unreachable())
    if not options.offline:
        ways = {name: _capture(warehouse, name, output, away) for name in warehouse.sources}
        document["sources"] = {
            name: {**_source_document(away.get(name)), **way} for name, way in ways.items()
        }
        document["schemas"] = _store_schemas(warehouse, output)
    output.document(document)
    for error in away.values():
        output.error(error)
    if all(reason["away"] for reason in reasons):
        return 1 if reasons or away else 0
    return ProjectError.exit_status


def operator_text(operator: Mapping[str, Any]) -> Text:
    """One line on how an operator is maintained; two where it is not."""
    style = "dim" if operator["incremental"] else "yellow"
    place = f"{operator['line']}:{operator['column']}"
    text = f"         {place:>7} {operator['operator']}: {operator['rule']}, {operator['how']}"
    if operator["code"]:
        text += f" ({operator['code']})\n                 hint: {operator['hint']}"
    return Text(text, style=style)


def _source_document(error: StillframeError | None) -> dict[str, Any]:
    if error is None:
        return {"ok": True}
    return {"ok": False, "code": error.code, "message": error.message, "hint": error.hint}


def _capture(
    warehouse: Warehouse, name: str, output: Output, away: dict[str, StillframeError]
) -> dict[str, Any]:
    """How a source's changes are captured, and what would be gained by a better way. Methods come strongest
    first."""
    found = warehouse.capture(name)
    if not found:
        return {}
    capture = found["capture"]
    how = f"away, to be captured by {capture}" if name in away else f"captured by {capture}"
    output.text(Text.assemble(("source   ", "cyan"), f"{name}  {how}"))
    for method in found["methods"]:
        if method["capture"] == capture:
            if method["missing"]:
                away[name] = SourceError(
                    f"source {name!r} cannot be captured by {capture}",
                    detail="it needs " + "; ".join(method["missing"]),
                    hint="mend it, or leave the choice to capture: auto",
                    code="CAPTURE_UNAVAILABLE",
                )
            break
        output.say(f"         capture: {method['capture']} would give {method['gains']}", style="dim")
        for lacking in method["missing"]:
            output.say(f"           needs {lacking}", style="dim")
    return found


def _store_schemas(warehouse: Warehouse, output: Output) -> str | None:
    try:
        stored = warehouse.store_schemas()
    except OSError as error:
        output.note(f"the sources' schemas are not stored for checks offline: {error}")
        return None
    if not stored.is_file():
        return None
    output.say(f"the sources' schemas are stored in {stored.name}", style="dim")
    return str(stored)


def _print_reason(name: str, reason: Mapping[str, Any], output: Output) -> None:
    """A source that cannot be reached is no fault of the text, so no place in it is named."""
    place = "" if reason["away"] else f"views/{reason['file']}:{reason['line']}:{reason['column']}: "
    label = ("away     ", "yellow") if reason["away"] else ("refused  ", "red")
    output.text(Text.assemble(label, f"{name}  {place}{reason['code']}: {redact(reason['message'])}"))
    if reason["text"] and not reason["away"]:
        output.say(f"         at: {reason['text']}")
    if reason["hint"]:
        output.say(f"         hint: {reason['hint']}", style="cyan")


# -- plan


def plan(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    found = warehouse.plan(options.view, options.expression)
    if "records" in found:
        output.text(_record_plan(found))
        output.document(found)
        return 0
    if options.svg:
        Path(options.svg).write_text(plan_svg(found), encoding="utf-8")
        found = {**found, "svg": options.svg}
        output.note(f"drawn into {options.svg}")
    output.text(plan_tree(found))
    output.document(found)
    return 0


def _record_plan(found: Mapping[str, Any]) -> Tree:
    kept = found["records"]
    root = Tree(Text(f"{found['view']}: {found['level']}, records of class {kept['class']}", style="bold"))
    root.add(Text(f"key: {', '.join(found['key']) or '(one record)'}"))
    root.add(Text(f"changes of {', '.join(found['relations'])} go to view managers, by base record"))
    root.add(Text(f"reads the base: {kept['reads_base'] or 'never'}"))
    root.add(Text(f"test-and-set: by {kept['test_and_set']}"))
    return root


def plan_tree(found: Mapping[str, Any]) -> Tree:
    """What a refresh runs when every relation changed; terms of unchanged relations are left out then."""
    root = Tree(Text(f"{found['view']}: {found['level']}, algorithm {found['algorithm']}", style="bold"))
    root.add(Text(f"why: {found['why']}", style="dim"))
    if found["key"]:
        root.add(Text(f"key: {', '.join(found['key'])}"))
    words = {"full": "recomputes it", "incremental": "follows its changes", "unchanged": "has nothing to do"}
    root.add(Text(f"a refresh now {words[found['next']['mode']]} ({found['next']['reason']})"))
    if found["operators"]:
        branch = root.add(Text("operators"))
        for operator in found["operators"]:
            branch.add(Text(operator_text(operator).plain.strip()))
    if found["protocol"]:
        _add_routes(root, found)
        return root
    parts = _many(len(found["tree"]), "term")
    if found["mode"] == "full":
        change = root.add(Text(f"recomputed = sum of {parts} (refresh_policy = 'full')"))
    else:
        change = root.add(Text(f"change = sum of {parts}, one for each relation that changes"))
    for term in found["tree"]:
        branch = change.add(Text(" ⋈ ".join(term["join"]), style="cyan"))
        for read in term["reads"]:
            how = f"rows with {read['by']}" if read["by"] else "every row"
            branch.add(Text(f"reads {read['relation']} {read['at']} the change, from {read['from']}: {how}"))
    for propagation in found["propagation"] if found["mode"] != "full" else ():
        _add_propagation(root, propagation)
    if found["propagation"]:
        root.add(Text(f"prices: {found['prices']['text']}", style="dim"))
    queries = root.add(Text("queries sent to sources"))
    for query in found["queries"]:
        queries.add(Text(_query_text(query)))
    if not found["queries"]:
        queries.add(Text("none: what it reads is in the lake"))
    cost = found["cost"]
    branch = root.add(Text(f"cost: {_cost_text(cost)}"))
    waiting = ", ".join(f"{s} {'?' if n is None else n}" for s, n in cost["pending_changes"].items())
    branch.add(
        Text(f"changes waiting: {waiting}; where none is known of, one row of each relation is assumed")
    )
    _add_statistics(root, found)
    for part in found.get("parts", ()):
        _add_part(root, part)
    others = root.add(Text("not taken"))
    for other in found["alternatives"]:
        others.add(Text(f"{other['mode']}: {_cost_text(other)}; {other['why_not']}"))
    return root


def _add_propagation(root: Tree, found: Mapping[str, Any]) -> None:
    """The order in which a join's changes are propagated, beside the other ways."""
    branch = root.add(
        Text(f"propagated as {found['family']}, about {seconds(found['cost'])} in jobs of the engine")
    )
    for step in found["steps"]:
        branch.add(Text(step["text"], style="cyan"))
    if found["reads"]:
        branch.add(Text("reads " + ", ".join(f"{name} {_times(n)}" for name, n in found["reads"].items())))
    others = ", ".join(f"{name} {seconds(cost)}" for name, cost in found["alternatives"].items())
    branch.add(Text(f"other ways: {others}", style="dim"))


def _add_statistics(root: Tree, found: Mapping[str, Any]) -> None:
    """What the estimates rest on."""
    branch = root.add(Text("known from former sessions"))
    for name, known in found["statistics"].items():
        if known["rows"] is None:
            branch.add(Text(f"{name}: nothing"))
            continue
        words = f"{name}: {_many(round(known['rows']), 'row')}, {known['changed'] or 0:.3g} changed a session"
        if known["read_seconds"]:
            words += f", {seconds(known['read_seconds'])} a session to read at its source"
        for column, values in known["distinct"].items():
            words += f"; {column}: {values:.3g} values"
        for column, length in known["text_bytes"].items():
            words += f"; {column}: {_many(round(length), 'byte')}"
        branch.add(Text(words))
    for relation, copy in found.get("copies", {}).items():
        words = f"{relation}: {'copied' if copy['read'] else 'read at its source'}"
        if copy["copied"] and not copy["read"]:
            words += ", and copied for other views"
        if "wanted" in copy:
            asking, keeping = seconds(copy["asking_seconds"]), seconds(copy["keeping_seconds"])
            words += f"; asking takes {asking} a session, a copy {keeping}"
            if copy["wanted"] != copy["copied"]:
                words += f": the next session {'makes' if copy['wanted'] else 'gives up'} the copy"
        branch.add(Text(words))


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _add_part(root: Tree, part: Mapping[str, Any]) -> None:
    """What is kept beside the view, and how that is brought forward."""
    kept = part["keywise"]
    if kept is None:
        branch = root.add(Text(f"{part['view']}: kept in the lake, because others are joined with it"))
    else:
        keys = f"by {', '.join(kept['keys'])}" if kept["keys"] else "of all rows"
        branch = root.add(Text(f"{part['view']}: {kept['operator']} {keys}; {kept['how']}"))
    for term in part["tree"]:
        branch.add(Text(" ⋈ ".join(term["join"]), style="cyan"))
    for query in part["queries"]:
        branch.add(Text(_query_text(query)))


def _add_routes(root: Tree, found: Mapping[str, Any]) -> None:
    """A live protocol asks as it goes; what is known before is the way a question takes."""
    branch = root.add(Text(f"{found['algorithm']}: {found['protocol']['does']}"))
    for route in found["protocol"]["routes"]:
        steps = [f"{step['source']} about {', '.join(step['relations'])}" for step in route["asks"]]
        text = f"asks {', then '.join(steps)}" if steps else "asks nobody"
        branch.add(Text.assemble((f"Δ{route['change']} ", "cyan"), text))
    root.add(Text("computed by 'tid' instead, it would send"))
    for query in found["queries"]:
        root.children[-1].add(Text(_query_text(query)))


def _cost_text(cost: Mapping[str, Any]) -> str:
    rows = "an unknown number of rows" if cost["rows"] is None else f"about {_many(cost['rows'], 'row')}"
    whole = _many(cost["whole_reads"], "read")
    took = f"about {seconds(cost['seconds'])}; "
    return f"{took}{rows} in {_many(cost['queries'], 'query')}; {whole} of whole relations"


def _query_text(query: Mapping[str, Any]) -> str:
    columns = ", ".join(query["columns"])
    where = f" where {query['by']}" if query["by"] else ""
    what = "changes of " if query["kind"] == "changes" else ""
    rows = "? rows" if query["rows"] is None else _many(query["rows"], "row")
    return f"{query['source']}: {what}{query['table']} ({columns}){where}: about {rows}"


def _many(count: int, word: str) -> str:
    if count == 1:
        return f"1 {word}"
    return f"{count} {word[:-1]}ies" if word.endswith("y") else f"{count} {word}s"


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
    if any(v.drift for v in found.values()):
        return DRIFT
    return 0 if all(v.ok for v in found.values()) else 1


def verification_table(found: Mapping[str, Verification]) -> Any:
    made = table(
        "view", "result", "frame", "rows", "missing", "extra", right=("frame", "rows", "missing", "extra")
    )
    for name, v in found.items():
        made.add_row(
            name,
            _result(v),
            *map(str, (v.frame, v.rows, v.missing, v.extra)),
        )
    return made


def _result(verification: Verification) -> Text:
    if verification.ok:
        return Text("ok", style="green")
    return Text("drift", style="bold red") if verification.drift else Text("unknown", style="yellow")


def _print_sample(name: str, verification: Verification, output: Output) -> None:
    if not verification.sample:
        return
    columns = list(verification.sample[0]["row"])
    made = table("", "times", *columns, right=("times",), title=f"{name}, some of the rows that differ")
    for row in verification.sample:
        made.add_row(row["is"], str(row["count"]), *(cell(row["row"][column]) for column in columns))
    output.text(made)
