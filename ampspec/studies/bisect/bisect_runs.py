"""The jobs of a bisection study: runs with some parts of the network in float32.

A run passes if it skips few steps and ends inside the noise band of float32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ampspec.api.study_requests import BisectOptions
from ampspec.precision.layer_dtypes import LayerInfo
from ampspec.studies.bisect.layer_losses import LayerLoss
from ampspec.studies.bisect.layer_parts import (
    Part,
    joined,
    part_overrides,
    parts_key,
    sampled_layers,
)
from ampspec.studies.metric import baseline_metric
from ampspec.studies.plan import DIVERGED, JobResult, NoAnswer, PlannedJob, Results, StudyContext
from ampspec.studies.precision.policies import FLOAT32, policy_sections
from ampspec.studies.statistics.paired_test import NoiseBand

RANGE_SAMPLES: Final = {"first_steps": 4, "growth": 2.0, "max_time_share": None}
"""The sampling of the job with the policy alone; by default such a short job takes no samples."""


class Pending(Exception):
    """The result of a run is not known yet."""


@dataclass(frozen=True)
class TriedParts:
    """A job with some parts in float32 and its result; `passes` is None until it has ended."""

    parts: tuple[Part, ...]
    result: JobResult | None
    passes: bool | None
    explanation: str


@dataclass(frozen=True)
class Baseline:
    """The results of float32 over the seeds."""

    band: NoiseBand
    metric: str
    higher_is_better: bool


class BisectRuns:
    """The jobs needed so far, in the order in which the search requested them.

    Args:
        context: The context of the study.
        results: The results of the jobs that have ended.
        policy: The policy that fails.
        known_layers: The layers that it computes in 16 bits; None: known once the first jobs have
            ended.
    """

    def __init__(
        self,
        context: StudyContext[BisectOptions],
        results: Results,
        policy: str,
        known_layers: Sequence[LayerInfo] | None,
    ) -> None:
        self._context, self._results = context, results
        self._policy, self._known_layers = policy, known_layers
        self.tried: dict[tuple[Part, ...], TriedParts] = {}

    def first_jobs(self) -> list[PlannedJob]:
        """The jobs that every search needs: float32 over the seeds, and the policy alone."""
        seeds = [
            PlannedJob(_seed_key(seed), self._changes(FLOAT32, seed, ())) for seed in self._seeds()
        ]
        return [*seeds, self._planned(())]

    def further_jobs(self) -> list[PlannedJob]:
        """The requested runs; the last one may not have ended."""
        return [self._planned(parts) for parts in self.tried if parts]

    @property
    def are_started(self) -> bool:
        """Whether the first jobs have ended."""
        return all(job.key in self._results for job in self.first_jobs())

    @property
    def first_job_ids(self) -> list[str]:
        """The ids of the first jobs, which have ended."""
        return [self._results[job.key].job_id for job in self.first_jobs()]

    @cached_property
    def layers(self) -> Sequence[LayerInfo]:
        """The layers that the policy computes in 16 bits. Raises NoAnswer."""
        if self._known_layers is not None:
            return self._known_layers
        return sampled_layers(self.policy_alone)

    @property
    def policy_alone(self) -> JobResult:
        """The result of the job with the policy and no further layer in float32."""
        return self._results[parts_key(())]

    @property
    def losses(self) -> Sequence[LayerLoss]:
        """The layers' losses with the policy alone; empty if the job took no range samples."""
        return self.policy_alone.losses

    def passes(self, parts: Sequence[Part]) -> bool:
        """Whether a run passes. Raises Pending until it has ended, and NoAnswer."""
        key = tuple(joined(parts))
        run = self.tried.get(key)
        if run is None:
            run = self.tried[key] = self._judged(key)
        if run.passes is None:
            raise Pending
        return run.passes

    def baseline(self) -> Baseline:
        """The noise band of float32 and its metric. Raises NoAnswer."""
        results = [self._results[_seed_key(seed)] for seed in self._seeds()]
        for result in results:
            if not result.succeeded:
                raise NoAnswer(
                    f"Float32 itself does not train to its end: job {result.job_id} is "
                    f"{result.state} ({result.reason}), so no override can help. {result.message}"
                )
            if result.skipped_share > self._context.options.skipped_share:
                raise NoAnswer(
                    f"Float32 itself does not train: job {result.job_id} skipped "
                    f"{100 * result.skipped_share:.3g} % of its steps, whose gradients were not "
                    "finite, so no override can help. Look at its learning rate and its data."
                )
        options = self._context.options
        metric, higher = baseline_metric(self._context.spec, options.metric, results)
        values = [result.metrics[metric] for result in results]
        return Baseline(NoiseBand.of(values, options.margin or 0.0), metric, higher)

    def given_overrides(self) -> list[dict[str, Any]]:
        """The overrides of the spec, which all runs have."""
        return [
            override.model_dump(mode="json") for override in self._context.spec.precision.overrides
        ]

    def _judged(self, parts: tuple[Part, ...]) -> TriedParts:
        result = self._results.get(parts_key(parts))
        if result is None:
            return TriedParts(parts, None, None, "")
        if not (result.succeeded or result.reason in DIVERGED):
            raise NoAnswer(
                f"Job {result.job_id} is {result.state} ({result.reason}): {result.message}"
            )
        passes, explanation = self._judge(result)
        return TriedParts(parts, result, passes, explanation)

    def _judge(self, result: JobResult) -> tuple[bool, str]:
        """Whether a job is as good as float32, and why."""
        skipped = result.skipped_share
        if skipped > self._context.options.skipped_share:
            return False, f"{100 * skipped:.3g} % of the steps were skipped."
        if not result.succeeded:
            return False, f"the job failed ({result.reason}): {result.message}"
        baseline = self.baseline()
        metric, band = baseline.metric, baseline.band
        value = result.metrics.get(metric)
        if value is None:
            return False, f"it reports no finite {metric}."
        difference = value - self._results[_seed_key(self._seeds()[0])].metrics[metric]
        loss = -difference if baseline.higher_is_better else difference
        if difference == 0:
            return True, f"{metric} equals float32."
        if abs(loss) <= band.half_width:
            where = "inside the noise band of"
        else:
            where = "worse than the noise band of" if loss > 0 else "better than the noise band of"
        return loss <= band.half_width, (
            f"{metric} differs from float32 by {difference:+.4g}, {where} ±{band.half_width:.4g}."
        )

    def _seeds(self) -> list[int]:
        first = self._context.spec.train.seed
        return [first + number for number in range(self._context.options.seeds)]

    def _planned(self, parts: tuple[Part, ...]) -> PlannedJob:
        changes = self._changes(self._policy, self._seeds()[0], parts)
        has_layers = self._known_layers is None or self._known_layers
        if not parts and has_layers and self._context.spec.telemetry.ranges.enabled:
            changes["telemetry.ranges"] = RANGE_SAMPLES
        return PlannedJob(parts_key(parts), changes)

    def _changes(self, policy: str, seed: int, parts: Sequence[Part]) -> dict[str, Any]:
        changes = {
            **policy_sections(self._context.document, policy),
            "train.seed": seed,
            "runtime.max_attempts": 1,
        }
        if policy != FLOAT32:
            overrides = self.given_overrides() + (
                part_overrides(parts, self.layers) if parts else []
            )
            changes["precision"] = {**changes["precision"], "overrides": overrides}
        if self._context.options.steps is not None:
            changes["train.steps"] = self._context.options.steps
        return changes


def _seed_key(seed: int) -> str:
    return f"{FLOAT32}/seed-{seed}"
