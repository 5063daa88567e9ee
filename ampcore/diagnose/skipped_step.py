"""One skipped step, computed again: at its own loss scales, at lower ones, and in float32."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnose.blame import Facts, bad_gradients, first_layer
from ampcore.diagnose.replay import Figures, MicroBatch, Replay, Replayed
from ampcore.diagnose.values import bad_rows, damaged_variables, largest, largest_input
from ampcore.diagnose.verdict import Findings, Verdict, sentence
from ampcore.models.task import Task

Tensor = Any

LOWEST_EXPONENT: Final = -24
"""Of the loss scales that are tried: a gradient that needs a lower one is above 2^39."""
MOST_VARIABLES: Final = 20
MOST_EXAMPLES: Final = 64
"""So many are named; how many there are is told as well."""


class BatchPlace(NamedTuple):
    """Where the examples of a step come from: its epoch, its batch, and their indices."""

    epoch: int
    batch: int
    indices: NDArray[np.int64]
    """Into the training examples, in the order of the batch."""


class Step(NamedTuple):
    """The skipped step: its networks' loss scales, all its examples, its seed and its place."""

    scales: Sequence[float]
    batch: Batch
    seed: Tensor
    place: BatchPlace


@dataclass
class Overflow:
    """What was not finite at the step's own loss scales, over all its micro-batches."""

    micro_batches: list[int]
    variables: list[Figures]
    """Figures of every network's gradients."""
    first: MicroBatch
    """The first of these micro-batches, and what it has led to."""
    replayed: Replayed

    def add(self, micro: MicroBatch, replayed: Replayed) -> None:
        """Count another micro-batch."""
        self.micro_batches.append(micro.number)
        pairs = zip(self.variables, replayed.variables, strict=True)
        self.variables = [_together(old, new) for old, new in pairs]


def explained(replay: Replay, in_float32: Callable[[], Replay], step: Step) -> Facts:
    """JSON facts of a skipped step: what was not finite, where that began, why, what to do.

    `in_float32` makes a replay of the same task in float32, with the present weights.
    """
    overflow = _overflow(replay, step)
    found, finite_below = _Inquiry(replay, in_float32, step).findings(overflow)
    variables, first = [], None
    if overflow is not None:
        variables = bad_gradients(replay, overflow.variables, step.scales)
        first = first_layer(replay, overflow.replayed)
    facts: Facts = {
        "verdict": found.verdict.value,
        "sentence": sentence(found),
        "first_layer": first,
        "variables": variables[:MOST_VARIABLES],
        "variables_left_out": len(variables[MOST_VARIABLES:]),
        "batch": _batch_facts(replay.accumulate, step.place, overflow, found),
    }
    if finite_below:
        facts["finite_below"] = finite_below
    if found.layer:
        facts["layer"] = found.layer
    if found.damaged:
        facts["damaged"] = list(found.damaged[:MOST_VARIABLES])
    return facts


def _overflow(replay: Replay, step: Step) -> Overflow | None:
    overflow: Overflow | None = None
    for micro, replayed in replay.step(step.scales, step.batch, step.seed):
        if all(replayed.finite):
            continue
        if overflow is None:
            overflow = Overflow([micro.number], replayed.variables, micro, replayed)
        else:
            overflow.add(micro, replayed)
    return overflow


class _Inquiry:
    """Comes from what was not finite to the verdict."""

    def __init__(self, replay: Replay, in_float32: Callable[[], Replay], step: Step) -> None:
        self._replay, self._in_float32, self._step = replay, in_float32, step
        self._at: dict[int, Replayed] = {}
        """The case by the exponent of the largest loss scale that it was given."""

    def findings(self, overflow: Overflow | None) -> tuple[Findings, Any]:
        """The verdict, and the largest power of two at which the gradients are finite.

        That is one number, or with several networks one for each that overflowed; None where
        there is none.
        """
        place = self._step.place
        if damaged := damaged_variables(self._replay.task):
            return Findings(Verdict.WEIGHTS, damaged=damaged), None
        if len(rows := bad_rows(self._step.batch)):
            examples = place.indices[rows].tolist()
            return Findings(Verdict.DATA, bad_examples=examples, bad_inputs=True), None
        if overflow is None:
            return Findings(Verdict.NOT_REPRODUCED), None
        lower = self._lower_scales(overflow)
        if all(lower.values()):
            return self._of_scale(lower)
        return self._at_any_scale(overflow), _by_network(self._names(), lower)

    def _lower_scales(self, overflow: Overflow) -> dict[int, float | None]:
        """For each network that overflowed, the largest power of two at which it does not."""
        bad = [number for number, finite in enumerate(overflow.replayed.finite) if not finite]
        if not overflow.replayed.finite_forward:
            # The loss scale comes in behind the loss, and changes nothing before it.
            return dict.fromkeys(bad)
        return {number: self._finite_below(overflow.first, number) for number in bad}

    def _finite_below(self, micro: MicroBatch, network: int) -> float | None:
        high = math.ceil(math.log2(self._step.scales[network])) - 1
        low = min(LOWEST_EXPONENT, high)
        # One step down is enough as a rule; if not, the answer is sought by halves.
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

    def _replayed(self, micro: MicroBatch, exponent: int) -> Replayed:
        if exponent not in self._at:
            scales = [min(scale, 2.0**exponent) for scale in self._step.scales]
            # Without the gradients, which take the memory of the weights.
            self._at[exponent] = self._replay(scales, micro)._replace(gradients=[], held=[])
        return self._at[exponent]

    def _of_scale(self, lower: dict[int, float | None]) -> tuple[Findings, Any]:
        worst = min(lower, key=lambda number: lower[number] or 0.0)
        several = len(self._step.scales) > 1
        found = Findings(
            Verdict.SCALE,
            kind=self._replay.scales[worst],
            network=self._names()[worst] if several else None,
            scale=float(self._step.scales[worst]),
            finite_below=lower[worst] or 0.0,
        )
        return found, _by_network(self._names(), lower)

    def _at_any_scale(self, overflow: Overflow) -> Findings:
        """The verdict on gradients that no loss scale makes finite."""
        lowest = self._at[min(self._at)] if self._at else overflow.replayed
        first = first_layer(self._replay, lowest) or {}
        found = Findings(Verdict.OPERATION, layer=first.get("layer"))
        dtypes = sorted(set(self._replay.dtypes) - {"float32"})
        if not dtypes:
            return self._of_float32(found, self._replay, overflow.first, lowest)
        other = self._in_float32()
        micro = _like(overflow.first, other.task)
        replayed = other([1.0] * len(self._step.scales), micro)
        if not (all(replayed.finite) and replayed.finite_forward):
            return self._of_float32(found, other, micro, replayed)
        dtype = str(first.get("dtype", dtypes[0]))
        layers = _too_large(self._replay, replayed.forward, tf.as_dtype(dtype).max)
        inputs = largest_input(micro.batch)
        return replace(found, dtype=dtype, layers=layers, largest_input=inputs)

    def _of_float32(
        self, found: Findings, replay: Replay, micro: MicroBatch, replayed: Replayed
    ) -> Findings:
        """The verdict on a micro-batch that is not finite in float32 either."""
        weights = [value for own in replay.task.weights() for value in own]
        found = replace(
            found, largest_weight=largest(weights), largest_input=largest_input(micro.batch)
        )
        if np.isfinite(replayed.losses).all():
            first = first_layer(replay, replayed) or {}
            return replace(found, verdict=Verdict.FLOAT32_OVERFLOW, layer=first.get("layer"))
        rows = micro.first_row + _rows_without_loss(replay.task, micro)
        examples = self._step.place.indices[rows].tolist()
        return replace(found, verdict=Verdict.DATA, layer=None, bad_examples=examples)

    def _names(self) -> list[str]:
        return [network.name for network in self._replay.task.networks]


def _batch_facts(
    accumulate: int, place: BatchPlace, overflow: Overflow | None, found: Findings
) -> Facts:
    indices = place.indices
    facts: Facts = {"epoch": place.epoch, "batch": place.batch, "total": len(indices)}
    if accumulate > 1 and overflow is not None:
        # Whoever looks for the cause wants the examples of these.
        parts = np.split(indices, accumulate)
        indices = np.concatenate([parts[number] for number in overflow.micro_batches])
        facts["micro_batches"] = overflow.micro_batches[:MOST_EXAMPLES]
        facts["bad_micro_batches"] = len(overflow.micro_batches)
    facts["examples"] = indices[:MOST_EXAMPLES].tolist()
    if len(found.bad_examples):
        facts["bad_examples"] = list(found.bad_examples[:MOST_EXAMPLES])
        facts["bad_total"] = len(found.bad_examples)
    return facts


def _by_network(names: list[str], lower: dict[int, float | None]) -> Any:
    if len(names) == 1:
        return lower.get(0)
    return {names[number]: scale for number, scale in lower.items()}


def _together(old: Figures, new: Figures) -> Figures:
    counts = old[:, :2] + new[:, :2]
    return np.concatenate([counts, np.maximum(old[:, 2:], new[:, 2:])], axis=1)


def _like(micro: MicroBatch, task: Task) -> MicroBatch:
    """The micro-batch with its held values in the dtypes of another precision."""
    pairs = [zip(*rows, strict=True) for rows in zip(micro.held, task.held(), strict=True)]
    return micro._replace(held=[[tf.cast(old, new.dtype) for old, new in rows] for rows in pairs])


def _rows_without_loss(task: Task, micro: MicroBatch) -> NDArray[np.int64]:
    """The examples whose own loss is not finite."""
    loss = task.measure(task.weights(), micro.held, micro.batch)["loss"]
    return np.flatnonzero(~np.isfinite(loss.numpy()))


def _too_large(replay: Replay, forward: Figures, limit: float) -> list[str]:
    """The layers of 16 bits to be kept in float32, when these are the outputs that it gives.

    They are those whose outputs go beyond the limit, and the ones called next: a layer casts what
    it is given.
    """
    over = np.flatnonzero(forward[:, 2] > limit)
    calls = sorted({*over.tolist(), *(over + 1).tolist()} & set(range(len(replay.calls))))
    paths = [replay.calls[call].path for call in calls if replay.dtypes[call] != "float32"]
    return list(dict.fromkeys(path.partition("/")[0] for path in paths))
