"""The manifest of a checkpoint: the job, the step and the library versions of its arrays."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field, JsonValue, PlainSerializer

from ampspec.documents.base import SpecModel
from ampspec.telemetry.json_values import NON_FINITE, json_safe


def _numbers(value: Any) -> Any:
    """`value` with the strings of non-finite numbers replaced by the numbers."""
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


Facts = Annotated[dict[str, JsonValue], BeforeValidator(_numbers), PlainSerializer(json_safe)]
"""JSON values; non-finite numbers are strings such as "NaN"."""


class Manifest(SpecModel):
    """The description of a checkpoint; its file lists the arrays itself."""

    # A later version may add fields: unknown fields are not needed to resume.
    model_config = ConfigDict(allow_inf_nan=True, extra="ignore")

    step: int = Field(ge=0)
    """The number of completed steps, which is also the number of the next step."""
    spec: dict[str, JsonValue]
    """The job, normalised: `JobSpec.to_json()`."""
    policy: str
    """The precision policy, resolved for the device: never `auto`."""
    loss_scales: dict[str, Facts]
    """The kind and the constants of each network's loss scale."""
    engine: str
    """The engine of the run, which a resumed run keeps: engines differ in the last bits."""
    device: str
    versions: dict[str, str]
    """The versions of ampcore, Python and the numeric libraries, by distribution."""
    counters: Facts = Field(default_factory=dict)
    """The counters of the run so far: `ampcore.training.run.counters.RunCounters`."""
    created_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
