"""A batch system that the tests control, and its scheduler."""

from dataclasses import replace

from sqlalchemy import update

from server.allocations.batch_system import AllocationStatus, BatchSystemUnavailable
from server.allocations.scheduler import Scheduler

QUEUE = {"queue": "batch"}
IN_ITS_TURN = (
    "It is submitted to Slurm when its turn comes, and the quota of its project allows it."
)


class FakeBatchSystem:
    """Does what the test says; counts what it was asked for."""

    engine = "slurm"
    submission_s = 90.0

    def __init__(self):
        self.requests, self.cancelled, self.known = [], [], {}
        self.error = None
        self.answers = True
        """Whether `submit` still answers after it has accepted an allocation."""

    def submit(self, request):
        if self.error is not None:
            raise self.error
        assert request.name not in self.known, "submitted twice"
        self.requests.append(request)
        self.known[request.name] = AllocationStatus(str(100 + len(self.requests)), "PENDING")
        if not self.answers:
            raise BatchSystemUnavailable("Socket timed out")
        return self.known[request.name].external_id

    def statuses(self):
        if isinstance(self.error, BatchSystemUnavailable):
            raise self.error
        return dict(self.known)

    def cancel(self, external_id):
        self.cancelled.append(external_id)

    def change(self, name, **values):
        self.known[name] = replace(self.known[name], **values)


def new_scheduler(database, batch_system, max_pending=10):
    scheduler = Scheduler(database, batch_system, max_pending={"batch": max_pending}, poll_s=60)
    scheduler.renew_leases()
    return scheduler


def put(database, table, *conditions, **values):
    with database.write() as session:
        session.execute(update(table).where(*conditions).values(**values))
