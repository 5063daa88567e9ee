"""Studies: questions over several jobs, their progress and their answers."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ampcore.api.base import ApiModel, JsonObject, StoredModel, open_enum
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


class PolicyAnswer(ApiModel):
    """What a study of precision found out about one policy."""

    policy: str
    verdict: Annotated[str, open_enum("equal", "worse", "better", "cannot tell", "failed")] = Field(
        description="Compared with float32. failed: none, or not enough, of its jobs ended well."
    )
    explanation: str = Field(description="The verdict as a sentence.")
    difference: float | None = Field(
        description="The mean difference of the metric from float32; null if no pair of jobs ended."
    )
    interval: list[float] | None = Field(
        description="The lower and upper bound of the difference, with 90 % confidence."
    )
    needs_more_seeds: int | None = Field(
        description="With `cannot tell`: how many more seeds would probably decide."
    )
    speedup: float | None = Field(description="Examples per second relative to float32.")
    speedup_range: list[float] | None = Field(
        default=None,
        description="The smallest and the largest speed-up of a pair of jobs; null: not two pairs.",
    )
    memory: int | None = Field(
        description="The estimated peak memory of a step, in bytes; null: not known."
    )
    largest_batch: int | None = Field(
        description="The largest batch, a multiple of 8, that a device of the workers probably "
        "has memory for; null: not known."
    )
    largest_batch_is_measured: bool = Field(
        default=False, description="Whether a study of capacity has tried it."
    )
    skipped_share: float | None = Field(description="The share of skipped steps, from 0 to 1.")
    jobs: list[str] = Field(description="The ids of its jobs, by seed.")
    write: JsonObject = Field(description="The sections to write into the spec.")


class Noise(ApiModel):
    """How far the results of float32 lie apart when only the seed changes."""

    mean: float
    standard_deviation: float
    half_width: float = Field(description="A difference of at most this is inside the noise band.")


class PrecisionAnswer(ApiModel):
    """The answer of a study of precision."""

    kind: Literal["precision"] = "precision"
    summary: str = Field(description="The answer in a sentence or two.")
    metric: str
    higher_is_better: bool
    test: str = Field(description="The statistical test.")
    seeds: list[int]
    noise: Noise
    recommended: str = Field(description="The policy to use: the fastest one that is not worse.")
    policies: list[PolicyAnswer] = Field(description="float32 first.")


class BatchMeasurement(ApiModel):
    """A batch size that was tried."""

    batch_size: int
    fits: bool
    examples_per_s: float | None = Field(description="null if it does not fit.")
    peak_memory_bytes: int | None
    job: str


class PolicyCapacity(ApiModel):
    """What a study of capacity found out about one policy."""

    policy: str
    largest_batch: int | None = Field(description="A multiple of 8; null: none fits.")
    limited_by: Annotated[str, open_enum("memory", "max_batch", "data", "failure")] = Field(
        description="Why no larger batch is known to fit."
    )
    smallest_failed: int | None = Field(description="The smallest batch that did not fit.")
    predicted: int | None = Field(description="By the model of memory; null: not known.")
    critical_batch: int | None = Field(
        description="The smallest batch with at least 90 % of the highest throughput."
    )
    batches: list[BatchMeasurement] = Field(description="By size.")
    jobs: list[str]
    explanation: str


class CapacityAnswer(ApiModel):
    """The answer of a study of capacity."""

    kind: Literal["capacity"] = "capacity"
    summary: str
    device: str | None
    device_memory_bytes: int | None
    policies: list[PolicyCapacity]


class NeededLayer(ApiModel):
    """A layer that needs float32."""

    path: str
    kind: str = Field(description="The name of its Keras class.")
    roles: list[str] = Field(
        description="Its matrix products that need float32: `forward`, `input_gradient`, "
        "`weight_gradient`. All three: the whole layer."
    )
    explanation: str = Field(description="What happens without it.")
    job: str = Field(description="The id of the job that shows it.")


class TriedLayers(ApiModel):
    """A job with some layers in float32."""

    float32: list[str] = Field(description="The paths of the layers, with the product if not all.")
    passes: bool
    explanation: str
    job: str


class BisectAnswer(ApiModel):
    """The answer of a study that bisects."""

    kind: Literal["bisect"] = "bisect"
    summary: str
    policy: str
    metric: str
    higher_is_better: bool
    noise: Noise
    candidates: int = Field(description="The layers that the policy computes in 16 bit.")
    layers: list[NeededLayer] = Field(description="Those that need float32, in their order.")
    overrides: list[JsonObject] = Field(
        description="For `precision.overrides`; a job with them passes."
    )
    tried: list[TriedLayers] = Field(description="In the order of the search.")
    jobs: list[str] = Field(
        description="The jobs that every search needs: float32 by seed, then the policy alone."
    )
    write: JsonObject = Field(description="The section to write into the spec.")


Answer = Annotated[PrecisionAnswer | CapacityAnswer | BisectAnswer, Field(discriminator="kind")]


class StudyJob(ApiModel):
    """A job that a study needs."""

    key: str = Field(description="Names the job within the study.")
    job: str | None = Field(description="The id of the job; null until it is queued.")
    state: str = Field(description="Of the job; `planned` until it is queued.")
    progress: float | None = Field(description="From 0 to 1.")
    changes: dict[str, Any] = Field(description="What differs from the spec, by dotted path.")


class Estimate(ApiModel):
    """What a study costs at least; some kinds need further jobs, which depend on results."""

    jobs: int
    steps: int | None = Field(description="Of all jobs; null: known only once the data is read.")
    train_s: float | None = Field(
        description="Seconds of training, from the throughput of the newest succeeded jobs of the "
        "project with the same model and data; null: there are none."
    )
    more_jobs_possible: bool = Field(description="Whether results decide about further jobs.")
    policies: list[str]
    planned: list[StudyJob]


class StudyFields(StoredModel):
    """The fields of a study in a list. Times are in UTC."""

    id: str
    project: str
    kind: str
    name: str
    state: Annotated[str, open_enum("running", "stopping", "succeeded", "failed", "cancelled")]
    message: str | None = Field(description="The reason for the state, as text.")
    jobs_planned: int = Field(description="The jobs that are known to be needed.")
    jobs_ended: int
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


class Study(StudyFields):
    """A study: its question, its jobs and its answer."""

    spec: dict[str, Any]
    options: dict[str, Any]
    policies: list[str] = Field(description="The policies that it studies.")
    progress: float | None = Field(description="From 0 to 1, of the jobs that are planned.")
    jobs: list[StudyJob]
    answer: Answer | None = Field(description="null until it has succeeded.")


class StudyPage(ApiModel):
    """A page of studies, the newest first; `next_cursor` is the cursor of the next page."""

    items: list[StudyFields]
    next_cursor: str | None
