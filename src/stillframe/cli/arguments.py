"""The verbs and their options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from stillframe.errors import ProjectError

DESCRIPTION = """\
SQL materialized views over several live databases, kept up to date incrementally; every published frame
shows a state the sources really had."""

EPILOG = """\
exit status: 0 done, 1 failed, 2 bad usage or bad project, 3 verify found drift

a first look:
  stillframe demo
  stillframe init shop && cd shop && stillframe refresh && stillframe show order_facts"""


class UsageError(ProjectError):
    """The command was not given as it must be."""

    code = "USAGE"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see `{self.prog} --help`")


class _Version(argparse.Action):
    """Looks the version up only when asked for it."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"stillframe {version('stillframe')}")
        parser.exit()


def _common(parser: argparse.ArgumentParser, *, project: bool = True) -> None:
    """Options that may stand before or after the verb; the one given last counts."""
    unset = argparse.SUPPRESS
    if project:
        parser.add_argument("--project", metavar="DIR", default=unset, help="the project's folder (here: .)")
    parser.add_argument("--json", action="store_true", default=unset, help="print one JSON document")


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("a number from 0 is needed")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError("a number above 0 is needed")
    return number


def _trial_rows(text: str) -> int:
    if not text.isdecimal() or int(text) < 10_000:
        raise argparse.ArgumentTypeError("a number from 10000 is needed: less says nothing")
    return int(text)


def _schedules(text: str) -> int | None:
    """How many random schedules; None for every schedule."""
    if text == "exhaustive":
        return None
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError("`exhaustive`, or a number from 1, is needed")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise argparse.ArgumentTypeError("numbers from 1, with commas between them, are needed")
    return tuple(sorted({int(word) for word in words}))


def parser() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    top = _Parser(
        prog="stillframe", description=DESCRIPTION, epilog=EPILOG, formatter_class=shape, allow_abbrev=False
    )
    top.add_argument("--version", action=_Version, help="print the version")
    _common(top)
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)

    def verb(name: str, help: str, example: str, *, project: bool = True) -> Callable[..., Any]:
        made = verbs.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"example:\n  {example}",
            formatter_class=shape,
            allow_abbrev=False,
        )
        _common(made, project=project)
        return made.add_argument

    add = verb("init", "make a project that runs as it is", "stillframe init shop", project=False)
    add("dir", metavar="DIR", help="a folder that is empty or not there yet")

    add = verb(
        "demo",
        "watch views follow live databases: real writers, every frame shown and verified",
        "stillframe demo --seconds 20 --engine sail",
        project=False,
    )
    add("--seconds", type=_positive, default=30.0, metavar="N", help="how long writers go on (30)")
    add("--dir", metavar="DIR", help="where the demo's project is made (a temporary folder)")
    add("--engine", choices=["spark", "sail"], default="spark", help="what computes (spark)")

    add = verb(
        "check", "say for each view whether and how it can be maintained", "stillframe check --offline"
    )
    add("--offline", action="store_true", help="use the stored schemas; no source is needed")

    add = verb(
        "plan", "show the change plan a refresh of a view runs", "stillframe plan order_facts --svg p.svg"
    )
    add("view", metavar="VIEW")
    add(
        "--expression",
        choices=["all", "n-term", "tree"],
        default="tree",
        help="how the change of a join is expressed; a refresh takes the cheapest tree",
    )
    add("--svg", metavar="FILE", help="draw the plan into a file")

    verb("attach", "install change capture at the sources", "stillframe attach")
    verb("detach", "remove this warehouse's change capture from the sources", "stillframe detach")

    add = verb(
        "refresh",
        "bring all (or the named) views to the sources' present state, as the next frame",
        "stillframe refresh order_facts --settle",
    )
    add("views", nargs="*", metavar="VIEW")
    add("--full", action="store_true", help="recompute instead of following the changes")
    add("--settle", action="store_true", help="wait until other engines see the new frame too")

    add = verb(
        "run", "refresh until stopped; Ctrl-C or SIGTERM ends after the frame in hand", "stillframe run"
    )
    add("--every", default="1s", metavar="TIME", help="how often to look for changes (1s)")

    add = verb("status", "show frames, lag, logs and what was verified", "stillframe status --watch")
    add("--watch", action="store_true", help="go on until Ctrl-C")

    add = verb("show", "print the rows of a view", "stillframe show order_facts --limit 5 --format csv")
    add("view", metavar="VIEW")
    add("--frame", type=_count, metavar="N", help="an older frame (the newest)")
    add("--limit", type=_count, default=20, metavar="N", help="at most so many rows, 0 for all (20)")
    add("--format", choices=["table", "csv", "json"], default="table")

    add = verb(
        "query",
        "run Spark SQL over the views of one frame",
        'stillframe query "SELECT city, SUM(amount) FROM order_facts GROUP BY city"',
    )
    add("sql", metavar="SQL")
    add("--frame", type=_count, metavar="N", help="an older frame (the newest)")
    add("--format", choices=["table", "csv", "json"], default="table")

    add = verb(
        "frames", "list the frames there are, with their source vectors", "stillframe frames --limit 5"
    )
    add("--limit", type=_count, default=0, metavar="N", help="only the newest N")

    add = verb(
        "verify",
        "recompute views from the sources at the frame's own vector and compare, row by row",
        "stillframe verify order_facts",
    )
    add("views", nargs="*", metavar="VIEW")
    add("--frame", type=_count, metavar="N", help="an older frame (the newest)")

    add = verb(
        "drop", "forget a view: its text and its place in the next frame", "stillframe drop order_facts"
    )
    add("view", metavar="VIEW")

    add = verb("rename", "give a view another name", "stillframe rename order_facts facts")
    add("view", metavar="VIEW")
    add("new", metavar="NEW")

    verb("compact", "settle every view and keep the history quick to open", "stillframe compact")

    add = verb("vacuum", "remove frames older than the retention", "stillframe vacuum --retention 7d")
    add("--retention", metavar="TIME", help="keep frames younger than this (the project's, or 24h)")

    add = verb(
        "calibrate",
        "measure what the engine takes on this machine, so that refreshes choose by it",
        "stillframe calibrate --engine sail",
    )
    add("--engine", choices=["spark", "sail"], help="which engine (the project's, or spark)")
    rows = "rows of the largest made-up relation (400000)"
    add("--rows", type=_trial_rows, default=400_000, metavar="N", help=rows)

    add = verb(
        "simulate",
        "try maintenance algorithms on a scenario, in every order of events, and say how consistent each is",
        "stillframe simulate examples/scenarios/deletion-anomaly.yml --algorithm basic,strobe",
        project=False,
    )
    add("files", nargs="+", metavar="FILE", help="scenarios; docs/simulator.md says how to write one")
    add("--algorithm", default="all", metavar="NAME,…", help="which ones (all); named ones are explained")
    add(
        "--schedules",
        type=_schedules,
        default=None,
        metavar="exhaustive|N",
        help="every schedule, or N random ones (exhaustive)",
    )
    add("--seed", type=int, default=0, metavar="S", help="which random ones (0)")
    add("--schedule", metavar="FILE", help="replay a schedule that was printed, step by step")
    add("--view", metavar="NAME", help="only this view of the scenario (all)")
    add("--worlds", type=_count, default=1_000_000, metavar="N", help="give up beyond so many (1000000)")

    add = verb(
        "spectrum",
        "derive how consistent each maintenance algorithm is in each setting, next to what its paper says",
        "stillframe spectrum --svg spectrum.svg --witnesses witnesses",
        project=False,
    )
    scenarios = "random scenarios for each setting, besides the few that are always there (12)"
    add("--scenarios", type=_count, default=12, metavar="N", help=scenarios)
    add("--seed", type=int, default=0, metavar="S", help="which random ones (0)")
    add("--svg", metavar="FILE", help="draw it into a file")
    add("--witnesses", metavar="DIR", help="write each cell's scenario and breaking schedule, to replay")

    add = verb(
        "costs",
        "count messages, bytes and reads of the maintenance algorithms, next to their papers' formulas",
        "stillframe costs --svg drawings",
        project=False,
    )
    add("--k", type=_numbers, metavar="N,…", help="numbers of updates (3,6,12,30,60,100)")
    add("--c", type=_numbers, metavar="N,…", help="rows of a relation, in figure 6.2 (4,12,20,40,60,100)")
    add("--seed", type=int, default=0, metavar="S", help="which random relations (0)")
    add("--svg", metavar="DIR", help="draw the figures into a folder")
    return top
