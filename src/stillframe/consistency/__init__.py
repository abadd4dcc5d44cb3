"""Histories -> verdicts -> explanations. Knows cuts and contents, and nothing of protocols or rows."""

from __future__ import annotations

from stillframe.consistency.course import Course, Cut, Part
from stillframe.consistency.explain import Chain, Explanation, Failure, explain
from stillframe.consistency.judge import Judge
from stillframe.consistency.levels import PROPERTIES, Level, Property
from stillframe.consistency.verdict import Verdict

__all__ = [
    "PROPERTIES",
    "Chain",
    "Course",
    "Cut",
    "Explanation",
    "Failure",
    "Judge",
    "Level",
    "Part",
    "Property",
    "Verdict",
    "explain",
]
