"""Everything about one step whose run stands right before it: causes, layers, examples."""

import math
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.attribution import (
    Attribution,
    Finding,
    Observed,
    StepKind,
    attribute,
)
from ampcore.diagnostics.example_view import example_rows
from ampcore.diagnostics.nonfinite_values import nonfinite_examples
from ampcore.diagnostics.overflow_cause import CauseDetails
from ampcore.diagnostics.probe import MAX_OTHERS, Probe, StepInputs, example_losses, measure
from ampcore.diagnostics.replay import Replay
from ampcore.diagnostics.skipped_step import (
    BatchPosition,
    SkippedStep,
    StepDiagnosis,
    diagnose_step,
)
from ampcore.diagnostics.step_values import MAX_ROWS, layer_rows, variable_rows
from ampcore.models.task import float32_view
from ampcore.precision import NoLossScale
from ampcore.telemetry import StepBlock
from ampcore.train.job import TrainingJob
from ampcore.train.repeat import RepeatedStep
from ampcore.train.session import Session
from ampcore.train.step_replay import (
    ReplayedRun,
)

MAX_EXAMPLES: Final = 8
"""The maximum number of examples that are shown."""
OUTLIER_SCORE: Final = 6.0
"""The modified z-score from which the loss of an example stands out in its batch."""


class StepAnalysis:
    """What is found out about one step whose run stands right before it."""

    def __init__(
        self, job: TrainingJob, replayed: ReplayedRun, repeated: RepeatedStep, kind: StepKind
    ) -> None:
        self._job, self._context, self._kind = job, replayed.context, kind
        self._session: Session = replayed.run.session
        self._repeated = repeated
        self._step = repeated.block.first_step
        self._float32_replay: Replay | None = None
        session = self._session
        self._replay = Replay(session.task, session.loss_scales, session.step.accumulate)
        batch, seed = session.step_inputs(self._step)
        self._inputs = StepInputs(batch, seed)
        self._position = BatchPosition(
            *session.position(self._step), session.example_indices(self._step)
        )

    def document(self, finding: Finding | None) -> dict[str, Any]:
        """The explanation; `finding` is given if the step is not reproducible."""
        diagnosis = self._diagnose()
        is_finite = all(diagnosis.replayed.finite) and diagnosis.replayed.finite_forward
        probe = self._probe()
        cause = None if is_finite else diagnosis.cause
        unusual = self._unusual_examples(probe, cause)
        finding = finding or attribute(self._observed(probe, cause, unusual))
        facts = diagnosis.facts
        scales = list(self._session.scale_by_network.values())
        variables = variable_rows(self._replay, diagnosis.replayed, scales)
        layers = layer_rows(self._replay, diagnosis.replayed, facts["first_layer"])
        return {
            "kind": self._kind.value,
            "attribution": finding.attribution.value,
            "sentence": finding.sentence,
            "advice": finding.advice,
            "cause": facts["verdict"] if cause is not None else None,
            "device": self._context.device.kind,
            "policy": self._session.policies.name,
            "values": _values(self._repeated.block),
            "repeat": self._repeated.to_json(),
            "first_nonfinite": facts["first_layer"],
            "layers": layers[:MAX_ROWS],
            "layers_left_out": len(layers[MAX_ROWS:]),
            "variables": variables[:MAX_ROWS],
            "variables_left_out": len(variables[MAX_ROWS:]),
            "tried": self._tried(scales, diagnosis, probe),
            "finite_below": facts.get("finite_below"),
            "comparison": probe.to_json(),
            "batch": facts["batch"],
            "examples": self._examples(finding, probe, unusual),
        }

    def _diagnose(self) -> StepDiagnosis:
        scales = [float(scale) for scale in self._session.scale_by_network.values()]
        step = SkippedStep(scales, *self._inputs, self._position)
        return diagnose_step(self._replay, self._in_float32, step)

    def _observed(
        self, probe: Probe, cause: CauseDetails | None, unusual: NDArray[np.int64]
    ) -> Observed:
        block = self._repeated.block
        return Observed(
            kind=self._kind,
            probe=probe,
            cause=cause,
            unusual_examples=tuple(self._position.indices[unusual].tolist()),
            loss_in_run=float(block["loss"][0]),
            norm_in_run=float(block["grad_norm"][0]),
            learning_rate=float(block["learning_rate"][0]),
        )

    def _tried(
        self, scales: list[float], diagnosis: StepDiagnosis, probe: Probe
    ) -> list[dict[str, Any]]:
        """The computations of the step, that of the run first, and what came out."""
        dtypes = [dtype for dtype in self._replay.dtypes if dtype != "float32"]
        own = {
            "dtype": dtypes[0] if dtypes else "float32",
            "loss_scale": min(scales),
            "finite_loss": diagnosis.replayed.finite_forward,
            "finite_gradients": all(diagnosis.replayed.finite),
            "is_own": True,
        }
        rows = [own, *(row for row in diagnosis.tried if row["dtype"] != "float32")]
        if dtypes:
            finite = math.isfinite(probe.own.loss), math.isfinite(probe.own.grad_norm)
            names = ("finite_loss", "finite_gradients")
            in_float32 = {"dtype": "float32", "loss_scale": 1.0}
            rows.append(in_float32 | dict(zip(names, finite, strict=True)))
        return rows

    def _in_float32(self) -> Replay:
        """The replay in float32, of the same weights."""
        if self._float32_replay is None:
            task = float32_view(self._session.local_task)
            scales = [NoLossScale()] * len(task.networks)
            self._float32_replay = Replay(task, scales, self._session.step.accumulate)
        return self._float32_replay

    def _probe(self) -> Probe:
        replay = self._in_float32()
        own = measure(replay, self._inputs)
        others = [measure(replay, inputs) for inputs in self._other_inputs()]
        losses = self._example_losses(replay)
        with self._session.untrained_weights():
            untrained = measure(replay, self._inputs)
        return Probe(own, others, untrained, losses)

    def _example_losses(self, replay: Replay) -> NDArray[np.float32]:
        found = example_losses(replay.task, self._inputs.batch)
        # A task may have a loss for something else than one example.
        is_complete = found.shape == (len(self._position.indices),)
        return found if is_complete else np.empty(0, np.float32)

    def _other_inputs(self) -> list[StepInputs]:
        """The steps around this one in the same window of the data, which is at hand."""
        session, step = self._session, self._step
        _, batch = session.position(step)
        window = session.window(step)
        first = step - batch + window.first_batch
        others = list(range(first, first + window.end_batch - window.first_batch))
        nearest = sorted(others, key=lambda other: abs(other - step))[1 : MAX_OTHERS + 1]
        return [StepInputs(*session.step_inputs(other)) for other in nearest]

    def _unusual_examples(self, probe: Probe, cause: CauseDetails | None) -> NDArray[np.int64]:
        """The positions of the examples that stand out, the worst first."""
        bad: NDArray[np.int64] = nonfinite_examples(self._inputs.batch)
        if len(bad):
            return bad
        losses = probe.example_losses
        if not len(losses):
            return np.empty(0, np.int64)
        finite = np.isfinite(losses)
        if not finite.all():
            return np.flatnonzero(~finite) if finite.any() else np.empty(0, np.int64)
        median = np.median(losses)
        mad = np.median(np.abs(losses - median))
        far = losses > median + OUTLIER_SCORE * mad / 0.6745
        order = np.argsort(-losses, kind="stable")
        outliers: NDArray[np.int64] = order[far[order]]
        return outliers

    def _examples(
        self, finding: Finding, probe: Probe, unusual: NDArray[np.int64]
    ) -> dict[str, Any]:
        """The examples to look at: those that stand out, else those with the largest losses."""
        losses = probe.example_losses
        if len(unusual):
            chosen = unusual
        elif len(losses) and finding.attribution is Attribution.DATA:
            chosen = np.argsort(-losses, kind="stable")
        else:
            chosen = np.arange(len(self._position.indices))[:3]
        batch: Batch = self._inputs.batch.map(lambda part: tf.convert_to_tensor(part).numpy())
        shown = chosen[:MAX_EXAMPLES].tolist()
        return {
            "unusual": len(unusual),
            "total": len(self._position.indices),
            "shown": example_rows(
                self._context.dataset, batch, shown, self._position.indices, losses
            ),
        }


def _values(block: StepBlock) -> dict[str, Any]:
    names = ("loss", "grad_norm", "loss_scale", "learning_rate", "skipped")
    return {name: row_value(block, name) for name in names}


def row_value(block: StepBlock, name: str) -> float | bool:
    """A value of a block with one step."""
    value = block[name][0]
    return bool(value) if name == "skipped" else float(value)
