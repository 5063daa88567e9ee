"""Trains jobs in processes that are forked from this one, which has TensorFlow imported already.

A forked process makes one attempt after another until it is killed, as it starts the runtime of
TensorFlow only once. Each attempt that resumes begins in a new process, since the attempt before it
was killed.

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
import pytest

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


def prepare(request, patch):
    """Replace what the request asks for, until the end of the attempt."""
    if request["sizes"] is not None:
        sizes = functools.partial(RandomBlockSize, request["sizes"])
        patch.setattr(ampcore.train.session, "AdaptiveBlockSize", sizes)
    if request["windows"] is not None:
        patch.setattr(ampcore.train.run_setup, "RESIDENT_SHARE", 0)
        streamed = functools.partial(feed.StreamedFeed, window_bytes=request["windows"])
        patch.setattr(feed, "StreamedFeed", streamed)
    if not request["explain"]:
        patch.setattr(RunDiagnostics, "explains_next_skip", False)


def die_after_checkpoint(after, patch):
    """Die as soon as a checkpoint after this step is on the disk, before its event is written."""

    def save(folder, checkpoint):
        file = saved(folder, checkpoint)
        if checkpoint.manifest.step >= after:
            os.kill(os.getpid(), signal.SIGKILL)
        return file

    saved = ampcore.checkpoint.save
    patch.setattr(ampcore.checkpoint, "save", save)


def attempt(request, patch):
    prepare(request, patch)
    what, when = request["die"] or (None, None)
    if what == "checkpoint":
        die_after_checkpoint(when, patch)
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


def make_attempts(requests, answers):
    """Make the attempts until one of them kills this process."""
    for line in requests:
        code = 1
        try:
            with pytest.MonkeyPatch.context() as patch:
                attempt(json.loads(line), patch)
            code = 0
        except BaseException:
            traceback.print_exc()
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(f"{code}\n")
        answers.flush()


class Attempts:
    """The forked process that makes the attempts; `make` starts another one if it was killed."""

    def __init__(self):
        self._child = None

    def make(self, line):
        """The exit code of an attempt."""
        if self._child is None:
            self._start()
        self._requests.write(line)
        self._requests.flush()
        if answer := self._answers.readline():
            return int(answer)
        ended, self._child = os.waitpid(self._child, 0)[1], None
        return os.waitstatus_to_exitcode(ended)

    def _start(self):
        (requests, to_child), (from_child, answers) = os.pipe(), os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(to_child)
            make_attempts(os.fdopen(requests), os.fdopen(answers, "w"))
            os._exit(0)
        os.close(requests)
        os.close(answers)
        self._requests, self._answers = os.fdopen(to_child, "w"), os.fdopen(from_child)


if __name__ == "__main__":
    attempts = Attempts()
    for line in sys.stdin:
        print(attempts.make(line), flush=True)
