"""Trains jobs in processes that are forked from this one, which has TensorFlow imported already.

Each line of JSON on standard input is an attempt at a job:
    spec, output: the job and its folder, in which it resumes what an earlier attempt left
    log: the file that the attempt appends its frames to, as a trainer process writes them
    sizes: the seed of the lengths of its blocks; null: the usual lengths
    windows: stream the data in windows of this size in bytes; null: keep it on the device
    explain: whether it explains skipped steps, which takes longer than these trainings
    die: when to kill itself: ["block", step]: as soon as it has written a block that ends there
        or later; ["checkpoint", step]: as soon as such a checkpoint is on the disk; ["clock",
        seconds]: at that time; null: not at all
The answer is a line with the exit code of the attempt, negative for a signal.
"""

import functools
import json
import os
import random
import signal
import sys
import traceback

import keras  # noqa: F401 - imported once, for all attempts

import ampcore.checkpoint
import ampcore.train.session
import ampcore.train.trainer
from ampcore.spec import JobSpec
from ampcore.telemetry.codec import encode
from ampcore.telemetry.frames import Frame, FrameType, write_frame
from ampcore.train import Trainer, feed
from ampcore.train.run_diagnostics import RunDiagnostics


class RandomBlockSize:
    """Blocks of a few steps, in place of blocks that take half a second."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def next_size(self, remaining):
        return min(self._random.randint(1, 6), remaining)

    def observe(self, steps, seconds):
        pass


def prepare(request):
    if request["sizes"] is not None:
        ampcore.train.session.AdaptiveBlockSize = functools.partial(
            RandomBlockSize, request["sizes"]
        )
    if request["windows"] is not None:
        ampcore.train.run_setup.RESIDENT_SHARE = 0
        streamed = functools.partial(feed.StreamedFeed, window_bytes=request["windows"])
        feed.StreamedFeed = streamed
    if not request["explain"]:
        RunDiagnostics.explains_next_skip = False


def die_after_checkpoint(after):
    """Die as soon as a checkpoint after this step is on the disk, before its event is written."""

    def save(folder, checkpoint):
        file = saved(folder, checkpoint)
        if checkpoint.manifest.step >= after:
            os.kill(os.getpid(), signal.SIGKILL)
        return file

    saved, ampcore.checkpoint.save = ampcore.checkpoint.save, save


def attempt(request):
    prepare(request)
    what, when = request["die"] or (None, None)
    if what == "checkpoint":
        die_after_checkpoint(when)
    elif what == "clock":
        signal.setitimer(signal.ITIMER_REAL, when)  # nothing handles SIGALRM, so it kills

    with open(request["log"], "ab") as log:

        def on_block(block):
            write_frame(log, Frame(FrameType.STEPS, {}, encode(block)))
            if what == "block" and block.end_step >= when:
                os.kill(os.getpid(), signal.SIGKILL)

        def on_event(event):
            facts = {"event": event.type, "step": event.step, "data": event.data}
            write_frame(log, Frame(FrameType.EVENT, facts))

        trainer = Trainer(JobSpec.parse(request["spec"]), output_dir=request["output"], resume=True)
        result = trainer.run(on_block, on_event)
        write_frame(log, Frame(FrameType.SUCCEEDED, {"summary": result.to_json()}))


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                attempt(json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
