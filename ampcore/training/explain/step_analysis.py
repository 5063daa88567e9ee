"""Everything about one step whose run stands right before it: causes, layers, examples."""

import math
from typing import Any, Final

import numpy as np
import tensorflow as tf

from ampcore.data import Batch
from ampcore.diagnostics.steps.attribution import Attribution, StepFinding, StepKind
from ampcore.diagnostics.steps.example_view import example_rows
from ampcore.diagnostics.steps.nonfinite_values import nonfinite_examples
from ampcore.diagnostics.steps.probe import StepInputs, measure
from ampcore.diagnostics.steps.replay import Replay
from ampcore.diagnostics.steps.responsible_examples import shown_effects
from ampcore.diagnostics.steps.skipped_step import BatchPosition, SkippedStep
from ampcore.diagnostics.steps.step_diagnosis import DiagnosedStep, StepDiagnoser, StepValues
from ampcore.diagnostics.steps.step_values import MAX_ROWS, layer_rows, variable_rows
from ampcore.models.task import float32_view
from ampcore.precision import NoLossScale
from ampcore.training.explain.step_replay import ReplayedRun
from ampcore.training.run.diagnosis_context import step_context
from ampcore.training.run.repeat import RepeatedStep
from ampcore.training.step.step_runner import StepRunner
from ampspec.precision.precision import DTYPES_OF_16_BITS
from ampspec.telemetry import StepBlock

MAX_EXAMPLES: Final = 8
"""The maximum number of examples that are shown."""
NO_LOSSES: Final = np.empty(0, np.float32)


class StepAnalysis:
    """What is found out about one step whose run stands right before it."""

    def __init__(self, replayed: ReplayedRun, repeated: RepeatedStep, kind: StepKind) -> None:
        self._context, self._kind = replayed.context, kind
        self._runner: StepRunner = replayed.run.runner
        self._repeated = repeated
        self._step = repeated.block.first_step
        self._at_start = replayed.run.diagnostics.at_start
        self._float32_replay: Replay | None = None
        runner = self._runner
        self._replay = Replay(
            runner.task, runner.train_step.loss_scales, runner.train_step.accumulate
        )
        self._batch, self._seed = runner.step_inputs(self._step)
        self._position = BatchPosition(
            *runner.position(self._step), runner.example_indices(self._step)
        )

    def document(self, finding: StepFinding | None) -> dict[str, Any]:
        """The explanation; `finding` is given if the step is not reproducible."""
        diagnosed = self._diagnose()
        finding = finding or diagnosed.finding
        facts, replayed = diagnosed.replayed.facts, diagnosed.replayed.replayed
        scales = self._scales()
        variables = variable_rows(self._replay, replayed, scales)
        layers = layer_rows(self._replay, replayed, facts["first_layer"])
        return {
            "kind": self._kind.value,
            "attribution": finding.attribution.value,
            "sentence": finding.sentence,
            "advice": finding.advice,
            "cause": None if diagnosed.is_finite else facts["diagnosis"],
            "device": self._context.device.kind,
            "policy": self._runner.policies.name,
            "values": _values(self._repeated.block),
            "repeat": self._repeated.to_json(),
            "first_nonfinite": facts["first_layer"],
            "layers": layers[:MAX_ROWS],
            "layers_left_out": len(layers[MAX_ROWS:]),
            "variables": variables[:MAX_ROWS],
            "variables_left_out": len(variables[MAX_ROWS:]),
            "tried": self._tried(scales, diagnosed),
            "finite_below": facts.get("finite_below"),
            "comparison": diagnosed.probe.to_json() if diagnosed.probe is not None else None,
            "batch": facts["batch"],
            "examples": self._examples(finding, diagnosed),
        }

    def _scales(self) -> list[float]:
        return [float(scale) for scale in self._runner.state.scale_by_network.values()]

    def _diagnose(self) -> DiagnosedStep:
        block = self._repeated.block
        step = SkippedStep(self._scales(), self._batch, self._seed, self._position)
        context = step_context(
            self._context,
            self._runner,
            self._step,
            float(block["learning_rate"][0]),
            self._at_start,
        )
        values = StepValues(self._kind, float(block["loss"][0]), float(block["grad_norm"][0]))
        return StepDiagnoser(self._replay, self._in_float32).diagnose(step, context, values)

    def _tried(self, scales: list[float], diagnosed: DiagnosedStep) -> list[dict[str, Any]]:
        """The computations of the step, that of the run first, and what came out."""
        dtypes = [dtype for dtype in self._replay.dtypes if dtype in DTYPES_OF_16_BITS]
        run_row = {
            "dtype": dtypes[0] if dtypes else "float32",
            "loss_scale": min(scales),
            "finite_loss": diagnosed.replayed.replayed.finite_forward,
            "finite_gradients": all(diagnosed.replayed.replayed.finite),
            "is_own": True,
        }
        rows = [run_row, *(row for row in diagnosed.replayed.tried if row["dtype"] != "float32")]
        if dtypes:
            measured = measure(self._in_float32(), StepInputs(self._batch, self._seed))
            finite = math.isfinite(measured.loss), math.isfinite(measured.grad_norm)
            names = ("finite_loss", "finite_gradients")
            in_float32 = {"dtype": "float32", "loss_scale": 1.0}
            rows.append(in_float32 | dict(zip(names, finite, strict=True)))
        return rows

    def _in_float32(self) -> Replay:
        """The replay in float32, of the same weights."""
        if self._float32_replay is None:
            task = float32_view(self._runner.local_task)
            scales = [NoLossScale()] * len(task.networks)
            self._float32_replay = Replay(task, scales, self._runner.train_step.accumulate)
        return self._float32_replay

    def _examples(self, finding: StepFinding, diagnosed: DiagnosedStep) -> dict[str, Any]:
        """The examples to look at: the responsible ones, else those with the largest losses."""
        losses = diagnosed.probe.example_losses if diagnosed.probe is not None else NO_LOSSES
        unusual = diagnosed.responsible.positions
        if not unusual:
            unusual = tuple(nonfinite_examples(self._batch).tolist())
        if unusual:
            chosen = np.array(unusual)
        elif len(losses) and finding.attribution is Attribution.DATA:
            chosen = np.argsort(-losses, kind="stable")
        else:
            chosen = np.arange(len(self._position.indices))[:3]
        batch: Batch = self._batch.map(lambda part: tf.convert_to_tensor(part).numpy())
        rows = example_rows(
            self._context.dataset,
            batch,
            chosen[:MAX_EXAMPLES].tolist(),
            self._position.indices,
            losses,
        )
        effects = shown_effects(diagnosed.responsible)
        return {
            "unusual": len(unusual),
            "total": len(self._position.indices),
            "shown": [{**row, **effects.get(row["position"], {})} for row in rows],
        }


def _values(block: StepBlock) -> dict[str, Any]:
    names = ("loss", "grad_norm", "loss_scale", "learning_rate", "skipped")
    return {name: row_value(block, name) for name in names}


def row_value(block: StepBlock, name: str) -> float | bool:
    """A value of a block with one step."""
    value = block[name][0]
    return bool(value) if name == "skipped" else float(value)
