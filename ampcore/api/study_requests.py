"""The requests for studies: a kind, a job spec, and the options of the kind."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ampcore.spec.precision import Policy

MAX_SEEDS: Final = 50
MAX_BATCH: Final = 65_536
MetricName = Annotated[str, Field(pattern="^val_.", max_length=200)]
Seeds = Annotated[int, Field(ge=2, le=MAX_SEEDS)]
Policies = Annotated[list[Policy], Field(min_length=1, max_length=10)]


class StudyOptions(BaseModel):
    """The options of a kind of study. Unknown ones are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PrecisionOptions(StudyOptions):
    """How a study of precision compares policies with float32."""

    seeds: Seeds = Field(default=3, description="Each policy and float32 train once per seed.")
    policies: Policies | None = Field(
        default=None,
        description="The policies to compare with float32; null: the mixed policies that the "
        "devices of the online workers can run.",
    )
    steps: int | None = Field(
        default=None, ge=1, le=2**53, description="Steps of each job; null: as in the spec."
    )
    metric: MetricName | None = Field(
        default=None,
        description="The metric to compare; null: that of `train.best`, else `val_accuracy` where "
        "it is reported, else `val_loss`.",
    )
    margin: float | None = Field(
        default=None,
        ge=0,
        description="A difference of at most this does not matter; null: only the noise band "
        "decides. In the unit of the metric.",
    )


class CapacityOptions(StudyOptions):
    """How a study of capacity searches the largest batch."""

    policies: Policies | None = Field(
        default=None, description="null: float32 and the mixed policies that the devices can run."
    )
    steps: int = Field(default=20, ge=1, le=100_000, description="Steps of each job.")
    max_batch: int = Field(
        default=4096, ge=8, le=MAX_BATCH, multiple_of=8, description="No larger batch is tried."
    )
    resolution: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="The search ends when the next larger batch that fails is at most this share "
        "larger; 0: the largest multiple of 8.",
    )


class BisectOptions(StudyOptions):
    """How a study finds the layers that need float32 under a policy."""

    policy: Policy = Field(
        default="mixed_float16", description="The policy that fails, or may fail."
    )
    seeds: Seeds = Field(default=3, description="The seeds of float32, for the noise band.")
    steps: int | None = Field(
        default=200, ge=1, le=2**53, description="Steps of each job; null: as in the spec."
    )
    metric: MetricName | None = Field(
        default=None, description="The metric to compare, as in a study of precision."
    )
    margin: float | None = Field(
        default=None, ge=0, description="The noise band is at least this wide, on each side."
    )
    skipped_share: float = Field(
        default=0.1, ge=0, le=1, description="A job that skips a larger share of its steps fails."
    )


class PrecisionStudy(StudyOptions):
    """Asks which policy is as accurate as float32, and how much faster."""

    kind: Literal["precision"]
    spec: dict[str, Any] = Field(description="The job spec.")
    name: str | None = Field(default=None, min_length=1, max_length=200)
    options: PrecisionOptions = PrecisionOptions()


class CapacityStudy(StudyOptions):
    """Asks how large the batch may be under each policy."""

    kind: Literal["capacity"]
    spec: dict[str, Any] = Field(description="The job spec.")
    name: str | None = Field(default=None, min_length=1, max_length=200)
    options: CapacityOptions = CapacityOptions()


class BisectStudy(StudyOptions):
    """Asks which layers need float32 under a policy."""

    kind: Literal["bisect"]
    spec: dict[str, Any] = Field(description="The job spec.")
    name: str | None = Field(default=None, min_length=1, max_length=200)
    options: BisectOptions = BisectOptions()


AnyStudy = PrecisionStudy | CapacityStudy | BisectStudy
StudyRequest = Annotated[AnyStudy, Field(discriminator="kind")]
"""The body of POST /studies."""
