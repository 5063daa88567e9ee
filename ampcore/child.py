"""The trainer process: forked with TensorFlow imported, trains one job, tells it in frames.

`python -m ampcore.child --requests-fd N` is the process that trainers are forked from
(`ampcore.fork_server`). It imports what a job may need, and neither calls TensorFlow nor looks
for a device (docs/adr/0029).

A trainer writes frames (`ampcore.series.frames`) to the descriptor that it was given: READY;
then, once a line of JSON with the job has come in on standard input, RUNNING, STEPS and EVENT,
and last SUCCEEDED, FAILED or STOPPED. With `resume` the job goes on from the newest checkpoint in
its output folder. Told by SIGTERM, it saves one and says STOPPED. Standard output and error are a
log for people. The process never outlives its supervisor: the end of standard input ends it.
"""

import argparse
import gc
import json
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, Final

from ampcore import __version__, fork_server, surroundings
from ampcore.series import Event, EventType, StepBlock
from ampcore.series.codec import encode
from ampcore.series.frames import Frame, FrameType, write_frame
from ampcore.spec import JobSpec, Reason, SpecInvalid

STDIN: Final = 0
PRELOADED: Final = ("ampcore.train.standby", "encodings.ascii", "encodings.cp437")
"""All that a job imports; the encodings are those of the data that come with us, a zip file."""


def main(arguments: list[str] | None = None, *, also_writable: Sequence[Path] = ()) -> int:
    """Load what trainers need, and fork one for each request; returns the exit code.

    `also_writable` is what a confined trainer may change beside its own folder.
    """
    parser = argparse.ArgumentParser(prog="python -m ampcore.child", description=__doc__)
    parser.add_argument("--requests-fd", type=int, required=True)
    requests = parser.parse_args(arguments).requests_fd
    fork_server.die_with_parent()  # also while it imports
    preload()
    fork_server.serve(requests, _run, also_writable=also_writable)
    return 0


def preload() -> None:
    """Import everything that a job may need, and keep it from the garbage collector.

    Nothing here may begin what a fork does not copy: no TensorFlow operation, no look for
    devices, no thread (docs/adr/0029).
    """
    surroundings.settle()
    for name in PRELOADED:
        import_module(name)
    gc.collect()
    # Hundreds of thousands of objects are here to stay. The collector shall not walk them while
    # a job's graph is traced, nor write into pages that all trainers share.
    gc.freeze()


def _run(frames_fd: int, is_standby: bool) -> int:
    """A trainer's life: stand by, train one job, and return the exit code."""
    with os.fdopen(frames_fd, "wb") as frames:
        write_frame(frames, _stand_by(rehearse=is_standby))
        line = _read_line()
        if line is None:
            return 0
        fork_server.call_this_process(fork_server.TRAINER_NAME)
        stop, done = threading.Event(), threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        threading.Thread(target=_die_with_input, args=[done], daemon=True).start()
        last = _train(line, frames, stop)
        done.set()
        write_frame(frames, last)
    return 1 if last.type is FrameType.FAILED else 0


def _stand_by(*, rehearse: bool) -> Frame:
    """Wake TensorFlow, and say what this process and its machine are."""
    import keras
    import tensorflow as tf

    from ampcore.diagnose import hardware
    from ampcore.train.standby import warm_up

    described = hardware.describe()
    if rehearse:
        warm_up()
    versions = {
        "ampcore": __version__,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
    }
    return Frame(FrameType.READY, {"hardware": described, "versions": versions})


def _train(line: bytes, frames: BinaryIO, stop: threading.Event) -> Frame:
    """Train the job in a line of JSON and return the frame that ends it."""
    from ampcore.errors import TrainingError
    from ampcore.train import Trainer

    teller = _Teller(frames)
    try:
        job = json.loads(line)
        trainer = Trainer(
            JobSpec.parse(job["spec"]),
            job["data_root"],
            job["output_dir"],
            resume=job.get("resume", False),
        )
        teller.scale_health = lambda: trainer.scale_health
        result = trainer.run(teller.block, teller.event, stop.is_set)
    except BrokenPipeError:
        os._exit(1)  # nobody listens any more
    except SpecInvalid as error:
        return _failed(Reason.INVALID_SPEC, " ".join(map(str, error.problems)))
    except TrainingError as error:
        traceback.print_exc()
        return _failed(error.reason, str(error))
    except Exception as error:
        traceback.print_exc()
        cause = (str(error).strip().splitlines() or ["no details"])[0]
        message = f"The trainer failed with {type(error).__name__}: {cause}"
        return _failed(Reason.INTERNAL_ERROR, message)
    if result.stopped:
        return Frame(FrameType.STOPPED)
    return Frame(FrameType.SUCCEEDED, {"summary": result.to_json()})


def _failed(reason: Reason, message: str) -> Frame:
    return Frame(FrameType.FAILED, {"reason": reason, "message": message})


class _Teller:
    """Writes what the trainer tells as frames."""

    def __init__(self, frames: BinaryIO) -> None:
        self._frames = frames
        self.scale_health: Callable[[], str | None] = lambda: None

    def block(self, block: StepBlock) -> None:
        names = ("loss", "loss_scale", "grad_norm", "learning_rate")
        last = {name: float(block[name][-1]) for name in names}
        header = {
            "first_step": block.first_step,
            "count": len(block),
            "facts": asdict(block.facts),
            "last": {**last, "examples_per_s": block.examples_per_s},
            "scale_health": self.scale_health(),
        }
        write_frame(self._frames, Frame(FrameType.STEPS, header, encode(block)))

    def event(self, event: Event) -> None:
        if event.type is EventType.STARTED:
            write_frame(self._frames, Frame(FrameType.RUNNING, event.data))
        header = {"event": event.type, "step": event.step, "data": event.data}
        write_frame(self._frames, Frame(FrameType.EVENT, header))


def _read_line() -> bytes | None:
    """One line from standard input; None when it ends before the line does."""
    # Unbuffered: the thread that waits for the end of the input reads the rest.
    line = b""
    while b"\n" not in line:
        piece = os.read(STDIN, 65_536)
        if not piece:
            return None
        line += piece
    return line.partition(b"\n")[0]


def _die_with_input(done: threading.Event) -> None:
    """End this process when its supervisor closes its input, unless it is ending anyway."""
    while os.read(STDIN, 65_536):
        pass
    if not done.is_set():
        os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
