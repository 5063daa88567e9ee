"""The candidates' side: prepare once, then answer each "run" with milliseconds per step.

Every candidate imports it in its own environment, so it needs only the standard library.
"""

import importlib.metadata
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

TimedRound = Callable[[], float]
"""Runs steps, waits until they are done, and returns their number."""

WARM_UP = 2
TRIALS = 3


def serve(variants: Mapping[str, Callable[[], Any]], *packages: str) -> None:
    """Serve the candidates whose variants the command line names.

    `variants` prepare a TimedRound, or a mapping of several, of which the fastest is measured.
    """
    # The output of libraries must not be taken for a response.
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    rounds, chosen, failed = {}, {}, {}
    for name in sys.argv[1:]:
        try:
            prepared = variants[name]()
            if isinstance(prepared, Mapping):
                chosen[name], rounds[name] = fastest(prepared)
            else:
                warm_up(prepared)
                rounds[name] = prepared
        except Exception as error:
            traceback.print_exc()
            failed[name] = f"{type(error).__name__}: {error}"[:500]
    installed = importlib.metadata.packages_distributions()
    names = {name.lower() for found in installed.values() for name in found}
    versions = {name: importlib.metadata.version(name) for name in packages if name in names}
    facts = {"versions": versions, "chosen": chosen, "failed": failed}
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        name = line.removeprefix("run ").strip()
        print(json.dumps({"step_ms": step_ms(rounds[name])}), file=answers, flush=True)


def step_ms(run_steps: TimedRound) -> float:
    """Milliseconds per step of one round."""
    start = time.perf_counter()
    steps = run_steps()
    return (time.perf_counter() - start) / steps * 1e3


def warm_up(run_steps: TimedRound) -> None:
    """Trace, compile, fill the caches."""
    for _ in range(WARM_UP):
        run_steps()


def fastest(choices: Mapping[str, TimedRound]) -> tuple[str, TimedRound]:
    """The choice with the lowest median over a few interleaved rounds."""
    for run_steps in choices.values():
        warm_up(run_steps)
    times: dict[str, list[float]] = {name: [] for name in choices}
    for _ in range(TRIALS):
        for name, run_steps in choices.items():
            times[name].append(step_ms(run_steps))
    best = min(times, key=lambda name: statistics.median(times[name]))
    return best, choices[best]
