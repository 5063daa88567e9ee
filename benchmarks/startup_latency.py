"""Start-up times of a stack, and the memory of its idle processes: one JSON line of medians.

Starts its own stack on 127.0.0.1 in a temporary folder, several times, and stops it again.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ampclient import Client
from worker.trainer.child.fork_server import STANDBY_NAME, TRAINER_NAME

STARTS = 3
JOBS = 5
IMPORTS = 7
SPEC = {
    "model": {"kind": "cnn"},
    "data": {"kind": "digits"},
    "precision": {"policy": "mixed_bfloat16"},
    "train": {"steps": 200},
}
AS_LAYERS = SPEC | {
    "model": {
        "kind": "layers",
        "layers": [
            {"layer": "Conv2D", "filters": 32, "kernel_size": 3, "activation": "relu"},
            {"layer": "Conv2D", "filters": 64, "kernel_size": 3, "activation": "relu"},
            {"layer": "MaxPooling2D"},
            {"layer": "Dropout", "rate": 0.25},
            {"layer": "Flatten"},
            {"layer": "Dense", "units": 128, "activation": "relu"},
            {"layer": "Dropout", "rate": 0.5},
            {"layer": "Dense", "units": "classes"},
        ],
    }
}
"""The same network, described layer by layer."""


@dataclass
class Stack:
    """A running `ampserver up`."""

    data: Path
    process: subprocess.Popen[bytes]
    client: Client
    startup_s: float

    def resident_mb(self, command: str) -> float:
        """The resident memory of the stack's process with this in its command line."""
        api = psutil.Process(self.process.pid)
        for process in [api, *api.children(recursive=True)]:
            if command in " ".join(process.cmdline()):
                return float(process.memory_info().rss) / 2**20
        raise LookupError(command)

    def is_standby_idle(self) -> bool:
        """True once a standby trainer has warmed up."""
        try:
            trainers = [
                process
                for process in psutil.Process(self.process.pid).children(recursive=True)
                if process.name() in (STANDBY_NAME, TRAINER_NAME)
            ]
            return len(trainers) == 1 and trainers[0].cpu_percent(interval=0.5) < 3
        except psutil.NoSuchProcess:  # it has just ended
            return False


@contextmanager
def stack() -> Iterator[Stack]:
    """A fresh stack in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="ampcore-bench-") as folder:
        connection = Path(folder, "data", "connection.json")
        begin = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "up", "--data", str(connection.parent), "--port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(connection.exists)
            client = Client.from_file(connection)
            client.version()
            yield Stack(connection.parent, process, client, time.perf_counter() - begin)
        finally:
            process.terminate()
            process.wait(60)


def wait_until(condition: Callable[[], bool], timeout_s: float = 120) -> None:
    """Poll every few milliseconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true after {timeout_s} s")
        time.sleep(0.005)


def first_step_s(running: Stack, spec: dict[str, Any]) -> float:
    """Seconds from before the POST until a step of the job can be read back."""
    wait_until(running.is_standby_idle)
    begin = time.perf_counter()
    job = running.client.jobs.submit(spec)
    wait_until(lambda: len(job.steps(end=1)) == 1)
    seconds = time.perf_counter() - begin
    job.wait(timeout_s=120)
    return seconds


def seconds_of(statement: str) -> float:
    """The median that a new Python needs for a statement, beyond its own start."""
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(IMPORTS)]
    return statistics.median(runs)


def main() -> None:
    """Measure, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=STARTS)
    starts = parser.parse_args().starts
    answered, api_mb, worker_mb = [], [], []
    first_steps: list[float] = []
    as_layers: list[float] = []
    for _ in range(starts):
        with stack() as running:
            answered.append(running.startup_s)
            for _ in range(JOBS):  # alternately
                first_steps.append(first_step_s(running, SPEC))
                as_layers.append(first_step_s(running, AS_LAYERS))
            api_mb.append(running.resident_mb("server up"))
            worker_mb.append(running.resident_mb("-m worker"))
    print(
        json.dumps(
            {
                "benchmark": "startup_latency",
                "up_answers_s": round(statistics.median(answered), 2),
                "post_to_first_step_s": round(statistics.median(first_steps), 2),
                "post_to_first_step_worst_s": round(max(first_steps), 2),
                "post_to_first_step_of_layers_s": round(statistics.median(as_layers), 2),
                "post_to_first_step_of_layers_worst_s": round(max(as_layers), 2),
                "api_resident_mb": round(statistics.median(api_mb), 1),
                "worker_parent_resident_mb": round(statistics.median(worker_mb), 1),
                "import_ampclient_s": round(seconds_of("import ampclient"), 3),
                "import_client_and_spec_s": round(
                    seconds_of("from ampclient import Client, JobSpec"), 3
                ),
                "connect_s": round(
                    seconds_of("from ampclient import Client; Client('http://127.0.0.1:1', 'x')"), 3
                ),
                "starts": starts,
                "jobs": len(first_steps),
            }
        )
    )


if __name__ == "__main__":
    main()
