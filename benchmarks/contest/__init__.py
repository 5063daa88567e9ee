"""Side-by-side measurement: contestants in processes of their own, measured in turns.

Each contestant lives in the environment that its software needs, prepares once, and then answers
every "run" with the milliseconds that one step took. Because the rounds are interleaved, whatever
else the machine does hits all contestants alike; what counts are ratios of medians.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

BENCHMARKS = Path(__file__).parent.parent
PEERS_PYTHON = BENCHMARKS.parent / ".venv-bench" / "bin" / "python"
CORES = os.cpu_count() or 1
# Threads that still spin for work from the round before would disturb the next contestant.
SETTLE_S = 0.02


@dataclass(frozen=True)
class Contestant:
    """`python -m <module> <variant>` with the interpreter that has what it needs."""

    name: str
    module: str
    variant: str
    python: Path = Path(sys.executable)


class Runner:
    """A contestant that has prepared itself and waits for its turn.

    `facts` is what it says about itself: versions, threads, and the settings it chose.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.facts: dict[str, Any] = self._read()

    @classmethod
    @contextmanager
    def started(cls, contestant: Contestant) -> Iterator[Self]:
        """Start it, wait until it is ready, and end it afterwards."""
        process = subprocess.Popen(
            [str(contestant.python), "-m", contestant.module, contestant.variant],
            cwd=BENCHMARKS,
            # torch and what else counts by OpenMP; TensorFlow and JAX take every core anyway.
            env={**os.environ, "OMP_NUM_THREADS": str(CORES), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield cls(process)
        finally:
            process.kill()
            process.communicate()

    def step_ms(self) -> float:
        """One round; the milliseconds that a step took."""
        assert self._process.stdin is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return float(self._read()["step_ms"])

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()}")
        return json.loads(line)


@dataclass(frozen=True)
class Result:
    """Milliseconds a step of each contestant, one value a round, and what each says of itself."""

    rounds: dict[str, list[float]]
    facts: dict[str, dict[str, Any]]

    def median(self, name: str) -> float:
        """The median over the rounds."""
        return statistics.median(self.rounds[name])

    def ratio(self, of: str, to: str) -> float:
        """One median over another."""
        return round(self.median(of) / self.median(to), 3)

    def table(self) -> dict[str, float]:
        """The medians, in milliseconds."""
        return {name: round(self.median(name), 4) for name in self.rounds}

    def spread(self) -> dict[str, list[float]]:
        """The quartiles, in milliseconds: how far to trust the medians."""
        return {
            name: [round(value, 4) for value in statistics.quantiles(values, n=4)]
            for name, values in self.rounds.items()
        }

    def chosen(self) -> dict[str, str]:
        """The settings that contestants chose for themselves as the fastest."""
        return {name: facts["chosen"] for name, facts in self.facts.items() if "chosen" in facts}

    def versions(self) -> dict[str, str]:
        """The versions of all software that took part."""
        return {
            name: version
            for facts in self.facts.values()
            for name, version in facts["versions"].items()
        }


def contest(contestants: Sequence[Contestant], rounds: int) -> Result:
    """Measure in turns; the order rotates, so that nobody always runs after the same one."""
    with ExitStack() as stack:
        runners = {one.name: stack.enter_context(Runner.started(one)) for one in contestants}
        times: dict[str, list[float]] = {name: [] for name in runners}
        for index in range(rounds):
            for name in rotated(list(runners), index):
                time.sleep(SETTLE_S)
                times[name].append(runners[name].step_ms())
        return Result(times, {name: runner.facts for name, runner in runners.items()})


def rotated(names: list[str], by: int) -> Iterable[str]:
    """The names, starting from another one each time."""
    start = by % len(names)
    return names[start:] + names[:start]


def report(benchmark: str, **answer: Any) -> None:
    """Print the one JSON line of a benchmark."""
    print(json.dumps({"benchmark": benchmark, **answer, "cores": CORES}))
