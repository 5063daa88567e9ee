"""A trainer process that says what its script names, without TensorFlow: for the rare endings."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

from ampcore.series import StepBlock
from ampcore.series.codec import encode
from ampcore.series.frames import Frame, FrameType, write_frame

LAST = {
    "loss": float("nan"),
    "loss_scale": 1.0,
    "grad_norm": 1.0,
    "learning_rate": 0.1,
    "examples_per_s": 9.0,
}


def steps(first_step: int, count: int) -> Frame:
    block = StepBlock(first_step, {"loss": [0.5] * count, "skipped": [True] * count})
    header = {"first_step": first_step, "count": count, "skipped": count, "last": LAST}
    return Frame(FrameType.STEPS, header, encode(block))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("--frames-fd", type=int, required=True)
    arguments = parser.parse_args()
    frames = os.fdopen(arguments.frames_fd, "wb")
    write_frame(frames, Frame(FrameType.READY, {"hardware": {"device": "script"}}))
    line = sys.stdin.readline()
    if not line:
        return
    assert json.loads(line)["attempt"] >= 1
    write_frame(frames, Frame(FrameType.RUNNING, {"total_steps": 30}))
    write_frame(frames, steps(0, 10))
    match arguments.script:
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
            print("deaf", flush=True)
            time.sleep(120)
        case "obedient":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
            time.sleep(120)
        case "endless":
            first_step = 10
            while True:
                write_frame(frames, steps(first_step, 10))
                first_step += 10
                time.sleep(0.01)
        case "crash":
            print("the last words", flush=True)
            sys.exit(3)
        case "garbage":
            frames.write(b"\xff" * 64)
            frames.flush()
            time.sleep(120)
        case "good":
            write_frame(frames, steps(10, 20))
            write_frame(frames, Frame(FrameType.SUCCEEDED, {"summary": {"steps": 30}}))


if __name__ == "__main__":
    main()
