"""The manifest of a checkpoint: whose state it is, and what made it."""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field, JsonValue, PlainSerializer

from ampcore.series.jsonable import NON_FINITE, finite_json
from ampcore.spec.part import Part


def _numbers(value: Any) -> Any:
    """`value` with the names of the non-finite numbers as those numbers."""
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return value


Facts = Annotated[dict[str, JsonValue], BeforeValidator(_numbers), PlainSerializer(finite_json)]
"""JSON values; as everywhere, the string "NaN" stands for the number."""


class Manifest(Part):
    """What stands in a checkpoint beside its arrays; the file lists those itself."""

    # A later version may say more: what is not known here cannot be needed to go on.
    model_config = ConfigDict(allow_inf_nan=True, extra="ignore")

    step: int = Field(ge=0)
    """How many steps are done; the next one has this number."""
    spec: dict[str, JsonValue]
    """The job, normalised: `JobSpec.to_json()`."""
    policy: str
    """The precision policy, settled on the device: never `auto`."""
    loss_scales: dict[str, Facts]
    """By network: the kind and the constants of its loss scale."""
    engine: str
    """What trained so far, and must go on: engines differ in the last bits."""
    device: str
    versions: dict[str, str]
    """By distribution: of ampcore, Python and the libraries that compute."""
    counters: Facts = Field(default_factory=dict)
    """The sums of the run so far: what its ledger and its guard have counted."""
    created_at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
