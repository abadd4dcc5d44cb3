"""Plans over what a session reads, as queries of the engine; and the change of a key-wise operator as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stillframe.algebra import (
    Aggregate,
    Filter,
    Moment,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Semi,
    UnionAll,
    Window,
    call,
)
from stillframe.algebra.types import BOOLEAN
from stillframe.change import (
    ARRIVING,
    CHANGED,
    TOUCHED,
    Keyed,
    Keywise,
    Order,
    arriving_keys,
    at,
    brought_forward,
    change_of,
    first_of_candidates,
    goes_on,
    in_order_written,
    in_touched,
    keeps_first,
    keyed_inputs,
    over,
    shown_before,
    shown_keys,
    terms,
    touched_groups,
    touched_keys,
    unknown_partitions,
    untouched_change,
    with_states,
)
from stillframe.engine import (
    Staged,
)
from stillframe.lake.frame import ViewState
from stillframe.runtime.binding import Binder
from stillframe.runtime.columnar import is_columnar
from stillframe.runtime.computing import Computing
from stillframe.runtime.reads import Upstream

_GROUPS = "#groups"


@dataclass(frozen=True)
class Compiler:
    """Plans of changes, bound to what a session reads. What has to be known on the way is computed."""

    computing: Computing
    order: Order = in_order_written

    @property
    def binder(self) -> Binder:
        return self.computing.binder

    def change(self, plan: Plan, changed: frozenset[str], beside: tuple[Plan, ...] = ()) -> Plan | None:
        """The change of a linear plan, and some more rows of it; None where there is none."""
        found = (*terms(change_of(plan, changed, self.order)), *beside)
        return self.bound(found) if found else None

    def bound(self, plans: Iterable[Plan]) -> Plan:
        """The sum of some plans."""
        bound = tuple(
            self.binder.bind(plan, thorough=self.computing.here and is_columnar(plan))
            for plan in (with_states(plan, self._state) for plan in plans)
        )
        return bound[0] if len(bound) == 1 else UnionAll(bound)

    def _state(self, name: str, moment: Moment) -> Plan | None:
        """Of a block that is shared. What is left of its change at a place differs from all of it by rows
        that make no difference there, so the block's own states will do."""
        left = self.binder.left.get(name)
        states = self.binder.blocks.get(name if left is None else left.relation)
        return None if states is None else states[moment]

    def keywise(
        self,
        name: str,
        plan: Keywise,
        former: ViewState,
        changed: frozenset[str],
        folder: Path,
        changing: Keywise | None = None,
    ) -> Plan | None:
        """The groups that a change touched as they are now, less as they were published; None where none
        was. What was computed on the way is left in `folder`. The inputs of `changing` have the same change
        as those of the plan, read elsewhere."""
        self.binder.upstream[name] = Upstream(former, former, None, changed=False, own=True)
        looked_at = keyed_inputs(changing or plan)
        shown = Scan(name, former.schema)
        if isinstance(plan, Aggregate) and goes_on(plan):
            return self._from_own_state(plan, looked_at[0], shown, changed, folder)
        if isinstance(plan, Window) and keeps_first(plan):
            return self._first_rows(plan, looked_at[0], shown, changed, folder)
        if isinstance(plan, Semi):
            return self._met(plan, looked_at, shown, changed, folder)
        touched = self._keys(self._net_change(looked_at[0], changed), looked_at[0], folder)
        if touched is None:
            return None
        now, null = self._read_again(plan, touched, changed)
        then = self.bound(in_touched(shown, shown_keys(plan), touched_keys(plan), null))
        return UnionAll((now, Negate(then)))

    def _met(
        self,
        plan: Semi,
        looked_at: tuple[Keyed, ...],
        former: Scan,
        changed: frozenset[str],
        folder: Path,
    ) -> Plan | None:
        """Groups that the right input touches anew; of the others, what the left input's change makes."""
        here, there = looked_at
        touched = self._keys(self._net_change(there, changed), there, folder / "touched")
        parts: list[Plan] = []
        if touched is not None:
            now, null = self._read_again(plan, touched, changed)
            then = self.bound(in_touched(former, shown_keys(plan), touched_keys(plan), null))
            parts += [now, Negate(then)]
        coming = self._keys(self._net_change(here, changed), here, folder / "arriving")
        if coming is not None and (touched is None or here.keys):
            self.binder.staged[ARRIVING] = coming
            left = change_of(here.plan, changed, self.order)
            assert left is not None
            rows = tuple(
                untouched_change(plan, term, touched_keys(plan) if touched is not None else None)
                for term in terms(left)
            )
            state = keyed_inputs(plan)[1]
            now_there = at(state.plan, Moment.AFTER, changed)
            right = in_touched(now_there, state.keys, arriving_keys(plan), coming.with_null())
            parts.append(over(plan, (self.bound(rows), self.bound(right))))
        return (UnionAll(tuple(parts))) if parts else None

    def _net_change(self, looked_at: Keyed, changed: frozenset[str]) -> Plan | None:
        """The net change of an input's keys and of all else that is looked at."""
        change = terms(looked_at.change(changed, self.order))
        if not change:
            return None
        return self.bound(change)

    def _keys(self, change: Plan | None, looked_at: Keyed, folder: Path) -> Staged | None:
        """The keys of a net change, each once; None where there is none."""
        if change is None:
            return None
        found = self.computing.keys(change, len(looked_at.keys), folder)
        return found if found.rows else None

    def _read_again(
        self, plan: Keywise, touched: Staged, changed: frozenset[str]
    ) -> tuple[Plan, frozenset[int]]:
        """Touched groups, from the inputs' rows as they are now; and which of their keys may be NULL."""
        self.binder.staged[TOUCHED] = touched
        scan, null = touched_keys(plan), touched.with_null()
        inputs = tuple(
            self.bound(in_touched(at(each.plan, Moment.AFTER, changed), each.keys, scan, null))
            for each in keyed_inputs(plan)
        )
        return over(plan, inputs), null

    def _stage_change(self, looked_at: Keyed, changed: frozenset[str], folder: Path) -> bool:
        """Whether anything changed of what is looked at; if so, it is staged."""
        change = self._net_change(looked_at, changed)
        if change is None:
            return False
        found = self.computing.net(change, folder / "changed")
        self.binder.staged[CHANGED] = found
        return bool(found.rows)

    def _first_rows(
        self, plan: Window, looked_at: Keyed, former: Scan, changed: frozenset[str], folder: Path
    ) -> Plan | None:
        """The first rows of candidates; of partitions where they do not tell, those of all rows."""
        if not self._stage_change(looked_at, changed, folder):
            return None
        then = Negate(shown_before(plan, former))
        unknown = self.computing.net(self.bound((unknown_partitions(plan, former),)), folder / "unknown")
        if not unknown.rows:
            return self.bound((first_of_candidates(plan, former, None), then))
        now, _ = self._read_again(plan, unknown, changed)
        if not plan.partition:
            return UnionAll((now, self.bound((then,))))
        known = first_of_candidates(plan, former, touched_keys(plan))
        return UnionAll((now, self.bound((known, then))))

    def _from_own_state(
        self, plan: Aggregate, looked_at: Keyed, former: Scan, changed: frozenset[str], folder: Path
    ) -> Plan | None:
        """Groups brought forward; those of which something is unknown then are read again."""
        if not self._stage_change(looked_at, changed, folder):
            return None
        groups, then = brought_forward(plan, former), Negate(touched_groups(plan, former))
        width = len(plan.schema)
        shown = tuple(Output(c.name, Ref(i, c.type)) for i, c in enumerate(plan.schema))
        if not any(measure.function in ("min", "max") for measure in plan.measures):
            return self.bound((Project(groups, shown), then))
        computed = self.computing.net(self.bound((groups,)), folder / "groups")
        self.binder.staged[_GROUPS] = computed
        found, unknown = Scan(_GROUPS, groups.schema, Moment.CHANGE), Ref(width, BOOLEAN)
        known: Plan = Project(Filter(found, call("not", unknown)), shown)
        if not computed.rows or not computed.any_true(width):
            return self.bound((known, then))
        keys = Project(Filter(found, unknown), shown[: len(plan.keys)])
        touched = self.computing.net(self.bound((keys,)), folder / "unknown")
        now, _ = self._read_again(plan, touched, changed)
        return UnionAll((now, self.bound((known, then))))
