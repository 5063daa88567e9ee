"""The spec of a tracked run, whose training runs elsewhere."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from ampspec.documents.base import SpecModel
from ampspec.documents.json_limits import check_json
from ampspec.training.training import Labels

UNKNOWN: Final = "unknown"
COLUMN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}")
"""The names of columns that a tracked run may send."""

FreeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$")]
"""Letters, digits, dots, dashes and underscores; at most 32 characters."""


class TrackedModel(SpecModel):
    """The model of a tracked run: a name of your choice."""

    kind: FreeName = UNKNOWN


class TrackedPrecision(SpecModel):
    """The precision of a tracked run: the name of a policy, of ampcore or of another library."""

    policy: FreeName = UNKNOWN


class TrackedSpec(SpecModel):
    """The description of a tracked run; model and policy are in the same place as in a job spec."""

    source: Literal["tracked"] = "tracked"
    name: str = Field(default="run", min_length=1, max_length=200)
    labels: Labels = Field(default_factory=dict)
    model: TrackedModel = TrackedModel()
    precision: TrackedPrecision = TrackedPrecision()
    config: Annotated[dict[str, Any], AfterValidator(check_json)] = Field(
        default_factory=dict, max_length=256
    )
    """Any other settings of the training, for the comparison of runs."""
