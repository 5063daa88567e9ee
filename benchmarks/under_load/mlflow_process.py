"""MLflow's tracking server and client, in a process of their own."""

import argparse
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from compare import PEERS_PYTHON

from under_load.json_process import JsonProcess

RUN = "plot"
PLOTTED = "loss"
METRICS = [PLOTTED, "loss_scale", "grad_norm", "skipped"]
BATCH = 250


@contextmanager
def mlflow_process(python: Path) -> Iterator[JsonProcess]:
    """Handles the commands of `peers.mlflow_tracking`; its files are in a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix="ampcore-bench-") as folder,
        JsonProcess.with_module(python, ["peers.mlflow_tracking", "--folder", folder]) as process,
    ):
        yield process


@dataclass(frozen=True)
class MlflowRun:
    """A run in MLflow, and its skipped steps."""

    peer: JsonProcess
    steps: int
    skips: list[int]

    @classmethod
    def logged(cls, peer: JsonProcess, steps: int, skips: int) -> Self:
        """A run with this many steps, of which some are skipped at random."""
        skipped = sorted(random.Random(0).sample(range(steps), skips))
        about = {"first_step": 0, "batch": BATCH, "metrics": METRICS, "skips": skipped}
        peer.call("log", run=RUN, steps=steps, **about)
        return cls(peer, steps, skipped)

    def plotted(self, points: int) -> tuple[float, int]:
        """Milliseconds for a plot of all steps, and the number of skipped steps in it."""
        about = {"points": points, "start": 0, "end": self.steps, "times": 1}
        answer = self.peer.call("read", run=RUN, metric=PLOTTED, **about)
        return answer["ms"][0], len(set(self.skips) & set(answer["steps"]))


def add_peers_option(parser: argparse.ArgumentParser) -> None:
    """Let the command line name the interpreter that has MLflow."""
    parser.add_argument("--peers", type=Path, default=PEERS_PYTHON, help="a Python that has MLflow")
