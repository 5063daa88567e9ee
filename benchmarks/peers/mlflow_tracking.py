"""MLflow's tracking server and client, for the same requests as the telemetry of steps.

Reads one JSON command per line from stdin and writes one JSON result per line to stdout, until
stdin ends. The server uses SQLite, loopback and the default number of workers; job execution is
disabled. Its uvicorn uses uvloop if that is installed; without it most responses wait 40 ms for a
delayed TCP acknowledgement.

MLflow stores an infinity as the largest float of the same sign, so an infinite gradient norm is
read back as 1.797e308; it keeps NaN. The plots of its user interface read a limited number of
values of a run, one for each equal bucket of its rows, so they contain a skipped step only by
chance.
"""

import argparse
import http.client
import importlib.metadata
import json
import math
import os
import platform
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

HOST = "127.0.0.1"
DATABASE = "mlflow.sqlite"
METRICS_PER_CALL = 1000
START_S = 180.0
STOP_S = 20.0
SETTINGS = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "NO_PROXY": HOST,
    "no_proxy": HOST,
}


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """The port of a ready server; its process group is terminated at the end of the block."""
    port = _free_port()
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{folder / DATABASE}"]
    command += ["--artifacts-destination", str(folder / "artifacts")]
    with (folder / "server.log").open("ab") as output:
        server = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_until_answering(server, port)
        yield port
    finally:
        _end(server)


class Tracking:
    """The commands by their names; `steps` counts the steps that this process has logged."""

    def __init__(self, folder: Path, port: int) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient(f"http://{HOST}:{port}")
        self._database = folder / DATABASE
        self._port = port
        self._runs: dict[str, str] = {}
        self._steps = 0

    def log(
        self,
        *,
        run: str,
        steps: int,
        first_step: int,
        batch: int,
        metrics: list[str],
        skips: list[int],
    ) -> dict[str, Any]:
        """Log steps in calls of `batch` steps, or fewer: a call has at most 1,000 metrics.

        `seconds` is the time within `log_batch`, without the creation of its arguments and without
        the first request. A skipped step has an infinite `grad_norm`, and 1 for `skipped` if
        `metrics` includes that.
        """
        from mlflow.entities import Metric

        run_id, skipped, end = self._run_id(run), set(skips), first_step + steps
        size, seconds = min(batch, METRICS_PER_CALL // len(metrics)), 0.0
        self._client.get_run(run_id)  # a worker's first request takes half a second longer
        for start in range(first_step, end, size):
            now_ms = time.time_ns() // 1_000_000
            values = [
                Metric(name, value(name, step, skipped=step in skipped), now_ms, step)
                for step in range(start, min(start + size, end))
                for name in metrics
            ]
            began = time.perf_counter()
            self._client.log_batch(run_id, metrics=values)
            seconds += time.perf_counter() - began
        self._steps += steps
        return {"seconds": seconds, "steps": steps}

    def read(
        self, *, run: str, metric: str, points: int, start: int, end: int, times: int
    ) -> dict[str, Any]:
        """Send the request of the user interface's plots, on a connection that is already open.

        A time ends with the last byte of the response, before it is parsed.
        """
        query = {
            "run_ids": self._runs[run],
            "metric_key": metric,
            "max_results": points,
            "start_step": start,
            "end_step": end,
        }
        path = f"/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval?{urlencode(query)}"
        taken = []
        with closing(http.client.HTTPConnection(HOST, self._port, START_S)) as connection:
            _get(connection, path)
            for _ in range(times):
                began = time.perf_counter()
                body = _get(connection, path)
                taken.append(1000 * (time.perf_counter() - began))
        found = [one["step"] for one in json.loads(body)["metrics"]]
        return {"ms": taken, "points": len(found), "steps": found}

    def size(self) -> dict[str, Any]:
        """The size of the database's files in bytes, after a checkpoint of the write-ahead log."""
        with closing(sqlite3.connect(self._database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        files = self._database.parent.glob(f"{DATABASE}*")
        return {"bytes": sum(file.stat().st_size for file in files), "steps": self._steps}

    def about(self) -> dict[str, Any]:
        """The versions of MLflow and Python."""
        version = importlib.metadata.version("mlflow")
        return {"mlflow": version, "python": platform.python_version()}

    def _run_id(self, name: str) -> str:
        if name not in self._runs:
            self._runs[name] = self._client.create_run("0", run_name=name).info.run_id
        return self._runs[name]


def value(metric: str, step: int, *, skipped: bool) -> float:
    """A plausible value of a trainer, with all digits of a float."""
    match metric:
        case "loss":
            return 0.1 + 2.2 * math.exp(-step / 5000) + 0.05 * random.random()
        case "loss_scale":
            return 2.0 ** (15 + step // 2000 % 4)
        case "grad_norm":
            return math.inf if skipped else 1 + random.random()
        case "skipped":
            return float(skipped)
        case _:
            return 0.01 + 0.001 * random.random()


def _get(connection: http.client.HTTPConnection, path: str) -> bytes:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {body[:300]!r}")
    return body


def _wait_until_answering(server: "subprocess.Popen[bytes]", port: int) -> None:
    deadline_s = time.monotonic() + START_S
    while True:
        if server.poll() is not None:
            raise RuntimeError(f"{server.args} ended with {server.returncode}")
        with suppress(OSError), closing(http.client.HTTPConnection(HOST, port, 5)) as connection:
            _get(connection, "/health")
            return
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"no answer after {START_S} s")
        time.sleep(0.1)


def _end(server: "subprocess.Popen[bytes]") -> None:
    """Terminate the process group, and kill the processes that remain."""
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        server.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def main() -> None:
    """Start the server, and execute commands until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for the server's files")
    folder = parser.parse_args().folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    # The output of MLflow must not be taken for a result; its settings come only from SETTINGS.
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        del os.environ[name]
    os.environ.update(SETTINGS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with serving(folder) as port:
        tracking = Tracking(folder, port)
        commands = {name: getattr(tracking, name) for name in ("log", "read", "size", "about")}
        for line in sys.stdin:
            command = json.loads(line)
            answer = commands[command.pop("do")](**command)
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
