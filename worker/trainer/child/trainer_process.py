"""The trainer process: forked with TensorFlow imported, it trains one job and writes frames.

`python -m worker.trainer.child.trainer_process --requests-fd N` is the process that trainers are
forked from (`worker.trainer.child.fork_server`). It imports what a job may need, but neither calls
TensorFlow nor looks for a device (docs/adr/0029). With `--frames-fd N` it is one trainer, in a
sandbox (`infra.isolation.sandboxed_trainer`).

A trainer writes frames (`ampspec.telemetry.frames`) to its descriptor: READY; then, after it has
read a line of JSON with the job from standard input, RUNNING, ACTIVITY, STEPS and EVENT, and
finally SUCCEEDED, FAILED or STOPPED. With `resume` the job resumes from the newest checkpoint in
its output folder. With `cluster` it is one rank of a job: ranks other than 0 write no blocks and no
events; with `own_ranks`, `[number, count]` among the ranks on this machine, it uses its share of
the cores. Later lines are requests: `{"profile": {"steps": 10}}` profiles the next steps. On
SIGTERM it saves a checkpoint and writes STOPPED. Standard output and error are a log for people.
The process never outlives its supervisor: it exits when standard input ends.
"""

import argparse
import gc
import json
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, Final

from ampcore import environment, plugins
from ampcore.distributed import Cluster
from ampcore.distributed.cores import use_own_cores
from ampspec import __version__
from ampspec.data.stored_split import with_split_seed
from ampspec.jobs import JobSpec, Reason, SpecValidationError
from ampspec.telemetry import Event, EventType, StepBlock
from ampspec.telemetry.activities import Activity
from ampspec.telemetry.frames import Frame, FrameType, write_frame
from ampspec.telemetry.process_usage import ProcessUsage
from ampspec.telemetry.steps.steps_frame import steps_frame
from infra.parent_death import die_with_parent
from worker.trainer.child import fork_server
from worker.trainer.child.step_times import StepTimes
from worker.trainer.child.usage_columns import UsageColumns

STDIN: Final = 0
PRELOADED_MODULES: Final = (
    "ampcore.training.warmup",
    "encodings.ascii",
    "encodings.cp437",
    "encodings.idna",
    "psutil",
)
"""Everything that a job imports; the encodings are used to read the digits' zip file, and to
connect to other ranks."""


def main(arguments: list[str] | None = None, *, extra_writable: Sequence[Path] = ()) -> int:
    """Load what trainers need, and fork one for each request; returns the exit code.

    `extra_writable` are the paths that a confined trainer may write besides its own folder.
    """
    parser = argparse.ArgumentParser(
        prog="python -m worker.trainer.child.trainer_process", description=__doc__
    )
    descriptor = parser.add_mutually_exclusive_group(required=True)
    descriptor.add_argument("--requests-fd", type=int)
    descriptor.add_argument("--frames-fd", type=int)
    options = parser.parse_args(arguments)
    die_with_parent()  # also while it imports
    preload()
    if options.frames_fd is not None:
        fork_server.run_alone(options.frames_fd, _run)
    fork_server.serve(options.requests_fd, _run, extra_writable=extra_writable)
    return 0


def preload() -> None:
    """Import everything that a job may need, and keep it from the garbage collector.

    It must not start anything that a fork does not copy: no TensorFlow operation, no search for
    devices, no thread (docs/adr/0029).
    """
    gc.disable()  # nearly all objects that imports create stay: looking for others takes a sixth
    environment.configure()
    for name in PRELOADED_MODULES:
        import_module(name)
    # Also for the files that a confined trainer may read: a package may lie anywhere.
    plugins.load_all()
    gc.collect()
    # Hundreds of thousands of objects stay forever. The collector must not traverse them while a
    # job's graph is traced, nor write into memory pages that all trainers share.
    gc.freeze()
    gc.enable()


def _run(frames_fd: int, is_standby: bool) -> int:
    """Run a trainer: warm up, wait for a job, train it, and return the exit code."""
    with os.fdopen(frames_fd, "wb") as frames:
        write_frame(frames, _describe_process(train_warmup_job=is_standby))
        supervisor = _Input()
        line = supervisor.read_line()
        if line is None:
            return 0
        fork_server.set_process_name(fork_server.TRAINER_NAME)
        stop, done = threading.Event(), threading.Event()
        messages: SimpleQueue[Any] = SimpleQueue()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        reading = [supervisor, done, messages]
        threading.Thread(target=_read_messages, args=reading, daemon=True).start()
        last = _train(line, frames, stop, messages)
        done.set()
        write_frame(frames, last)
    return 1 if last.type is FrameType.FAILED else 0


def _describe_process(*, train_warmup_job: bool) -> Frame:
    """Start TensorFlow, and describe the machine and the versions of the libraries."""
    import keras
    import tensorflow as tf

    from ampcore.diagnostics import hardware
    from ampcore.training.warmup import warm_up

    described = hardware.describe()
    if train_warmup_job:
        warm_up()
    versions = {
        "ampcore": __version__,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
    }
    return Frame(FrameType.READY, {"hardware": described, "versions": versions})


def _train(
    line: bytes, frames: BinaryIO, stop: threading.Event, messages: SimpleQueue[Any]
) -> Frame:
    """Train the job in a line of JSON and return the frame that ends it."""
    from ampcore.allocation_errors import out_of_memory
    from ampcore.training import Trainer
    from ampcore.training.explain.explain_job import run_explain_job
    from ampspec.errors import TrainingError

    try:
        job = json.loads(line)
        cluster = Cluster.from_json(job["cluster"]) if job.get("cluster") else None
        if (own_ranks := job.get("own_ranks")) is not None:
            use_own_cores(*own_ranks)
        frame_writer = _FrameWriter(frames, rank=cluster.rank if cluster else 0)
        if job.get("explain") is not None:
            return run_explain_job(job, frame_writer, stop)
        trainer = Trainer(
            JobSpec.parse(with_split_seed(job["spec"])),
            job["data_root"],
            job["output_dir"],
            resume=job.get("resume", False),
            datasets=job.get("datasets"),
            bundle=job.get("bundle"),
            init=job.get("init"),
            cluster=cluster,
        )
        frame_writer.scale_health = lambda: trainer.scale_health
        usage = UsageColumns(ProcessUsage(trainer.spec.telemetry.usage_every_s))

        def should_stop() -> bool:
            while not messages.empty():
                trainer.request_profile(messages.get()["profile"]["steps"])
            return stop.is_set()

        times = StepTimes(lambda: trainer.input_s)

        def on_block(block: StepBlock) -> None:
            times.add(block)
            with times.telemetry():
                frame_writer.block(usage.add_to(block))
            if (event := times.event_if_due()) is not None:
                frame_writer.event(event)

        def on_activity(activity: Activity) -> None:
            times.enter(activity)
            frame_writer.activity(activity)

        result = trainer.run(on_block, frame_writer.event, should_stop, on_activity)
        if (event := times.last_event()) is not None:
            frame_writer.event(event)
    except SpecValidationError as error:
        return _failed(Reason.INVALID_SPEC, " ".join(map(str, error.problems)))
    except TrainingError as error:
        traceback.print_exc()
        return _failed(error.reason, str(error))
    except Exception as error:
        traceback.print_exc()
        if (full := out_of_memory(error)) is not None:
            return _failed(full.reason, str(full))
        cause = (str(error).strip().splitlines() or ["no details"])[0]
        message = f"The trainer failed with {type(error).__name__}: {cause}"
        return _failed(Reason.INTERNAL_ERROR, message)
    if result.stopped:
        return Frame(FrameType.STOPPED)
    return Frame(FrameType.SUCCEEDED, {"summary": result.to_json()})


def _failed(reason: Reason, message: str) -> Frame:
    return Frame(FrameType.FAILED, {"reason": reason, "message": message})


class _FrameWriter:
    """Writes the blocks and events of a run as frames."""

    def __init__(self, frames: BinaryIO, *, rank: int = 0) -> None:
        self._frames, self._rank = frames, rank
        self.scale_health: Callable[[], str | None] = lambda: None

    def block(self, block: StepBlock) -> None:
        """Write a block of steps."""
        self._write(steps_frame(block, self.scale_health()))

    def event(self, event: Event) -> None:
        """Write an event."""
        if event.type is EventType.STARTED:
            self._write(Frame(FrameType.RUNNING, event.data))
        if self._rank > 0:  # rank 0 reports what happens in the job
            return
        header = {"event": event.type, "step": event.step, "data": event.data}
        self._write(Frame(FrameType.EVENT, header))

    def activity(self, activity: Activity) -> None:
        """Write what the run does from now on."""
        if self._rank == 0:
            self._write(Frame(FrameType.ACTIVITY, {"activity": activity}))

    def _write(self, frame: Frame) -> None:
        """Write a frame; exit if the supervisor is gone.

        A broken pipe in the user's code is an error of the job like any other.
        """
        try:
            write_frame(self._frames, frame)
        except BrokenPipeError:
            os._exit(1)


class _Input:
    """Standard input by lines, unbuffered, so that nothing of it is read before it is needed."""

    def __init__(self) -> None:
        self._unread_bytes = b""

    def read_line(self) -> bytes | None:
        """The next line; None when the input ends before the line does."""
        while b"\n" not in self._unread_bytes:
            piece = os.read(STDIN, 65_536)
            if not piece:
                return None
            self._unread_bytes += piece
        line, _, self._unread_bytes = self._unread_bytes.partition(b"\n")
        return line


def _read_messages(supervisor: _Input, done: threading.Event, messages: SimpleQueue[Any]) -> None:
    """Read a line of JSON for each request of the supervisor.

    Exits when the supervisor closes standard input, unless the job is done.
    """
    while (line := supervisor.read_line()) is not None:
        messages.put(json.loads(line))
    if not done.is_set():
        os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
