"""Everything a scenario file may get wrong: the text, and patterns of the message and of the detail, and a
part of the hint."""

from __future__ import annotations

import re


def small(updates: str = "[]", rows: str = "[[1, 2]]", key: str = "[A]", more: str = "") -> str:
    """r1(A, B) at x, r2(B, C) at y, the join of them, and what is given."""
    return f"""\
name: small
relations:
  r1: {{source: x, columns: [A, B], key: {key}, rows: {rows}}}
  r2: {{source: y, columns: [B, C], key: [B], rows: []}}
view: SELECT r1.A, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: {updates}
{more}"""


MISTAKES = {
    "empty file": ("", "the file is empty", "", "relations"),
    "only a comment": ("# nothing\n", "the file is empty", "", "relations"),
    "not a mapping": ("[1, 2]", r"the scenario is a mapping, not \[1, 2\]", "", ""),
    "bad YAML": (small() + "order: [any", "this is not YAML", r"line 7, column \d+: ", "quotes"),
    "an unquoted update in brackets": (
        small("[insert r1 [3, 2]]"),
        "this is not YAML",
        "line 6, column",
        "quotes",
    ),
    "two documents": (small() + "---\nname: b\n", "this is not YAML", "line 7", ""),
    "a key twice": (small() + "name: b\n", "not YAML", r"line 7.*the key name is there twice.*line 1", ""),
    "an alias": (small(more="params: &a {rv: *a}"), "not YAML", r"line 7.*write the value out", ""),
    "no such date": (small("['insert r1 [2024-13-01, 1]']"), "this is not a row", "entry 1", "month"),
    "unknown key": (
        small(more="colour: red"),
        "the scenario: unknown key colour",
        "",
        "known keys: name, rel",
    ),
    "unknown key of a relation": (
        small().replace("key: [B]", "keys: [B]"),
        "relation r2: unknown key keys",
        "",
        "known keys: source, columns, key, rows",
    ),
    "unknown key of a global": (
        small("[{global: g, update: []}]"),
        "entry 1 of updates.*unknown key update",
        "",
        "known keys: global, updates",
    ),
    "no relations": ("view: SELECT 1 AS a", "a scenario needs relations", "", "source: x"),
    "no source": (small().replace("source: y, ", ""), "relation r2 needs source", "", "source: x"),
    "no columns": (small().replace("[B, C]", "[]"), "a relation needs columns", "relation r2", "columns"),
    "a relation that is a list": (
        small().replace("{source: y", "[{source: y").replace("[]}\nv", "[]}]\nv"),
        "relation r2 is a mapping",
        "",
        "",
    ),
    "a name that is none": (small().replace("r2:", "r 2:"), "cannot name a relation", "relations", "letters"),
    "a source that is none": (
        small().replace(": y", ": 'y z'"),
        "'y z' cannot name a source",
        "r2",
        "source",
    ),
    "a number as source": (
        small().replace("source: y", "source: 1"),
        "r2: source is text, not 1",
        "",
        "quotes",
    ),
    "two columns of one name": (
        small().replace("[B, C]", "[B, b]"),
        "two columns of one name: B and b",
        "relation r2",
        "rename",
    ),
    "two relations of one name": (
        small().replace("r2:", "R1:"),
        "two relations of one name: r1 and R1",
        "relations",
        "rename",
    ),
    "key without column": (small(key="[Z]"), "there is no column Z", "relation r1", "columns: A, B"),
    "key column twice": (small(key="[A, A]"), "a column is there twice", "relation r1", ""),
    "a row too wide": (
        small(rows="[[1, 2], [1, 2, 3]]"),
        "a row of 3 in a relation of 2 columns",
        r"row 2 of r1: \[1, 2, 3\]",
        "columns A, B",
    ),
    "a row that is none": (small(rows="[7]"), "a row is a list of values", "row 1 of r1: 7", ""),
    "rows that are none": (small(rows="7"), "relation r1: rows is a list, not 7", "", ""),
    "an update too narrow": (
        small("['delete r1 [1, 2]', 'insert r1 [1]']"),
        "a row of 1 in a relation of 2 columns",
        r"entry 2 of updates: insert r1 \[1\]",
        "columns A, B",
    ),
    "unknown relation": (
        small("['insert r9 [1, 2]']"),
        "there is no relation r9",
        r"entry 1 of updates: insert r9 \[1, 2\]",
        "there are: r1, r2",
    ),
    "no update": (small("['upsert r1 [1, 2]']"), "this is not an update: .*upsert", "entry 1", "insert r1"),
    "an update that is a number": (small("[[3]]"), "this is not an update: 3", "entry 1", "insert r1"),
    "no transaction": (small("[{insert: r1}]"), "this is not a transaction", "entry 1", "global: g1"),
    "updates that are none": (small("7"), "updates is a list, not 7", "", ""),
    "a row that does not close": (small("""['insert r1 ["a]']"""), "this is not a row", "entry 1", ""),
    "empty transaction": (small("[[]]"), "a transaction needs an update", "entry 1", ""),
    "a local transaction of two sources": (
        small("[['insert r1 [2, 2]', 'insert r2 [2, 2]']]"),
        "a transaction of one source writes to x and y",
        'entry 1 of updates: \\["insert r1',
        "global",
    ),
    "two of one name": (
        small("[{global: U2, updates: ['insert r1 [2, 2]']}, 'insert r2 [2, 2]']"),
        "the transactions 1 and 2 are both called U2",
        "entry 2",
        "position",
    ),
    "a delete that finds nothing": (
        small("['delete r1 [1, 2]', 'delete r1 [1, 2]']"),
        r"delete r1 \[1, 2\]: the row is not there",
        "entry 2",
        "r1 then holds: nothing",
    ),
    "a delete in the wrong order": (
        small("['delete r1 [5, 5]', 'insert r1 [5, 5]']"),
        "the row is not there",
        "entry 1",
        "r1 then holds: [1, 2]",
    ),
    "a delete in any order": (
        small("['delete r1 [5, 5]', 'insert r2 [5, 5]', 'insert r1 [5, 5]']", more="order: any"),
        "the row is not there",
        "entry 1",
        "",
    ),
    "key violated by rows": (
        small(rows="[[1, 2], [1, 3]]"),
        "r1 already holds a row with the key A = 1",
        r"row 2 of r1: \[1, 3\]",
        "",
    ),
    "key violated by an update": (
        small("['insert r1 [1, 3]']"),
        "r1 already holds a row with the key A = 1",
        r"entry 1 of updates: insert r1 \[1, 3\]",
        "delete that row first",
    ),
    "key violated inside a transaction": (
        small("[['insert r1 [1, 3]', 'delete r1 [1, 2]']]"),
        "already holds a row",
        "entry 1",
        "first",
    ),
    "null in a key": (small("['insert r1 [null, 3]']"), "the key A of r1 is never null", "entry 1", ""),
    "null in a key of the rows": (small(rows="[[null, 3]]"), "the key A of r1 is never null", "row 1", ""),
    "mixed types": (
        small("['insert r1 [two, 2]']"),
        "column r1.A mixes BIGINT and STRING",
        "its values: 1, two",
        "one type",
    ),
    "mixed booleans": (small("['insert r1 [true, 2]']"), "mixes BIGINT and BOOLEAN", "1, true", "one type"),
    "a value that is none": (small(rows="[[[1], 2]]"), r"r1.A cannot hold \[1\]", "row 1 of r1", "64 bits"),
    "a value too large": (small(rows=f"[[{1 << 63}, 2]]"), "r1.A cannot hold 9223", "row 1", "64 bits"),
    "view and views": (small(more="views: {a: SELECT 1 AS a}"), "view and views are both there", "", "view:"),
    "neither view": (re.sub("view:.*\n", "", small()), "there is neither view nor views", "", "view:"),
    "no views": (small().replace("view: ", "views: {} # "), "a scenario needs a view", "", "view:"),
    "a view that is none": (small().replace("view: ", "view: 7 # "), "view is text, not 7", "", ""),
    "a view's name": (
        small().replace("view: ", "views: {a b: SELECT 1 AS a} # "),
        "cannot name a view",
        "",
        "",
    ),
    "unknown source of a channel": (
        small(more="channels: {q: [lose]}"),
        "channels: there is no source q",
        "",
        "there are: x, y",
    ),
    "unknown fault": (
        small(more="channels: {x: [burn]}"),
        "channels of x: there is no burn",
        "",
        "lose, repeat, reorder",
    ),
    "a fault without brackets": (small(more="channels: {x: lose}"), "faults is a list, not lose", "", ""),
    "unknown source of an isolation": (
        small(more="isolation: {q: read-committed}"),
        "isolation: there is no source q",
        "",
        "x, y",
    ),
    "unknown isolation": (
        small(more="isolation: {x: snapshot}"),
        "isolation of x: there is no snapshot",
        "",
        "read-committed",
    ),
    "report": (small(more="report: late"), "report: there is no late", "", "per-source, coordinator"),
    "order": (small(more="order: random"), "order: there is no random", "", "written, any"),
    "width": (small(more="width: 0"), "width is a whole number from 1 on, not 0", "", ""),
    "crashes": (small(more="crashes: true"), "crashes is a whole number from 0 on, not true", "", ""),
    "centralised": (small(more="centralised: 1"), "centralised is true or false, not 1", "", ""),
    "params that are a list": (small(more="params: [rv]"), "params is a mapping", "", ""),
    "options that are a number": (small(more="params: {rv: 2}"), "params of rv is a mapping, not 2", "", ""),
    "an option that is a list": (
        small(more="params: {rv: {s: [2]}}"),
        r"params of rv: s is one value, not \[2\]",
        "",
        "s: 2",
    ),
    "unknown algorithm": (
        small(more="params: {rvv: {s: 2}}"),
        "params: there is no algorithm rvv",
        "",
        "there are: basic, rv",
    ),
    "a name that is a number": (
        small().replace("name: small", "name: 3"),
        "name is text, not 3",
        "",
        "quotes",
    ),
}
