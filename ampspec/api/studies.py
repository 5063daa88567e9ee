"""Studies: questions over several jobs, their progress and their answers."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from ampspec.api.base import ApiModel, JsonObject, StoredModel, open_enum


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
        description="The bounds of the difference, with the `confidence` of the answer."
    )
    needs_more_seeds: int | None = Field(
        description="With `cannot tell`: how many more seeds would probably decide."
    )
    needs_examples: int | None = Field(
        default=None,
        description="With `cannot tell`: how many validation examples would probably decide, with "
        "as many seeds.",
    )
    changed_examples: float | None = Field(
        default=None,
        description="The share of validation examples, from 0 to 1, whose metric differs from that "
        "of float32 with the same seed; null: the examples were not compared.",
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
        description="The largest batch, a multiple of 8, that the data has examples for, and a "
        "device of the workers probably memory; null: not known."
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


class ComparedRows(ApiModel):
    """The validation examples that all jobs of a study were evaluated on."""

    count: int
    split_seed: int | None = Field(
        description="`data.split_seed`, which drew them; null: they are a part of the data's own, "
        "or its last rows."
    )
    digest: str = Field(
        description="Of their row numbers, which are in `validation_examples.npy` of each job."
    )


class PrecisionAnswer(ApiModel):
    """The answer of a study of precision."""

    kind: Literal["precision"] = "precision"
    summary: str = Field(description="The answer in a sentence or two.")
    metric: str
    higher_is_better: bool
    test: str = Field(description="The statistical test.")
    seeds: list[int]
    confidence: float = Field(default=0.9, description="Of the intervals.")
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
    """A batch size that was tried."""

    batch_size: int
    fits: bool
    examples_per_s: float | None = Field(description="null if it does not fit.")
    peak_memory_bytes: int | None
    job: str


class PolicyCapacity(ApiModel):
    """What a study of capacity found out about one policy."""

    policy: str
    largest_batch: int | None = Field(
        description="The largest batch that ran: a multiple of 8, or 4, 2 or 1; null: none ran."
    )
    limited_by: Annotated[
        str, open_enum("memory", "max_batch", "data", "estimate", "time", "failure")
    ] = Field(
        description="Why no larger batch is known to fit. memory: `smallest_failed` did not fit. "
        "estimate: a larger one would need more than the machine's memory, by the estimate, and "
        "was not tried. time: the next one ran into `runtime.timeout_s`. failure: the next one "
        "failed for another reason."
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
    memory_limit_bytes: int | None = Field(
        default=None, description="How much a trainer may allocate on the workers; null: not known."
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


class SearchedParameter(ApiModel):
    """A field of the spec whose value was searched."""

    path: str = Field(description="Its dotted path.")
    kind: Annotated[
        str, open_enum("choice", "uniform", "log_uniform", "int_uniform", "log_int_uniform")
    ]
    importance: float | None = Field(
        description="Its share of what distinguishes the best quarter of the runs, from 0 to 1; "
        "null: there are too few runs."
    )


class RungValue(ApiModel):
    """The metric of a run after some of its steps."""

    steps: int | None = Field(description="null: as many as the spec says.")
    value: float


class SearchRun(ApiModel):
    """One combination of values, and what came out."""

    number: int = Field(description="From 1, in the order of the search.")
    values: JsonObject = Field(description="By dotted path.")
    state: Annotated[str, open_enum("finished", "stopped", "failed", "cancelled")] = Field(
        description="finished: trained to its end. stopped: others were better after as many steps."
    )
    value: float | None = Field(description="Of the metric after its last step.")
    steps: int | None = Field(description="The steps that it trained.")
    evaluations: list[RungValue] = Field(description="At each rung that it reached.")
    explanation: str | None = Field(description="Why it failed.")
    jobs: list[str] = Field(description="Each continues the one before.")


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
    steps: int | None = Field(description="Trained by all runs together; null: not known.")
    steps_saved: int | None = Field(
        description="That the stopped runs would have trained to their end; null without ASHA."
    )
    write: JsonObject = Field(description="The values of the best run, as sections of the spec.")


Answer = Annotated[
    PrecisionAnswer | CapacityAnswer | BisectAnswer | SearchAnswer, Field(discriminator="kind")
]


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
    jobs_at_most: int | None = Field(
        default=None, description="With the further jobs; null: only the results will tell."
    )
    steps_at_most: int | None = Field(
        default=None, description="Of all these jobs, if none stops early; null: not known."
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
