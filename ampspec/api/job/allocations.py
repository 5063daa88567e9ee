"""The allocations of a job: the devices that a batch system was asked for."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

from pydantic import Field

from ampspec.api.base import ApiModel, StoredModel, open_enum

BATCH_SYSTEMS: Final[Mapping[str, str]] = {"slurm": "Slurm", "kubernetes": "Kubernetes"}
"""What people call each batch system, by its engine."""


def batch_system_name(engine: str) -> str:
    """What people call a batch system; its engine if a newer version knows more."""
    return BATCH_SYSTEMS.get(engine, engine)


def allocation_name(engine: str, external_id: str | None) -> str:
    """What people call an allocation: Slurm job 4711, or Kubernetes job/NAME."""
    if external_id is not None and "/" in external_id:
        return f"{batch_system_name(engine)} {external_id}"
    return " ".join([batch_system_name(engine), "job", *([external_id] if external_id else [])])


class Allocation(StoredModel):
    """Devices that a batch system was asked for, for one attempt at a job."""

    name: str = Field(description="Its name in the batch system, unique.")
    attempt: int = Field(description="The attempt at the job that it was created for.")
    number: int = Field(description="Its number among the allocations for this attempt, from 1.")
    engine: Annotated[str, open_enum(*BATCH_SYSTEMS)] = Field(description="The batch system.")
    external_id: str | None = Field(
        description="Its id in the batch system; null until it is known, or if it was refused."
    )
    state: str = Field(
        description="Its state in the words of the batch system, such as PENDING; besides these "
        "`SUBMITTING`, `SUBMITTED`, `REFUSED`, `CANCELLING`, and of one that the batch system no "
        "longer knows `LOST`, or `ENDED` if its job needs it no more."
    )
    reason: str | None = Field(description="Why it waits or has ended, as the batch system says.")
    worker_message: str | None = Field(
        None, description="Why its worker did not run the job, as the worker says."
    )
    nodes: str | None = Field(description="Its nodes; null until it has some.")
    expected_start_at: datetime | None = Field(
        description="When the batch system expects to start it; null if it does not say."
    )
    created_at: datetime
    ended_at: datetime | None

    @property
    def sentence(self) -> str:
        """What it is and where, such as "Slurm job 4711 RUNNING on n[1-2]"."""
        nodes = f" on {self.nodes}" if self.nodes else ""
        reason = f" ({self.reason})" if self.reason else ""
        return f"{allocation_name(self.engine, self.external_id)} {self.state}{nodes}{reason}"


class AllocationList(ApiModel):
    """All allocations of a job, oldest first."""

    items: list[Allocation]
