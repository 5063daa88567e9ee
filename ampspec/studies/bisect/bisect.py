"""Bisection studies: which layers, and which of their products, must compute in float32.

Under a policy with float16 or bfloat16 a job overflows, or ends outside of the noise band of
float32. A run is a job with some of the layers in float32; it passes if it does neither. The
search finds a small set of layers whose run passes, beginning with those that lose most by the
range samples of the failed job. Then it drops the products of these layers that may stay in 16
bits.
"""

from collections.abc import Sequence
from contextlib import suppress

from ampspec.api.studies import BisectAnswer, NeededLayer, Noise, TriedLayers
from ampspec.api.study_requests import BisectOptions
from ampspec.documents.text import plural
from ampspec.jobs import Problem
from ampspec.precision.devices import DeviceInfo
from ampspec.precision.precision import ROLES
from ampspec.precision.product_dtypes import has_products
from ampspec.studies.bisect.bisect_runs import BisectRuns, Pending
from ampspec.studies.bisect.layer_parts import (
    Part,
    covers,
    joined,
    layers_in_16_bit,
    part_overrides,
    part_text,
)
from ampspec.studies.bisect.minimal_set import minimal_set, without_unneeded
from ampspec.studies.metric import validation_problems
from ampspec.studies.plan import Limit, NoAnswer, PlannedJob, Results, StudyContext
from ampspec.studies.precision.policies import FLOAT32, policies_to_study, policy_sections


class BisectKind:
    """The kind `bisect`."""

    decided_by_results = True
    allows_invalid_jobs = False
    compares_examples = False
    needs_device = False

    def policies(self, options: BisectOptions, devices: Sequence[DeviceInfo]) -> tuple[str, ...]:
        """The policy whose failure is examined."""
        return policies_to_study([options.policy], devices)

    def limit(self, context: StudyContext[BisectOptions]) -> Limit | None:
        """None: the number of jobs depends on the results."""
        return None

    def check(self, context: StudyContext[BisectOptions]) -> Sequence[Problem]:
        """Whether there are validation examples; the request has checked the options."""
        return validation_problems(context.spec)

    def jobs(self, context: StudyContext[BisectOptions], results: Results) -> Sequence[PlannedJob]:
        """Float32 over the seeds, the policy alone, and the runs known to be needed so far.

        Raises SpecValidationError if the layers cannot be known, or are too many.
        """
        return _BisectSearch(context, results).jobs()

    def answer(self, context: StudyContext[BisectOptions], results: Results) -> BisectAnswer:
        """The overrides, with the evidence for each layer. Raises NoAnswer."""
        return _BisectSearch(context, results).answer()


class _BisectSearch:
    """The search, replayed from the results so far."""

    def __init__(self, context: StudyContext[BisectOptions], results: Results) -> None:
        (self._policy,) = context.policies or (FLOAT32,)
        self._document = context.document
        known_layers = layers_in_16_bit(context, self._policy)
        self._runs = BisectRuns(context, results, self._policy, known_layers)

    def jobs(self) -> list[PlannedJob]:
        """The jobs known to be needed so far."""
        if self._runs.are_started:
            with suppress(Pending, NoAnswer):
                self._needed_parts()
        return [*self._runs.first_jobs(), *self._runs.further_jobs()]

    def answer(self) -> BisectAnswer:
        """The answer from the runs. Raises NoAnswer."""
        needed_parts = self._needed_parts()
        baseline = self._runs.baseline()
        overrides = part_overrides(needed_parts, self._runs.layers)
        layers = sorted({index for index, _ in needed_parts})
        evidence = [self._evidence(index, needed_parts) for index in layers]
        all_overrides = self._runs.given_overrides() + overrides
        precision = policy_sections(self._document, self._policy)["precision"]
        return BisectAnswer(
            summary=self._summary(evidence),
            policy=self._policy,
            metric=baseline.metric,
            higher_is_better=baseline.higher_is_better,
            noise=Noise(
                mean=baseline.band.mean,
                standard_deviation=baseline.band.deviation,
                half_width=baseline.band.half_width,
            ),
            overrides=overrides,
            layers=evidence,
            candidates=len(self._runs.layers),
            tried=[
                TriedLayers(
                    float32=[part_text(part, self._runs.layers) for part in run.parts],
                    passes=bool(run.passes),
                    explanation=run.explanation,
                    job=run.result.job_id,
                )
                for run in self._runs.tried.values()
                if run.result is not None
            ],
            jobs=self._runs.first_job_ids,
            write={"precision": {**precision, "overrides": all_overrides}},
        )

    def _needed_parts(self) -> list[Part]:
        """The parts that need float32. Raises Pending and NoAnswer."""
        self._runs.baseline()  # no override can be judged without a baseline
        if self._runs.passes(()):
            return []
        parts = minimal_set(
            self._candidates(), self._runs.passes, likely_first=bool(self._runs.losses)
        )
        return self._without_unneeded_products(sorted(parts))

    def _candidates(self) -> list[Part]:
        """Layers that suffice together, those that probably need float32 first.

        Raises Pending and NoAnswer.
        """
        if not self._runs.layers:
            raise NoAnswer(self._no_layers())
        ranks = {loss.layer: rank for rank, loss in enumerate(self._runs.losses)}
        order = sorted(
            range(len(self._runs.layers)),
            key=lambda i: ranks.get(self._runs.layers[i].path, len(ranks)),
        )
        advised = {loss.layer for loss in self._runs.losses if loss.float32}
        suspects: list[Part] = [(i, None) for i in order if self._runs.layers[i].path in advised]
        if suspects and self._runs.passes(suspects):
            return suspects
        every: list[Part] = [(index, None) for index in order]
        if not self._runs.passes(every):
            explanation = self._runs.tried[tuple(sorted(every))].explanation
            raise NoAnswer(
                f"{self._policy} fails even with all of its {plural(len(every), 'layer')} in "
                f"float32: {explanation} Overrides do not help; see loss_scale, and the dtype of "
                "the weights."
            )
        return every

    def _no_layers(self) -> str:
        result = self._runs.policy_alone
        why = f"job {result.job_id} is {result.state} ({result.reason}): {result.message}"
        if not self._runs.losses:
            why += " It took no range samples, which would list the layers."
        return f"No layer is known that {self._policy} computes in 16 bits; {why}"

    def _without_unneeded_products(self, whole: Sequence[Part]) -> list[Part]:
        """The same layers, without the products that may stay in 16 bits."""
        fixed = [part for part in whole if not has_products(self._runs.layers[part[0]])]
        products: list[Part] = [
            (index, role)
            for index, _ in whole
            if has_products(self._runs.layers[index])
            for role in ROLES
        ]
        kept = without_unneeded(products, lambda parts: self._runs.passes((*fixed, *parts)))
        return joined((*fixed, *kept))

    def _evidence(self, index: int, needed_parts: Sequence[Part]) -> NeededLayer:
        """The run that failed although most other needed layers were in float32."""
        other_parts = {part for part in needed_parts if part[0] != index}
        failed = [
            run
            for run in self._runs.tried.values()
            if run.passes is False and not covers(run.parts, index, needed_parts)
        ]
        best = max(failed, key=lambda run: sum(part in run.parts for part in other_parts))
        layer = self._runs.layers[index]
        roles = [role for where, role in needed_parts if where == index and role is not None]
        lost = [
            loss.sentence()
            for loss in self._runs.losses
            if loss.layer == layer.path and loss.problem is not None
        ]
        return NeededLayer(
            path=layer.path,
            kind=layer.kind,
            roles=list(roles or ROLES),
            explanation=" ".join([f"Without this, {best.explanation}", *lost]),
            job=best.result.job_id if best.result else "",
        )

    def _summary(self, layers: Sequence[NeededLayer]) -> str:
        if not layers:
            return f"{self._policy} needs no layer in float32: {self._runs.tried[()].explanation}"
        paths = ", ".join(layer.path for layer in layers)
        jobs = plural(len(self._runs.first_jobs()) + len(self._runs.further_jobs()), "job")
        return (
            f"{self._policy} needs {plural(len(layers), 'layer')} of {len(self._runs.layers)} in "
            f"float32: {paths} (found with {jobs})."
        )
