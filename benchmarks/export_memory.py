"""Memory and speed of the API while it exports a long job: one JSON line.

All columns of all steps in each format over HTTP, from a fresh server process, on SQLite and on
PostgreSQL. The peak is the largest of many samples; reported with it are the process's peak
resident size (VmHWM) and its size before the export.
"""

import argparse
import http.client
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from compare import report
from under_load.service_processes import DATABASES, Api, api, service_environment
from under_load.telemetry import create_finished_job

FORMS = ("csv", "ndjson", "arrow", "parquet", "tensorboard")
SAMPLE_S = 0.02
READ_BYTES = 1 << 18
MB = 2**20


@contextmanager
def watching(pid: int) -> Iterator[list[int]]:
    """The resident memory of a process, in bytes, from now to the end of the block."""
    process, over = psutil.Process(pid), threading.Event()
    sampled = [process.memory_info().rss]

    def watch() -> None:
        while not over.wait(SAMPLE_S):
            sampled.append(process.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield sampled
    finally:
        over.set()
        thread.join()


def high_water_mb(pid: int) -> float:
    """The peak resident memory of a process."""
    [line] = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) / 1024


def exported(server: Api, job_id: str, form: str) -> tuple[int, int, float]:
    """The bytes of the file, the lines in it, and the seconds until the last of them."""
    headers = {"Authorization": f"Bearer {server.token}"}
    address = urlsplit(server.url).netloc
    size_bytes = lines = 0
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        begin = time.perf_counter()
        connection.request("GET", f"/api/v1/jobs/{job_id}/steps?format={form}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        while piece := answer.read(READ_BYTES):
            size_bytes += len(piece)
            lines += piece.count(b"\n")
        return size_bytes, lines, time.perf_counter() - begin


def measure(server: Api, job_id: str, form: str, steps: int) -> dict[str, float]:
    """One export."""
    with watching(server.pid) as resident:
        size_bytes, lines, seconds = exported(server, job_id, form)
    if form in ("csv", "ndjson"):
        assert lines == steps + (form == "csv"), lines
    return {
        "peak_mb": round(max(resident) / MB, 1),
        "high_water_mb": round(high_water_mb(server.pid), 1),
        "median_mb": round(statistics.median(resident) / MB, 1),
        "before_mb": round(resident[0] / MB, 1),
        "file_mb": round(size_bytes / MB, 1),
        "mb_per_s": round(size_bytes / MB / seconds, 1),
        "steps_per_s": round(steps / seconds),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000_000)
    steps = parser.parse_args().steps
    found: dict[str, dict[str, dict[str, float]]] = {}
    for kind in DATABASES:
        with service_environment(kind) as service:
            job_id, found[kind] = create_finished_job(service.database, steps), {}
            for form in FORMS:
                with api(service) as server:
                    found[kind][form] = measure(server, job_id, form, steps)
    worst = max(each["high_water_mb"] for of in found.values() for each in of.values())
    report("export_memory", goal_peak_mb=300, worst_mb=worst, steps=steps, **found)


if __name__ == "__main__":
    main()
