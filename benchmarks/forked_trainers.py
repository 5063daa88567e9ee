"""500 trainers forked from one server train one job to the same weights: one JSON line.

Also how long each took from the request to its first block, and the memory that it did not share.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from ampspec.telemetry.frames import FrameType
from infra.isolation.process_group_tracker import ProcessGroupTracker
from worker.trainer.fork_server import ForkServer
from worker.trainer.trainer_process import PROGRAM, TrainerProcess

FORKS = 500
DEADLINE_S = 300.0
SPEC: dict[str, Any] = {
    "model": {"kind": "mlp"},
    "data": {"kind": "digits"},
    "precision": {"policy": "mixed_float16"},
    "train": {"steps": 20},
    "runtime": {"engine": "graph"},
}


def trained(
    server: ForkServer, tracker: ProcessGroupTracker, folder: str
) -> tuple[str, float, int]:
    """The digest of the weights, the seconds to the first block, and the memory of its own."""
    begin, deadline = time.perf_counter(), time.monotonic() + DEADLINE_S
    process = TrainerProcess(server, tracker)
    process.assign({"spec": SPEC, "data_root": None, "output_dir": folder})
    first_s, own_bytes, digest = 0.0, 0, ""
    while process.has_more_frames:
        assert time.monotonic() < deadline, "the trainer does not end"
        for frame in process.read_frames(timeout_s=1.0):
            if frame.type is FrameType.STEPS and not first_s:
                first_s = time.perf_counter() - begin
                own_bytes = psutil.Process(process.pid).memory_full_info().uss
            if frame.type is FrameType.SUCCEEDED:
                digest = frame.header["summary"]["weights_digest"]
    process.end(grace_s=30)
    assert process.exit_code == 0, process.log_capture.last_line()
    return digest, first_s, own_bytes


def main() -> None:
    """Fork, compare, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--forks", type=int, default=FORKS)
    count = parser.parse_args().forks
    tracker = ProcessGroupTracker()
    server = ForkServer(PROGRAM, tracker)
    try:
        with tempfile.TemporaryDirectory(prefix="ampcore-bench-") as folder:
            trained(server, tracker, folder)  # waits until the server has loaded its modules
            runs = [trained(server, tracker, str(Path(folder, str(n)))) for n in range(count)]
    finally:
        server.close()
        tracker.close()
    digests, firsts, own = zip(*runs, strict=True)
    print(
        json.dumps(
            {
                "benchmark": "forked_trainers",
                "forks": count,
                "digests": len(set(digests)),
                "weights_digest": digests[0],
                "request_to_first_block_s": round(statistics.median(firsts), 3),
                "request_to_first_block_worst_s": round(max(firsts), 3),
                "own_memory_mb": round(statistics.median(own) / 2**20, 1),
            }
        )
    )
    assert len(set(digests)) == 1, "the same job came to different weights"


if __name__ == "__main__":
    main()
