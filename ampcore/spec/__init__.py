"""The words that every process shares: the job spec, the job states, and what a spec may say."""

from ampcore.spec.job import JobSpec
from ampcore.spec.problems import Problem, SpecInvalid
from ampcore.spec.states import ACTIVE, TERMINAL, TRANSITIONS, Reason, State

__all__ = [
    "ACTIVE",
    "TERMINAL",
    "TRANSITIONS",
    "JobSpec",
    "Problem",
    "Reason",
    "SpecInvalid",
    "State",
]
