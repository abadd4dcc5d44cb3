"""Errors a user can act on: what happened, the detail, and what to do about it."""

from __future__ import annotations


class StillframeError(Exception):
    """A failure with a stable code, a message, and optionally a detail and a hint.

    The command line prints the three parts on stderr; `code` is for scripts.
    """

    code = "ERROR"
    exit_status = 1

    def __init__(self, message: str, *, detail: str = "", hint: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" + (f" ({self.detail})" if self.detail else "")

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (a Spark task raises, the driver reports), keyword arguments and all.
        return (_rebuild, (type(self), self.message, self.detail, self.hint, self.code))


def _rebuild(kind: type[StillframeError], message: str, detail: str, hint: str, code: str) -> StillframeError:
    return kind(message, detail=detail, hint=hint, code=code)


class ProjectError(StillframeError):
    """The project's own files are wrong: configuration, view text, names."""

    code = "BAD_PROJECT"
    exit_status = 2


class SourceError(StillframeError):
    """A source cannot be read as asked."""

    code = "SOURCE_ERROR"


class CaptureGap(SourceError):
    """The log of a source no longer reaches back to what a frame reflects."""

    code = "CAPTURE_GAP"


# Gaps that reading the relation again mends: the table was emptied, or has other columns, or the user chose
# another way to capture its source.
RELOADS = ("TRUNCATED", "TABLE_CHANGED", "CAPTURE_CHANGED")
GAPS = (CaptureGap.code, *RELOADS)


class ValueMismatch(SourceError):
    """A stored value is not of the type its column declares. Whoever raises it may say in which column."""

    code = "VALUE_MISMATCH"
    relation = ""
    column = ""


class LakeError(StillframeError):
    """The warehouse's files are not as they must be."""

    code = "LAKE_ERROR"


class Busy(StillframeError):
    """Another process published while this one worked; nothing was applied."""

    code = "BUSY"
