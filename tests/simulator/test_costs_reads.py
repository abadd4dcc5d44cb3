"""Reads at a source, from relations small enough to count by hand. Blocks hold two rows."""

from __future__ import annotations

import pytest

from stillframe.algebra import Bag
from stillframe.protocol import join_view
from stillframe.protocol.terms import Term, bind
from stillframe.simulator import Relation, Scenario
from stillframe.simulator.bags import Bags
from stillframe.simulator.paper_relations import VIEW
from stillframe.simulator.source_io import Disk, Stored

R1 = ((9, 1), (9, 1), (9, 1), (9, 2))  # 2 blocks
R2 = ((1, 5), (1, 5), (1, 6), (2, 5), (3, 7), (3, 7), (3, 7), (3, 7), (3, 7), (3, 7))  # 5 blocks
R3 = ((5, 1), (5, 1), (5, 1), (6, 1), (7, 1))  # 3 blocks


@pytest.fixture
def reads():
    relations = tuple(
        Relation(name, "x", columns, (), rows)
        for name, columns, rows in (("r1", "WX", R1), ("r2", "XY", R2), ("r3", "YZ", R3))
    )
    scenario = Scenario("reads", relations, (("view", VIEW),))
    view = join_view(scenario.plan(), scenario.source_of)
    bags = Bags()
    stored = {relation.name: Stored(relation.rows) for relation in relations}
    disk = Disk(view, stored.__getitem__, per_block=2)

    def of(**bound):
        rows = {
            int(name[1]) - 1: bags.scan(Bag({row: sign}), view.slots[int(name[1]) - 1].schema.types)
            for name, (row, sign) in bound.items()
        }
        term = bind(view, Term(), rows)
        held = disk.carried(term, bags.content)
        return disk.with_indexes(term, held), disk.with_three_blocks(term, held)

    return of


def test_the_whole_view(reads):
    assert reads() == (2 + 5 + 3, 2 * 5 * 3)


def test_a_row_of_r1_finds_rows_of_r2_together_and_each_of_them_rows_of_r3(reads):
    """Three rows of r2 in two blocks; then two probes for Y = 5, of two blocks each, and one for 6: more than
    reading r3's three blocks."""
    assert reads(r1=((9, 1), 1))[0] == 2 + 3


def test_a_row_that_finds_one_row_probes_once(reads):
    """X = 2: one row of r2, and for its Y = 5 two blocks of r3."""
    assert reads(r1=((9, 2), 1))[0] == 1 + 2


def test_a_row_of_r2_probes_both_sides_once(reads):
    """Three rows of r1 in two blocks, three rows of r3 in two blocks."""
    assert reads(r2=((1, 5), 1)) == (2 + 2, min(2 * 2, 3 * 1))


def test_rows_found_by_an_index_that_does_not_cluster_are_a_read_each(reads):
    """Y = 5 stands in three rows of r2: three reads, less than five blocks; r1 whole is two."""
    assert reads(r3=((5, 1), 1))[0] == 3 + 2


def test_a_relation_is_read_whole_where_that_is_cheaper(reads):
    """Y = 7 stands in six rows of r2: five blocks. None of them has a partner in r1, and r1 costs nothing."""
    assert reads(r3=((7, 1), 1))[0] == 5


def test_two_rows_that_join_probe_for_the_third(reads):
    assert reads(r1=((9, 1), 1), r2=((1, 5), -1)) == (2, 3)


def test_the_cheaper_of_two_indexes_is_asked(reads):
    """r2 by X = 1 is two blocks, by Y = 6 one row."""
    assert reads(r1=((9, 1), 1), r3=((6, 1), 1)) == (1, 5)


def test_rows_that_do_not_join_read_nothing(reads):
    assert reads(r1=((9, 1), 1), r2=((2, 5), 1)) == (0, 0)


def test_a_value_nobody_has_costs_no_read_with_an_index(reads):
    assert reads(r1=((9, 44), 1))[0] == 0
