"""Training on two ranks of this machine: communication, scaling, peers, recovery; one JSON line.

Each measurement is a launch of its own. Launches of the compared variants alternate; a figure is
the median over the rounds. One thread for each rank: two ranks use two cores. Seven minutes on two
cores that nothing else uses.
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
OVERHEAD_ROUNDS = 5
"""More, since a difference of one percent is to be seen."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
TWO_THREADS = {**ONE_THREAD, "OMP_NUM_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "2"}
TIMEOUT_S = 300
"""Of one launch, which takes 8 to 15 s on quiet cores; the one of `recovery` about 90 s."""

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


def medians(commands: Mapping[str, Any], rounds: int = ROUNDS) -> dict[str, float]:
    """The median of `examples_per_s` of each variant over alternating rounds."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for index in range(rounds):
        for name in rotated(list(commands), index):
            found[name].append(measured(*commands[name])["examples_per_s"])
    return {name: round(statistics.median(values), 1) for name, values in found.items()}


def communication() -> Any:
    """The time of an all-reduce, by size."""
    return measured(launched(2, "ours.rank_collectives"))


def overhead() -> Any:
    """The time of a step of the only rank of a cluster, over that of the plain trainer."""
    found = medians(
        {
            "plain": (alone("ours.ranks", "cnn"),),
            "one rank of a cluster": (launched(1, "ours.ranks", "cnn"),),
        },
        OVERHEAD_ROUNDS,
    )
    ratio = found["plain"] / found["one rank of a cluster"]
    return {"ratio": round(ratio, 3), "examples_per_s": found}


def scaling() -> Any:
    """The examples per second of two ranks, over those of one."""
    found = medians(
        {
            "one rank": (alone("ours.ranks", "resnet20"),),
            "two ranks": (launched(2, "ours.ranks", "resnet20"),),
            "two ranks, bfloat16 exchange": (launched(2, "ours.ranks", "resnet20", "bfloat16"),),
        }
    )
    ratio = found["two ranks"] / found["one rank"]
    return {"ratio": round(ratio, 3), "examples_per_s": found}


def peers() -> Any:
    """The examples per second of two ranks, over those of other libraries."""
    commands: dict[str, Any] = {
        "ampcore": (launched(2, "ours.ranks", "cnn"),),
        "keras under MirroredStrategy": (
            [*on_cores(2), sys.executable, "-m", "peers.keras_mirrored"],
            TWO_THREADS,
        ),
    }
    if PEERS_PYTHON.exists():
        command = [*on_cores(2), str(PEERS_PYTHON), "-m", "peers.torch_ddp"]
        commands["torch DistributedDataParallel"] = (command,)
    found = medians(commands)
    others = [name for name in found if name != "ampcore"]
    faster = {name: round(found["ampcore"] / found[name], 3) for name in others}
    return {"faster_than": faster, "examples_per_s": found}


def recovery() -> Any:
    """Seconds from SIGKILL of a rank to the steps of the next attempt."""
    return measured([*on_cores(2), sys.executable, "-m", "ours.rank_recovery"], {})


MEASURE = {
    "communication": communication,
    "overhead": overhead,
    "scaling": scaling,
    "peers": peers,
    "recovery": recovery,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MEASURE, help="one part")
    only = parser.parse_args().only
    load = os.getloadavg()[0]
    parts = MEASURE if only is None else {only: MEASURE[only]}
    report("several_ranks", load=load, **{name: measure() for name, measure in parts.items()})


if __name__ == "__main__":
    main()
