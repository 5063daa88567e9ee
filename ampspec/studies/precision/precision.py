"""Precision studies: which policy is as accurate as float32, and how much faster it is.

Float32 and each policy train with the same seeds. A seed decides the initial weights, the order of
the batches, augmentation and dropout, so the jobs of one seed are a pair that differs only in the
policy. The validation rows, selected by `data.split_seed`, are the same in all jobs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any, Final

from ampspec.api.studies import Noise, PolicyAnswer, PrecisionAnswer
from ampspec.api.study_requests import PrecisionOptions
from ampspec.documents.text import plural
from ampspec.jobs import Problem
from ampspec.objectives.metrics import is_share
from ampspec.precision.devices import DeviceInfo
from ampspec.rules.data_rules import known_train_examples
from ampspec.studies.capacity.memory_model import BATCH_MULTIPLE, memory_model
from ampspec.studies.metric import baseline_metric, validation_problems
from ampspec.studies.plan import (
    DIVERGED,
    MAX_SKIPPED_SHARE,
    JobResult,
    Limit,
    NoAnswer,
    PlannedJob,
    Results,
    StudyContext,
)
from ampspec.studies.precision.compared_examples import (
    changed_share,
    constant_metric,
    learned_nothing,
    mean_difference,
    shared_rows,
)
from ampspec.studies.precision.policies import (
    FLOAT32,
    TF32,
    float32_policies,
    policies_to_study,
    policy_sections,
    spec_policy,
)
from ampspec.studies.precision.precision_text import comparison_text, number_text, summary_text
from ampspec.studies.statistics.paired_test import (
    CONFIDENCE,
    TEST,
    NoiseBand,
    PairedComparison,
    compare,
    default_margin,
)

MIN_PAIRS: Final = 2


class PrecisionKind:
    """The kind `precision`."""

    decided_by_results = False
    allows_invalid_jobs = False
    compares_examples = True
    needs_device = False

    def policies(self, options: PrecisionOptions, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """The policies to compare with float32."""
        policies = policies_to_study(options.policies, devices)
        return (*float32_policies(options.policies, devices), *policies)

    def limit(self, context: StudyContext[PrecisionOptions]) -> Limit | None:
        """None: all jobs are planned from the start."""
        return None

    def check(self, context: StudyContext[PrecisionOptions]) -> Sequence[Problem]:
        """Whether there are validation examples; the request has checked the options."""
        return validation_problems(context.spec)

    def jobs(
        self, context: StudyContext[PrecisionOptions], results: Results
    ) -> Sequence[PlannedJob]:
        """One job for each seed and policy; float32 and its pairs of one seed follow each other.

        Raises NoAnswer once a job in float32 has not reported the metric.
        """
        keys = [_key(FLOAT32, seed) for seed in _seeds(context)]
        ended = [results[key] for key in keys if key in results and results[key].succeeded]
        if ended:
            baseline_metric(context.spec, context.options.metric, ended)
        return [
            PlannedJob(_key(policy, seed), _changes(context, policy, seed))
            for seed in _seeds(context)
            for policy in (FLOAT32, *context.policies)
        ]

    def answer(self, context: StudyContext[PrecisionOptions], results: Results) -> PrecisionAnswer:
        """The comparison of all policies. Raises NoAnswer without two results of float32."""
        seeds = _seeds(context)
        baseline = {
            seed: results[_key(FLOAT32, seed)]
            for seed in seeds
            if results[_key(FLOAT32, seed)].succeeded
        }
        metric, is_higher_better = baseline_metric(
            context.spec, context.options.metric, list(baseline.values())
        )
        values = {
            seed: result.metrics[metric]
            for seed, result in baseline.items()
            if metric in result.metrics and result.skipped_share <= MAX_SKIPPED_SHARE
        }
        if len(values) < MIN_PAIRS:
            raise NoAnswer(_no_baseline(metric, len(values), results, seeds))
        band = NoiseBand.of(list(values.values()))
        margin = context.options.margin
        if margin is None:
            margin = default_margin(metric, band.mean)
        float32 = {seed: baseline[seed] for seed in values}
        study = _PolicyComparisons(
            context, results, metric, is_higher_better, band, margin, float32
        )
        policies = [study.baseline(), *(study.policy(policy) for policy in context.policies)]
        best = policies[0] if study.learned_nothing else _recommended(policies)
        summary = study.nothing_learned if study.learned_nothing else summary_text(policies, best)
        return PrecisionAnswer(
            summary=summary,
            metric=metric,
            higher_is_better=is_higher_better,
            test=TEST,
            seeds=list(values),
            confidence=CONFIDENCE,
            margin=margin,
            constant=constant_metric(metric, list(float32.values())),
            rows=shared_rows([job for job in results.values() if job.succeeded]),
            noise=Noise(
                mean=band.mean, standard_deviation=band.deviation, half_width=band.half_width
            ),
            recommended=best.policy,
            policies=policies,
        )


def _key(policy: str, seed: int) -> str:
    return f"{policy}/seed-{seed}"


def _seeds(context: StudyContext[PrecisionOptions]) -> list[int]:
    first = context.spec.train.seed
    return [first + number for number in range(context.options.seeds)]


def _sections(context: StudyContext[PrecisionOptions], policy: str) -> dict[str, Any]:
    return policy_sections(context.document, policy, studied=context.policies)


def _changes(context: StudyContext[PrecisionOptions], policy: str, seed: int) -> dict[str, Any]:
    changes = {**_sections(context, policy), "train.seed": seed}
    if context.options.steps is not None:
        changes["train.steps"] = context.options.steps
    return changes


@dataclass(frozen=True)
class _PolicyComparisons:
    """The results of a study, compared with float32."""

    context: StudyContext[PrecisionOptions]
    results: Results
    metric: str
    is_higher_better: bool
    band: NoiseBand
    margin: float
    float32: Mapping[int, JobResult]
    """By seed, the jobs in float32 that have the metric."""

    @property
    def learned_nothing(self) -> bool:
        """Whether float32 itself is no better than a constant prediction."""
        return learned_nothing(list(self.float32.values()))

    @property
    def nothing_learned(self) -> str:
        """The explanation if float32 has learned nothing."""
        constant = constant_metric(self.metric, list(self.float32.values()))
        text = f"Cannot tell: float32 did not learn: {self.metric} {number_text(self.band.mean)}"
        if constant is not None:
            what = "the largest class" if is_share(self.metric) else "the best constant prediction"
            text += f", {what} has {number_text(constant)}"
        return f"{text}. Train longer, and look at the learning rate, the targets and the data."

    def baseline(self) -> PolicyAnswer:
        """The answer for float32 itself."""
        text = (
            f"The reference: {self.metric} {number_text(self.band.mean)} on average, standard "
            f"deviation {number_text(self.band.deviation)} over {plural(len(self.float32), 'seed')}"
            f"{self._rows_text()}."
        )
        return self._answer(FLOAT32, "equal", text)

    def policy(self, policy: str) -> PolicyAnswer:
        """The answer for one policy."""
        jobs = self._jobs(policy)
        failed = {seed: job for seed, job in jobs.items() if not job.succeeded}
        diverged = [job for job in failed.values() if job.reason in DIVERGED]
        seeds = [
            seed
            for seed in self.float32
            if jobs[seed].succeeded and self.metric in jobs[seed].metrics
        ]
        if diverged or len(seeds) < MIN_PAIRS:
            return self._answer(policy, "failed", self._failure(policy, jobs, diverged))
        if self.learned_nothing:
            return self._answer(policy, "cannot tell", self.nothing_learned)
        pairs = [self.float32[seed] for seed in seeds], [jobs[seed] for seed in seeds]
        comparison = compare(
            mean_difference(self.metric, *pairs),
            self.band,
            self.margin,
            higher_is_better=self.is_higher_better,
            is_asked=self.context.options.margin is not None,
        )
        changed = changed_share(self.metric, *pairs) if comparison.by_example else None
        text = comparison_text(comparison, self.band, self.metric, self.margin, changed)
        if not self._differs_from_float32(policy, jobs):
            text += " No job ran on a device with TF32, so this is plain float32."
        if failed:
            text += f" {plural(len(failed), 'pair')} left out: {_reasons(failed.values())}."
        return self._answer(policy, comparison.verdict, text, comparison, changed)

    def _rows_text(self) -> str:
        rows = shared_rows(list(self.float32.values()))
        if rows is None:
            return ""
        drawn = "" if rows.split_seed is None else f" (split_seed {rows.split_seed})"
        return f", all evaluated on the same {plural(rows.count, 'row')}{drawn}"

    def _jobs(self, policy: str) -> dict[int, JobResult]:
        return {seed: self.results[_key(policy, seed)] for seed in _seeds(self.context)}

    def _failure(
        self, policy: str, jobs: dict[int, JobResult], diverged: Sequence[JobResult]
    ) -> str:
        if diverged:
            skipped = 100 * fmean(job.skipped_share for job in diverged)
            text = (
                f"{len(diverged)} of {plural(len(jobs), 'job')} did not train to the end: "
                f"{_reasons(diverged)}; {skipped:.3g} % of their steps were skipped."
            )
            if spec_policy(policy) == FLOAT32:
                return text
            bisect = f"ampctl study bisect SPEC --policy {policy}"
            return f"{text} To find the layers that need float32: {bisect}."
        missing = [job for job in jobs.values() if not job.succeeded]
        why = _reasons(missing) if missing else f"no finite {self.metric}"
        return f"Fewer than {MIN_PAIRS} pairs of jobs can be compared: {why}."

    def _answer(
        self,
        policy: str,
        verdict: str,
        text: str,
        comparison: PairedComparison | None = None,
        changed: float | None = None,
    ) -> PolicyAnswer:
        jobs = self._jobs(policy)
        memory = memory_model(self.context.document, policy) or next(
            (job.memory for job in jobs.values() if job.memory is not None), None
        )
        batch = self.context.spec.data.batch_size
        device_bytes = self.context.step_memory_bytes
        estimated = memory.largest_batch(device_bytes) if memory and device_bytes else None
        spec = self.context.spec
        examples = known_train_examples(spec.data, spec.model) or next(
            (job.train_examples for job in self.results.values() if job.train_examples), None
        )
        if estimated is not None and examples is not None:
            max_batch = examples // self.context.spec.train.accumulate
            estimated = min(estimated, max_batch // BATCH_MULTIPLE * BATCH_MULTIPLE)
        measured = self.context.measured_batches.get(spec_policy(policy))
        is_reference = policy == FLOAT32
        ratios = self._speed_ratios(jobs) if self._differs_from_float32(policy, jobs) else []
        enough = len(ratios) >= MIN_PAIRS and not is_reference
        return PolicyAnswer(
            policy=policy,
            verdict=verdict,
            explanation=text,
            difference=comparison.difference if comparison else 0.0 if is_reference else None,
            interval=list(comparison.interval) if comparison and comparison.interval else None,
            needs_more_seeds=comparison.more_seeds if comparison else None,
            needs_examples=comparison.examples if comparison else None,
            changed_examples=changed,
            speedup=1.0 if is_reference else _geometric_mean(ratios),
            speedup_range=[min(ratios), max(ratios)] if enough else None,
            memory=memory.total(batch) if memory else None,
            largest_batch=estimated if measured is None else measured,
            largest_batch_is_measured=measured is not None,
            skipped_share=_mean([job.number("skipped_share") for job in jobs.values()]),
            jobs=[job.job_id for job in jobs.values()],
            write=_sections(self.context, policy),
        )

    @staticmethod
    def _differs_from_float32(policy: str, jobs: Mapping[int, JobResult]) -> bool:
        """Whether it differs from float32; TF32 does so only on a device that supports it."""
        return policy != TF32 or any(job.summary.get("tf32") for job in jobs.values())

    def _speed_ratios(self, jobs: dict[int, JobResult]) -> list[float]:
        """The throughput relative to float32, for each seed with both jobs."""
        pairs = [
            (throughput(job), throughput(self.results[_key(FLOAT32, seed)]))
            for seed, job in jobs.items()
        ]
        return [ours / theirs for ours, theirs in pairs if ours is not None and theirs is not None]


def throughput(result: JobResult) -> float | None:
    """The examples per second of a job that succeeded, without its first, slow steps.

    The median of the steps is hardly affected by compilation and by other load on the machine.
    """
    names = ("median_examples_per_s", "examples_per_s")
    speeds = (result.number(name) for name in names if result.succeeded)
    return next((value for value in speeds if value is not None and value > 0.0), None)


def _geometric_mean(ratios: Sequence[float]) -> float | None:
    return exp(fmean(map(log, ratios))) if ratios else None


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None


def _recommended(policies: Sequence[PolicyAnswer]) -> PolicyAnswer:
    """The fastest policy that is as accurate as float32; float32 itself if none is faster."""
    as_accurate = [answer for answer in policies if answer.verdict in ("equal", "better")]
    return max(as_accurate, key=lambda answer: answer.speedup or 0.0)


def _no_baseline(metric: str, count: int, results: Results, seeds: Sequence[int]) -> str:
    jobs = [results[_key(FLOAT32, seed)] for seed in seeds]
    failed = [job for job in jobs if not job.succeeded]
    skipping = [job for job in jobs if job.succeeded and job.skipped_share > MAX_SKIPPED_SHARE]
    text = f"Needs {metric} of at least {MIN_PAIRS} jobs in float32; {count} have it"
    if skipping and not failed:
        ids = ", ".join(job.job_id for job in skipping)
        share = 100 * fmean(job.skipped_share for job in skipping)
        return (
            f"{text}: {plural(len(skipping), 'job')} ({ids}) skipped {share:.3g} % of the steps, "
            "whose gradients were not finite. Look at the learning rate and the data."
        )
    if not failed:
        return f"{text}."
    return f"{text}: {_reasons(failed)}. {failed[0].message or ''}".rstrip()


def _reasons(jobs: Iterable[JobResult]) -> str:
    """The outcomes of the jobs, each with the ids of its jobs."""
    ids: dict[str, list[str]] = {}
    for job in jobs:
        reason = f" ({job.reason})" if job.reason else ""
        ids.setdefault(f"{job.state}{reason}", []).append(job.job_id)
    return ", ".join(
        f"{'jobs' if len(job_ids) > 1 else 'job'} {', '.join(job_ids)} {outcome}"
        for outcome, job_ids in ids.items()
    )
