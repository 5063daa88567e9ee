"""Speed and memory of the API while it receives a dataset over loopback: one JSON line.

A file of random bytes is sent with one PUT, and with the SDK's resumable upload, each to a fresh
server process, on SQLite and on PostgreSQL. The time of receiving ends with the last byte that the
server has taken; the whole time ends with the response, when the file is stored, hashed and
described. Reported with them is the CPU time of the server, and what the disk and the hashing of
such a file alone take.
"""

import argparse
import hashlib
import http.client
import os
import tempfile
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from compare import report
from export_memory import MB, high_water_mb, watching
from under_load.service_processes import DATABASES, Api, api, service_environment

from ampclient import Client

PIECE_BYTES = 1 << 20


def put(server: Api, file: Path) -> tuple[float, float]:
    """Send the file with one PUT; the seconds until its last byte, and until the response."""
    headers = {
        "Authorization": f"Bearer {server.token}",
        "Content-Length": str(file.stat().st_size),
    }
    with closing(http.client.HTTPConnection(urlsplit(server.url).netloc)) as connection:
        begin = time.perf_counter()
        connection.putrequest("PUT", "/api/v1/datasets/put?file=random.bin")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        with file.open("rb") as content:
            assert connection.sock is not None
            connection.sock.sendfile(content)  # the client itself takes hardly any time
        received = time.perf_counter() - begin
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
        answer.read()
        return received, time.perf_counter() - begin


def sdk(server: Api, file: Path) -> tuple[float, float]:
    """The same with `client.datasets.upload`, without the client's own hashing."""
    begin = 0.0
    sent = 0.0

    def progress(name: str, sent_bytes: int, all_bytes: int | None) -> None:
        nonlocal begin, sent
        begin = begin or time.perf_counter()
        if sent_bytes == all_bytes and not sent:
            sent = time.perf_counter() - begin

    with Client(server.url, server.token) as client:
        client.datasets.upload(file, name="sdk", on_progress=progress)
    return sent, time.perf_counter() - begin


def measure(server: Api, file: Path, upload: str) -> dict[str, float]:
    """One upload."""
    size_mb = file.stat().st_size / 1e6
    process = psutil.Process(server.pid)
    before = process.cpu_times()
    with watching(server.pid) as resident:
        received, whole = (put if upload == "put" else sdk)(server, file)
    used = process.cpu_times()
    cpu_s = used.user + used.system - before.user - before.system
    return {
        "cpu_s_per_gb": round(cpu_s / size_mb * 1000, 2),
        "received_mb_per_s": round(size_mb / received, 1),
        "mb_per_s": round(size_mb / whole, 1),
        "before_mb": round(resident[0] / MB, 1),
        "high_water_mb": round(high_water_mb(server.pid), 1),
    }


def write_file(folder: Path, size_bytes: int) -> tuple[Path, float, float]:
    """A file, and how many MB per second the disk writes and one core hashes."""
    file, piece = folder / "random.bin", os.urandom(PIECE_BYTES)
    begin = time.perf_counter()
    with file.open("wb") as target:
        for _ in range(size_bytes // PIECE_BYTES):
            target.write(piece)
        target.flush()
        os.fsync(target.fileno())
    written = time.perf_counter()
    with file.open("rb") as content:
        hashlib.file_digest(content, "sha256")
    hashed = time.perf_counter()
    size_mb = file.stat().st_size / 1e6
    return file, size_mb / (written - begin), size_mb / (hashed - written)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size-bytes", type=int, default=10**9)
    size_bytes = parser.parse_args().size_bytes
    found: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file, disk, sha256 = write_file(Path(folder), size_bytes)
        for kind in DATABASES:
            found[kind] = {}
            for upload in ("put", "sdk"):
                with service_environment(kind) as service, api(service) as server:
                    found[kind][upload] = measure(server, file, upload)
    slowest = min(each["mb_per_s"] for of in found.values() for each in of.values())
    report(
        "dataset_upload",
        goal_mb_per_s=200,
        slowest_mb_per_s=slowest,
        size_mb=round(size_bytes / 1e6),
        disk_mb_per_s=round(disk),
        sha256_mb_per_s=round(sha256),
        **found,
    )


if __name__ == "__main__":
    main()
