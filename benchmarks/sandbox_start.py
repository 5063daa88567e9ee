"""The time that each sandbox adds to the start of a trainer: one JSON line of medians.

A trainer that does nothing is started in the sandbox and, alternately, the same program outside of
one. Outside, it imports the same modules; so the difference is what the sandbox itself takes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from infra.isolation import imported_files
from infra.isolation.sandboxed_trainer import SandboxedTrainer
from worker.trainer.fork_server import trainer_environment
from worker.trainer.isolation_plan import DEFAULT_USERS
from worker.trainer.sandbox import Sandbox, SandboxKind
from worker.trainer.sandbox_plan import SandboxMode, SandboxSettings, plan_sandbox

ROUNDS = 30
OUTSIDE = (sys.executable, "-u", "-c", "import infra.isolation.sandboxed_trainer, runpy")


def seconds(command: list[str]) -> float:
    """How long a command runs."""
    began = time.perf_counter()
    subprocess.run(command, check=True, env=trainer_environment())
    return time.perf_counter() - began


def seconds_inside(sandbox: Sandbox) -> float:
    """How long the empty trainer runs in the sandbox, with the creation of its folder."""
    began = time.perf_counter()
    folder = sandbox.new_folder()
    seconds(SandboxedTrainer(folder.confinement, tuple(imported_files())).command())
    ended = time.perf_counter()
    folder.close()
    return ended - began


def main() -> None:
    """Measure every sandbox of this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        parent = Path(folder) / "scratch" / "worker"
        parent.mkdir(parents=True)
        found: dict[str, float] = {}
        for kind in SandboxKind:
            planned = plan_sandbox(
                SandboxSettings(SandboxMode(kind)),
                users=DEFAULT_USERS,
                parent=parent,
                datasets=Path(folder) / "datasets",
            )
            if planned.sandbox is None:
                continue
            outside, inside = [], []
            for _ in range(rounds):
                outside.append(seconds(list(OUTSIDE)))
                inside.append(seconds_inside(planned.sandbox))
            found[f"{kind}_s"] = statistics.median(inside)
            found[f"{kind}_outside_s"] = statistics.median(outside)
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))


if __name__ == "__main__":
    main()
