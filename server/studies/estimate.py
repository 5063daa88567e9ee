"""What a study costs: its jobs, their steps, and the time of training, before it starts."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from sqlalchemy import Row
from sqlalchemy.orm import Session

from ampcore.api.studies import Estimate, StudyJob
from ampcore.lab.kinds import KINDS
from ampcore.lab.plan import Limit, PlannedJob, Question
from ampcore.preflight.data import total_steps
from ampcore.spec import JobSpec
from server.studies.questions import CheckedStudy
from store import studies

PLANNED = "planned"


def estimate(session: Session, study: CheckedStudy, project: str) -> Estimate:
    """The cost of a study whose jobs are not queued yet."""
    kind, question = KINDS[study.kind], study.question
    planned = kind.jobs(question, {})
    specs = [JobSpec.parse(job.document(question, PLANNED)) for job in planned]
    earlier = _similar_jobs(session, question, project)
    examples, throughputs = _train_examples(earlier), _throughputs(earlier)
    steps = [total_steps(spec, examples) for spec in specs]
    known = [count for count in steps if count is not None]
    is_known = len(known) == len(steps)
    limit = kind.limit(question)
    if limit is None and not kind.decided_by_results:
        limit = Limit(len(planned), sum(known) if is_known else None)
    return Estimate(
        jobs=len(planned),
        steps=sum(known) if is_known else None,
        train_s=_train_s(specs, known, throughputs) if is_known and throughputs else None,
        more_jobs_possible=kind.decided_by_results,
        jobs_at_most=limit.jobs if limit is not None else None,
        steps_at_most=limit.steps if limit is not None else None,
        policies=list(question.policies),
        planned=[planned_job(job) for job in planned],
    )


def planned_job(job: PlannedJob) -> StudyJob:
    """A job that is not queued yet, as the API shows it."""
    return StudyJob(key=job.key, job=None, state=PLANNED, progress=None, changes=dict(job.changes))


def _train_s(
    specs: Sequence[JobSpec], steps: Sequence[int], throughputs: Mapping[str, float]
) -> float:
    usual = fmean(throughputs.values())
    return sum(
        count * spec.global_batch_size / throughputs.get(spec.precision.policy, usual)
        for spec, count in zip(specs, steps, strict=True)
    )


def _similar_jobs(session: Session, question: Question[Any], project: str) -> Sequence[Row[Any]]:
    """The newest succeeded jobs with the same model, data and ranks, in any batch size."""
    spec = question.spec.to_json()
    return [
        row
        for row in studies.similar_jobs(session, project, question.spec.model.kind)
        if _ranks(row.spec) == question.spec.runtime.ranks
        and all(
            _without_batch(row.spec.get(name)) == _without_batch(spec[name])
            for name in ("model", "data")
        )
    ]


def _train_examples(earlier: Sequence[Row[Any]]) -> int | None:
    """The examples of an epoch in whole batches of the newest job that trained whole epochs."""
    for row in earlier:
        train, batch_size = row.spec["train"], row.spec["data"]["batch_size"]
        if train["steps"] is None and row.total_steps:
            steps = row.total_steps // train["epochs"]
            return int(steps * batch_size * train["accumulate"] * _ranks(row.spec))
    return None


def _throughputs(earlier: Sequence[Row[Any]]) -> Mapping[str, float]:
    """By policy: the examples per second of the newest job."""
    found: dict[str, float] = {}
    for row in earlier:
        speed = {**(row.totals or {}), **(row.summary or {})}.get("median_examples_per_s")
        if isinstance(speed, int | float) and speed > 0:
            found.setdefault(row.resolved_policy or row.policy, float(speed))
    return found


def _ranks(spec: Mapping[str, Any]) -> int:
    """The ranks in the spec of a job, which may be older than they are."""
    runtime = spec["runtime"]
    return int(runtime.get("workers", 1) * runtime.get("devices", 1))


def _without_batch(section: Any) -> Any:
    if not isinstance(section, dict):
        return section
    return {name: value for name, value in section.items() if name != "batch_size"}
