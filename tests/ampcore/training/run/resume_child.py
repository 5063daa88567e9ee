"""An attempt at a job, which resumes what an earlier attempt left; as a program, it is killed.

The request for an attempt:
    spec, output: the job and its folder
    log: the file that the attempt appends its frames to, as a trainer process writes them
    sizes: the seed of the lengths of its blocks; null: the usual lengths
    windows: stream the data in windows of this size in bytes; null: keep it on the device
    explain: whether it explains skipped steps, which takes longer than these trainings
    kill: when the program kills itself: ["block", step]: as soon as it has written a block that
        ends there or later; ["checkpoint", step]: as soon as such a checkpoint is on the disk;
        null: not at all
The program's argument is the request.
"""

import functools
import json
import os
import random
import signal
import sys

import keras  # noqa: F401 - before TensorFlow
import pytest

import ampcore.checkpoint
import ampcore.training.step.step_runner
import ampcore.training.trainer
from ampcore.data import feed
from ampcore.training import Trainer
from ampcore.training.run.diagnostics import RunDiagnostics
from ampspec.jobs import JobSpec
from ampspec.telemetry.frames import Frame, FrameType, write_frame
from ampspec.telemetry.steps.steps_frame import steps_frame


class RandomBlockSize:
    """Blocks of a few steps, in place of blocks that take half a second."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def next_size(self, remaining):
        return min(self._random.randint(1, 6), remaining)

    def observe(self, steps, seconds):
        pass


def attempt(request, on_written=lambda what, step: None):
    """Train until the end.

    Args:
        request: The job; see above.
        on_written: Called with "block" or "checkpoint" and its last step when one was written.
    """
    with pytest.MonkeyPatch.context() as patch, open(request["log"], "ab") as log:
        prepare(request, patch)
        save = ampcore.checkpoint.save

        def save_and_call(folder, checkpoint):
            file = save(folder, checkpoint)
            on_written("checkpoint", checkpoint.manifest.step)
            return file

        def on_block(block):
            write_frame(log, steps_frame(block))
            on_written("block", block.end_step)

        def on_event(event):
            facts = {"event": event.type, "step": event.step, "data": event.data}
            write_frame(log, Frame(FrameType.EVENT, facts))

        patch.setattr(ampcore.checkpoint, "save", save_and_call)
        trainer = Trainer(JobSpec.parse(request["spec"]), output_dir=request["output"], resume=True)
        result = trainer.run(on_block, on_event)
        write_frame(log, Frame(FrameType.SUCCEEDED, {"summary": result.to_json()}))


def prepare(request, patch):
    """Replace what the request asks for, until the end of the attempt."""
    if request["sizes"] is not None:
        sizes = functools.partial(RandomBlockSize, request["sizes"])
        patch.setattr(ampcore.training.step.step_runner, "AdaptiveBlockSize", sizes)
    if request["windows"] is not None:
        patch.setattr(ampcore.training.context, "RESIDENT_SHARE", 0)
        streamed = functools.partial(feed.StreamedFeed, window_bytes=request["windows"])
        patch.setattr(feed, "StreamedFeed", streamed)
    if not request["explain"]:
        patch.setattr(RunDiagnostics, "explains_next_skip", False)


def main():
    request = json.loads(sys.argv[1])

    def kill(what, step):
        if (
            request["kill"] is not None
            and what == request["kill"][0]
            and step >= request["kill"][1]
        ):
            os.kill(os.getpid(), signal.SIGKILL)

    attempt(request, kill)


if __name__ == "__main__":
    main()
