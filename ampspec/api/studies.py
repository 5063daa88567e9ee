"""Studies: questions over several jobs, their progress and their answers."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from ampspec.api.base import ApiModel, JsonObject, StoredModel, open_enum


class PolicyAnswer(ApiModel):
    """The result of a precision study for one policy."""

    policy: str
    verdict: Annotated[str, open_enum("equal", "worse", "better", "cannot tell", "failed")] = Field(
        description="Compared with float32. failed: too few of its jobs succeeded."
    )
    explanation: str = Field(description="The verdict as a sentence.")
    difference: float | None = Field(
        description="The mean difference of the metric from float32; null if no pair of jobs "
        "succeeded."
    )
    interval: list[float] | None = Field(
        description="The bounds of the difference, with the `confidence` of the answer."
    )
    needs_more_seeds: int | None = Field(
        description="With `cannot tell`: the number of further seeds that would probably decide."
    )
    needs_examples: int | None = Field(
        default=None,
        description="With `cannot tell`: the number of validation examples that would probably "
        "decide with the same number of seeds.",
    )
    changed_examples: float | None = Field(
        default=None,
        description="The share of validation examples, from 0 to 1, whose metric differs from "
        "that of float32 with the same seed; null: the examples were not compared.",
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
        description="The largest multiple of 8 that the data has enough examples for and that "
        "probably fits into a worker's device memory; null: not known."
    )
    largest_batch_is_measured: bool = Field(
        default=False, description="Whether a capacity study measured it."
    )
    skipped_share: float | None = Field(description="The share of skipped steps, from 0 to 1.")
    jobs: list[str] = Field(description="The ids of its jobs, by seed.")
    write: JsonObject = Field(description="The sections to write into the spec.")


class Noise(ApiModel):
    """The spread of float32 results when only the seed changes."""

    mean: float
    standard_deviation: float
    half_width: float = Field(description="A difference of at most this is inside the noise band.")


class ComparedRows(ApiModel):
    """The validation examples that all jobs of a study were evaluated on."""

    count: int
    split_seed: int | None = Field(
        description="The `data.split_seed` that selected them; null: they are a split of the "
        "data, or its last rows."
    )
    digest: str = Field(
        description="The digest of their row numbers, stored in `validation_examples.npy` of each "
        "job."
    )


class PrecisionAnswer(ApiModel):
    """The answer of a study of precision."""

    kind: Literal["precision"] = "precision"
    summary: str = Field(description="The answer in a sentence or two.")
    metric: str
    higher_is_better: bool
    test: str = Field(description="The statistical test.")
    seeds: list[int]
    confidence: float = Field(default=0.9, description="The confidence of the intervals.")
    margin: float | None = Field(
        default=None,
        description="A difference of at most this does not matter; null: written by a version "
        "before 0.6, where the noise band decided.",
    )
    constant: float | None = Field(
        default=None,
        description="The metric of the best constant prediction (the largest class, the class "
        "shares, the mean); null: not known.",
    )
    rows: ComparedRows | None = Field(
        default=None,
        description="null: the jobs were not evaluated on the same rows, or it is not known.",
    )
    noise: Noise
    recommended: str = Field(description="The policy to use: the fastest one that is not worse.")
    policies: list[PolicyAnswer] = Field(description="float32 first.")


class BatchMeasurement(ApiModel):
    """The measurement of one batch size."""

    batch_size: int
    fits: bool
    examples_per_s: float | None = Field(description="null if it does not fit.")
    peak_memory_bytes: int | None
    job: str


class PolicyCapacity(ApiModel):
    """The result of a capacity study for one policy."""

    policy: str
    largest_batch: int | None = Field(
        description="The largest batch that ran: a multiple of 8, or 4, 2 or 1; null: no batch ran."
    )
    limited_by: Annotated[
        str, open_enum("memory", "max_batch", "data", "estimate", "time", "failure")
    ] = Field(
        description="Why no larger batch is known to fit. memory: `smallest_failed` did not fit. "
        "estimate: a larger batch is estimated to exceed the machine's memory and was not tried. "
        "time: the next batch exceeded `runtime.timeout_s`. failure: the next batch failed for "
        "another reason."
    )
    smallest_failed: int | None = Field(description="The smallest batch that did not fit.")
    predicted: int | None = Field(
        description="The largest batch predicted by the memory model; null: not known."
    )
    critical_batch: int | None = Field(
        description="The smallest batch with at least 90 % of the highest throughput."
    )
    batches: list[BatchMeasurement] = Field(description="Sorted by batch size.")
    jobs: list[str]
    explanation: str


class CapacityAnswer(ApiModel):
    """The answer of a study of capacity."""

    kind: Literal["capacity"] = "capacity"
    summary: str
    device: str | None
    device_memory_bytes: int | None
    memory_limit_bytes: int | None = Field(
        default=None, description="The memory limit of a trainer on the workers; null: not known."
    )
    policies: list[PolicyCapacity]


class NeededLayer(ApiModel):
    """A layer that needs float32."""

    path: str
    kind: str = Field(description="The name of its Keras class.")
    roles: list[str] = Field(
        description="Its matrix products that need float32: `forward`, `input_gradient`, "
        "`weight_gradient`. All three: the whole layer."
    )
    explanation: str = Field(description="The effect of computing it in 16 bits.")
    job: str = Field(description="The id of the job that shows this.")


class TriedLayers(ApiModel):
    """A job with some layers in float32."""

    float32: list[str] = Field(
        description="The paths of the layers, each with its product unless the whole layer is in "
        "float32."
    )
    passes: bool
    explanation: str
    job: str


class BisectAnswer(ApiModel):
    """The answer of a bisection study."""

    kind: Literal["bisect"] = "bisect"
    summary: str
    policy: str
    metric: str
    higher_is_better: bool
    noise: Noise
    candidates: int = Field(description="The number of layers that the policy computes in 16 bits.")
    layers: list[NeededLayer] = Field(
        description="The layers that need float32, in the order of the network."
    )
    overrides: list[JsonObject] = Field(
        description="For `precision.overrides`; a job with them passes."
    )
    tried: list[TriedLayers] = Field(description="In the order of the search.")
    jobs: list[str] = Field(
        description="The jobs of every bisection: float32 for each seed, then the policy alone."
    )
    write: JsonObject = Field(description="The section to write into the spec.")


class SearchedParameter(ApiModel):
    """A field of the spec whose value was searched."""

    path: str = Field(description="Its dotted path.")
    kind: Annotated[
        str, open_enum("choice", "uniform", "log_uniform", "int_uniform", "log_int_uniform")
    ]
    importance: float | None = Field(
        description="Its share in separating the best quarter of the runs from the others, from 0 "
        "to 1; null: too few runs."
    )


class RungValue(ApiModel):
    """The metric of a run after some of its steps."""

    steps: int | None = Field(description="null: the number of steps in the spec.")
    value: float


class SearchRun(ApiModel):
    """One combination of values and its result."""

    number: int = Field(description="From 1, in the order of the search.")
    values: JsonObject = Field(description="By dotted path.")
    state: Annotated[str, open_enum("finished", "stopped", "failed", "cancelled")] = Field(
        description="finished: trained to its end. stopped: other runs were better after as many "
        "steps."
    )
    value: float | None = Field(description="The metric after its last step.")
    steps: int | None = Field(description="The number of trained steps.")
    evaluations: list[RungValue] = Field(description="The metric at each rung that it reached.")
    explanation: str | None = Field(description="Why it failed.")
    jobs: list[str] = Field(description="Each job continues the previous one.")


class SearchAnswer(ApiModel):
    """The answer of a search."""

    kind: Literal["search"] = "search"
    summary: str
    method: str
    metric: str
    higher_is_better: bool
    best: int = Field(description="The number of the best run.")
    parameters: list[SearchedParameter] = Field(description="Sorted by path.")
    runs: list[SearchRun]
    steps: int | None = Field(
        description="The number of steps trained by all runs; null: not known."
    )
    steps_saved: int | None = Field(
        description="The steps saved by stopping runs early; null without ASHA."
    )
    write: JsonObject = Field(description="The values of the best run, as sections of the spec.")


Answer = Annotated[
    PrecisionAnswer | CapacityAnswer | BisectAnswer | SearchAnswer, Field(discriminator="kind")
]


class StudyJob(ApiModel):
    """A job that a study needs."""

    key: str = Field(description="The name of the job within the study.")
    job: str | None = Field(description="The id of the job; null until it is queued.")
    state: str = Field(description="The state of the job; `planned` until it is queued.")
    progress: float | None = Field(description="From 0 to 1.")
    changes: dict[str, Any] = Field(description="Changes to the spec, by dotted path.")


class Estimate(ApiModel):
    """The minimum cost of a study; some kinds need further jobs, depending on results."""

    jobs: int
    steps: int | None = Field(
        description="The steps of all jobs; null: known only once the data is read."
    )
    train_s: float | None = Field(
        description="Seconds of training, estimated from the throughput of the newest succeeded "
        "jobs of the project with the same model and data; null: there are none."
    )
    more_jobs_possible: bool = Field(description="Whether further jobs depend on results.")
    jobs_at_most: int | None = Field(
        default=None, description="The maximum number of jobs; null: it depends on the results."
    )
    steps_at_most: int | None = Field(
        default=None,
        description="The maximum number of steps, if no job stops early; null: not known.",
    )
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
    jobs_planned: int = Field(description="The number of jobs planned so far.")
    jobs_ended: int
    created_by: str | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


class Study(StudyFields):
    """A study: its spec, its jobs and its answer."""

    spec: dict[str, Any]
    options: dict[str, Any]
    policies: list[str] = Field(description="The policies that it studies.")
    progress: float | None = Field(description="The progress of the planned jobs, from 0 to 1.")
    jobs: list[StudyJob]
    answer: Answer | None = Field(description="null until it has succeeded.")


class StudyPage(ApiModel):
    """A page of studies, the newest first; `next_cursor` is the cursor of the next page."""

    items: list[StudyFields]
    next_cursor: str | None
