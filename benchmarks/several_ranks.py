"""Training on two ranks of this machine: communication, scaling and peers, one JSON line.

Each measurement is a launch of its own. Launches of the compared variants alternate; a figure is
the median over the rounds. One thread for each rank: two ranks use two cores.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from compare import BENCHMARKS, PEERS_PYTHON, report, rotated

ROUNDS = 3
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
TWO_THREADS = {**ONE_THREAD, "OMP_NUM_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "2"}
TIMEOUT_S = 600

RANKS = ("-m", "ampcore", "launch", "--threads", "1")


def on_cores(count: int) -> Sequence[str]:
    """The prefix of a command that may use so many cores.

    With one thread TensorFlow still runs independent operations on every core that it may use.
    """
    return ["taskset", "-c", f"0-{count - 1}"]


def launched(ranks: int, module: str, *arguments: str) -> Sequence[str]:
    """The command of a program on so many ranks, each on a core of its own."""
    program = str(BENCHMARKS / f"{module.replace('.', '/')}.py")
    command = [sys.executable, *RANKS, "--processes", str(ranks), program, *arguments]
    return [*on_cores(ranks), *command]


def alone(module: str, *arguments: str) -> Sequence[str]:
    """The command of a program in one process, on one core."""
    return [*on_cores(1), sys.executable, "-m", module, *arguments]


def measured(command: Sequence[str], environ: Mapping[str, str] = ONE_THREAD) -> Any:
    """What a program prints in its last line."""
    path = os.pathsep.join([str(BENCHMARKS), str(BENCHMARKS.parent)])
    done = subprocess.run(
        command,
        cwd=BENCHMARKS,
        env={**os.environ, **environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def medians(commands: Mapping[str, Any]) -> dict[str, float]:
    """The median of `examples_per_s` of each variant over alternating rounds."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for index in range(ROUNDS):
        for name in rotated(list(commands), index):
            found[name].append(measured(*commands[name])["examples_per_s"])
    return {name: round(statistics.median(values), 1) for name, values in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["communication", "overhead", "scaling", "peers"])
    only = parser.parse_args().only
    answer: dict[str, Any] = {"load": os.getloadavg()[0]}
    if only in (None, "communication"):
        answer["communication"] = measured(launched(2, "ours.rank_collectives"))
    if only in (None, "overhead"):
        found = medians(
            {
                "plain": (alone("ours.ranks", "cnn"),),
                "one rank of a cluster": (launched(1, "ours.ranks", "cnn"),),
            }
        )
        ratio = found["plain"] / found["one rank of a cluster"]
        answer["overhead"] = {"ratio": round(ratio, 3), "examples_per_s": found}
    if only in (None, "scaling"):
        found = medians(
            {
                "one rank": (alone("ours.ranks", "resnet20"),),
                "two ranks": (launched(2, "ours.ranks", "resnet20"),),
                "two ranks, bfloat16 exchange": (
                    launched(2, "ours.ranks", "resnet20", "bfloat16"),
                ),
            }
        )
        ratio = found["two ranks"] / found["one rank"]
        answer["scaling"] = {"ratio": round(ratio, 3), "examples_per_s": found}
    if only in (None, "peers"):
        commands: dict[str, Any] = {
            "ampcore, two ranks": (launched(2, "ours.ranks", "cnn"),),
            "keras under MirroredStrategy": (
                [sys.executable, "-m", "peers.keras_mirrored"],
                TWO_THREADS,
            ),
        }
        if PEERS_PYTHON.exists():
            commands["torch DistributedDataParallel"] = (
                [str(PEERS_PYTHON), "-m", "peers.torch_ddp"],
            )
        found = medians(commands)
        own = found.pop("ampcore, two ranks")
        faster = {name: round(own / value, 3) for name, value in found.items()}
        answer["peers"] = {"faster_than": faster, "examples_per_s": {"ampcore": own, **found}}
    report("several_ranks", **answer)


if __name__ == "__main__":
    main()
