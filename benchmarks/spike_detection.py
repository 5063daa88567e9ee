"""The cost of finding loss spikes and jumps of the gradient norm: one JSON line.

The CPU time of `SpikeDetector.observe` per step, for blocks of several lengths: the median of the
rounds, after one that is not counted. The values are those of a noisy, falling loss, with a spike
in every 1,000 steps, so that events are built, too. Steps are compared with a window of 64 values;
the work is done once per block and once in every 16 steps.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np
from compare import report

from ampspec.telemetry import StepBlock
from ampspec.telemetry.anomalies import SpikeDetector

BLOCK_STEPS = (1, 16, 128, 1024)
"""A run with steps of 0.5 s has blocks of one step; blocks take about half a second."""
SPIKE_EVERY = 1000


def blocks_of(steps: int, size: int) -> list[StepBlock]:
    """The blocks of a run."""
    rng = np.random.default_rng(0)
    number = np.arange(steps)
    noise = rng.lognormal(0.0, 0.1, (2, steps))
    spikes = np.where(number % SPIKE_EVERY == SPIKE_EVERY - 1, 20.0, 1.0)
    columns: dict[str, Any] = {
        "loss": (2.0 / (1 + number / steps) * noise[0] * spikes).astype(np.float32),
        "grad_norm": (noise[1] * spikes).astype(np.float32),
        "skipped": number % 500 == 0,
    }
    return [
        StepBlock(first, {name: values[first : first + size] for name, values in columns.items()})
        for first in range(0, steps, size)
    ]


def measure(steps: int, size: int) -> tuple[float, int]:
    """The CPU seconds per step, and the number of events."""
    blocks, detector = blocks_of(steps, size), SpikeDetector()
    began = time.process_time()
    events = sum(len(list(detector.observe(block))) for block in blocks)
    return (time.process_time() - began) / steps, events


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    cost, events = {}, {}
    for size in BLOCK_STEPS:
        measure(arguments.steps, size)
        rounds = [measure(arguments.steps, size) for _ in range(arguments.rounds)]
        cost[size] = round(1e6 * statistics.median(seconds for seconds, _ in rounds), 3)
        events[size] = rounds[0][1]
    report(
        "spike_detection",
        cpu_us_per_step=cost,
        events=events,
        steps=arguments.steps,
        rounds=arguments.rounds,
    )


if __name__ == "__main__":
    main()
