"""Values, schemas and expressions; pure, and the base everything else stands on."""

from stillframe.algebra.bag import Bag, Row
from stillframe.algebra.evaluate import evaluate, evaluate_scalar
from stillframe.algebra.functions import EvaluationError, TypeMismatch
from stillframe.algebra.normalize import normalize
from stillframe.algebra.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    KeyDelete,
    Measure,
    Moment,
    Monus,
    Negate,
    Output,
    Plan,
    Project,
    Scan,
    Semi,
    Times,
    UnionAll,
    Values,
    Window,
    relations,
    scans,
)
from stillframe.algebra.scalar import Call, Case, Cast, Literal, Ref, Scalar, call, case, cast
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import Type
from stillframe.algebra.windows import Ordering, Windowed

__all__ = [
    "Aggregate",
    "Bag",
    "Call",
    "Case",
    "Cast",
    "Column",
    "Distinct",
    "EvaluationError",
    "Filter",
    "Join",
    "KeyDelete",
    "Literal",
    "Measure",
    "Moment",
    "Monus",
    "Negate",
    "Ordering",
    "Output",
    "Plan",
    "Project",
    "Ref",
    "Row",
    "Scalar",
    "Scan",
    "Schema",
    "Semi",
    "Times",
    "Type",
    "TypeMismatch",
    "UnionAll",
    "Values",
    "Window",
    "Windowed",
    "call",
    "case",
    "cast",
    "evaluate",
    "evaluate_scalar",
    "normalize",
    "relations",
    "scans",
]
