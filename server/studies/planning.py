"""What planning a study computes, without a database: it runs in a process of its own.

The functions take and return values that can be pickled, errors included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ampspec.api.studies import Answer, Estimate, StudyJob
from ampspec.jobs import JobSpec, Problem, SpecValidationError
from ampspec.preflight.data import total_steps
from ampspec.studies.kinds import KINDS
from ampspec.studies.plan import Limit, NoAnswer, PlannedJob, Results, StudyContext
from server.studies.throughput import EarlierJobs

DRY_RUN_ID = "0" * 12
"""Stands for the id of a study in the specs that are checked before it has one."""
PLANNED = "planned"


@dataclass(frozen=True)
class FirstJobs:
    """The jobs that a new study needs first; with problems, it may not be created."""

    jobs: Sequence[PlannedJob] = ()
    problems: Sequence[Problem] = ()
    """Of the options."""
    spec_problems: Sequence[Problem] = ()
    """Of the spec of a job."""


@dataclass(frozen=True)
class NextJobs:
    """The jobs that a study needs now; `no_answer` says why further ones would change nothing."""

    jobs: Sequence[PlannedJob] = field(default=())
    no_answer: str | None = None


def first_jobs(kind: str, question: StudyContext[Any]) -> FirstJobs:
    """Check the options, and the specs of the first jobs as a submission would."""
    study = KINDS[kind]
    if problems := study.check(question):
        return FirstJobs(problems=list(problems))
    jobs = study.jobs(question, {})
    errors = []
    for job in jobs:
        try:
            JobSpec.parse(job.document(question, DRY_RUN_ID))
        except SpecValidationError as error:
            errors.append(error)
    if errors and not (study.allows_invalid_jobs and len(errors) < len(jobs)):
        return FirstJobs(spec_problems=list(errors[0].problems))
    return FirstJobs(list(jobs))


def next_jobs(kind: str, question: StudyContext[Any], results: Results) -> NextJobs:
    """All jobs that are known to be needed."""
    try:
        return NextJobs(list(KINDS[kind].jobs(question, results)))
    except (NoAnswer, ArithmeticError) as error:
        return NextJobs(no_answer=_why_none(error))


def answer(kind: str, question: StudyContext[Any], results: Results) -> Answer | str:
    """The answer of a study whose jobs have ended, or why there is none."""
    try:
        return KINDS[kind].answer(question, results)
    except (NoAnswer, ArithmeticError) as error:
        return _why_none(error)


def _why_none(error: NoAnswer | ArithmeticError) -> str:
    """Why a study has no answer. Custom code may report numbers whose sums overflow."""
    if isinstance(error, NoAnswer):
        return str(error)
    return f"The numbers that its jobs report cannot be compared: {error}."


def estimate(
    kind: str, question: StudyContext[Any], planned: Sequence[PlannedJob], earlier: EarlierJobs
) -> Estimate:
    """The cost of a study whose jobs are not queued yet."""
    study = KINDS[kind]
    specs = [JobSpec.parse(job.document(question, PLANNED)) for job in planned]
    steps = [total_steps(spec, earlier.train_examples) for spec in specs]
    known_steps = [count for count in steps if count is not None]
    is_known = len(known_steps) == len(steps)
    limit = study.limit(question)
    if limit is None and not study.decided_by_results:
        limit = Limit(len(planned), sum(known_steps) if is_known else None)
    return Estimate(
        jobs=len(planned),
        steps=sum(known_steps) if is_known else None,
        train_s=earlier.train_s(specs, known_steps) if is_known else None,
        more_jobs_possible=study.decided_by_results,
        jobs_at_most=limit.jobs if limit is not None else None,
        steps_at_most=limit.steps if limit is not None else None,
        policies=list(question.policies),
        planned=[planned_job(job.key, job.changes) for job in planned],
    )


def planned_job(key: str, changes: Mapping[str, Any]) -> StudyJob:
    """A job that is not queued yet, as the API shows it."""
    return StudyJob(key=key, job=None, state=PLANNED, progress=None, changes=dict(changes))
