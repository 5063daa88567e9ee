"""Compares `engine: auto` with every engine on short jobs, through the Trainer: one JSON line.

Each run is a process that has loaded TensorFlow and trained a tiny job, as a worker's standby
trainer has. It measures the whole of `Trainer.run`: data, model, tracing, compiling, training. The
engines alternate. The CPU time is reported besides the wall time, because it is more reliable on a
busy machine. `--quick` makes one round; names of jobs select some of them.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from compare import BENCHMARKS, report
from compare.problems import CLASSES, Cnn, Mlp

ENGINES = ("graph", "auto", "xla_step", "xla_loop")
ROUNDS = 5
LIMIT_S, LIMIT_RATIO = 30.0, 4.0
"""An engine that takes this long, and this many times graph's time, is dropped: XLA compiles
convolutions in a loop for minutes, and does not run them faster."""
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")

Job = dict[str, Any]


def jobs(text: str) -> dict[str, Job]:
    """The specs by name, with as many steps as graph runs in some seconds on two cores."""

    def images(problem: Any) -> Job:
        return {
            **{"kind": "synthetic", "shape": list(problem.INPUT), "classes": CLASSES},
            **{"examples": 100 * problem.BATCH, "batch_size": problem.BATCH},
        }

    clicks = {"slots": 4, "nnz": 2, "vocabulary": 100_000}
    mlp = {"model": {"kind": "mlp", "hidden": list(Mlp.HIDDEN)}, "data": images(Mlp)}
    return {
        "mlp_short": {**mlp, "train": {"steps": 3200}},
        "mlp": {**mlp, "train": {"steps": 9600}},
        "cnn": {
            "model": {"kind": "cnn", "dropout": 0.25, "dense_dropout": 0.5},
            "data": images(Cnn),
            "train": {"steps": 100},
        },
        "transformer_lm": {
            "model": {"kind": "transformer_lm"},
            "data": {"kind": "text", "path": text, "sequence": 64, "batch_size": 16},
            "train": {"steps": 150},
        },
        "embedding": {
            "model": {"kind": "embedding", **clicks, "dim": 16, "hidden": [64]},
            "data": {"kind": "synthetic_clicks", **clicks, "examples": 25_600, "batch_size": 256},
            "train": {"steps": 4000},
        },
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="jobs; left out: all")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        run_one(json.loads(arguments.run))
        return
    with tempfile.TemporaryDirectory(prefix="ampcore-bench-") as folder:
        text = Path(folder, "text.txt")
        generator = random.Random(0)
        text.write_text(" ".join(generator.choices(WORDS, k=40_000)), encoding="utf-8")
        every = jobs(str(text))
        if unknown := set(arguments.names) - set(every):
            parser.error(f"expected names among {', '.join(every)}; received {sorted(unknown)}")
        rounds = 1 if arguments.quick else ROUNDS
        names = arguments.names or list(every)
        measured = {name: compare(every[name], rounds) for name in names}
    report("auto_engine", rounds=rounds, jobs=measured)


def compare(job: Job, rounds: int) -> dict[str, Any]:
    """Alternate all engines on one job: medians, and `auto` relative to the best."""
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in ENGINES}
    timed_out: set[str] = set()
    for number in range(rounds):
        for place in range(len(ENGINES)):
            engine = ENGINES[(place + number) % len(ENGINES)]
            if engine in timed_out:
                continue
            compiled = engine.startswith("xla")
            # The first engine is graph.
            limit_s = LIMIT_S + LIMIT_RATIO * runs["graph"][0]["wall_s"] if compiled else None
            if (run := measure(job, engine, limit_s)) is None:
                timed_out.add(engine)
            else:
                runs[engine].append(run)
    figures = ("wall_s", "cpu_s", "autotune_s")
    median = {
        engine: {key: round(statistics.median(run[key] for run in own), 3) for key in figures}
        for engine, own in runs.items()
        if engine not in timed_out
    }

    def over_best(key: str) -> float:
        least = min(own[key] for engine, own in median.items() if engine != "auto")
        return float(round(median["auto"][key] / least, 3))

    return {
        "auto_over_best": {key: over_best(key) for key in ("wall_s", "cpu_s")},
        "auto_chose": [run["engine"] for run in runs["auto"]],
        "engines": median,
        "over_the_limit": sorted(timed_out),
    }


def measure(job: Job, engine: str, limit_s: float | None) -> dict[str, Any] | None:
    """One run in its own process; None when it takes too long."""
    spec = json.dumps({**job, "runtime": {"engine": engine, "device": "cpu"}})
    command = [sys.executable, str(Path(__file__)), "--run", spec]
    process = subprocess.Popen(
        command,
        cwd=BENCHMARKS,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready, and begins
        try:
            answer, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    if process.returncode:
        raise SystemExit(f"{engine} ended with {process.returncode}")
    measured: dict[str, Any] = json.loads(answer)
    return measured


def run_one(document: Job) -> None:
    """The child process: prepare, report readiness, run the job, and print its figures."""
    from ampcore import JobSpec, Trainer
    from ampcore.training.warmup import warm_up

    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    warm_up()
    print("ready", file=answers, flush=True)
    decisions = []
    spec = JobSpec.parse({**document, "optimizer": {"kind": "adam"}})
    wall, cpu = time.perf_counter(), time.process_time()
    result = Trainer(spec).run(on_event=decisions.append)
    figures = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    [decision] = [event.data for event in decisions if event.type == "engine"]
    figures |= {"engine": result.engine, "autotune_s": decision["autotune_s"]}
    print(json.dumps(figures), file=answers, flush=True)


if __name__ == "__main__":
    main()
