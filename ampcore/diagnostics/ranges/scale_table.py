"""Samples the exponents of a run's gradients, and suggests loss scales for them.

Only gradients by variables are counted. Gradients by layers' outputs, which can overflow too, limit
the suggested scales. A value that underflowed at the scale of a sample counts as zero.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ampcore.data import Batch
from ampcore.diagnostics.sampling_budget import Clock, SamplingBudget
from ampcore.diagnostics.steps.nonfinite_origin import variable_infos
from ampcore.diagnostics.steps.overflow_cause import format_overrides
from ampcore.diagnostics.steps.replay import Replay, ReplayResult
from ampspec.documents.text import join_names
from ampspec.telemetry.ranges.exponent_histogram import (
    SCALE_EXPONENTS,
    ExponentHistogram,
    FormatShares,
    ScaleSuggestion,
    suggest_scales,
)

Tensor = Any
logger = logging.getLogger(__name__)

MIN_RUN_S: Final = 10.0
"""Shorter runs are not sampled."""
MIN_GAP_S: Final = 5.0
"""The minimum time between two samples."""
MAX_TIME_SHARE: Final = 0.01
"""The share of the run's time that samples may take."""
MAX_VALUES: Final = 2**18
"""The maximum number of counted values per gradient, evenly spaced."""
MOST: Final = 0.9
"""The share of the underflowing values that the named layers have."""
MAX_VARIABLES: Final = 100
"""The maximum number of variables in an event; the largest ones are kept."""


@dataclass
class Samples:
    """The samples so far; a key of `variables` is a network's name and a variable's path."""

    count: int = 0
    first_step: int = 0
    last_step: int = 0
    variables: dict[str, ExponentHistogram] = field(default_factory=dict)
    max_activation_gradient: float = 0.0
    """The largest magnitude of an unscaled gradient by a 16-bit layer's output."""
    max_activation_gradient_layer: str = ""
    """The layer with this output."""

    @property
    def largest_layer(self) -> str:
        """The layer whose gradients limit the loss scale most: those by its output or variables."""
        name, histogram = max(self.variables.items(), key=lambda item: item[1].largest)
        is_inside = self.max_activation_gradient > histogram.largest
        return self.max_activation_gradient_layer if is_inside else _layer_of(name)

    def underflowing_layers(self, exponent: int) -> list[str]:
        """The layers with most of the values that underflow at this loss scale, the worst first."""
        counts: dict[str, float] = {}
        for name, histogram in self.variables.items():
            layer = _layer_of(name)
            underflows = histogram.shares(exponent).underflow * sum(histogram.counts.values())
            counts[layer] = counts.get(layer, 0.0) + underflows
        layers, missing = [], MOST * sum(counts.values())
        for layer in sorted(counts, key=lambda layer: -counts[layer]):
            if missing <= 0:
                break
            layers.append(layer)
            missing -= counts[layer]
        return layers

    @property
    def combined(self) -> ExponentHistogram:
        """The histogram of all variables."""
        return sum(self.variables.values(), start=ExponentHistogram())

    def to_json(self) -> dict[str, Any]:
        """Every field, for a checkpoint."""
        histograms = {name: histogram.to_json() for name, histogram in self.variables.items()}
        return vars(self) | {"variables": histograms}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Samples":
        """The samples that `to_json` wrote."""
        rows = document.get("variables", {}).items()
        variables = {name: ExponentHistogram.from_json(histogram) for name, histogram in rows}
        # Version 0.5 wrote "largest_inside".
        document = {
            name.replace("largest_inside", "max_activation_gradient"): value
            for name, value in document.items()
        }
        names = {item.name for item in fields(cls)} & document.keys()
        return cls(**{name: document[name] for name in names} | {"variables": variables})


class ScaleTable:
    """Counts the exponents of gradients at steps 1, 2, 4, 8, …, within its share of the time.

    Args:
        replay: Replays the task that is trained; may be the one that explains skips.
        clock: Returns seconds since any fixed time.
    """

    def __init__(self, replay: Replay, clock: Clock = time.perf_counter) -> None:
        self._replay, self._budget = replay, SamplingBudget(clock)
        self._last_sample_s = -MIN_GAP_S
        self._next_step = 1
        self._failed = False
        self.samples = Samples()

    def is_due(self, step: int) -> bool:
        """Whether to sample the next step, number `step`, before it is trained."""
        run_s = self._budget.run_s
        return (
            not self._failed
            and step >= self._next_step
            and run_s >= MIN_RUN_S
            and run_s - self._last_sample_s >= MIN_GAP_S
            and self._budget.allows(MAX_TIME_SHARE)
        )

    def sample(self, step: int, scales: Sequence[float], batch: Batch, seed: Tensor) -> None:
        """Count the gradients of the first micro-batch of a step; nothing is changed.

        `scales` are the networks' loss scales, `batch` holds all examples of the step.
        """
        with self._budget.spending():
            try:
                _, replayed = next(self._replay.step(scales, batch, seed))
                self._count(step, [float(scale) for scale in scales], replayed)
            except (tf.errors.OpError, MemoryError):
                # Most likely out of memory; the run continues without samples.
                logger.warning("Gradients are no longer sampled.", exc_info=True)
                self._failed = True
        self._last_sample_s = self._budget.run_s
        self._next_step = 2 * max(step, 1)

    def event_data(self) -> dict[str, Any] | None:
        """The data of the table's event; None before the first sample.

        `all` and the values of `variables` are histograms, for `ExponentHistogram.from_json`;
        `shares` holds three lists over the exponents of loss scales, from `first_exponent` on.
        """
        samples = self.samples
        if not samples.count:
            return None
        combined = samples.combined
        table = [combined.shares(exponent) for exponent in SCALE_EXPONENTS]
        suggestion = suggest_scales(combined, samples.max_activation_gradient)
        names = sorted(samples.variables, key=lambda name: -samples.variables[name].size)
        return {
            "samples": samples.count,
            "first_step": samples.first_step,
            "last_step": samples.last_step,
            "max_activation_gradient": samples.max_activation_gradient,
            "all": combined.to_json(),
            "variables": {
                name: samples.variables[name].to_json() for name in names[:MAX_VARIABLES]
            },
            "variables_left_out": len(names[MAX_VARIABLES:]),
            "shares": {"first_exponent": SCALE_EXPONENTS[0], **_columns(table)},
            "suggested": suggestion._asdict() if suggestion else None,
            "sentence": _sentence(samples, suggestion),
        }

    def to_json(self) -> dict[str, Any]:
        """The samples and counters, for a checkpoint."""
        return {
            "samples": self.samples.to_json(),
            "next_step": self._next_step,
            **self._budget.to_json(),
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Restore what `to_json` wrote."""
        document = {**self.to_json(), **document}
        self.samples = Samples.from_json(document["samples"])
        self._next_step = document["next_step"]
        self._budget.restore(document)

    def _count(self, step: int, scales: Sequence[float], replayed: ReplayResult) -> None:
        samples = self.samples
        if not samples.count:
            samples.first_step = step
        samples.count, samples.last_step = samples.count + 1, step
        networks = (variable_infos(self._replay), replayed.gradients, replayed.variables, scales)
        for variable_rows, grads, stats, scale in zip(*networks, strict=True):
            for variable_info, grad, largest in zip(variable_rows, grads, stats[:, 2], strict=True):
                if grad is None:
                    continue
                name = f"{variable_info.network}/{variable_info.variable}"
                total = samples.variables.get(name, ExponentHistogram())
                histogram = replace(_histogram(grad, scale), largest=float(largest) / scale)
                samples.variables[name] = total + histogram
        is_16_bit = np.array([dtype != "float32" for dtype in self._replay.dtypes], np.bool_)
        inside = replayed.backward[:, :, 2] * is_16_bit / np.reshape(scales, (-1, 1))
        if float(inside.max(initial=0.0)) > samples.max_activation_gradient:
            samples.max_activation_gradient = float(inside.max())
            call = int(inside.max(axis=0).argmax())
            samples.max_activation_gradient_layer = self._replay.calls[call].path


def _histogram(grad: Any, scale: float) -> ExponentHistogram:
    values = tf.reshape(grad.values if isinstance(grad, tf.IndexedSlices) else grad, [-1])
    stride = -(-int(values.shape[0]) // MAX_VALUES)
    picked: NDArray[Any] = tf.cast(values[:: max(stride, 1)], tf.float32).numpy()
    return ExponentHistogram.of(picked.astype(np.float64) / scale, weight=max(stride, 1))


def _columns(table: Sequence[FormatShares]) -> dict[str, list[float]]:
    return {name: [getattr(shares, name) for shares in table] for name in FormatShares._fields}


def _layer_of(variable: str) -> str:
    """The path of a variable's layer, from the name of its network and its own path."""
    return variable.partition("/")[2].rpartition("/")[0]


def _sentence(samples: Samples, suggestion: ScaleSuggestion | None) -> str:
    if suggestion is None:
        return "All sampled gradients are zero or not finite."
    lowest, highest = suggestion
    lost = 100 * samples.combined.shares(highest).underflow
    if lowest > highest:
        layer = samples.largest_layer
        return (
            f"No loss scale fits: the gradients of {layer} allow at most 2^{highest}, and there "
            f"{lost:.2g} % of the gradients' values underflow in float16, most of them in "
            f"{join_names(samples.underflowing_layers(highest))}. Add {format_overrides([layer])} "
            "to precision.overrides, or set precision.policy: mixed_bfloat16."
        )
    return (
        f"Loss scales from 2^{lowest} to 2^{highest} fit: at 2^{highest}, {lost:.2g} % of the "
        "gradients' values underflow in float16 and none is close to overflow."
    )
