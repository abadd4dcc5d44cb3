"""Scenarios that tell algorithms apart: each shows what some algorithm cannot do. Random batteries find such
worlds too, but these are found every time, and are small enough to read."""

from __future__ import annotations

from collections.abc import Iterator

from stillframe.simulator.reading import read
from stillframe.simulator.scenario import Scenario

_TEXTS = (
    """
name: two inserts that meet
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: x, columns: [B, C], key: [B], rows: []}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r2 [2, 3]", "insert r1 [4, 2]"]
""",
    """
name: two deletes that meet
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: x, columns: [B, C], key: [B], rows: [[2, 3]]}
view: SELECT r1.A, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["delete r1 [1, 2]", "delete r2 [2, 3]"]
""",
    """
name: a product without a condition
relations:
  r1: {source: x, columns: [A], key: [A], rows: []}
  r2: {source: x, columns: [B], key: [B], rows: [[1]]}
  r3: {source: x, columns: [C], key: [C], rows: [[1]]}
view: SELECT r1.A, r2.B, r3.C FROM r1 CROSS JOIN r2 CROSS JOIN r3
updates: ["insert r1 [1]", "delete r2 [1]"]
""",
    """
name: inserted, then deleted
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: []}
  r2: {source: x, columns: [B, C], key: [B], rows: [[2, 3]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r1 [1, 2]", "delete r1 [1, 2]"]
""",
    """
name: deletion anomaly
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: y, columns: [B, C], key: [B], rows: []}
  r3: {source: z, columns: [C, D], key: [C], rows: [[3, 4]]}
view: SELECT r1.A, r1.B, r2.C, r3.D FROM r1 JOIN r2 ON r1.B = r2.B JOIN r3 ON r2.C = r3.C
updates: ["insert r2 [2, 3]", "delete r1 [1, 2]"]
""",
    """
name: three sources, three updates
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: y, columns: [B, C], key: [B], rows: []}
  r3: {source: z, columns: [C, D], key: [C], rows: [[3, 4]]}
view: SELECT r1.A, r1.B, r2.C, r3.D FROM r1 JOIN r2 ON r1.B = r2.B JOIN r3 ON r2.C = r3.C
updates: ["insert r2 [2, 3]", "insert r1 [5, 2]", "delete r3 [3, 4]"]
""",
    """
name: a transaction on one relation
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
view: SELECT r1.A, r1.B FROM r1
updates: [["delete r1 [1, 2]", "insert r1 [3, 4]"]]
""",
    """
name: a key moves to another row
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: y, columns: [B, C], key: [B], rows: [[2, 3], [4, 5]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: [["delete r1 [1, 2]", "insert r1 [1, 4]"], "delete r2 [4, 5]", ["insert r2 [4, 6]"]]
""",
    """
name: a payment booked at two banks
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 100]]}
  r2: {source: y, columns: [A, C], key: [A], rows: [[1, 100]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.A = r2.A
updates:
  - global: g1
    updates: ["delete r1 [1, 100]", "insert r1 [1, 60]", "delete r2 [1, 100]", "insert r2 [1, 140]"]
  - ["delete r1 [1, 60]", "insert r1 [1, 50]"]
""",
    """
name: a trip cancelled at two agencies
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2], [6, 4]]}
  r2: {source: y, columns: [B, C], key: [B], rows: [[2, 3], [4, 5]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: [{global: g1, updates: ["delete r1 [1, 2]", "delete r2 [4, 5]"]}]
""",
    """
name: a global transaction and one that follows it
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: y, columns: [B, C], key: [B], rows: []}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates:
  - {global: g1, updates: ["insert r2 [2, 3]", "delete r1 [1, 2]"]}
  - insert r1 [4, 2]
""",
    """
name: two inserts on their way at once
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: []}
  r2: {source: y, columns: [B, C], key: [B], rows: [[2, 3]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r1 [1, 2]", "insert r1 [4, 2]"]
""",
    """
name: a transaction and an update after it
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: x, columns: [B, C], key: [B], rows: [[2, 3]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: [["delete r1 [1, 2]", "insert r1 [4, 2]"], "insert r1 [5, 2]"]
""",
    """
name: a trip cancelled while another is booked
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2], [6, 4]]}
  r2: {source: y, columns: [B, C], key: [B], rows: [[2, 3], [4, 5]]}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r1 [7, 2]", {global: g1, updates: ["delete r1 [1, 2]", "delete r2 [4, 5]"]}]
""",
)


def telling_scenarios() -> Iterator[Scenario]:
    return (read(text, "telling") for text in _TEXTS)
