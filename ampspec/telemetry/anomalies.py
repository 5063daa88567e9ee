"""Finds loss spikes and jumps of the gradient norm while a run trains.

Each value is compared with the median of the steps before it, in units of their median absolute
deviation (MAD). Both ignore outliers, so that one spike does not hide the next.

Source of the modified z-score 0.6745 (x - median) / MAD: Iglewicz and Hoaglin 1993, How to Detect
and Handle Outliers. They suggest a limit of 3.5 for normally distributed values. Losses and
gradient norms of stochastic training have heavier tails: the limit here is higher, and three more
conditions (see `SpikeDetector`) prevent false alarms.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ampspec.telemetry.events import Event, EventType
from ampspec.telemetry.steps.block import StepBlock

WINDOW: Final = 64
"""The number of previous steps that a step is compared with."""
MIN_STEPS: Final = 32
"""The minimum number of applied, finite steps in the window."""
INTERVAL: Final = 16
"""The median and the MAD are recomputed at every step that is a multiple of this."""
MIN_SCORE: Final = 6.0
"""The modified z-score from which a step is an outlier."""
MIN_RATIO_TO_LARGEST: Final = 2.0
"""A spike is this much further from the median than every other step of the window."""
MIN_SHARE_OF_FIRST_LOSS: Final = 0.1
"""A spike of the loss is at least as high as this share of the loss at the start of the run."""
MIN_NORM_RATIO: Final = 4.0
"""A gradient norm after a jump is at least this multiple of the median."""
PAUSE: Final = 32
"""Steps after an event that cause no further one, since a spike often lasts several steps."""
NORMAL_MAD: Final = 0.6745
"""The MAD of a normal distribution with a standard deviation of 1."""

MEDIAN, MAD, LIMIT = range(3)
"""The columns of a baseline."""

Floats = NDArray[np.float64]
Metric = Literal["loss", "grad_norm"]
EVENT_TYPES: Final[Mapping[Metric, EventType]] = {
    "loss": EventType.LOSS_SPIKE,
    "grad_norm": EventType.GRAD_NORM_JUMP,
}


class SpikeDetector:
    """Marks the steps whose loss or gradient norm is far above that of the steps before.

    A step is marked if its modified z-score exceeds `MIN_SCORE`; if it is more than
    `MIN_RATIO_TO_LARGEST` times as far from the median as every step of the window; and if it
    matters: the loss must rise by `MIN_SHARE_OF_FIRST_LOSS` of the loss at the start of the run,
    the gradient norm to `MIN_NORM_RATIO` times its median. Gradient norms are compared by their
    logarithm, because they vary by factors. Values below the median never count, so a falling
    loss causes no event.

    Skipped steps and non-finite values have separate events and are ignored. The result does not
    depend on the division of the steps into blocks. The cost is sorting 64 numbers four times
    every 16 steps.
    """

    def __init__(self) -> None:
        self._histories = {metric: _History() for metric in EVENT_TYPES}
        self._quiet_until = dict.fromkeys(EVENT_TYPES, 0)
        self._first_loss: float | None = None
        """The median loss of the first steps."""

    def observe(self, block: StepBlock) -> Iterator[Event]:
        """The events of a block; blocks are observed in order."""
        for metric in EVENT_TYPES:
            yield from self._observe(block, metric)

    def to_json(self) -> dict[str, Any]:
        """The state, for a checkpoint."""
        return {
            "histories": {
                metric: [history.values.tolist(), history.baseline.tolist()]
                for metric, history in self._histories.items()
            },
            "quiet_until": dict(self._quiet_until),
            "first_loss": self._first_loss,
        }

    def restore(self, document: Mapping[str, Any]) -> None:
        """Restore what `to_json` wrote; an empty document changes nothing."""
        document = {**self.to_json(), **document}
        for metric in EVENT_TYPES:
            parts = document["histories"][metric]
            self._histories[metric] = _History(*(np.array(part, np.float64) for part in parts))
            self._quiet_until[metric] = document["quiet_until"][metric]
        self._first_loss = document["first_loss"]

    def _observe(self, block: StepBlock, metric: Metric) -> Iterator[Event]:
        values = comparable(block, metric)
        baselines = self._histories[metric].append(block.first_step, values)
        limits = baselines[:, LIMIT]
        if metric == "loss":
            limits = np.maximum(limits, baselines[:, MEDIAN] + self._min_rise(baselines))
        else:
            limits = np.maximum(limits, baselines[:, MEDIAN] + math.log(MIN_NORM_RATIO))
        # A comparison with NaN is false: without a baseline there is no event.
        for index in np.flatnonzero(values > limits):
            step = int(block["step"][index])
            if step >= self._quiet_until[metric]:
                self._quiet_until[metric] = step + PAUSE
                yield _event(metric, step, float(values[index]), baselines[index])

    def _min_rise(self, baselines: Floats) -> float:
        medians = baselines[np.isfinite(baselines[:, MEDIAN]), MEDIAN]
        if self._first_loss is None and len(medians):
            self._first_loss = abs(float(medians[0]))
        return MIN_SHARE_OF_FIRST_LOSS * (self._first_loss or 0.0)


class _History:
    """The last values of a metric, and the baseline of the next steps: median, MAD and limit."""

    def __init__(self, values: Floats | None = None, baseline: Floats | None = None) -> None:
        self.values = np.full(WINDOW, np.nan) if values is None else values
        self.baseline = np.full(3, np.nan) if baseline is None else baseline

    def append(self, first_step: int, values: Floats) -> Floats:
        """Append the values of steps; returns the baseline of each, float64 (steps, 3)."""
        history = np.concatenate([self.values, values])
        first_new = -first_step % INTERVAL
        starts = np.arange(first_new, len(values), INTERVAL)
        # The window of a step at index i ends before it: known[i : i + WINDOW].
        windows = np.lib.stride_tricks.sliding_window_view(history, WINDOW)[starts]
        rows = np.concatenate([self.baseline[None], _baselines(windows)])
        lengths = np.diff(np.concatenate([[0], starts, [len(values)]]))
        self.values, self.baseline = history[-WINDOW:], rows[-1]
        return np.repeat(rows, lengths, axis=0)


def _baselines(windows: Floats) -> Floats:
    """The median, MAD and limit of each window; NaN with fewer than `MIN_STEPS` values."""
    ordered = np.sort(windows, axis=1)  # NaN comes last
    counts = np.isfinite(windows).sum(axis=1)
    medians = _at(ordered, (counts - 1) // 2)
    mads = _at(np.sort(np.abs(windows - medians[:, None]), axis=1), (counts - 1) // 2)
    by_score = MIN_SCORE * mads / NORMAL_MAD
    by_largest = MIN_RATIO_TO_LARGEST * (_at(ordered, counts - 1) - medians)
    rows = np.stack([medians, mads, medians + np.maximum(by_score, by_largest)], axis=1)
    rows[counts < MIN_STEPS] = np.nan
    return rows


def _at(ordered: Floats, indices: NDArray[np.int64]) -> Floats:
    return ordered[np.arange(len(ordered)), indices]


def comparable(block: StepBlock, metric: Metric) -> Floats:
    """The values to compare; NaN for steps that are ignored."""
    values = block[metric].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(values) if metric == "grad_norm" else values
    return np.where(block["skipped"] | ~np.isfinite(values), np.nan, values)


def _event(metric: Metric, step: int, value: float, baseline: Floats) -> Event:
    median, mad = float(baseline[MEDIAN]), float(baseline[MAD])
    score = NORMAL_MAD * (value - median) / mad if mad > 0 else None
    if metric == "grad_norm":
        value, median = math.exp(value), math.exp(median)
    name = "gradient norm" if metric == "grad_norm" else "loss"
    message = (
        f"The {name} rose to {value:.4g}; the median of the last {WINDOW} steps is {median:.4g}."
    )
    data = {"value": value, "median": median, "score": score, "message": message}
    return Event(EVENT_TYPES[metric], step, data)
