"""Samples the exponents of a run's gradients, and says which loss scales suit them.

Only the gradients by variables are counted; those by the layers' outputs, which overflow as
well, bound the scales that are suggested. What vanished at the scale of a sample counts as zero.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnose.blame import gradients_of
from ampcore.diagnose.replay import Replay, Replayed
from ampcore.series.exponents import EXPONENTS, ExponentHistogram, Shares, Suggestion, suggested

Tensor = Any
Clock = Callable[[], float]

FIRST_AFTER_S: Final = 10.0
"""A run that ends sooner is not worth a sample."""
GAP_S: Final = 5.0
"""Between two samples, at least."""
BUDGET: Final = 0.01
"""Of the run's time that the samples may take."""
MOST_VALUES: Final = 2**18
"""Of one gradient that are looked at, evenly spread."""
MOST_VARIABLES: Final = 100
"""That an event tells of, the largest ones."""


@dataclass
class Samples:
    """What was found so far; a key of `variables` is a network's name and a variable's path."""

    count: int = 0
    first_step: int = 0
    last_step: int = 0
    variables: dict[str, ExponentHistogram] = field(default_factory=dict)
    largest_inside: float = 0.0
    """The largest magnitude of an unscaled gradient by a 16-bit layer's output."""

    @property
    def together(self) -> ExponentHistogram:
        """The histogram of all variables."""
        return sum(self.variables.values(), start=ExponentHistogram())

    def to_json(self) -> dict[str, Any]:
        """Every field, for a checkpoint."""
        histograms = {name: found.to_json() for name, found in self.variables.items()}
        return vars(self) | {"variables": histograms}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Samples":
        """The samples that `to_json` wrote."""
        rows = document.get("variables", {}).items()
        variables = {name: ExponentHistogram.from_json(found) for name, found in rows}
        known = {item.name for item in fields(cls)} & document.keys()
        return cls(**{name: document[name] for name in known} | {"variables": variables})


class ScaleTable:
    """Counts the exponents of gradients at steps 1, 2, 4, 8, …, as far as the time allows.

    Args:
        replay: Of the task that is trained; the one that explains skips will do.
        clock: Seconds, of any epoch.
    """

    def __init__(self, replay: Replay, clock: Clock = time.perf_counter) -> None:
        self._replay, self._clock = replay, clock
        self._began, self._run_before_s = clock(), 0.0
        self._spent_s, self._last_s = 0.0, -GAP_S
        self._next_step = 1
        self._failed = False
        self.samples = Samples()

    def wanted(self, step: int) -> bool:
        """Whether step `step`, the next one to be made, is to be sampled before it is made."""
        run_s = self._run_s
        return (
            not self._failed
            and step >= self._next_step
            and run_s >= FIRST_AFTER_S
            and run_s - self._last_s >= GAP_S
            and self._spent_s <= BUDGET * run_s
        )

    def sample(self, step: int, scales: Sequence[float], batch: Batch, seed: Tensor) -> None:
        """Count the gradients of a step, of its first micro-batch alone; nothing is changed.

        `scales` are the networks' loss scales, `batch` holds all examples of the step.
        """
        began = self._clock()
        try:
            _, replayed = next(self._replay.step(scales, batch, seed))
            self._count(step, [float(scale) for scale in scales], replayed)
        except (tf.errors.OpError, MemoryError):
            # For want of memory above all; a run that has room for no sample goes on without.
            self._failed = True
        self._spent_s += self._clock() - began
        self._last_s = self._run_s
        self._next_step = 2 * max(step, 1)

    def facts(self) -> dict[str, Any] | None:
        """The table as JSON facts for an event; None before the first sample.

        `all` and each of `variables` are histograms (`ExponentHistogram.from_json` reads them);
        `shares` holds three lists over the exponents of loss scales from `first_exponent` on.
        """
        samples = self.samples
        if not samples.count:
            return None
        together = samples.together
        table = [together.shares(exponent) for exponent in EXPONENTS]
        suggestion = suggested(together, samples.largest_inside)
        names = sorted(samples.variables, key=lambda name: -samples.variables[name].size)
        return {
            "samples": samples.count,
            "first_step": samples.first_step,
            "last_step": samples.last_step,
            "largest_inside": samples.largest_inside,
            "all": together.to_json(),
            "variables": {
                name: samples.variables[name].to_json() for name in names[:MOST_VARIABLES]
            },
            "variables_left_out": len(names[MOST_VARIABLES:]),
            "shares": {"first_exponent": EXPONENTS[0], **_columns(table)},
            "suggested": suggestion._asdict() if suggestion else None,
            "sentence": _sentence(together, suggestion),
        }

    def to_json(self) -> dict[str, Any]:
        """What was found and what is counted, for a checkpoint."""
        return {
            "samples": self.samples.to_json(),
            "next_step": self._next_step,
            "spent_s": self._spent_s,
            "run_s": self._run_s,
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Go on from what `to_json` wrote."""
        document = {**self.to_json(), **document}
        self.samples = Samples.from_json(document["samples"])
        self._next_step, self._spent_s = document["next_step"], document["spent_s"]
        self._run_before_s, self._began = document["run_s"], self._clock()

    @property
    def _run_s(self) -> float:
        return self._run_before_s + self._clock() - self._began

    def _count(self, step: int, scales: Sequence[float], replayed: Replayed) -> None:
        samples = self.samples
        if not samples.count:
            samples.first_step = step
        samples.count, samples.last_step = samples.count + 1, step
        networks = (gradients_of(self._replay), replayed.gradients, replayed.variables, scales)
        for places, grads, figures, scale in zip(*networks, strict=True):
            for place, grad, largest in zip(places, grads, figures[:, 2], strict=True):
                if grad is None:
                    continue
                name = f"{place.network}/{place.variable}"
                before = samples.variables.get(name, ExponentHistogram())
                own = replace(_histogram(grad, scale), largest=float(largest) / scale)
                samples.variables[name] = before + own
        sixteen = np.array([dtype != "float32" for dtype in self._replay.dtypes], np.bool_)
        inside = replayed.backward[:, sixteen, 2] / np.reshape(scales, (-1, 1))
        samples.largest_inside = max(samples.largest_inside, float(inside.max(initial=0.0)))


def _histogram(grad: Any, scale: float) -> ExponentHistogram:
    values = tf.reshape(grad.values if isinstance(grad, tf.IndexedSlices) else grad, [-1])
    stride = -(-int(values.shape[0]) // MOST_VALUES)
    picked: NDArray[Any] = tf.cast(values[:: max(stride, 1)], tf.float32).numpy()
    return ExponentHistogram.of(picked.astype(np.float64) / scale, weight=max(stride, 1))


def _columns(table: Sequence[Shares]) -> dict[str, list[float]]:
    return {name: [getattr(shares, name) for shares in table] for name in Shares._fields}


def _sentence(gradients: ExponentHistogram, suggestion: Suggestion | None) -> str:
    if suggestion is None:
        return "Every gradient that was sampled is 0 or not finite."
    lowest, highest = suggestion
    lost = 100 * gradients.shares(highest).underflow
    if lowest > highest:
        return (
            f"No loss scale suits: at 2^{highest}, the highest that is safe from overflow, "
            f"{lost:.2g} % of the gradients' values underflow in float16. "
            "Set precision.policy: mixed_bfloat16, or keep the layers with the largest gradients "
            "in float32 (precision.overrides)."
        )
    return (
        f"Loss scales from 2^{lowest} to 2^{highest} suit: at 2^{highest}, {lost:.2g} % of the "
        "gradients' values underflow in float16, and none comes near to an overflow."
    )
