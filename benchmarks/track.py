"""The cost of tracking `model.fit`: one JSON line.

The same small model is fitted without a callback, with a callback that does nothing (Keras then
converts the logs of each batch), with TelemetryCallback and a real server, and with MLflow's
autolog of each step. Rounds of all variants take turns. Also: the time of `run.log` in a loop of
one's own, and the bytes of a step while the server cannot be reached.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from compare import report
from under_load.service_processes import ROOT, Api, api, service_environment

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import ampcore
from ampclient import Client
from ampclient.tracking.outbox import Outbox
from ampclient.tracking.rows import RowBuffer

BATCH_SIZE = 64
LOGGED_STEPS = 200_000
SETTLE_S = 5.0
"""Pause after a round: what a variant sends in the background must not slow the next one."""
Fit = Callable[[], None]


def a_model() -> keras.Model:
    """A small classifier: a step takes some hundred microseconds."""
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(256, activation="relu"), keras.layers.Dense(10)]
    model = keras.Sequential([keras.Input((64,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = ampcore.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    return model


class Nothing(keras.callbacks.Callback):  # type: ignore[misc]
    """Does nothing in each batch."""

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Do nothing."""


def fit_with(steps: int, *callbacks: keras.callbacks.Callback) -> Fit:
    """Fits one model again and again with these callbacks."""
    random = np.random.default_rng(0)
    x = random.normal(size=(steps * BATCH_SIZE, 64)).astype(np.float32)
    y = random.integers(0, 10, steps * BATCH_SIZE).astype(np.int32)
    model = a_model()

    def fit() -> None:
        model.fit(x, y, batch_size=BATCH_SIZE, verbose=0, callbacks=list(callbacks))

    return fit


@contextmanager
def mlflow_autolog(site: Path) -> Iterator[Callable[[Fit], Fit]]:
    """A function that makes fits log every step with MLflow, into SQLite."""
    sys.path.append(str(site))
    import mlflow

    with tempfile.TemporaryDirectory(prefix="ampcore-bench-") as folder:
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.sqlite")

        def logged(fit: Fit) -> Fit:
            def fit_and_log() -> None:
                options = {"log_every_epoch": False, "log_every_n_steps": 1, "silent": True}
                without = {
                    "log_models": False,
                    "log_datasets": False,
                    "log_model_signatures": False,
                }
                mlflow.keras.autolog(**options, **without)
                try:
                    fit()
                finally:
                    mlflow.keras.autolog(disable=True)

            return fit_and_log

        yield logged
        mlflow.flush_async_logging()


def step_us(fit: Fit, steps: int) -> float:
    """Microseconds of a step in one fit."""
    began = time.perf_counter()
    fit()
    took_s = time.perf_counter() - began
    time.sleep(SETTLE_S)
    return took_s / steps * 1e6


def log_us(client: Client) -> float:
    """Microseconds of one call of `run.log`."""
    with client.runs.track("custom loop") as run:
        began = time.perf_counter()
        for step in range(LOGGED_STEPS):
            run.log(step, loss=1.0, loss_scale=1024.0, learning_rate=0.1, examples=64)
        return (time.perf_counter() - began) / LOGGED_STEPS * 1e6


def kept_bytes_per_step(steps_per_block: int) -> float:
    """The size of a step in the outbox, with noise in loss, norm and time."""
    random, rows, outbox = np.random.default_rng(0), RowBuffer(), Outbox(2**30)
    for _ in range(10):
        for _ in range(steps_per_block):
            noisy = {name: random.normal() for name in ("loss", "grad_norm", "step_time_s")}
            constant = {"loss_scale": 32768.0, "skipped": False, "learning_rate": 1e-3}
            rows.add(None, {**noisy, **constant, "examples": 64})
        for entry in rows.encode():
            outbox.put(entry)
    sizes = [entry.size_bytes for entry in outbox.take_batch()]
    return sum(sizes) / len(sizes) / steps_per_block


def measure(server: Api, arguments: argparse.Namespace) -> dict[str, Any]:
    """All variants, round after round."""
    steps, times = arguments.steps, {}
    with ExitStack() as stack:
        client = stack.enter_context(Client(server.url, server.token))
        run = stack.enter_context(client.runs.track("fit"))
        fits = {
            "plain": fit_with(steps),
            "empty": fit_with(steps, Nothing()),
            "telemetry": fit_with(steps, ampcore.TelemetryCallback(run)),
        }
        if arguments.mlflow is not None:
            logged = stack.enter_context(mlflow_autolog(arguments.mlflow))
            fits["mlflow"] = logged(fit_with(steps))
        for fit in fits.values():
            fit()  # traces and compiles
        times = {name: [] for name in fits}
        for _ in range(arguments.rounds):
            for name, fit in fits.items():
                times[name].append(step_us(fit, steps))
        medians = {name: statistics.median(each) for name, each in times.items()}
        return {
            "step_us": {name: round(median, 1) for name, median in medians.items()},
            "added_us": {
                name: round(median - medians["plain"], 1)
                for name, median in medians.items()
                if name != "plain"
            },
            "quartiles_us": {
                name: [round(one, 1) for one in statistics.quantiles(each)]
                for name, each in times.items()
            },
            "log_us": round(log_us(client), 2),
            "kept_bytes_per_step": {
                str(count): round(kept_bytes_per_step(count), 1) for count in (5, 100, 4000)
            },
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--mlflow",
        type=Path,
        default=next(ROOT.glob(".venv-bench/lib/python*/site-packages"), None),
        help="site-packages with MLflow; by default those of `make bench`, if they exist",
    )
    arguments = parser.parse_args()
    with service_environment("sqlite") as service, api(service) as server:
        report("track", **measure(server, arguments))


if __name__ == "__main__":
    main()
