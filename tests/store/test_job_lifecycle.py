"""Invariants of a job under any order of actions by users, workers and the reconciler."""

from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import select, update

from ampspec.jobs import ACTIVE, TERMINAL, TRANSITIONS, Reason, State
from ampspec.telemetry import Event, EventType
from store import leases
from store.clock import from_now
from store.jobs import attempts, jobs, lease_expiry
from store.jobs.jobs import Origin
from store.jobs.retries import BACKOFF_BY_REASON
from store.tables import Attempt, EventRow, Job, LogRow, StepBlockRow
from store.telemetry import ingest, steps
from tests.databases import ON_SQLITE

MAX_ATTEMPTS = 2
BACK = st.sampled_from([0, 0, 0, 1, 2])
"""How many attempts back the acting one is: mostly 0, sometimes a superseded attempt."""


class JobLifecycle(RuleBasedStateMachine):
    """One job, and the actions of users, workers and the reconciler on it."""

    def __init__(self, database, make_spec, make_block):
        super().__init__()
        self.database, self.make_block = database, make_block
        spec = make_spec(runtime={"max_attempts": MAX_ATTEMPTS})
        self.job_id = self.in_transaction(jobs.create, spec, Origin("default")).id
        self.put(queue=self.job_id)  # its own queue, in which no other job is claimed
        self.entries_written, self.next_step = 0, 0
        self.newest = {}
        """For each step the newest attempt that reached it."""
        self._reading = None

    def in_transaction(self, function, *arguments, **options):
        with self.database.write() as session:
            return function(session, *arguments, **options)

    def put(self, **values):
        self.in_transaction(
            lambda s: s.execute(update(Job).where(Job.id == self.job_id).values(**values))
        )

    def read(self, work):
        """Read in a transaction: in that of `in_one_transaction`, or in a new one."""
        if self._reading is not None:
            return work(self._reading)
        with self.database.read() as session:
            return work(session)

    @contextmanager
    def in_one_transaction(self):
        """Beginning a transaction takes as long as reading in it."""
        with self.database.read() as session:
            self._reading = session
            try:
                yield
            finally:
                self._reading = None

    @property
    def job(self):
        return self.read(lambda session: jobs.get(session, self.job_id))

    def as_worker(self, back, function, *arguments, **options):
        """Act as the current attempt or an older one; the older one must change nothing."""
        job = self.job
        attempt = job.attempt - back
        owns = back == 0 and job.state in ACTIVE
        stored_rows = None if owns else self.stored_rows()
        result = self.in_transaction(function, self.job_id, attempt, *arguments, **options)
        if not owns:
            assert result is None
            assert self.stored_rows() == stored_rows
        return result

    def stored_rows(self):
        """Every stored row of the job."""

        def rows(session):
            tables = (Job, Attempt, EventRow, StepBlockRow, LogRow)
            table_rows = []
            for table in tables:
                mine = table.id if table is Job else table.job_id
                order = table.__table__.primary_key.columns
                statement = select(*table.__table__.columns).where(mine == self.job_id)
                table_rows += [tuple(row) for row in session.execute(statement.order_by(*order))]
            return table_rows

        return self.read(rows)

    # ---- Users

    @rule()
    def cancel(self):
        self.in_transaction(jobs.request_cancel, self.job_id)

    @rule()
    def pause(self):
        self.in_transaction(jobs.request_pause, self.job_id)

    @rule()
    def resume(self):
        self.in_transaction(jobs.resume, self.job_id)

    @rule()
    def retry(self):
        self.in_transaction(jobs.retry, self.job_id)

    @rule(priority=st.integers(0, 9))
    def edit(self, priority):
        self.in_transaction(jobs.edit, self.job_id, {"priority": priority})

    # ---- Workers

    @rule(wait=st.booleans())
    def claim(self, wait):
        if not wait:
            self.put(not_before=None)
        job = self.in_transaction(attempts.claim_next, "w", [self.job_id])
        if job is not None:
            furthest = max(self.newest, default=-1) + 1
            self.entries_written, self.next_step = 0, furthest // 2

    @rule(back=BACK)
    def mark_running(self, back):
        facts = {"total_steps": 1000, "first_step": self.next_step}
        self.as_worker(back, attempts.mark_running, **facts)

    @rule(back=BACK, counts=st.lists(st.integers(0, 5), max_size=3))
    def append(self, back, counts):
        entries, step = [], self.next_step
        for count in counts:
            if count:
                attempt = float(self.job.attempt - back)
                entries.append(self.make_block(step, count, loss=attempt))
                step += count
            else:
                entries += [Event(EventType.WARNING), ingest.LogChunk("stdout", "text")]
        already_written = {"entries_written": self.entries_written}
        lease = self.as_worker(back, ingest.append, entries, **already_written)
        if lease is not None:
            assert self.in_transaction(
                ingest.append, self.job_id, self.job.attempt, entries, **already_written
            )
            self.newest |= dict.fromkeys(range(self.next_step, step), self.job.attempt)
            self.entries_written, self.next_step = self.entries_written + len(entries), step

    @rule(back=BACK)
    def renew_lease(self, back):
        lease = self.as_worker(back, leases.renew_lease)
        assert lease is None or lease.requested == self.job.requested

    @rule(back=BACK)
    def succeed(self, back):
        self.as_worker(back, attempts.mark_succeeded, {"final_loss": 0.5})

    @rule(back=BACK, reason=st.sampled_from(Reason))
    def fail(self, back, reason):
        self.as_worker(back, attempts.mark_failed, reason, "It failed.")

    @rule(back=BACK)
    def end_cancelled(self, back):
        self.as_worker(back, attempts.mark_cancelled)

    @rule(back=BACK)
    def end_paused(self, back):
        self.as_worker(back, attempts.mark_paused)

    @rule(back=BACK)
    def requeue(self, back):
        self.as_worker(back, attempts.requeue)

    # ---- The reconciler

    @rule(expired_since_s=st.sampled_from([1.0, leases.SELF_FENCE_S + 1]))
    def expire_lease(self, expired_since_s):
        job = self.job
        if job.state in ACTIVE:
            self.put(lease_expires_at=from_now(-expired_since_s))
        ended = [job.id for job in self.in_transaction(lease_expiry.expire)]
        waits = job.state == State.STOPPING and expired_since_s < leases.SELF_FENCE_S
        assert (self.job_id in ended) == (job.state in ACTIVE and not waits)

    # ---- Invariants

    @invariant()
    def all_invariants_hold(self):
        with self.in_one_transaction():
            self.the_event_log_has_only_allowed_transitions()
            self.the_entries_are_numbered_consecutively()
            self.the_columns_match_the_state()
            self.the_attempts_are_numbered_and_only_the_active_one_is_open()
            self.every_step_is_read_once_from_the_newest_attempt()

    def the_event_log_has_only_allowed_transitions(self):
        rows = self.read(
            lambda session: session.execute(
                select(EventRow.data, EventRow.attempt)
                .where(EventRow.job_id == self.job_id, EventRow.type == EventType.STATE)
                .order_by(EventRow.seq)
            ).all()
        )
        states = [State(row.data["state"]) for row in rows]
        assert states[0] == State.QUEUED
        for state, next_state in pairwise(states):
            assert next_state in TRANSITIONS[state]
        assert states[-1] == self.job.state
        assert [row.attempt for row in rows] == sorted(row.attempt for row in rows)

    def the_entries_are_numbered_consecutively(self):
        seqs = []
        for table in (EventRow, StepBlockRow, LogRow):
            statement = select(table.seq).where(table.job_id == self.job_id)
            seqs += self.read(lambda session, asked=statement: session.scalars(asked).all())
        assert sorted(seqs) == list(range(1, self.job.seq + 1))

    def the_columns_match_the_state(self):
        job = self.job
        assert (job.lease_expires_at is None) == (job.state not in ACTIVE)
        assert (job.finished_at is None) == (job.state not in TERMINAL)
        asked = {State.PAUSING: jobs.PAUSE, State.STOPPING: jobs.CANCEL}
        assert job.requested == asked.get(job.state)
        assert (job.state == State.SUCCEEDED) == (job.summary is not None)
        assert job.failures <= MAX_ATTEMPTS
        if job.state == State.FAILED and job.reason in BACKOFF_BY_REASON:
            assert job.failures == MAX_ATTEMPTS
        if job.state in {State.FAILED, State.PAUSED, State.CANCELLED}:
            assert job.message
            assert job.message.endswith(".")

    def the_attempts_are_numbered_and_only_the_active_one_is_open(self):
        job = self.job
        rows = self.read(lambda session: attempts.listing(session, self.job_id))
        assert [row.attempt for row in rows] == list(range(1, job.attempt + 1))
        for row in rows:
            present = row.attempt == job.attempt and job.state in ACTIVE
            assert (row.outcome is None) == (row.finished_at is None) == present

    def every_step_is_read_once_from_the_newest_attempt(self):
        reading = self.read(
            lambda session: steps.read(session, self.job_id, start=0, end=None, limit=10**6)
        )
        assert reading.block["step"].tolist() == sorted(self.newest)
        losses = [self.newest[step] for step in sorted(self.newest)]
        assert np.array_equal(reading.block["loss"], np.array(losses, dtype=np.float32))


@pytest.mark.slow
@ON_SQLITE  # test_attempts.py, test_jobs.py and test_races.py run each transition on both
def test_any_order_of_actions_keeps_the_invariants_of_a_job(database, make_spec, make_block):
    run_state_machine_as_test(
        lambda: JobLifecycle(database, make_spec, make_block),
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
