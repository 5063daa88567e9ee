"""Studies that bisect: which layers, and which of their products, must compute in float32.

Under a policy with float16 or bfloat16 a job overflows, or ends outside of the noise band of
float32. A run is a job with some of the layers in float32; it passes if it does neither. The
search finds a small set of layers whose run passes, then leaves out the products of these layers
that may stay in 16 bit.
"""

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ampcore.api.studies import BisectAnswer, NeededLayer, Noise, TriedLayers
from ampcore.api.study_requests import BisectOptions
from ampcore.lab.metric import baseline_metric
from ampcore.lab.minimal_set import minimal_set, without_unneeded
from ampcore.lab.paired_test import NoiseBand
from ampcore.lab.plan import DIVERGED, JobResult, Limit, NoAnswer, PlannedJob, Question, Results
from ampcore.lab.policies import FLOAT32, policies_to_study, policy_sections
from ampcore.preflight import preflight
from ampcore.spec import JobSpec, Problem, SpecValidationError
from ampcore.spec.devices import DeviceInfo
from ampcore.spec.precision import ROLES, Role
from ampcore.spec.text import plural

MAX_LAYERS: Final = 200
"""So many overrides, and those of the spec, are allowed together."""
MAX_KEY: Final = 90
LAYERS_WITH_ROLES: Final = frozenset({"Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D"})
"""The layers whose products can have dtypes of their own."""

Part = tuple[int, Role | None]
"""The index of a layer, and one of its products; None stands for the whole layer."""


class BisectKind:
    """The kind `bisect`."""

    decided_by_results = True
    needs_device = False

    def policies(self, options: BisectOptions, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """The policy whose failure is examined."""
        return policies_to_study([options.policy], devices)

    def limit(self, question: Question[BisectOptions]) -> Limit | None:
        """None: the results decide how many jobs are needed."""
        return None

    def check(self, question: Question[BisectOptions]) -> Sequence[Problem]:
        """None: the model of the request has checked the options."""
        return ()

    def jobs(self, question: Question[BisectOptions], results: Results) -> Sequence[PlannedJob]:
        """Float32 over the seeds, the policy alone, and the runs known to be needed so far.

        Raises SpecValidationError if the layers cannot be known without the job's data or code.
        """
        search = _Search(question, results)
        return [*search.first_jobs(), *search.runs()]

    def answer(self, question: Question[BisectOptions], results: Results) -> BisectAnswer:
        """The overrides, with the evidence for each layer. Raises NoAnswer."""
        return _Search(question, results).answer()


class _Pending(Exception):
    """The result of a run is not known yet."""


@dataclass(frozen=True)
class _Run:
    """A job with some parts in float32, and what came out; `passes` is None until it has ended."""

    parts: tuple[Part, ...]
    result: JobResult | None
    passes: bool | None
    explanation: str


class _Search:
    """The search, replayed from the results so far."""

    def __init__(self, question: Question[BisectOptions], results: Results) -> None:
        self._question, self._results = question, results
        (self._policy,) = question.policies or (FLOAT32,)
        self._layers = _layers_in_16_bit(question, self._policy)
        self._tried: dict[tuple[Part, ...], _Run] = {}

    def first_jobs(self) -> list[PlannedJob]:
        """Those that every search needs."""
        seeds = [
            PlannedJob(_seed_key(seed), self._changes(FLOAT32, seed, [])) for seed in self._seeds()
        ]
        return [*seeds, self._planned(())]

    def runs(self) -> list[PlannedJob]:
        """The runs so far; the last one may not have ended."""
        if any(job.key not in self._results for job in self.first_jobs()):
            return []
        with suppress(_Pending, NoAnswer):
            self._search()
        return [self._planned(parts) for parts in self._tried if parts]

    def answer(self) -> BisectAnswer:
        """What the runs say. Raises NoAnswer."""
        needed = self._search()
        band, metric, higher = self._baseline()
        overrides = _overrides(needed, self._layers)
        layers = sorted({index for index, _ in needed})
        evidence = [self._evidence(index, needed) for index in layers]
        return BisectAnswer(
            summary=self._summary(evidence),
            policy=self._policy,
            metric=metric,
            higher_is_better=higher,
            noise=Noise(
                mean=band.mean, standard_deviation=band.deviation, half_width=band.half_width
            ),
            overrides=overrides,
            layers=evidence,
            candidates=len(self._layers),
            tried=[
                TriedLayers(
                    float32=[_part_text(part, self._layers) for part in run.parts],
                    passes=bool(run.passes),
                    explanation=run.explanation,
                    job=run.result.job_id,
                )
                for run in self._tried.values()
                if run.result is not None
            ],
            jobs=[self._results[job.key].job_id for job in self.first_jobs()],
            write={"precision": {"policy": self._policy, "overrides": self._given() + overrides}},
        )

    def _search(self) -> list[Part]:
        """The parts that need float32. Raises _Pending and NoAnswer."""
        self._baseline()  # without one, no override could be judged
        if self._passes(()):
            return []
        whole: list[Part] = [(index, None) for index in range(len(self._layers))]
        if not self._passes(tuple(whole)):
            raise NoAnswer(
                f"{self._policy} fails even with all of its {plural(len(whole), 'layer')} in "
                f"float32: {self._tried[tuple(whole)].explanation} Overrides do not help; see "
                "loss_scale, and the dtype of the weights."
            )
        found = minimal_set(whole, lambda parts: self._passes(tuple(parts)))
        fixed = [part for part in found if not self._has_roles(part)]
        products: list[Part] = [
            (index, role)
            for index, role in found
            if self._has_roles((index, role))
            for role in ROLES
        ]
        if not products:
            return found
        kept = without_unneeded(products, lambda rest: self._passes((*fixed, *rest)))
        return sorted([*fixed, *_joined(kept)], key=lambda part: part[0])

    def _has_roles(self, part: Part) -> bool:
        return self._layers[part[0]].kind in LAYERS_WITH_ROLES

    def _passes(self, parts: Sequence[Part]) -> bool:
        """Whether a run passes. Raises _Pending until it has ended, and NoAnswer."""
        tried = tuple(_joined(parts))
        run = self._tried.get(tried)
        if run is None:
            run = self._tried[tried] = self._run(tried)
        if run.passes is None:
            raise _Pending
        return run.passes

    def _run(self, parts: tuple[Part, ...]) -> _Run:
        result = self._results.get(_run_key(parts))
        if result is None:
            return _Run(parts, None, None, "")
        if not (result.succeeded or result.reason in DIVERGED):
            raise NoAnswer(
                f"Job {result.job_id} is {result.state} ({result.reason}): {result.message}"
            )
        passes, explanation = self._judge(result)
        return _Run(parts, result, passes, explanation)

    def _judge(self, result: JobResult) -> tuple[bool, str]:
        """Whether a job is as good as float32, and why."""
        if not result.succeeded:
            return False, f"the job failed with {result.reason}."
        skipped = result.number("skipped_share") or 0.0
        allowed = self._question.options.skipped_share
        if skipped > allowed:
            return False, f"{100 * skipped:.3g} % of the steps were skipped."
        band, metric, higher = self._baseline()
        value = result.metrics.get(metric)
        if value is None:
            return False, f"it reports no finite {metric}."
        difference = value - self._results[_seed_key(self._seeds()[0])].metrics[metric]
        worse = (-difference if higher else difference) > band.half_width
        where = "outside of" if worse else "inside, or better than,"
        return not worse, (
            f"{metric} differs by {difference:+.4g}, {where} the noise band of "
            f"±{band.half_width:.4g}."
        )

    def _baseline(self) -> tuple[NoiseBand, str, bool]:
        """The noise band of float32, its metric, and whether higher is better. Raises NoAnswer."""
        results = {seed: self._results[_seed_key(seed)] for seed in self._seeds()}
        for result in results.values():
            if not result.succeeded:
                raise NoAnswer(
                    f"Float32 itself does not train to its end: job {result.job_id} is "
                    f"{result.state} ({result.reason}). No override can help."
                )
        options = self._question.options
        metric, higher = baseline_metric(
            self._question.spec, options.metric, list(results.values())
        )
        values = [result.metrics[metric] for result in results.values()]
        return NoiseBand.of(values, options.margin or 0.0), metric, higher

    def _evidence(self, index: int, needed: Sequence[Part]) -> NeededLayer:
        """The run that failed although most of the others were in float32."""
        others = {part for part in needed if part[0] != index}
        failed = [
            run
            for run in self._tried.values()
            if run.passes is False and not _covers(run.parts, index, needed)
        ]
        best = max(failed, key=lambda run: sum(part in run.parts for part in others))
        layer = self._layers[index]
        roles = [role for where, role in needed if where == index and role is not None]
        return NeededLayer(
            path=layer.path,
            kind=layer.kind,
            roles=list(roles or ROLES),
            explanation=f"With less of it in float32 {best.explanation}",
            job=best.result.job_id if best.result else "",
        )

    def _summary(self, layers: Sequence[NeededLayer]) -> str:
        if not layers:
            return f"{self._policy} needs no layer in float32: {self._tried[()].explanation}"
        paths = ", ".join(layer.path for layer in layers)
        jobs = plural(len(self._tried) + len(self._seeds()), "job")
        return (
            f"{self._policy} needs {plural(len(layers), 'layer')} of {len(self._layers)} in "
            f"float32: {paths}. Found with {jobs}."
        )

    def _seeds(self) -> list[int]:
        first = self._question.spec.train.seed
        return [first + number for number in range(self._question.options.seeds)]

    def _planned(self, parts: tuple[Part, ...]) -> PlannedJob:
        overrides = _overrides(parts, self._layers)
        return PlannedJob(_run_key(parts), self._changes(self._policy, self._seeds()[0], overrides))

    def _given(self) -> list[dict[str, Any]]:
        return [one.model_dump(mode="json") for one in self._question.spec.precision.overrides]

    def _changes(self, policy: str, seed: int, overrides: list[dict[str, Any]]) -> dict[str, Any]:
        changes = {
            **policy_sections(self._question.document, policy),
            "train.seed": seed,
            "runtime.max_attempts": 1,
        }
        if policy != FLOAT32:
            changes["precision"] = {"policy": policy, "overrides": self._given() + overrides}
        if self._question.options.steps is not None:
            changes["train.steps"] = self._question.options.steps
        return changes


@dataclass(frozen=True)
class _Layer:
    path: str
    kind: str


def _layers_in_16_bit(question: Question[BisectOptions], policy: str) -> list[_Layer]:
    """The layers that the policy computes in 16 bit, in the order of the network."""
    spec = JobSpec.parse({**question.document, **policy_sections(question.document, policy)})
    report = preflight(spec)
    if report.figures is None:
        expected = "a model whose layers are known before the job runs, such as `kind: layers`"
        raise SpecValidationError([Problem("/model", "layers_unknown", expected, spec.model.kind)])
    rows = {row.path: row for table in report.tables for row in table.layers if row.half}
    if len(rows) > MAX_LAYERS:
        expected = f"at most {MAX_LAYERS} layers in 16 bit; set the others to float32 by overrides"
        raise SpecValidationError([Problem("/model", "too_many_layers", expected, str(len(rows)))])
    return [_Layer(row.path, row.kind) for row in rows.values()]


def _seed_key(seed: int) -> str:
    return f"{FLOAT32}/seed-{seed}"


def _run_key(parts: Sequence[Part]) -> str:
    """Names the parts, as indices of layers: `float32-in/0-4,7`."""
    whole = [index for index, role in parts if role is None]
    products = [f"{index}:{role}" for index, role in parts if role is not None]
    text = ",".join([*_ranges(whole), *products]) or "none"
    if len(text) > MAX_KEY - len("float32-in/"):
        text = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"float32-in/{text}"


def _ranges(indices: Sequence[int]) -> list[str]:
    """Indices in ascending order as text: 1, 2, 3 and 5 are `1-3` and `5`."""
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and ranges[-1][1] == index - 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return [str(first) if first == last else f"{first}-{last}" for first, last in ranges]


def _joined(parts: Sequence[Part]) -> list[Part]:
    """The parts in order; all products of a layer together are the whole layer."""
    roles: dict[int, set[Role | None]] = {}
    for index, role in parts:
        roles.setdefault(index, set()).add(role)
    joined: list[Part] = []
    for index in sorted(roles):
        if None in roles[index] or len(roles[index]) == len(ROLES):
            joined.append((index, None))
        else:
            joined += [(index, role) for role in ROLES if role in roles[index]]
    return joined


def _covers(parts: Sequence[Part], index: int, needed: Sequence[Part]) -> bool:
    """Whether a run had everything in float32 that one layer needs."""
    if (index, None) in parts:
        return True
    wanted = {part for part in needed if part[0] == index}
    return (index, None) not in wanted and wanted <= set(parts)


def _overrides(parts: Sequence[Part], layers: Sequence[_Layer]) -> list[dict[str, Any]]:
    """The entries of `precision.overrides` that set parts to float32."""
    roles: dict[int, list[Role]] = {}
    for index, role in parts:
        roles.setdefault(index, []).extend([] if role is None else [role])
    entries: list[dict[str, Any]] = []
    for index, chosen in roles.items():
        # A block also has the layers inside of it.
        entry = {"layers": f"^{re.escape(layers[index].path)}(/|$)", "dtype": FLOAT32}
        entries.append({**entry, "roles": chosen} if chosen else entry)
    return entries


def _part_text(part: Part, layers: Sequence[_Layer]) -> str:
    index, role = part
    return layers[index].path if role is None else f"{layers[index].path} ({role})"
