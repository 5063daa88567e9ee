"""The job spec and the job states, shared by all processes."""

from ampspec.documents.problems import Problem, SpecValidationError
from ampspec.jobs.job import JobSpec
from ampspec.jobs.states import ACTIVE, TERMINAL, TRANSITIONS, Reason, Source, State

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
