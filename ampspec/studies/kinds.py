"""The kinds of studies, by name. A new kind is a class here and its request in `api.studies`."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from ampspec.api.studies import Answer
from ampspec.api.study_requests import (
    AnyStudy,
    BisectOptions,
    BisectStudy,
    CapacityOptions,
    CapacityStudy,
    PrecisionOptions,
    PrecisionStudy,
    SearchOptions,
    SearchStudy,
    StudyOptions,
)
from ampspec.studies.bisect.bisect import BisectKind
from ampspec.studies.capacity.capacity import CapacityKind
from ampspec.studies.plan import StudyKind
from ampspec.studies.precision.precision import PrecisionKind
from ampspec.studies.search.samplers import run_count
from ampspec.studies.search.search import SearchKind

KINDS: Final[dict[str, StudyKind[Any]]] = {
    "precision": PrecisionKind(),
    "capacity": CapacityKind(),
    "bisect": BisectKind(),
    "search": SearchKind(),
}
OPTIONS: Final[dict[str, type[StudyOptions]]] = {
    "precision": PrecisionOptions,
    "capacity": CapacityOptions,
    "bisect": BisectOptions,
    "search": SearchOptions,
}
REQUESTS: Final[dict[str, type[AnyStudy]]] = {
    "precision": PrecisionStudy,
    "capacity": CapacityStudy,
    "bisect": BisectStudy,
    "search": SearchStudy,
}
ANSWER: Final[TypeAdapter[Answer]] = TypeAdapter(Answer)


def expected_jobs(kind: str, options: Mapping[str, Any]) -> int:
    """The number of jobs that the stored options of a study request; 0 if it is not fixed."""
    if kind != "search":
        return 0
    return run_count(SearchOptions.model_validate(options))
