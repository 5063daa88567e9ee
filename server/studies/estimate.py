"""What a study costs: its jobs, their steps, and the time of training, before it starts."""

from typing import Any

from sqlalchemy.orm import Session

from ampspec.studies.plan import StudyContext
from server.studies.throughput import EarlierJobs, ranks_of
from store import studies


def earlier_jobs(session: Session, question: StudyContext[Any], project: str) -> EarlierJobs:
    """The newest succeeded jobs with the same model, data and ranks, in any batch size."""
    spec = question.spec.to_json()
    rows = studies.similar_jobs(session, project, question.spec.model.kind)
    return EarlierJobs.of(
        [
            row
            for row in rows
            if ranks_of(row.spec) == question.spec.runtime.ranks
            and all(
                _without_batch(row.spec.get(name)) == _without_batch(spec[name])
                for name in ("model", "data")
            )
        ]
    )


def _without_batch(section: Any) -> Any:
    if not isinstance(section, dict):
        return section
    return {name: value for name, value in section.items() if name != "batch_size"}
