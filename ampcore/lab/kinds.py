"""The kinds of studies, by name. A new kind is a class here and its request in `api.studies`."""

from typing import Any, Final

from pydantic import TypeAdapter

from ampcore.api.studies import (
    Answer,
    CapacityOptions,
    CapacityStudy,
    PrecisionOptions,
    PrecisionStudy,
    StudyOptions,
)
from ampcore.lab.capacity import CapacityKind
from ampcore.lab.plan import StudyKind
from ampcore.lab.precision import PrecisionKind

KINDS: Final[dict[str, StudyKind[Any]]] = {
    "precision": PrecisionKind(),
    "capacity": CapacityKind(),
}
OPTIONS: Final[dict[str, type[StudyOptions]]] = {
    "precision": PrecisionOptions,
    "capacity": CapacityOptions,
}
REQUESTS: Final[dict[str, type[PrecisionStudy | CapacityStudy]]] = {
    "precision": PrecisionStudy,
    "capacity": CapacityStudy,
}
ANSWER: Final[TypeAdapter[Answer]] = TypeAdapter(Answer)
