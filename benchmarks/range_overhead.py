"""The cost of sampling ranges at the default rate: one JSON line.

The same training through `Trainer`, in turns with and without samples, for an MLP and a CNN. The
ratio is of the CPU time per step, of all threads, from the choice of the engine to the end; other
programs on the machine change it less than elapsed time. Within it are the tracing of the probe and
every sample. `sample_share` is the share of the CPU time that is spent in the probe itself, and
needs no comparison; with `--rounds 0` only that is measured. The length of a training is chosen by
its CPU time, too: about `--seconds`, of all threads.
"""

import argparse
import statistics
import time
from typing import Any

from compare import report

from ampcore import JobSpec
from ampcore.diagnostics.ranges.range_probe import RangeProbe
from ampcore.training import Trainer
from ampspec.telemetry import EventType

PROBLEMS: dict[str, dict[str, Any]] = {
    "mlp": {
        "model": {"kind": "mlp", "hidden": [256, 256]},
        "data": {"kind": "synthetic", "shape": [64], "examples": 12_800, "batch_size": 128},
        "runtime": {"engine": "xla_loop"},
    },
    "cnn": {
        "model": {"kind": "cnn", "filters": [16, 32]},
        "data": {
            **{"kind": "synthetic", "shape": [28, 28, 1], "examples": 6_400},
            "batch_size": 64,
        },
        "runtime": {"engine": "graph"},
    },
}
PROBE_STEPS = 300


class TimedProbe:
    """Counts the CPU time of every sample of this process."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        original = RangeProbe.__call__

        def call(probe: RangeProbe, *arguments: Any) -> Any:
            began = time.process_time()
            try:
                return original(probe, *arguments)
            finally:
                self.cpu_s += time.process_time() - began

        RangeProbe.__call__ = call  # type: ignore[method-assign]


def train(problem: str, steps: int, *, enabled: bool) -> tuple[float, float, int]:
    """The CPU and the elapsed seconds of a training, and the number of its samples."""
    spec = JobSpec.parse(
        {
            **PROBLEMS[problem],
            "train": {"steps": steps, "checkpoint_every_s": None},
            "telemetry": {"ranges": {"enabled": enabled}},
        }
    )
    began, samples = [0.0, 0.0], 0

    def observe(event: Any) -> None:
        nonlocal began, samples
        if event.type is EventType.ENGINE:
            began = [time.process_time(), time.perf_counter()]
        samples += event.type is EventType.RANGES

    Trainer(spec).run(on_event=observe)
    return time.process_time() - began[0], time.perf_counter() - began[1], samples


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="CPU seconds of one training")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    ratios, shares, samples, steps_of, cpu_s_of = {}, {}, {}, {}, {}
    probe = TimedProbe()
    for problem in PROBLEMS:
        train(problem, PROBE_STEPS, enabled=False)
        # Without what a training of any length takes, such as compiling.
        short_s, long_s = (
            train(problem, factor * PROBE_STEPS, enabled=False)[0] for factor in (1, 3)
        )
        step_s = max(long_s - short_s, 0.01 * long_s) / (2 * PROBE_STEPS)
        steps = steps_of[problem] = round(arguments.seconds / step_s)
        probe.cpu_s = 0.0
        seconds, _, samples[problem] = train(problem, steps, enabled=True)
        cpu_s_of[problem] = round(seconds, 1)
        shares[problem] = round(probe.cpu_s / seconds, 4)
        cpu_s: dict[bool, list[float]] = {True: [], False: []}
        for number in range(arguments.rounds):
            for enabled in (True, False) if number % 2 else (False, True):
                cpu_s[enabled].append(train(problem, steps, enabled=enabled)[0])
        if arguments.rounds:
            medians = {enabled: statistics.median(found) for enabled, found in cpu_s.items()}
            ratios[problem] = round(medians[True] / medians[False], 4)
    report(
        "range_overhead",
        goal=1.02,
        with_over_without=ratios,
        sample_share=shares,
        samples=samples,
        steps=steps_of,
        cpu_s=cpu_s_of,
        rounds=arguments.rounds,
    )


if __name__ == "__main__":
    main()
