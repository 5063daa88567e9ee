"""Saves checkpoints in child processes, kills each at another moment, and prints what is left.

`killed_child.py FOLDER lines` kills the n-th child before it runs the n-th line that accesses the
disk; `… anywhere` kills children at any line after some checkpoints; `… full` kills no child and
saves until the disk is full and several saves have failed. Prints a line of JSON for each child or
failure: the step of the last save that is known to have returned, the step of the newest readable
checkpoint, and the numbers of checkpoints and unfinished files.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

from ampcore.checkpoint import Checkpoint, Manifest, newest, prune, save
from ampspec.errors import CheckpointFailed

PACKAGE = Path(save.__code__.co_filename).parent
DISK_MODULES = {str(PACKAGE / name) for name in ("folder.py", "writer.py")}
ARRAYS = {"a": np.zeros(3), "b": np.ones((2, 2), np.float32)}
MIDDLE = {"a": np.zeros(3_000)}
LARGE = {"a": np.zeros(2**18)}


def checkpoint(step, arrays):
    facts = {"spec": {}, "policy": "float32", "loss_scales": {}, "engine": "graph"}
    return Checkpoint(Manifest(step=step, device="cpu", versions={}, **facts), arrays)


def kill_before_line(number):
    """Kill this process before it runs the line of this number among those that access the disk."""

    def on_event(frame, event, _):
        nonlocal number
        if frame.f_code.co_filename not in DISK_MODULES:
            return None
        number -= event == "line"
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return on_event

    sys.settrace(on_event)


def report(folder, confirmed, **more):
    """Print what is left; raises if there is no readable checkpoint."""
    names = [file.name for file in folder.iterdir()]
    left = {
        "confirmed": confirmed,
        "newest": newest(folder).checkpoint.manifest.step,
        "files": sum(name.startswith("checkpoint-") for name in names),
        "unfinished": sum(name.endswith(".unfinished") for name in names),
    }
    print(json.dumps(left | more))


def lines(folder):
    finished = False
    confirmed = step = 1
    while not finished:
        step += 1
        child = os.fork()
        if child == 0:
            kill_before_line(step)
            save(folder, checkpoint(step, ARRAYS))
            prune(folder)
            os._exit(0)
        finished = os.waitpid(child, 0)[1] == 0
        confirmed = step if finished else confirmed
        report(folder, confirmed)
        prune(
            folder
        )  # otherwise there are ever more files, and every child is killed while it prunes


def anywhere(folder, children=12):
    step = 1
    for count in range(children):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            while True:
                step += 1
                save(folder, checkpoint(step, LARGE))
                os.write(writer, step.to_bytes(8, "little"))
                prune(folder)
        os.close(writer)
        for _ in range(1 + count % 3):
            step = int.from_bytes(os.read(reader, 8), "little")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        report(folder, step)
        step = newest(folder).checkpoint.manifest.step


def full(folder, failures=4):
    step = 1
    while failures:
        try:
            save(folder, checkpoint(step + 1, MIDDLE))
            step += 1
        except CheckpointFailed as error:
            failures -= 1
            report(folder, step, error=str(error))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    save(folder, checkpoint(1, ARRAYS))
    {"lines": lines, "anywhere": anywhere, "full": full}[sys.argv[2]](folder)
