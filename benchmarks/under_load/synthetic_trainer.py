"""A synthetic trainer: writes 500 steps per second until it is stopped, and trains nothing."""

import argparse
import os
import signal
import sys
import time

from ampspec.telemetry import StepBlock
from ampspec.telemetry.frames import Frame, FrameType, write_frame
from ampspec.telemetry.steps.steps_frame import steps_frame
from worker.trainer.child import fork_server

COUNT = 250
EVERY_S = 0.5
VALUES = {
    "loss": 0.5,
    "loss_scale": 32768.0,
    "skipped": False,
    "grad_norm": 1.0,
    "learning_rate": 0.001,
    "step_time_s": EVERY_S / COUNT,
    "examples": 64,
}


def steps(first_step: int) -> Frame:
    """A block of steps as a trainer's frame."""
    return steps_frame(
        StepBlock(first_step, {name: [value] * COUNT for name, value in VALUES.items()})
    )


def run(frames_fd: int, _is_standby: bool) -> int:
    """Report ready, read the job, and write blocks."""
    frames = os.fdopen(frames_fd, "wb")
    write_frame(frames, Frame(FrameType.READY, {"hardware": {"device": "none"}}))
    if not sys.stdin.readline():
        return 0
    fork_server.set_process_name(fork_server.TRAINER_NAME)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    write_frame(frames, Frame(FrameType.RUNNING, {"total_steps": 10**7, "first_step": 0}))
    begin = time.monotonic()
    for number in range(10**7 // COUNT):
        write_frame(frames, steps(number * COUNT))
        time.sleep(max(begin + (number + 1) * EVERY_S - time.monotonic(), 0))
    return 0


def main() -> None:
    """Serve as the fork server of a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests-fd", type=int, required=True)
    fork_server.serve(parser.parse_args().requests_fd, run)


if __name__ == "__main__":
    main()
