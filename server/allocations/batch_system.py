"""What a scheduler needs of a batch system: `server.allocations.slurm`, `…kubernetes`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class BatchSystemUnavailable(Exception):
    """The batch system does not answer: nothing is known of what it has done."""


class SubmissionRefused(Exception):
    """The batch system does not accept an allocation; the message is its own."""


@dataclass(frozen=True)
class AllocationRequest:
    """What to ask for.

    Args:
        name: The name of the allocation; there is never a second one of that name.
        job_id: The job that its workers run.
        queue: The queue of the job, whose settings apply.
        nodes: The number of machines, with one worker on each.
        devices: The number of ranks, and of devices, on each machine.
        time_limit_s: How long it may last; None: as the settings of the queue say.
    """

    name: str
    job_id: str
    queue: str
    nodes: int
    devices: int
    time_limit_s: float | None


@dataclass(frozen=True)
class AllocationStatus:
    """What the batch system says of an allocation.

    Args:
        external_id: Its id there.
        state: Its state, in the words of the batch system.
        has_ended: Whether it is over.
        reason: Why it waits or has ended; None: nothing is said.
        nodes: The list of its nodes.
        expected_start_at: When it is expected to start.
        has_begun: Whether a worker may have started in it.
    """

    external_id: str
    state: str
    has_ended: bool = False
    reason: str | None = None
    nodes: str | None = None
    expected_start_at: datetime | None = None
    has_begun: bool = False


class BatchSystem(Protocol):
    """A system that gives jobs their devices. All methods may raise BatchSystemUnavailable."""

    @property
    def engine(self) -> str:
        """Its short name, such as `slurm`."""

    @property
    def submission_s(self) -> float:
        """How long a submission without an answer may still succeed; 0 if a name is taken once."""

    def submit(self, request: AllocationRequest) -> str:
        """Ask for an allocation; returns its id. Raises SubmissionRefused."""

    def statuses(self) -> Mapping[str, AllocationStatus]:
        """Every allocation that it knows, by name, also those that ended a short time ago."""

    def cancel(self, external_id: str) -> None:
        """End an allocation, whether it waits or runs; one that is unknown has ended."""
