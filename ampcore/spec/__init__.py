"""The job spec and the job states, shared by all processes."""

from ampcore.spec.job import JobSpec
from ampcore.spec.problems import Problem, SpecValidationError
from ampcore.spec.states import ACTIVE, TERMINAL, TRANSITIONS, Reason, Source, State

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
