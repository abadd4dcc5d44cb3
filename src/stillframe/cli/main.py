"""`stillframe VERB`: from arguments to an exit status."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from stillframe.cli import (
    calibrating,
    costs,
    demo,
    maintaining,
    planning,
    reading,
    scaffold,
    simulate,
    spectrum,
)
from stillframe.cli.arguments import parser
from stillframe.cli.output import Output
from stillframe.errors import StillframeError
from stillframe.runtime import Warehouse, open_project

DEBUG = "STILLFRAME_DEBUG"
INTERRUPTED = 130

Verb = Callable[[Warehouse, argparse.Namespace, Output], int]

WITHOUT_PROJECT: dict[str, Callable[[argparse.Namespace, Output], int]] = {
    "init": scaffold.init,
    "demo": demo.demo,
    "simulate": simulate.simulate_verb,
    "spectrum": spectrum.spectrum,
    "costs": costs.costs,
    "calibrate": calibrating.calibrate_verb,
}
WITH_PROJECT: dict[str, Verb] = {
    "check": planning.check,
    "plan": planning.plan,
    "verify": planning.verify,
    "attach": maintaining.attach,
    "detach": maintaining.detach,
    "refresh": maintaining.refresh,
    "run": maintaining.run,
    "drop": maintaining.drop,
    "rename": maintaining.rename,
    "compact": maintaining.compact,
    "vacuum": maintaining.vacuum,
    "status": reading.status,
    "show": reading.show,
    "query": reading.query,
    "frames": reading.frames,
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return _main(given)
    except BrokenPipeError:
        return _nobody_reads()


def _main(given: Sequence[str]) -> int:
    asked = "--json" in given or "--format=json" in given or ("--format", "json") in pairwise(given)
    output = Output(as_json=asked)
    try:
        options = parser().parse_args(given)
        output = Output(as_json=getattr(options, "json", False) or getattr(options, "format", "") == "json")
        status = _dispatch(options, output)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        output.failed(StillframeError("interrupted", code="INTERRUPTED"))
        return INTERRUPTED
    except StillframeError as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        output.error(error)
        output.failed(error)
        return error.exit_status
    except Exception as error:
        return _unexpected(error, output)
    return status


def _dispatch(options: argparse.Namespace, output: Output) -> int:
    if options.verb in WITHOUT_PROJECT:
        return WITHOUT_PROJECT[options.verb](options, output)
    with open_project(getattr(options, "project", ".")) as warehouse:
        return WITH_PROJECT[options.verb](warehouse, options, output)


def _nobody_reads() -> int:
    """`| head` has seen enough. What Python still holds for stdout goes nowhere, without complaint."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _unexpected(error: BaseException, output: Output) -> int:
    first: Any = (str(error).splitlines() or [""])[0]
    code = "IO" if isinstance(error, OSError) else "UNEXPECTED"
    hint = f"set {DEBUG}=1 and run it again for the traceback"
    told = StillframeError(f"{type(error).__name__}: {first}", hint=hint, code=code)
    if os.environ.get(DEBUG):
        traceback.print_exc()
    else:
        output.error(told)
    output.failed(told)
    return 1


if __name__ == "__main__":
    sys.exit(main())
