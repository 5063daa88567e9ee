"""How long a job with four ranks waits while jobs with one rank keep all four slots busy.

The same arrivals, in turns: the placement of gangs as it is, simulated second by second; the same
without reservations of busy slots; and a real Slurm of two nodes with two CPUs each, whose jobs
sleep. Prints one JSON line. Needs Debian's packages slurmctld, slurmd, slurm-client and munge.
"""

import argparse
import random
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from compare import report

from store.scheduling.gang_placement import GangSize, WaitingGang
from tests.slurm import SlurmCluster, slurm_cluster
from tests.store.gang_simulation import Simulation

SLOTS: Final = {"w0": 2, "w1": 2}
GANG: Final = GangSize(workers=2, devices=2, min_ranks=4, max_ranks=4, batches=4)
GANG_LENGTH_S: Final = 5.0
SMALL_S: Final = (5.0, 25.0)
"""The length of a job with one rank, at least and at most."""
QUEUED: Final = 8
"""Jobs with one rank that wait at any time."""
GANGS: Final = 6
PATIENCE_S: Final = 3600.0


class WithoutDraining(Simulation):
    """The placement without reservations of busy slots."""

    def _waiting(self, gang: WaitingGang) -> WaitingGang:
        waiting: WaitingGang = super()._waiting(gang)
        return replace(waiting, may_drain=False)


def simulated_waits_s(kind: type[Simulation]) -> list[float]:
    """How long each gang waits; the whole patience for one that does not start."""
    generator, waits = random.Random(7), []
    for _ in range(GANGS):
        world = kind(dict(SLOTS))
        while world.now < SMALL_S[1]:
            _fill(world, generator)
        world.submit("gang", GANG, GANG_LENGTH_S)
        while "gang" not in world.gang_waits and world.now < PATIENCE_S:
            _fill(world, generator)
        waits.append(world.gang_waits.get("gang", PATIENCE_S))
    return waits


def _fill(world: Simulation, generator: random.Random) -> None:
    while len(world.small) < QUEUED:
        world.submit_small(generator.uniform(*SMALL_S))
    world.second()


def slurm_waits_s(cluster: SlurmCluster) -> list[float]:
    """The same with jobs of Slurm that sleep."""
    generator, waits = random.Random(7), []

    def submit(length_s: float, *options: str) -> str:
        limit = ("--time=1", "--output=/dev/null", f"--wrap=sleep {length_s:.1f}")
        return cluster.run("sbatch", "--parsable", *options, *limit).stdout.strip()

    def state(job: str) -> str:
        return cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%t").stdout.strip()

    def fill() -> None:
        pending = cluster.run("squeue", "--noheader", "--states=PD", "--name=wrap").stdout
        for _ in range(QUEUED - len(pending.splitlines())):
            submit(generator.uniform(*SMALL_S), "--job-name=wrap")

    for _ in range(GANGS):
        begin = time.monotonic()
        while time.monotonic() - begin < SMALL_S[1]:
            fill()
            time.sleep(0.5)
        gang = submit(GANG_LENGTH_S, "--job-name=gang", "--nodes=2", "--ntasks=4")
        submitted_s = time.monotonic()
        while state(gang) == "PD":
            fill()
            time.sleep(0.2)
        waits.append(time.monotonic() - submitted_s)
        cluster.end_jobs()
    return waits


def summary(waits_s: list[float]) -> dict[str, Any]:
    """The median and the longest wait."""
    return {
        "median_s": round(statistics.median(waits_s), 1),
        "longest_s": round(max(waits_s), 1),
        "never_started": sum(wait >= PATIENCE_S for wait in waits_s),
    }


def main() -> None:
    """Measure, and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, slurm_cluster(Path(folder)) as two:
        in_slurm = slurm_waits_s(two)
    report(
        "gang_waits",
        gangs=GANGS,
        ours=summary(simulated_waits_s(Simulation)),
        ours_without_reservations_of_busy_slots=summary(simulated_waits_s(WithoutDraining)),
        slurm=summary(in_slurm),
    )


if __name__ == "__main__":
    main()
