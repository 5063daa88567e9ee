"""Compares candidates side by side: interleaved rounds, each in a process with its libraries.

A process prepares all of its candidates once, and then answers every "run <candidate>" with the
milliseconds that one step took. Because the rounds are interleaved, whatever else the machine does
affects all candidates alike; the results are ratios of medians.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")

BENCHMARKS = Path(__file__).parent.parent
PEERS_PYTHON = BENCHMARKS.parent / ".venv-bench" / "bin" / "python"
CORES = os.cpu_count() or 1
# Threads that still spin for work from the round before would disturb the next candidate.
SETTLE_S = 0.02
STARTUP_RUNS = 9
STARTUP_STATEMENT = (
    "import asyncio, email.message, http.server, json, logging.config, sqlite3, unittest"
)


@dataclass(frozen=True)
class CandidateProgram:
    """`python -m <module> <variant>…` with the interpreter that has what it needs."""

    module: str
    python: Path = Path(sys.executable)


@dataclass(frozen=True)
class Candidate:
    """A variant of what a program does, under a name of its own in the results."""

    name: str
    program: CandidateProgram
    variant: str


class CandidateProcess:
    """A running program with prepared variants.

    `facts` is what it reports about itself: versions, and the settings that variants chose.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.facts: dict[str, Any] = self._read()

    @classmethod
    @contextmanager
    def started(cls, program: CandidateProgram, variants: Sequence[str]) -> Iterator[Self]:
        """Start it, wait until it is ready, and stop it at the exit."""
        process = subprocess.Popen(
            [str(program.python), "-m", program.module, *variants],
            cwd=BENCHMARKS,
            # For torch and other users of OpenMP; TensorFlow and JAX use every core anyway.
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

    def step_ms(self, variant: str) -> float:
        """Run one round; returns milliseconds per step."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"run {variant}\n")
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
    """Milliseconds per step of each candidate, one value per round, and library versions."""

    rounds: dict[str, list[float]]
    chosen: dict[str, str]
    """The settings that candidates chose as their fastest."""
    versions: dict[str, str]

    def median(self, name: str) -> float:
        """The median over the rounds."""
        return statistics.median(self.rounds[name])

    def ratio(self, of: str, to: str) -> float:
        """One median over another."""
        return round(self.median(of) / self.median(to), 3)

    def table(self) -> dict[str, float]:
        """The medians, in milliseconds."""
        return {name: round(self.median(name), 4) for name in self.rounds}

    def quartiles(self) -> dict[str, list[float]]:
        """The quartiles in milliseconds, as the spread around the medians."""
        return {
            name: [round(value, 4) for value in statistics.quantiles(values, n=4)]
            for name, values in self.rounds.items()
        }


def compare(candidates: Sequence[Candidate], rounds: int) -> Result:
    """Measure in interleaved rounds whose order rotates, so that no order is favoured."""
    with ExitStack() as stack:
        variants: dict[CandidateProgram, list[str]] = {}
        for one in candidates:
            variants.setdefault(one.program, []).append(one.variant)
        runners = {
            program: stack.enter_context(CandidateProcess.started(program, names))
            for program, names in variants.items()
        }
        times: dict[str, list[float]] = {one.name: [] for one in candidates}
        for index in range(rounds):
            for one in rotated(candidates, index):
                time.sleep(SETTLE_S)
                times[one.name].append(runners[one.program].step_ms(one.variant))
        facts = {program: runner.facts for program, runner in runners.items()}
    return Result(
        times,
        {
            one.name: facts[one.program]["chosen"][one.variant]
            for one in candidates
            if one.variant in facts[one.program]["chosen"]
        },
        {name: it for fact in facts.values() for name, it in fact["versions"].items()},
    )


def rotated(candidates: Sequence[T], by: int) -> Sequence[T]:
    """The candidates, rotated by the number of the turn."""
    start = by % len(candidates)
    return [*candidates[start:], *candidates[:start]]


def python_startup_ms() -> float:
    """The start time of a Python process, as a measure of the machine's current speed.

    The speed of a virtual machine varies with its neighbours and between hosts; the figures of two
    runs can be compared if this one is the same.
    """
    taken = []
    for _ in range(STARTUP_RUNS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", STARTUP_STATEMENT], check=True)
        taken.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(taken))


def report(benchmark: str, **answer: Any) -> None:
    """Print the one JSON line of a benchmark."""
    machine = {"cores": CORES, "python_startup_ms": python_startup_ms()}
    print(json.dumps({"benchmark": benchmark, **answer, **machine}))
