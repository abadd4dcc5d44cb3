"""Propagation trees ("Efficient Incremental View Maintenance in Data Warehouses", Lee, Son and Kim): in which
order the changes of a join's inputs are propagated, so that as little as possible is read.

    graph = join_graph(join, statistics, changed)
    choice = choose(graph, Linear(graph))
    for step in planned(join, choice.expression, changed, change_of): …
"""

from stillframe.change.propagation.choice import Choice, best_tree, choose
from stillframe.change.propagation.cost import CostModel, cost, term_cost
from stillframe.change.propagation.expressions import (
    Change,
    Expression,
    Family,
    State,
    Step,
    Term,
    all_terms,
    propagated,
)
from stillframe.change.propagation.graph import Statistics, equated_columns, join_graph, join_inputs
from stillframe.change.propagation.linear import Linear
from stillframe.change.propagation.plans import PlannedStep, nested, planned, step_name
from stillframe.change.propagation.sizes import Block, JoinGraph, Size
from stillframe.change.propagation.spark import Calibration, Spark
from stillframe.change.propagation.tree import Input, Leaf, Node, Tree, accesses, n_term

__all__ = [
    "Block",
    "Calibration",
    "Change",
    "Choice",
    "CostModel",
    "Expression",
    "Family",
    "Input",
    "JoinGraph",
    "Leaf",
    "Linear",
    "Node",
    "PlannedStep",
    "Size",
    "Spark",
    "State",
    "Statistics",
    "Step",
    "Term",
    "Tree",
    "accesses",
    "all_terms",
    "best_tree",
    "choose",
    "cost",
    "equated_columns",
    "join_graph",
    "join_inputs",
    "n_term",
    "nested",
    "planned",
    "propagated",
    "step_name",
    "term_cost",
]
