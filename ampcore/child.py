"""The trainer process: stands by with TensorFlow loaded, trains one job, tells it in frames.

`python -m ampcore.child --frames-fd N` writes frames (`ampcore.series.frames`) to the inherited
descriptor N: READY; then, once a line of JSON with the job has come in on standard input,
RUNNING, STEPS and EVENT, and last SUCCEEDED, FAILED or STOPPED. With `resume` the job goes on
from the newest checkpoint in its output folder. Told by SIGTERM, it saves one and says STOPPED.
Standard output and error are a log for people. The process never outlives its supervisor: the
end of standard input ends it.
"""

import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import BinaryIO, Final

from ampcore import __version__, surroundings
from ampcore.series import Event, EventType, StepBlock
from ampcore.series.codec import encode
from ampcore.series.frames import Frame, FrameType, write_frame
from ampcore.spec import JobSpec, Reason, SpecInvalid

STDIN: Final = 0
PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def main(arguments: list[str] | None = None) -> int:
    """Stand by, train one job, and return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m ampcore.child", description=__doc__)
    parser.add_argument("--frames-fd", type=int, required=True)
    descriptor = parser.parse_args(arguments).frames_fd
    _die_with_parent()
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "wb") as frames:
        write_frame(frames, _stand_by())
        line = _read_line()
        if line is None:
            return 0
        stop, done = threading.Event(), threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        threading.Thread(target=_die_with_input, args=[done], daemon=True).start()
        last = _train(line, frames, stop)
        done.set()
        write_frame(frames, last)
    return 1 if last.type is FrameType.FAILED else 0


def _stand_by() -> Frame:
    """Load everything that a job needs, and say what this process and its machine are."""
    surroundings.settle()
    import keras
    import tensorflow as tf

    from ampcore.diagnose import hardware
    from ampcore.train.standby import warm_up

    warm_up()
    versions = {
        "ampcore": __version__,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
    }
    return Frame(FrameType.READY, {"hardware": hardware.describe(), "versions": versions})


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


def _die_with_parent() -> None:
    """Ask Linux to kill this process when the thread that started it is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _die_with_input(done: threading.Event) -> None:
    """End this process when its supervisor closes its input, unless it is ending anyway."""
    while os.read(STDIN, 65_536):
        pass
    if not done.is_set():
        os._exit(1)


if __name__ == "__main__":
    raise SystemExit(main())
