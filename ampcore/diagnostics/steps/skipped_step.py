"""Finds what makes a step not finite: replays it at lower loss scales and in float32."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.steps.nonfinite_origin import (
    JsonObject,
    first_nonfinite,
    nonfinite_gradients,
)
from ampcore.diagnostics.steps.nonfinite_values import (
    largest,
    largest_input,
    nonfinite_examples,
    nonfinite_variables,
)
from ampcore.diagnostics.steps.overflow_cause import CauseDetails, OverflowCause
from ampcore.diagnostics.steps.replay import MicroBatch, Replay, ReplayResult, TensorStats
from ampcore.models.task import Task

Tensor = Any

LOWEST_EXPONENT: Final = -24
"""The lowest exponent tried: a gradient that needs a lower scale is above 2^39."""
MAX_VARIABLES: Final = 20
MAX_EXAMPLES: Final = 64
"""The maximum number of listed examples; their total is recorded as well."""


class BatchPosition(NamedTuple):
    """The position of a step's batch in the data: epoch, batch and example indices."""

    epoch: int
    batch: int
    indices: NDArray[np.int64]
    """Into the training examples, in the order of the batch."""


class SkippedStep(NamedTuple):
    """The skipped step: the networks' loss scales, all its examples, its seed and its position."""

    scales: Sequence[float]
    batch: Batch
    seed: Tensor
    position: BatchPosition


@dataclass
class NonfiniteStep:
    """The micro-batches that are not finite at the step's own loss scales."""

    micro_batches: list[int]
    variables: list[TensorStats]
    """The statistics of each network's gradients."""
    first: MicroBatch
    """The first of these micro-batches; `replayed` is its result."""
    replayed: ReplayResult

    def add(self, micro: MicroBatch, replayed: ReplayResult) -> None:
        """Count another micro-batch."""
        self.micro_batches.append(micro.number)
        pairs = zip(self.variables, replayed.variables, strict=True)
        self.variables = [_combined(old, new) for old, new in pairs]


@dataclass(frozen=True)
class StepDiagnosis:
    """Everything that was found out about a step."""

    facts: JsonObject
    """For the event of a skipped step: non-finite variables, first layer and cause."""
    cause: CauseDetails
    tried: list[JsonObject]
    """The other computations of the step: `dtype`, `loss_scale`, and whether they were finite."""
    replayed: ReplayResult
    """The first micro-batch that is not finite at its own loss scales; else the first one."""


def diagnose_step(
    replay: Replay, in_float32: Callable[[], Replay], step: SkippedStep
) -> StepDiagnosis:
    """Replay a step at its own loss scales, and find the cause if it is not finite.

    `in_float32` returns a replay of the same task in float32, with the current weights.
    """
    overflow, first_replayed = _overflow(replay, step)
    search = _CauseSearch(replay, in_float32, step)
    details, finite_below = search.find_cause(overflow)
    variables, first = [], None
    if overflow is not None:
        variables = nonfinite_gradients(replay, overflow.variables, step.scales)
        first = first_nonfinite(replay, overflow.replayed)
    facts: JsonObject = {
        "diagnosis": details.cause.value,
        "first_layer": first,
        "variables": variables[:MAX_VARIABLES],
        "variables_left_out": len(variables[MAX_VARIABLES:]),
        "batch": _batch_facts(replay.accumulate, step.position, overflow, details),
    }
    if finite_below:
        facts["finite_below"] = finite_below
    if details.layer:
        facts["layer"] = details.layer
    if details.damaged:
        facts["damaged"] = list(details.damaged[:MAX_VARIABLES])
    replayed = overflow.replayed if overflow is not None else first_replayed
    return StepDiagnosis(facts, details, search.tried(), replayed)


def _overflow(replay: Replay, step: SkippedStep) -> tuple[NonfiniteStep | None, ReplayResult]:
    """The micro-batches that are not finite, if any, and the result of the first one of all."""
    overflow: NonfiniteStep | None = None
    first: ReplayResult | None = None
    for micro, replayed in replay.step(step.scales, step.batch, step.seed):
        first = first or replayed
        if all(replayed.finite) and replayed.finite_losses:
            continue
        if overflow is None:
            overflow = NonfiniteStep([micro.number], replayed.variables, micro, replayed)
        else:
            overflow.add(micro, replayed)
    if first is None:
        raise ValueError("expected a step of at least one micro-batch, received none")
    return overflow, first


class _CauseSearch:
    """Finds the cause of non-finite gradients."""

    def __init__(self, replay: Replay, in_float32: Callable[[], Replay], step: SkippedStep) -> None:
        self._replay, self._in_float32, self._step = replay, in_float32, step
        self._replayed_by_exponent: dict[int, ReplayResult] = {}
        """Results by the exponent of the largest loss scale."""
        self._float32_replayed: ReplayResult | None = None

    def tried(self) -> list[JsonObject]:
        """The computations at other loss scales, from the highest, and the one in float32."""
        dtype = next((name for name in self._replay.dtypes if name != "float32"), "float32")
        rows = [
            _tried(dtype, 2.0**exponent, self._replayed_by_exponent[exponent])
            for exponent in sorted(self._replayed_by_exponent, reverse=True)
        ]
        if self._float32_replayed is not None:
            rows.append(_tried("float32", 1.0, self._float32_replayed))
        return rows

    def find_cause(self, overflow: NonfiniteStep | None) -> tuple[CauseDetails, Any]:
        """The cause, and the largest power of two at which the gradients are finite.

        The latter is one number, or with several networks one for each that overflowed; None
        without one.
        """
        position = self._step.position
        if damaged := nonfinite_variables(self._replay.task):
            return CauseDetails(OverflowCause.WEIGHTS, damaged=damaged), None
        if len(rows := nonfinite_examples(self._step.batch)):
            examples = position.indices[rows].tolist()
            return CauseDetails(OverflowCause.DATA, bad_examples=examples, bad_inputs=True), None
        if overflow is None:
            return CauseDetails(OverflowCause.NOT_REPRODUCED), None
        lower = self._lower_scales(overflow)
        if lower and all(lower.values()):
            return self._scale_cause(lower)
        return self._cause_at_any_scale(overflow), _by_network(self._names(), lower)

    def _lower_scales(self, overflow: NonfiniteStep) -> dict[int, float | None]:
        """For each network that overflowed, the largest power of two at which it is finite."""
        bad = [number for number, finite in enumerate(overflow.replayed.finite) if not finite]
        if not overflow.replayed.finite_forward:
            # The loss scale multiplies only the loss and does not affect the forward pass.
            return dict.fromkeys(bad)
        return {number: self._finite_below(overflow.first, number) for number in bad}

    def _finite_below(self, micro: MicroBatch, network: int) -> float | None:
        high = math.ceil(math.log2(self._step.scales[network])) - 1
        low = min(LOWEST_EXPONENT, high)
        # Usually one step down is enough; otherwise bisect.
        if self._finite(micro, high, network):
            return 2.0**high
        if not self._finite(micro, low, network):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._finite(micro, middle, network) else (low, middle)
        return 2.0**low

    def _finite(self, micro: MicroBatch, exponent: int, network: int) -> bool:
        return self._replayed(micro, exponent).finite[network]

    def _replayed(self, micro: MicroBatch, exponent: int) -> ReplayResult:
        if exponent not in self._replayed_by_exponent:
            scales = [min(scale, 2.0**exponent) for scale in self._step.scales]
            # Drop the gradients, which take as much memory as the weights.
            self._replayed_by_exponent[exponent] = self._replay(scales, micro)._replace(
                gradients=[], non_trainable=[]
            )
        return self._replayed_by_exponent[exponent]

    def _scale_cause(self, lower: dict[int, float | None]) -> tuple[CauseDetails, Any]:
        worst = min(lower, key=lambda number: lower[number] or 0.0)
        several = len(self._step.scales) > 1
        details = CauseDetails(
            OverflowCause.SCALE,
            kind=self._replay.loss_scales[worst],
            network=self._names()[worst] if several else None,
            scale=float(self._step.scales[worst]),
            finite_below=lower[worst] or 0.0,
        )
        return details, _by_network(self._names(), lower)

    def _cause_at_any_scale(self, overflow: NonfiniteStep) -> CauseDetails:
        """The cause of gradients that no loss scale makes finite."""
        lowest = (
            self._replayed_by_exponent[min(self._replayed_by_exponent)]
            if self._replayed_by_exponent
            else overflow.replayed
        )
        first = first_nonfinite(self._replay, lowest) or {}
        is_loss = first.get("part") == "loss"
        details = CauseDetails(OverflowCause.OPERATION, layer=first.get("layer"), is_loss=is_loss)
        dtypes = sorted(set(self._replay.dtypes) - {"float32"})
        if not dtypes:
            return self._float32_cause(details, self._replay, overflow.first, lowest)
        float32_replay = self._in_float32()
        micro = _in_dtypes_of(overflow.first, float32_replay.task)
        replayed = float32_replay([1.0] * len(self._step.scales), micro)
        self._float32_replayed = replayed._replace(gradients=[], non_trainable=[])
        if not (all(replayed.finite) and replayed.finite_forward):
            return self._float32_cause(details, float32_replay, micro, replayed)
        dtype = str(first.get("dtype", dtypes[0]))
        layers = _overflowing_layers(self._replay, replayed.forward, tf.as_dtype(dtype).max)
        inputs = largest_input(micro.batch)
        return replace(details, dtype=dtype, layers=layers, largest_input=inputs)

    def _float32_cause(
        self, details: CauseDetails, replay: Replay, micro: MicroBatch, replayed: ReplayResult
    ) -> CauseDetails:
        """The cause for a micro-batch that is not finite in float32 either."""
        weights = [value for variables in replay.task.weights() for value in variables]
        details = replace(
            details, largest_weight=largest(weights), largest_input=largest_input(micro.batch)
        )
        if np.isfinite(replayed.losses).all():
            first = first_nonfinite(replay, replayed) or {}
            return replace(details, cause=OverflowCause.FLOAT32_OVERFLOW, layer=first.get("layer"))
        rows = micro.first_row + _examples_without_finite_loss(replay.task, micro)
        examples = self._step.position.indices[rows].tolist()
        first = first_nonfinite(replay, replayed) or {}
        adds_loss = first["layer"] if first.get("part") == "loss" else None
        return replace(details, cause=OverflowCause.DATA, layer=adds_loss, bad_examples=examples)

    def _names(self) -> list[str]:
        return [network.name for network in self._replay.task.networks]


def _tried(dtype: str, scale: float, replayed: ReplayResult) -> JsonObject:
    return {
        "dtype": dtype,
        "loss_scale": scale,
        "finite_loss": replayed.finite_forward,
        "finite_gradients": all(replayed.finite),
    }


def _batch_facts(
    accumulate: int, position: BatchPosition, overflow: NonfiniteStep | None, details: CauseDetails
) -> JsonObject:
    indices = position.indices
    facts: JsonObject = {"epoch": position.epoch, "batch": position.batch, "total": len(indices)}
    if accumulate > 1 and overflow is not None:
        # Only these micro-batches can hold the examples to look at.
        parts = np.split(indices, accumulate)
        indices = np.concatenate([parts[number] for number in overflow.micro_batches])
        facts["micro_batches"] = overflow.micro_batches[:MAX_EXAMPLES]
        facts["nonfinite_micro_batches"] = len(overflow.micro_batches)
    facts["examples"] = indices[:MAX_EXAMPLES].tolist()
    if len(details.bad_examples):
        facts["bad_examples"] = list(details.bad_examples[:MAX_EXAMPLES])
        facts["bad_total"] = len(details.bad_examples)
    return facts


def _by_network(names: list[str], lower: dict[int, float | None]) -> Any:
    if len(names) == 1:
        return lower.get(0)
    return {names[number]: scale for number, scale in lower.items()}


def _combined(old: TensorStats, new: TensorStats) -> TensorStats:
    counts = old[:, :2] + new[:, :2]
    return np.concatenate([counts, np.maximum(old[:, 2:], new[:, 2:])], axis=1)


def _in_dtypes_of(micro: MicroBatch, task: Task) -> MicroBatch:
    """The micro-batch with its non-trainable values in the dtypes of another task."""
    pairs = [
        zip(*rows, strict=True)
        for rows in zip(micro.non_trainable, task.non_trainable(), strict=True)
    ]
    return micro._replace(
        non_trainable=[[tf.cast(old, new.dtype) for old, new in rows] for rows in pairs]
    )


def _examples_without_finite_loss(task: Task, micro: MicroBatch) -> NDArray[np.int64]:
    """The examples whose own loss is not finite."""
    loss = task.measure(task.weights(), micro.non_trainable, micro.batch)["loss"]
    return np.flatnonzero(~np.isfinite(loss.numpy()))


def _overflowing_layers(replay: Replay, forward: TensorStats, limit: float) -> list[str]:
    """The 16-bit layers to keep in float32, from the statistics of their float32 outputs.

    They are the layers whose outputs exceed the limit, and the layers called next, because a layer
    casts its inputs.
    """
    over = np.flatnonzero(forward[:, 2] > limit)
    calls = sorted({*over.tolist(), *(over + 1).tolist()} & set(range(len(replay.calls))))
    paths = [replay.calls[call].path for call in calls if replay.dtypes[call] != "float32"]
    return list(dict.fromkeys(path.partition("/")[0] for path in paths))
