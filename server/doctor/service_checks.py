"""Checks of what the database says about the service: its servers, workers, queues and tokens."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

import ampspec
from ampspec.api.roles import Role
from ampspec.documents.text import join_names, plural
from ampspec.jobs import State
from server.doctor.findings import Finding, ok, problem, warning
from store import workers
from store.access.tokens import is_valid
from store.clock import now
from store.leaders import BACKGROUND
from store.tables import Allocation, Job, Leader, Token, Worker

TOKEN_DAYS: Final = 14
"""An admin token that ends within so many days is named."""


def service_findings(session: Session) -> Iterator[Finding]:
    """What is found in a database with the tables of this version."""
    yield _servers(session)
    online = [row for row, state in workers.listing(session) if state == workers.ONLINE]
    yield from _workers(online)
    yield _queues(session, online)
    yield from _sandboxes(online)
    yield _tokens(session)


def _servers(session: Session) -> Finding:
    leader = session.scalar(
        select(Leader.server_id).where(Leader.task == BACKGROUND, Leader.lease_expires_at > now())
    )
    if leader is None:
        return problem(
            "servers",
            "no server does the background work: jobs of lost workers are not repeated, messages "
            "that were lost are not sent again",
            "Start `ampserver api`, or read the log of the server that runs: its reconciler fails.",
        )
    return ok("servers", f"server {leader} does the background work")


def _workers(online: Sequence[Worker]) -> Iterator[Finding]:
    if not online:
        yield warning(
            "workers",
            "no worker is online",
            "Start one: `ampserver worker`. Its log says why it ends, if it does.",
        )
        return
    versions = Counter(worker.version for worker in online)
    differing = {name: count for name, count in versions.items() if name != ampspec.__version__}
    slots = sum(worker.slots for worker in online)
    message = f"{plural(len(online), 'worker')} with {plural(slots, 'slot')}"
    if differing:
        counts = ", ".join(
            f"{count} of version {name}" for name, count in sorted(differing.items())
        )
        yield warning(
            "workers",
            f"{message}, of which {counts}; this is version {ampspec.__version__}",
            "Two versions may work together only during an upgrade: drain the old workers "
            "(`ampctl worker drain ID`) and start new ones.",
        )
    else:
        yield ok("workers", f"{message}, all of version {ampspec.__version__}")
    for worker in online:
        if error := _hardware(worker).get("storage_error"):
            yield problem(
                "workers",
                f"worker {worker.id} on {worker.hostname} takes no job: {error}",
                "Mend its access to the storage of artifacts; it checks every few seconds.",
            )


def _queues(session: Session, online: Sequence[Worker]) -> Finding:
    """Whether each queue with jobs has a worker, or a batch system that was asked for one."""
    served = {
        queue
        for worker in online
        if worker.job_id is None and worker.drain_requested_at is None
        for queue in worker.queues
    }
    with_allocation = select(Allocation.job_id).where(Allocation.ended_at.is_(None))
    rows = session.execute(
        select(Job.queue, func.count())
        .where(Job.state == State.QUEUED, Job.queue.not_in(served), Job.id.not_in(with_allocation))
        .group_by(Job.queue)
        .order_by(Job.queue)
    ).all()
    if not rows:
        return ok("queues", "each queue with jobs is served")
    counts = join_names(f"{queue!r} ({plural(jobs, 'job')})" for queue, jobs in rows)
    return warning(
        "queues",
        f"no worker serves {counts}",
        "Start a worker with that queue in AMPCORE_WORKER_QUEUES, or a scheduler that serves it; "
        "`ampctl job explain-wait ID` says what a job needs.",
    )


def _sandboxes(online: Sequence[Worker]) -> Iterator[Finding]:
    """Nothing as long as no worker has reported what it can do."""
    reported = [sandbox for worker in online if (sandbox := _sandbox(worker)) is not None]
    with_sandbox = [sandbox for sandbox in reported if sandbox.get("kind")]
    if not reported:
        return
    if with_sandbox:
        count = f"{len(with_sandbox)} of {plural(len(reported), 'worker')}"
        yield ok("custom code", f"{count} may run it")
        return
    missing = {str(text) for sandbox in reported for text in sandbox.get("missing") or ()}
    yield warning(
        "custom code",
        f"no worker may run it: {'; '.join(sorted(missing)) or 'no worker has a sandbox'}",
        f"Jobs with `model: {{kind: bundle}}` stay in the queue. {_sandbox_remedy(missing)}",
    )


def _sandbox_remedy(missing: Collection[str]) -> str:
    """What mends the reasons of workers, as `worker/trainer/sandbox_plan.py` writes them."""
    reasons = " ".join(missing)
    if "AMPCORE_BUNDLE_SANDBOX" in reasons:
        return "Remove AMPCORE_BUNDLE_SANDBOX from the settings of workers, and start them again."
    if "AMPCORE_BUNDLE_USER_NAMESPACE" in reasons:
        return (
            "Give the workers a user namespace of their own, or remove "
            "AMPCORE_BUNDLE_USER_NAMESPACE from their settings; see docs/guides/clusters.md."
        )
    if "bwrap is not installed" in reasons:
        return (
            "Install bubblewrap where workers run, or read docs/guides/operating.md on the other "
            "sandboxes."
        )
    return "docs/guides/operating.md says what sandboxes need."


def _tokens(session: Session) -> Finding:
    admins = session.scalars(
        select(Token.expires_at).where(is_valid(), Token.role == Role.ADMIN)
    ).all()
    if not admins:
        return problem(
            "tokens",
            "no valid token has the role admin",
            "Create one: `ampserver token create NAME --role admin`.",
        )
    if all(end is not None for end in admins):
        last = max(end for end in admins if end is not None)
        if last < datetime.now(UTC) + timedelta(days=TOKEN_DAYS):
            return warning(
                "tokens",
                f"the last admin token ends on {last:%Y-%m-%d}",
                "Create another one: `ampserver token create NAME --role admin`.",
            )
    return ok("tokens", f"{plural(len(admins), 'valid token')} with the role admin")


def _hardware(worker: Worker) -> dict[str, Any]:
    return worker.hardware if isinstance(worker.hardware, dict) else {}


def _sandbox(worker: Worker) -> dict[str, Any] | None:
    sandbox = _hardware(worker).get("sandbox")
    return sandbox if isinstance(sandbox, dict) else None
