"""The job spec and the job states, shared by all processes."""

from typing import TYPE_CHECKING, Any

from ampspec.documents.problems import Problem, SpecValidationError
from ampspec.jobs.states import ACTIVE, TERMINAL, TRANSITIONS, Reason, Source, State

if TYPE_CHECKING:
    from ampspec.jobs.job import JobSpec as JobSpec
else:

    def __getattr__(name: str) -> Any:
        """JobSpec when it is first used: its sections take a third of the SDK's import time."""
        if name != "JobSpec":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ampspec.jobs.job import JobSpec

        globals()[name] = JobSpec
        return JobSpec


__all__ = [
    "ACTIVE",
    "TERMINAL",
    "TRANSITIONS",
    "JobSpec",
    "Problem",
    "Reason",
    "Source",
    "SpecValidationError",
    "State",
]
