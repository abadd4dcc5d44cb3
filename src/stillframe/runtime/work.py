"""The computing part of a session: one vector is fixed, every view is brought to it, and one frame is
published. A view goes forward by its change where it can, and is recomputed where it must."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

from stillframe.algebra import Moment, Plan, Times, scans
from stillframe.algebra.plan import walk
from stillframe.change import Core, Keywise, Refers, at, columns_read, merged, refers_through
from stillframe.engine import (
    ENGINE_LOST,
    NO_ENGINE,
    Engine,
    EngineError,
    Staged,
    Tables,
    canonical_sql,
    consolidated_sql,
    named_sql,
    repeated_sql,
    write_query,
)
from stillframe.errors import GAPS, CaptureGap, SourceError, StillframeError, ValueMismatch
from stillframe.lake.frame import CURRENT, HELD, RECORDS, STOPPED, DataFile, Frame, ViewState
from stillframe.protocol import Setting
from stillframe.runtime.ahead import Taken, Wanted
from stillframe.runtime.begun import Begun
from stillframe.runtime.binding import Binder
from stillframe.runtime.choosing import TOP
from stillframe.runtime.compiling import Compiler
from stillframe.runtime.computing import Computing
from stillframe.runtime.conduct import NotQuiet
from stillframe.runtime.config import DRIVER
from stillframe.runtime.definitions import View, referring
from stillframe.runtime.fixing import Fixing, Means, positions_of
from stillframe.runtime.loading import Loaded
from stillframe.runtime.ordering import Ordering
from stillframe.runtime.outcome import NeedsFull, Outcome, Step
from stillframe.runtime.passing import pass_on, shown_columns
from stillframe.runtime.reads import Reads, Upstream
from stillframe.runtime.serving import Place, Serving
from stillframe.runtime.sharing import Sharing
from stillframe.runtime.sparing import Sparing
from stillframe.runtime.standing import Standing, same, without_files
from stillframe.runtime.weighing import Weighing
from stillframe.sources.base import Capture, Position

COST = "COST"  # the reason for computing anew what could go forward


class Work:
    """The views of one session, computed upstream first. A view that fails is stopped where it stood; the
    others go on."""

    def __init__(
        self,
        means: Means,
        previous: Frame | None,
        targets: tuple[str, ...],
        full: frozenset[str],
        fixed: Mapping[str, Position] | None = None,
        loaded: Mapping[str, Loaded] | None = None,
        failed: Mapping[str, StillframeError] | None = None,
        ahead: Taken | None = None,
    ) -> None:
        self.means = means
        self.views = {name: means.definitions.views[name] for name in targets}
        self.full = full
        self.loaded = dict(loaded or {})
        self.failed = dict(failed or {})  # views that could not be loaded
        self.staging = means.lake.attempt("staging")
        self._ahead = ahead or Taken()
        self._numbers = count()
        self._rows_read = 0
        self._waited = 0.0  # for the engine to start
        self.weighing = Weighing(self)
        self.rows_changed: Counter[str] = Counter()  # by source
        self.fixing = Fixing(means, previous, self.views, full, fixed or {}, self.staging)
        self.standing = Standing(means, previous, self.views, self.fixing)
        self.vector = self.fixing.vector
        self.conducting = self.fixing.conducting
        self.reads = self._reads(self.views.values(), self.staging)
        self.sharing = Sharing(self.views.values(), self.reads, self._core, self.weighing.going)

    def _reads(self, views: Collection[View], folder: Path) -> Reads:
        """What these views read, the columns of all of them together."""
        plans = [view.plan for view in views]
        columns = merged(columns_read(plan) for plan in plans)
        schemas = {scan.relation: scan.schema for plan in plans for scan in scans(plan)}
        means = self.means
        ahead = self._ahead.without({*self.fixing.cut, *self.conducting.reached})
        wanted = (columns, means.definitions.selections(views), schemas)
        return Reads(
            self._engine, means.sources, self.vector, *wanted, folder, self._staged, ahead, means.room
        )

    def next_reads(self) -> list[Wanted]:
        """The changes that the next session reads, if it has the same views and this one's frame to go on
        from; not of sources that are led by live protocols or are behind their newest state."""
        led = {source for view in self.views.values() if view.conducted for source in view.sources}
        out = {*led, *self.fixing.cut, *self.fixing.broken}
        tables = [view for view in self.views.values() if view.served is None]
        read = dict.fromkeys(relation for view in tables for relation in view.relations)
        at = {relation: relation.split(".", 1)[0] for relation in read}
        return [self.reads.wanted(r, self.vector[source]) for r, source in at.items() if source not in out]

    @contextmanager
    def _alone(self, view: View) -> Iterator[None]:
        """Reads of this view's own columns only, for as long as a block lasts."""
        shared, self.reads = (
            self.reads,
            self._reads([view], self.staging / f"alone-{len(self.standing.outcomes)}"),
        )
        try:
            yield
        finally:
            self.reads.forget()
            self.reads = shared

    def _begins(self, view: View) -> bool:
        return self.fixing.begins(view)

    def _engine(self) -> Engine:
        started = time.perf_counter()
        engine = self.means.engine()
        self._waited += time.perf_counter() - started
        return engine

    def _staged(self, kind: str, relation: str, staged: Staged, seconds: float) -> None:
        self.weighing.learning.staged(kind, relation, staged, seconds)
        self._rows_read += staged.rows if kind == "state" else 0
        source = relation.split(".", 1)[0]
        self.rows_changed[source] += staged.rows if kind == "change" else 0
        self.means.metrics.count("stillframe_source_bytes_total", staged.bytes, source=source)
        self.means.metrics.count("stillframe_source_queries_total", 1, source=source)
        self.means.observe(Step.STAGED, relation)

    # -- computing

    def publish(self, *, if_new: bool = False) -> Frame:
        """The next frame; with `if_new` the last one, where the next would show nothing else."""
        try:
            for name, done in self.conducting.views.items():
                try:
                    self._show_each(self.views[name])
                except SourceError as error:
                    done.error = error
            for view in self.views.values():
                self._maintain(view)
            self.means.observe(Step.COMPUTED, "")
            frame, previous = self.standing.frame(), self.standing.previous
            if if_new and previous is not None and same(frame, previous):
                return previous
            frame = self.standing.published(frame)
            with suppress(Exception):  # a hint for later sessions; the frame is there, whatever fails here
                self.means.statistics = self.weighing.learned(self.standing.all_states())
        finally:
            self.reads.forget()
            self.sharing.forget()
            self._ahead = Taken()
            self.means.lake.discard(self.staging)
        self.means.observe(Step.PUBLISHED, str(frame.number))
        Begun(self.means.lake.path).forget(
            source for view in frame.views.values() for source in (view.vector or {})
        )
        return frame

    def _maintain(self, view: View) -> None:
        started, read, waited = time.perf_counter(), self._rows_read, self._waited
        former = self.standing.former(view.name)
        try:
            self._check_inputs(view)
            held = self._why_held(view, former)
            if held is not None:
                if former is not None:
                    self.standing.states[view.name] = replace(former, state=HELD)
                self.standing.outcomes[view.name] = Outcome("held", held, view.algorithm)
                return
            try:
                outcome = self._compute(view, former)
            except StillframeError as error:
                if error.code not in (ValueMismatch.code, *GAPS):
                    raise
                with self._alone(view):  # it may be of a column that only other views read
                    outcome = self._compute(view, former, passing=(ValueMismatch.code,))
        except StillframeError as error:
            if error.code in (ENGINE_LOST, NO_ENGINE):  # of no view: nothing more can be computed
                raise
            outcome = self.standing.stopped(view, former, error)
        took = time.perf_counter() - started
        outcome = replace(outcome, seconds=took, rows_read=self._rows_read - read)
        took -= self._waited - waited
        self.standing.outcomes[view.name] = self.weighing.measured(view, outcome, took)

    def _compute(self, view: View, former: ViewState | None, passing: tuple[str, ...] = ()) -> Outcome:
        """Bring a view forward, or recompute it. An error of the change alone may be one that the view at
        the vector does not have: a term may meet rows side by side that no state of the sources had
        together, and a bad value in the log (`passing`) may be mended by now. Only the view itself tells."""
        if view.served is not None:
            return self._serve(view, former)
        reason, detail = self._reason_for_full(view, former), None
        if reason == COST:
            try:
                return replace(self._recompute(view, COST), detail=self.weighing.why(view))
            except StillframeError as error:
                if error.code in (ENGINE_LOST, NO_ENGINE) or self._full_below(view):
                    raise
                reason = None  # nobody has to compute it anew: it goes forward as it could from the first
        if reason is None:
            assert former is not None
            try:
                if view.conducted:
                    return self._conducted(view, former)
                return self._incremental(view, former)
            except NeedsFull as need:
                reason = need.message
            except StillframeError as error:
                if error.code not in (EngineError.code, *passing):
                    raise
                reason, detail = "INCREMENTAL_FAILED", error.detail or error.message
        if view.name in self.failed:
            raise self.failed[view.name]
        strict = view.policy == "incremental_strict" and former is not None and former.vector is not None
        if strict and view.name not in self.full:
            raise NeedsFull(
                f"view {view.name} would have to be recomputed: {reason}",
                hint="refresh it with --full once, or use refresh_policy = 'incremental'",
            )
        return replace(self._recompute(view, reason), detail=detail)

    def _why_held(self, view: View, former: ViewState | None) -> str | None:
        """A view never goes back. One over a view that is held is held with it: they show one vector, or
        none. And one that shows every transaction does not jump to where live protocols have led."""
        if any(self.standing.outcomes[name].mode == "held" for name in view.upstream):
            return "UPSTREAM_HELD"
        loaded = self.loaded.get(view.name)
        if loaded is not None and loaded.fits(view) and self.fixing.is_past(view, loaded.vector):
            return "LOAD_AHEAD"
        if former is None or self._begins(view):
            return None
        if self.fixing.is_past(view, positions_of(former)):
            return "AHEAD"
        mine = {source: at for source, at in self.fixing.fixed.items() if source in view.sources}
        if (
            view.level == TOP
            and not view.conducted
            and any(self.vector.get(s) != at for s, at in mine.items())
        ):
            return "ONE_BY_ONE"
        return None

    def _check_inputs(self, view: View) -> None:
        for source in sorted(view.sources):
            if source in self.fixing.broken:
                raise self.fixing.broken[source]
        for name in view.upstream:
            if self.standing.states[name].state == STOPPED:
                error = self.standing.outcomes[name].error
                if error is not None and self.views[name].owner:
                    raise error
                raise StillframeError(
                    f"view {view.name} reads view {name}, which is stopped",
                    hint=f"mend {name} first",
                    code="UPSTREAM_STOPPED",
                )

    def must_be_full(self, view: View, former: ViewState | None) -> str | None:
        """Why it cannot go forward, whatever that would cost."""
        if former is None or former.vector is None:
            return "NEW"
        if view.name in self.full:
            return "ASKED"
        if former.definition != view.text.select or former.schema != view.schema:
            return "DEFINITION_CHANGED"
        if (former.algorithm == RECORDS) != (view.served is not None):
            return "DEFINITION_CHANGED"
        if view.policy == "full":
            return "POLICY"
        return self.fixing.reloads.get(view.name)

    def _reason_for_full(self, view: View, former: ViewState | None) -> str | None:
        reason = self.must_be_full(view, former)
        if reason is not None:
            return reason
        if self.weighing.is_cheaper_anew(view):
            return COST
        return "UPSTREAM_FULL" if self._full_below(view) else None

    def _full_below(self, view: View) -> bool:
        """Whether something that it reads was computed anew, and so has no change in this session."""
        return any(self.standing.outcomes[name].mode == "full" for name in view.upstream)

    def _incremental(self, view: View, former: ViewState) -> Outcome:
        after = positions_of(former)
        if view.name in self.fixing.gaps:
            raise self.fixing.gaps[view.name]
        upstream = self._upstream(view, former)
        staged = {
            relation: self.reads.change(relation, after[relation.split(".", 1)[0]])
            for relation in view.relations
        }
        rows_in = sum(change.rows for change in staged.values())
        rows_in += sum(up.change.rows for up in upstream.values() if up.change is not None)
        for relation, change in staged.items():
            self.means.metrics.count(
                "stillframe_change_rows_total", change.rows, source=relation.split(".", 1)[0]
            )
        changed = frozenset(r for r, change in staged.items() if change.rows) | frozenset(
            name for name, up in upstream.items() if up.changed
        )
        columns = shown_columns(view.plan)
        if columns is not None and len(staged) == 1 and staged[view.relations[0]].small:
            folder = self.means.lake.attempt("changes", view.name)
            pass_on(staged[view.relations[0]], columns, view.schema, folder)
            return self.standing.brought(view, former, rows_in, folder)
        binder = Binder(self.reads, self._tables(), self.means.lake.path, after, upstream)
        order = self._ordering(view.plan, binder)
        computing = self._computing(order)
        compiler = Compiler(computing, order)
        folder = self.staging / f"touched-{next(self._numbers)}"
        plan = view.plan
        if self.reads is self.sharing.reads:
            plan, changed = self.sharing.over(view.plan, binder, changed, former)
        spared = Sparing(
            binder,
            self.staging / f"spared-{next(self._numbers)}",
            self._refers(plan, former, binder),
            None if isinstance(plan, Keywise) else former,
        ).spared(plan, changed)
        if isinstance(view.plan, Keywise):
            assert isinstance(spared.plan, Keywise)
            found = compiler.keywise(view.name, view.plan, former, spared.changed, folder, spared.plan)
        else:
            found = compiler.change(spared.plan, spared.changed, spared.gone)
        if found is None:
            return self.standing.unchanged(view, former, rows_in)
        folder = self.means.lake.attempt("changes", view.name)
        computing.write(found, view.schema, folder)
        return self.standing.brought(view, former, rows_in, folder)

    def _core(self, core: Core, binder: Binder, changed: frozenset[str], former: ViewState) -> Staged:
        """The net change of what several views have in common, since the state that one of them shows."""
        number = next(self._numbers)
        refers = self._refers(core.join, former, binder)
        spared = Sparing(binder, self.staging / f"spared-{number}", refers).spared(core.plan, changed)
        order = self._ordering(core.plan, binder)
        computing = self._computing(order)
        found = Compiler(computing, order).change(spared.plan, spared.changed)
        if found is None:
            return Staged((), tuple(range(len(core.columns))), core.plan.schema.types, 0, False, small=True)
        return computing.net(found, self.staging / f"core-{number}")

    def _ordering(self, plan: Plan, binder: Binder) -> Ordering:
        return Ordering(plan, binder, self.weighing.estimator, self.means.statistics)

    def _computing(self, order: Ordering) -> Computing:
        here = self.means.small_changes == DRIVER
        return Computing(self._engine, order.binder, order.can_be_sent, here)

    def _refers(self, plan: Plan, former: ViewState, binder: Binder) -> dict[str, list[Refers]]:
        """What the relations, copies and cores that a plan reads refer to. Foreign keys hold in committed
        states; a state that left transactions out, shows them one by one, or was read table by table, may be
        none."""
        previous, known = self.standing.previous, self.means.definitions
        assert previous is not None
        if (
            not known.references
            or former.session.get("frame") != previous.number
            or previous.waiting
            or any(each.level == TOP or each.conducted for each in known.views.values())
        ):
            return {}
        seen = {name for name, source in self.means.sources.items() if source.capture is Capture.SNAPSHOT}
        sure = {r: each for r, each in known.references.items() if r.split(".", 1)[0] not in seen}
        blocks = {name: states[Moment.AFTER] for name, states in binder.blocks.items()}
        read = (scan for each in (plan, *blocks.values()) for scan in scans(each))
        found = referring({scan.relation: scan.schema for scan in read}, sure)
        return found | {name: list(refers_through(block, found)) for name, block in blocks.items()}

    def _conducted(self, view: View, former: ViewState) -> Outcome:
        done = self.conducting.views[view.name]
        promised = done.protocol.claims(Setting.LOCAL_TRANSACTIONS) != "none"
        reached = self.conducting.reached
        cut = any(self.vector[source] != reached.get(source) for source in view.sources)
        if isinstance(done.error, NotQuiet) or (done.error is None and promised and cut):
            self.standing.states[view.name] = replace(former, state=HELD)
            return Outcome("held", NotQuiet.code, view.algorithm, done.rows, asked=done.asked)
        if done.error is not None:
            raise done.error
        files: tuple[DataFile, ...] = ()
        folder = self.means.lake.attempt("changes", view.name)
        if done.shown and self.conducting.change(done.before, done.shown[-1], view.schema, folder):
            files = self.means.lake.collect(folder)
            self.means.observe(Step.WRITTEN, view.name)
        vector = {source: reached[source].to_json() for source in sorted(view.sources)}
        self.standing.states[view.name] = replace(self.standing.advanced(view, former, files), vector=vector)
        mode, reason = ("incremental", "CHANGES") if files else ("unchanged", "NO_CHANGES")
        rows_out = sum(file.rows for file in files)
        return Outcome(
            mode,
            reason,
            view.algorithm,
            done.rows,
            rows_out,
            asked=done.asked,
            compensated=done.compensated,
        )

    def _serve(self, view: View, former: ViewState | None) -> Outcome:
        """Bring the records of a view to the vector; nothing of them is in the lake."""
        if view.name in self.fixing.gaps and not self._begins(view):
            raise self.fixing.gaps[view.name]
        means, anew = self.means, self._begins(view)
        place = Place(means.consumer, means.root)
        serving = Serving(means.lake.path, self._engine, means.sources, place)
        if former is not None and not anew and self.fixing.is_past(view, serving.stands(view)):
            self.standing.states[view.name] = replace(former, state=HELD)
            return Outcome("held", "AHEAD", view.algorithm)
        folder = self.staging / f"records-{len(self.standing.outcomes)}"
        tally, loaded = serving.bring(view, self.vector, folder, anew=anew)
        mode = "full" if loaded else "incremental" if tally.entries else "unchanged"
        told = (self.must_be_full(view, former) or "RECORDS_LOST") if loaded else None
        reason = told or ("CHANGES" if tally.entries else "NO_CHANGES")
        self.standing.states[view.name] = replace(
            without_files(view),
            state=CURRENT,
            changed=self.standing.number if tally.writes or former is None else former.changed,
            vector=self.standing.vector_of(view),
            session={"frame": self.standing.number, "mode": mode, "reason": reason},
        )
        for name in ("writes", "conflicts"):
            means.metrics.count(f"stillframe_record_{name}_total", getattr(tally, name), view=view.name)
        return Outcome(mode, reason, view.algorithm, rows_in=tally.entries, rows_out=tally.writes)

    def _show_each(self, view: View) -> None:
        """Frames of all the states but the last that a view which shows every transaction went through."""
        done = self.conducting.views[view.name]
        if view.level != TOP or done.error is not None:
            return
        for shown in done.shown[:-1]:
            former = self.standing.former(view.name)
            folder = self.means.lake.attempt("changes", view.name)
            assert former is not None
            if shown.whole and self.conducting.change(done.before, shown, view.schema, folder):
                files = self.means.lake.collect(folder)
                vector = {**(former.vector or {}), **self.conducting.reached_by(shown)}
                state = replace(self.standing.advanced(view, former, files), vector=vector)
                self.standing.shown_alone(view, state)
                done.before = self.conducting.held(shown)

    def _recompute(self, view: View, reason: str) -> Outcome:
        loaded = self.loaded.pop(view.name, None)
        if loaded is None or not loaded.fits(view):
            return self._recomputed(view, reason)
        with suppress(CaptureGap), self._alone(view):
            for relation, rows in loaded.relations.items():
                self.reads.adopt(relation, rows, loaded.vector[relation.split(".", 1)[0]])
            return self._recomputed(view, reason)
        return self._recomputed(view, reason)

    def _recomputed(self, view: View, reason: str) -> Outcome:
        upstream = {name: self._same(name) for name in view.upstream}
        plan = at(view.plan, Moment.AFTER, frozenset())
        binder = Binder(self.reads, self._tables(), self.means.lake.path, {}, upstream, anew=True)
        plain = binder.plain(scans(plan)) and not any(isinstance(node, Times) for node in walk(plan))
        computing = Computing(self._engine, binder)
        query = canonical_sql(computing.sql(binder.bind(plan), plain=plain), view.schema.types)
        width = len(view.schema)
        if not plain:
            query = repeated_sql(consolidated_sql(query, width), width)
        files = self._write(view, named_sql(query, view.schema.names, count=False), "data")
        rows_in = sum(self.reads.state(relation).rows for relation in view.relations)
        return self.standing.recomputed(view, reason, files, rows_in)

    def _write(self, view: View, sql: str, kind: str) -> tuple[DataFile, ...]:
        folder = self.means.lake.attempt(kind, view.name)
        write_query(self._engine(), sql, folder)
        files = self.means.lake.collect(folder)
        self.means.observe(Step.WRITTEN, view.name)
        return files

    def _tables(self) -> Callable[[], Tables]:
        """Tables of the engine for one piece of work, which starts it only when one is needed."""
        return cache(lambda: Tables(self._engine()))

    # -- upstream views

    def _same(self, name: str) -> Upstream:
        state = self.standing.states[name]
        return Upstream(state, state, None, changed=False)

    def _upstream(self, view: View, former: ViewState) -> dict[str, Upstream]:
        """How each view this one reads moved since this one was last maintained."""
        found = {}
        seen = former.session.get("frame")
        for name in view.upstream:
            after, before = self.standing.states[name], self.standing.former(name)
            if before is None:
                raise NeedsFull("UPSTREAM_NEW")
            if seen is not None and before.session.get("frame") == seen:
                change = self.standing.changes.get(name)
                found[name] = Upstream(before, after, change, changed=change is not None)
                continue
            try:
                then = self.means.lake.frame(int(seen or 0)).views[name]
            except (StillframeError, KeyError) as error:
                raise NeedsFull("UPSTREAM_EXPIRED") from error
            if then.schema != after.schema:
                raise NeedsFull("UPSTREAM_CHANGED")
            found[name] = Upstream(
                then, after, None, changed=(then.base, then.changes) != (after.base, after.changes)
            )
        return found
