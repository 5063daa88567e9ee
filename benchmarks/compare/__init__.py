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
from dataclasses import dataclass, field
from functools import cached_property
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
    """`python -m <module> <variant>…` with the interpreter that has what it needs.

    Programs that differ in `instance` alone are processes of their own.
    """

    module: str
    python: Path = Path(sys.executable)
    instance: str = ""


@dataclass(frozen=True)
class Candidate:
    """A variant of what a program does, under a name of its own in the results."""

    name: str
    program: CandidateProgram
    variant: str


class CandidateProcess:
    """A running program with prepared variants.

    `facts` is what it reports about itself: versions, the settings that variants chose, and why
    variants failed. Reading it waits until all variants are prepared.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the program reports about itself."""
        return self._read()  # type: ignore[no-any-return]

    @classmethod
    @contextmanager
    def started(cls, program: CandidateProgram, variants: Sequence[str]) -> Iterator[Self]:
        """Start it, and stop it at the exit."""
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
    failed: dict[str, str] = field(default_factory=dict)
    """Why candidates could not be prepared; they have no rounds."""

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
    """Measure in interleaved rounds whose order rotates, so that no order is favoured.

    Raises:
        RuntimeError: A candidate cannot be prepared.
    """
    result = compare_available(candidates, rounds, at_once=1)
    if result.failed:
        raise RuntimeError(f"Expected all candidates to be prepared; failed: {result.failed}")
    return result


def compare_available(
    candidates: Sequence[Candidate], rounds: int, *, at_once: int = CORES
) -> Result:
    """The same, without the candidates that cannot be prepared; says why they cannot.

    Args:
        candidates: The candidates.
        rounds: The rounds of each.
        at_once: How many programs prepare themselves at the same time. Candidates that choose among
            several settings need 1: they measure while they prepare.
    """
    with ExitStack() as stack:
        variants: dict[CandidateProgram, list[str]] = {}
        for one in candidates:
            variants.setdefault(one.program, []).append(one.variant)
        running: dict[CandidateProgram, CandidateProcess] = {}
        for programs in in_groups(list(variants), at_once):
            for program in programs:
                started = CandidateProcess.started(program, variants[program])
                running[program] = stack.enter_context(started)
            for program in programs:
                assert running[program].facts
        facts = {program: process.facts for program, process in running.items()}
        failed = {
            one.name: facts[one.program]["failed"][one.variant]
            for one in candidates
            if one.variant in facts[one.program]["failed"]
        }
        ready = [one for one in candidates if one.name not in failed]
        times: dict[str, list[float]] = {one.name: [] for one in ready}
        for index in range(rounds):
            for one in rotated(ready, index):
                time.sleep(SETTLE_S)
                times[one.name].append(running[one.program].step_ms(one.variant))
    return Result(
        times,
        {
            one.name: facts[one.program]["chosen"][one.variant]
            for one in ready
            if one.variant in facts[one.program]["chosen"]
        },
        {name: it for fact in facts.values() for name, it in fact["versions"].items()},
        failed,
    )


def in_groups(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """The items in order, in groups of this size."""
    return [items[start : start + size] for start in range(0, len(items), size)]


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
