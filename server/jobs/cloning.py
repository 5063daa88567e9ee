"""A job's spec as another job may begin with it: its own changes kept, some fields set anew."""

from collections.abc import Mapping
from typing import Any, Final

from ampcore.spec import JobSpec, SpecInvalid
from ampcore.spec.assignments import with_values
from store.tables import Job

DERIVED: Final = ("loss_scale", "name")
"""Fields that follow from others where a spec leaves them out."""


def document_of(job: Job, values: Mapping[str, Any]) -> Any:
    """The document of a clone, with a value set for each dotted path.

    What followed from other fields follows from them again: in float32 there is no loss scale
    then. Raises SpecInvalid for a path that leads nowhere.
    """
    return with_values(_without_derived(_as_edited(job)), values)


def _as_edited(job: Job) -> dict[str, Any]:
    runtime = {**job.spec["runtime"], "priority": job.priority}
    return {**job.spec, "name": job.name, "labels": job.labels, "runtime": runtime}


def _without_derived(document: dict[str, Any]) -> dict[str, Any]:
    for name in DERIVED:
        shorter = {key: value for key, value in document.items() if key != name}
        if _normalised(shorter).get(name) == document[name]:
            document = shorter
    return document


def _normalised(document: dict[str, Any]) -> dict[str, Any]:
    """The whole document; nothing of one that this version does not take."""
    try:
        return JobSpec.parse(document).to_json()
    except SpecInvalid:
        return {}
