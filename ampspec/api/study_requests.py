"""The requests for studies: a kind, a job spec, and the options of the kind."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ampspec.precision.precision import Policy
from ampspec.training.training import Runtime

DEFAULT_PRIORITY: Final = Runtime().priority
"""The priority of a submitted job."""
STUDY_PRIORITY: Final = 3
"""The priority of a study's jobs, below that of submitted jobs."""
MAX_SEEDS: Final = 50
MAX_BATCH: Final = 65_536
MetricName = Annotated[str, Field(pattern="^val_.", max_length=200)]
Seeds = Annotated[int, Field(ge=2, le=MAX_SEEDS)]
Policies = Annotated[list[Literal[Policy, "tf32"]], Field(min_length=1, max_length=10)]
"""`tf32`: float32 with TF32 for matrix products; beside it, float32 is without TF32."""


class StudyOptions(BaseModel):
    """The options of a kind of study. Unknown options are an error."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,  # `ampctl` reads the fields alone
    )


class PrecisionOptions(StudyOptions):
    """How a precision study compares policies with float32."""

    seeds: Seeds = Field(default=3, description="Each policy and float32 train once per seed.")
    policies: Policies | None = Field(
        default=None,
        description="The policies to compare with float32; null: the mixed policies that the "
        "devices of the online workers can run, and `tf32` on GPUs that have it. `tf32` is "
        "float32 with TF32 for matrix products; float32 is without TF32 then.",
    )
    steps: int | None = Field(
        default=None, ge=1, le=2**53, description="Steps of each job; null: as in the spec."
    )
    metric: MetricName | None = Field(
        default=None,
        description="The metric to compare; null: the metric of `train.best`, else `val_accuracy` "
        "if reported, else `val_loss`.",
    )
    margin: float | None = Field(
        default=None,
        ge=0,
        description="A difference of at most this does not matter, in the unit of the metric; "
        "null: 0.01 for metrics from 0 to 1, and 5 % of float32's value for other metrics.",
    )


class CapacityOptions(StudyOptions):
    """How a capacity study searches for the largest batch."""

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
        description="The search ends when the smallest failing batch exceeds the largest fitting "
        "one by at most this share; 0: search to the exact multiple of 8.",
    )


class BisectOptions(StudyOptions):
    """How a bisection finds the layers that need float32 under a policy."""

    policy: Policy = Field(
        default="mixed_float16", description="The policy that fails, or may fail."
    )
    seeds: Seeds = Field(default=3, description="The seeds of float32, for the noise band.")
    steps: int | None = Field(
        default=200, ge=1, le=2**53, description="Steps of each job; null: as in the spec."
    )
    metric: MetricName | None = Field(
        default=None, description="The metric to compare; null: chosen as in a precision study."
    )
    margin: float | None = Field(
        default=None, ge=0, description="The noise band is at least this wide, on each side."
    )
    skipped_share: float = Field(
        default=0.1, ge=0, le=1, description="A job that skips a larger share of its steps fails."
    )


MAX_RUNS: Final = 1000
DEFAULT_RUNS: Final = 20
RANGES: Final = ("uniform", "log_uniform", "int_uniform", "log_int_uniform")
Bounds = Annotated[list[float], Field(min_length=2, max_length=2)]
IntBounds = Annotated[list[int], Field(min_length=2, max_length=2)]


class Parameter(StudyOptions):
    """The values that a search may assign to one field of the spec. Exactly one kind is set."""

    choice: list[Any] | None = Field(
        default=None, min_length=1, max_length=100, description="One of these values."
    )
    uniform: Bounds | None = Field(default=None, description="A number between two bounds.")
    log_uniform: Bounds | None = Field(
        default=None, description="A number between two bounds above 0, uniform in its logarithm."
    )
    int_uniform: IntBounds | None = Field(
        default=None, description="An integer between two bounds, inclusive."
    )
    log_int_uniform: IntBounds | None = Field(
        default=None, description="An integer of at least 1, uniform in its logarithm."
    )
    points: int | None = Field(
        default=None,
        ge=2,
        le=100,
        description="With the method `grid`: the number of values to try in the range.",
    )

    @property
    def kind(self) -> str:
        """The name of the field that is set."""
        return next(name for name in ("choice", *RANGES) if getattr(self, name, None) is not None)

    @property
    def is_log(self) -> bool:
        """Whether the logarithm of the value is uniform."""
        return self.kind.startswith("log_")

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of a range, the lower one first."""
        low, high = getattr(self, self.kind)
        return low, high

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        kinds = [name for name in ("choice", *RANGES) if getattr(self, name) is not None]
        if len(kinds) != 1:
            raise ValueError(f"exactly one of {', '.join(('choice', *RANGES))}")
        if self.choice is not None:
            if self.points is not None:
                raise ValueError("points only with a range")
            return self
        low, high = self.bounds
        if low >= high:
            raise ValueError(f"the lower bound of {self.kind} below the upper one")
        if self.is_log and low <= 0:
            raise ValueError(f"bounds of {self.kind} above 0")
        return self


class Asha(StudyOptions):
    """Stops runs early (ASHA, Li et al. 2018, arXiv:1810.05934).

    A run that has trained min_steps · reduction_factor^k steps trains on only if it is among the
    best 1 / reduction_factor of the runs that have trained as long.
    """

    min_steps: int = Field(ge=1, le=2**53, description="The steps that every run trains.")
    reduction_factor: int = Field(
        default=3,
        ge=2,
        le=10,
        description="One in this many runs continues, training this many times longer.",
    )


class SearchOptions(StudyOptions):
    """How a search looks for the best hyper-parameter values."""

    space: Annotated[dict[str, Parameter], Field(min_length=1, max_length=30)] = Field(
        description="By dotted path into the spec: the values to try."
    )
    method: Literal["grid", "random", "tpe"] = Field(
        default="tpe",
        description="grid: every combination; random: independent draws; tpe: draws near the best "
        "runs so far.",
    )
    runs: int | None = Field(
        default=None,
        ge=1,
        le=MAX_RUNS,
        description=f"The number of combinations to try; null: {DEFAULT_RUNS}, or the whole grid.",
    )
    parallel: int = Field(
        default=4,
        ge=1,
        le=100,
        description="With tpe or asha, which use results: the maximum number of jobs open at once.",
    )
    seed: int = Field(default=0, ge=0, le=2**31 - 1, description="The seed of the random draws.")
    steps: int | None = Field(
        default=None, ge=1, le=2**53, description="Steps of a whole run; null: as in the spec."
    )
    metric: MetricName | None = Field(
        default=None, description="The metric to improve; null: chosen as in a precision study."
    )
    direction: Literal["min", "max"] | None = Field(
        default=None,
        description="Whether lower or higher values of the metric are better; null: the mode of "
        "`train.best`, or the usual direction of the metric.",
    )
    asha: Asha | None = Field(default=None, description="null: every run trains to its end.")

    @field_validator("space")
    @classmethod
    def _sort(cls, space: dict[str, Parameter]) -> dict[str, Parameter]:
        # PostgreSQL does not keep the order of keys, and draws and grids depend on it.
        return dict(sorted(space.items()))


class _StudyOfSpec(StudyOptions):
    spec: dict[str, Any] = Field(description="The job spec.")
    name: str | None = Field(default=None, min_length=1, max_length=200)
    priority: int | None = Field(
        default=None,
        ge=0,
        le=9,
        description="The priority of the jobs; null: `runtime.priority` of the spec unless it is "
        f"the default, else {STUDY_PRIORITY}, so that submitted jobs run first.",
    )

    def prioritized(self) -> Self:
        """The request with the priority of the study's jobs in its spec."""
        runtime = self.spec.get("runtime")
        if runtime is not None and not isinstance(runtime, dict):
            return self  # parsing the spec reports the error
        in_spec = (runtime or {}).get("priority", DEFAULT_PRIORITY)
        chosen = STUDY_PRIORITY if in_spec == DEFAULT_PRIORITY else in_spec
        priority = chosen if self.priority is None else self.priority
        spec = {**self.spec, "runtime": {**(runtime or {}), "priority": priority}}
        return self.model_copy(update={"spec": spec})


class PrecisionStudy(_StudyOfSpec):
    """Asks which policy is as accurate as float32, and how much faster."""

    kind: Literal["precision"]
    options: PrecisionOptions = PrecisionOptions()


class CapacityStudy(_StudyOfSpec):
    """Asks how large the batch may be under each policy."""

    kind: Literal["capacity"]
    options: CapacityOptions = CapacityOptions()


class BisectStudy(_StudyOfSpec):
    """Asks which layers need float32 under a policy."""

    kind: Literal["bisect"]
    options: BisectOptions = BisectOptions()


class SearchStudy(_StudyOfSpec):
    """Asks which values of hyper-parameters give the best metric."""

    kind: Literal["search"]
    options: SearchOptions


AnyStudy = PrecisionStudy | CapacityStudy | BisectStudy | SearchStudy
"""The body of POST /studies."""
