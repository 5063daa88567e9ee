"""The cost of storing every step for the training: one JSON line.

The small MLP, float32 with a dynamic loss scale, `xla_loop`, in turns: as a job of `ampserver up`,
which stores every step; as `python -m ampcore run`, which stores none; as the bare loop with its
records; and as the bare loop without (`benchmarks/record_overhead.py`), which is what a job without
telemetry would be, and which no command runs. Each has the two cores to itself, but for the idle
service, and for the next standby trainer, which the worker starts with a job: it takes some seconds
of a core to load TensorFlow. So of a job its second half counts; `whole` is all of it.

Steps a second are medians within the training, the time between the calls of the loop counted in,
and the first step, which compiles, left out; in `whole` they are means. Those of a local run are
from its summary, without the time between the calls, and beside those of the service's.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
from compare import CandidateProcess, CandidateProgram, report
from compare.problems import LEARNING_RATE, Mlp
from startup_latency import Stack, stack, wait_until

BARE = "mlp-float32-dynamic-xla_loop"
SILENT = f"{BARE}-silent"
TIMEOUT_S = 600


def spec(steps: int) -> dict[str, Any]:
    """The problem of `ours.training`, as a job."""
    return {
        "model": {"kind": "mlp", "hidden": list(Mlp.HIDDEN)},
        "data": {
            "kind": "synthetic",
            "shape": list(Mlp.INPUT),
            "classes": 10,
            "examples": Mlp.BATCH * Mlp.STEPS,
            "batch_size": Mlp.BATCH,
            "validation_split": 0.0,
            "shuffle": False,
        },
        "precision": {"policy": "float32"},
        "loss_scale": {"mode": "dynamic"},
        "optimizer": {"kind": "adam", "learning_rate": LEARNING_RATE},
        "train": {"steps": steps, "checkpoint_every_s": None},
        "runtime": {"engine": "xla_loop"},
    }


def bare(runner: CandidateProcess, variant: str, seconds: float) -> dict[str, float]:
    """Steps per second of the loop alone, in calls with as many steps as a job's."""
    taken_ms, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        taken_ms.append(runner.step_ms(variant))
    return {
        variant: 1000 / statistics.median(taken_ms),
        f"{variant}-whole": 1000 / statistics.mean(taken_ms),
    }


def service(running: Stack, steps: int) -> dict[str, float]:
    """Steps per second of a job of twice as many steps, all of which are stored."""
    wait_until(running.is_standby_idle)
    job = running.client.jobs.submit(spec(2 * steps)).wait(timeout_s=TIMEOUT_S)
    step_s = job.steps(columns=["step_time_s"])["step_time_s"].astype(np.float64)
    assert len(step_s) == 2 * steps
    train_s = job.summary.train_s
    between_s = (train_s - step_s.sum()) / len(step_s)
    return {
        "service": 1 / (np.median(step_s[steps:]) + between_s),
        "service-whole": (len(step_s) - 1) / (train_s - step_s[0]),
        "service-in-calls": 1 / np.mean(step_s[steps:]),
        "service-between-calls-share": between_s * len(step_s) / train_s,
    }


def local(steps: int) -> dict[str, float]:
    """Steps per second of a run without a server, within the calls of the loop."""
    command = [sys.executable, "-m", "ampcore", "run", "-", "--json"]
    given = json.dumps(spec(steps))
    run = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return {"local-in-calls": json.loads(run.stdout)["examples_per_s"] / Mlp.BATCH}


def main() -> None:
    """Measure alternately and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=24.0, help="seconds of measured training per round"
    )
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rates: dict[str, list[float]] = {}
    with (
        CandidateProcess.started(CandidateProgram("ours.training"), [SILENT, BARE]) as runner,
        stack() as running,
    ):
        steps = round(arguments.seconds * bare(runner, SILENT, 1.0)[SILENT])
        for _ in range(arguments.rounds):
            for found in (
                bare(runner, SILENT, arguments.seconds),
                service(running, steps),
                bare(runner, BARE, arguments.seconds),
                local(steps),
            ):
                for name, rate in found.items():
                    rates.setdefault(name, []).append(rate)
        versions = runner.facts["versions"]
    medians = {name: statistics.median(of) for name, of in rates.items()}
    report(
        "telemetry_overhead",
        goal_service_over_silent=0.97,
        service_over_silent=round(medians["service"] / medians[SILENT], 3),
        service_over_silent_whole=round(medians["service-whole"] / medians[f"{SILENT}-whole"], 3),
        service_over_bare=round(medians["service"] / medians[BARE], 3),
        service_over_local=round(medians["service-in-calls"] / medians["local-in-calls"], 3),
        bare_over_silent=round(medians[BARE] / medians[SILENT], 3),
        steps_per_s={name: round(of, 4 if of < 1 else 1) for name, of in medians.items()},
        steps_per_s_of_rounds={name: [round(one, 4) for one in of] for name, of in rates.items()},
        steps=steps,
        versions=versions,
    )


if __name__ == "__main__":
    main()
