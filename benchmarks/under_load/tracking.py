"""MLflow's tracking server and client, in a process of their own."""

import argparse
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from contest import PEERS

from under_load.lines import Talk

RUN = "plot"
PLOTTED = "loss"
METRICS = [PLOTTED, "loss_scale", "grad_norm", "skipped"]
BATCH = 250


@contextmanager
def tracking(python: Path) -> Iterator[Talk]:
    """It answers the commands of `peers.mlflow_tracking`; its files are in a temporary folder."""
    with (
        tempfile.TemporaryDirectory(prefix="ampcore-bench-") as folder,
        Talk.with_module(python, ["peers.mlflow_tracking", "--folder", folder]) as talk,
    ):
        yield talk


@dataclass(frozen=True)
class TrackedRun:
    """A run of MLflow's, and which of its steps were skipped."""

    peer: Talk
    steps: int
    skips: list[int]

    @classmethod
    def logged(cls, peer: Talk, steps: int, skips: int) -> Self:
        """One of so many steps, with so many skipped at random."""
        skipped = sorted(random.Random(0).sample(range(steps), skips))
        about = {"first_step": 0, "batch": BATCH, "metrics": METRICS, "skips": skipped}
        peer.ask("log", run=RUN, steps=steps, **about)
        return cls(peer, steps, skipped)

    def plotted(self, points: int) -> tuple[float, int]:
        """Milliseconds that a plot of all of it takes, and how many skipped steps are in it."""
        about = {"points": points, "start": 0, "end": self.steps, "times": 1}
        answer = self.peer.ask("read", run=RUN, metric=PLOTTED, **about)
        return answer["ms"][0], len(set(self.skips) & set(answer["steps"]))


def add_peers(parser: argparse.ArgumentParser) -> None:
    """Let the command line name the interpreter that has MLflow."""
    parser.add_argument("--peers", type=Path, default=PEERS, help="a Python that has MLflow")
