"""The cost of profiles for steps that are not profiled: one JSON line.

Compares the loop that ampcore runs with the same loop without the name scopes of phases, in one
process. The loops alternate, and the CPU time of a block of steps is measured, which other load on
the machine changes less than wall time. A ratio of 1 means no overhead. Two loops without scopes
are compared as well: that ratio is the noise of the measurement. `--quick` makes few rounds.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ampcore import environment

environment.configure()

from ampcore.data.feed import feed_for  # noqa: E402
from ampcore.diagnostics import hardware  # noqa: E402 - after the configuration
from ampcore.precision import transaction  # noqa: E402
from ampcore.training.context import RunContext  # noqa: E402
from ampcore.training.jobs.job import SpecJob  # noqa: E402
from ampcore.training.step import accumulate, gradients, loop, train_step  # noqa: E402
from ampcore.training.step.loop import Loop  # noqa: E402
from ampcore.training.step.plan import Plan  # noqa: E402
from ampcore.training.step.step_runner import StepRunner  # noqa: E402
from ampspec.jobs import JobSpec  # noqa: E402

SPEC = {
    "model": {"kind": "mlp", "hidden": [64, 64]},
    "data": {"kind": "digits", "batch_size": 64},
    "train": {"steps": 1000},
}
MODULES: tuple[Any, ...] = (accumulate, gradients, loop, train_step, transaction)
ROUNDS, STEPS = 60, 20


def main() -> None:
    """Measure, and print the ratios of the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rounds = 10 if parser.parse_args().quick else ROUNDS
    runner = _runner()
    blocks = {
        "with_scopes": _block(runner, runner.build_loop("graph")),
        "without_scopes": _without_scopes(runner),
        "without_scopes_again": _without_scopes(runner),
    }
    times: dict[str, list[float]] = {name: [] for name in blocks}
    for number in range(rounds):
        # The order changes, so that none always follows the same one.
        for name in sorted(blocks, key=lambda one: hash((one, number))):
            times[name].append(blocks[name]())
    medians = {name: statistics.median(found) for name, found in times.items()}
    base = medians["without_scopes"]
    figures = {
        "step_cpu_us": 1e6 * base / STEPS,
        "ratio_with_scopes": medians["with_scopes"] / base,
        "ratio_of_noise": medians["without_scopes_again"] / base,
    }
    print(json.dumps({"benchmark": "profile_overhead", "rounds": rounds, **figures}))


def _runner() -> StepRunner:
    spec = JobSpec.parse(SPEC)
    job = SpecJob(spec, None, {})
    dataset = job.load_data()
    size = spec.data.batch_size
    plan = Plan.from_spec(spec.train, dataset.steps_per_epoch(size))
    feed = feed_for(dataset.train, size, shuffle=True, seed=0, budget_bytes=float("inf"))
    return RunContext(job, dataset, plan, feed, hardware.device_info("cpu")).build_runner()


def _without_scopes(runner: StepRunner) -> Callable[[], float]:
    scopes = [module.phase_scope for module in MODULES]
    for module in MODULES:
        module.phase_scope = lambda phase: nullcontext()
    try:
        return _block(runner, runner.build_loop("graph"))
    finally:
        for module, scope in zip(MODULES, scopes, strict=True):
            module.phase_scope = scope


def _block(runner: StepRunner, traced: Loop) -> Callable[[], float]:
    window, states = runner.window(0).examples, runner.state.scales
    traced.run(states, window, 0, 0, STEPS)

    def measure() -> float:
        start = time.process_time()
        traced.run(states, window, 0, 0, STEPS)
        return time.process_time() - start

    return measure


if __name__ == "__main__":
    main()
