"""A trainer process that says what its script names, without TensorFlow: for the rare endings."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from ampcore import fork_server
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
HERE = {"hardware": {"device": "script"}, "versions": {"script": "1"}}
LONG_S = 3600
"""Longer than anybody waits: whoever sleeps for so long is ended before."""


def steps(first_step: int, count: int) -> Frame:
    block = StepBlock(first_step, {"loss": [0.5] * count, "skipped": [True] * count})
    header = {"first_step": first_step, "count": count, "facts": asdict(block.facts), "last": LAST}
    return Frame(FrameType.STEPS, header, encode(block))


class Trainer:
    """What all scripts are made of."""

    def __init__(self, frames: BinaryIO, job: dict[str, Any]) -> None:
        self.frames, self.job = frames, job
        self.folder = Path(job["output_dir"])
        self.stopped = False

    def say(self, frame: Frame) -> None:
        write_frame(self.frames, frame)

    def event(self, event: str, step: int, **data: Any) -> None:
        self.say(Frame(FrameType.EVENT, {"event": event, "step": step, "data": data}))

    def obey(self) -> None:
        def stop(*_: object) -> None:
            self.stopped = True

        signal.signal(signal.SIGTERM, stop)

    def wait_until_stopped(self) -> None:
        # Not by an event: a signal that sets it would wait for the lock of who waits for it.
        while not self.stopped:
            time.sleep(0.01)

    def wait_until_allowed(self, block: int) -> None:
        """Wait until the test has allowed so many blocks, in a file that `allow` writes."""
        file = Path(self.job["data_root"]) / "allowed"
        while not file.exists() or int(file.read_text()) < block:
            time.sleep(0.01)

    def begin(self, first_step: int = 0) -> None:
        facts = {"total_steps": 30, "first_step": first_step}
        self.say(Frame(FrameType.RUNNING, facts))
        self.event("started", first_step, **facts)

    def succeed(self) -> None:
        self.say(Frame(FrameType.SUCCEEDED, {"summary": {"steps": 30}}))

    def stop(self) -> None:
        self.say(Frame(FrameType.STOPPED))

    def saved_step(self) -> int:
        """The step of the newest checkpoint that we were given."""
        if not self.job["resume"]:
            return 0
        (file,) = (self.folder / "checkpoints").iterdir()
        return int(json.loads(file.read_text())["step"])

    def save(self, step: int) -> None:
        name = f"checkpoints/checkpoint-{step // 10:06}-step-{step}.safetensors"
        (self.folder / "checkpoints").mkdir(exist_ok=True)
        (self.folder / name).write_text(json.dumps({"step": step}))
        self.event("checkpoint_saved", step - 1, file=name)

    def save_model(self) -> None:
        (self.folder / "model.keras").write_text("a model")
        self.event("model_saved", 29, file="model.keras")


def good(trainer: Trainer) -> None:
    trainer.begin()
    trainer.say(steps(0, 10))
    trainer.say(steps(10, 20))
    trainer.save_model()
    trainer.succeed()


def saves(trainer: Trainer) -> None:
    """Saves after every ten steps; waits after the first ones until it is told to stop."""
    trainer.obey()
    first_step = trainer.saved_step()
    trainer.begin(first_step)
    for step in range(first_step, 30, 10):
        trainer.say(steps(step, 10))
        trainer.save(step + 10)
        if trainer.job["attempt"] == 1:
            trainer.wait_until_stopped()
            trainer.stop()
            return
    trainer.succeed()


def crash_after_saving(trainer: Trainer) -> None:
    """The first attempt dies with steps behind its checkpoint; the next ones go on to the end."""
    first_step = trainer.saved_step()
    trainer.begin(first_step)
    trainer.say(steps(first_step, 10))
    if trainer.job["attempt"] == 1:
        trainer.save(10)
        trainer.say(steps(10, 10))
        sys.exit(3)
    trainer.say(steps(first_step + 10, 10))
    trainer.succeed()


def many_checkpoints(trainer: Trainer) -> None:
    """Saves three times, each time when the one before is published."""
    trainer.begin()
    for step in (10, 20, 30):
        trainer.say(steps(step - 10, 10))
        trainer.save(step)
        while list((trainer.folder / "checkpoints").glob(f"*-step-{step}.*")):
            time.sleep(0.01)
    trainer.succeed()


def deaf(trainer: Trainer) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    begun(trainer)
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_S})"])
    print("deaf", flush=True)
    time.sleep(LONG_S)


def obedient(trainer: Trainer) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    begun(trainer)
    time.sleep(LONG_S)


def succeeds_when_stopped(trainer: Trainer) -> None:
    trainer.obey()
    begun(trainer)
    trainer.wait_until_stopped()
    trainer.succeed()


def fails_when_stopped(trainer: Trainer) -> None:
    trainer.obey()
    begun(trainer)
    trainer.wait_until_stopped()
    trainer.say(Frame(FrameType.FAILED, {"reason": "invalid_data", "message": "It is NaN."}))


def fails_with_a_checkpoint(trainer: Trainer) -> None:
    """What it saves last is the state before its weights were damaged."""
    trainer.begin()
    trainer.say(steps(0, 30))
    trainer.save(20)
    message = "The weights are not finite."
    trainer.say(Frame(FrameType.FAILED, {"reason": "non_finite_result", "message": message}))


def endless(trainer: Trainer) -> None:
    begun(trainer)
    first_step = 10
    while True:
        trainer.say(steps(first_step, 10))
        first_step += 10
        time.sleep(0.01)


def crash(trainer: Trainer) -> None:
    begun(trainer)
    print("the last words", flush=True)
    sys.exit(3)


def killed(trainer: Trainer) -> None:
    begun(trainer)
    os.kill(os.getpid(), signal.SIGKILL)


def garbage(trainer: Trainer) -> None:
    begun(trainer)
    trainer.frames.write(b"\xff" * 64)
    trainer.frames.flush()
    time.sleep(LONG_S)


def talks(trainer: Trainer) -> None:
    begun(trainer)
    for byte in "grüße €\n".encode():
        os.write(1, bytes([byte]))
        time.sleep(0.001)
    os.write(2, b"and an error\n")
    trainer.succeed()


def steady(trainer: Trainer) -> None:
    """Trains as far as the test allows, whatever happens to its supervisor's database."""
    trainer.begin()
    for block in range(30):
        trainer.wait_until_allowed(block + 1)
        trainer.say(steps(10 * block, 10))
    trainer.succeed()


def flood(trainer: Trainer) -> None:
    """Tells much when it may, and counts in a file how many blocks it got rid of."""
    trainer.begin()
    trainer.wait_until_allowed(100)
    for number in range(100):
        frame = steps(10 * number, 10)
        padding = {**frame.header, "padding": "x" * 100_000}
        trainer.say(Frame(frame.type, padding, frame.payload))
        unfinished = Path(trainer.job["data_root"]) / "written.new"
        unfinished.write_text(str(number + 1))
        unfinished.rename(unfinished.with_suffix(""))
    trainer.succeed()


def poison(trainer: Trainer) -> None:
    """Tells the same steps twice: no database takes them."""
    begun(trainer)
    trainer.say(steps(0, 10))
    time.sleep(LONG_S)


def begun(trainer: Trainer) -> None:
    trainer.begin()
    trainer.say(steps(0, 10))


def trainer(script: str) -> fork_server.Train:
    """What a forked trainer does that follows the named script."""

    def run(frames_fd: int, _is_standby: bool) -> int:
        frames = os.fdopen(frames_fd, "wb")
        if script == "hangs":  # amid its preparations
            time.sleep(LONG_S)
        print(f"ready for {script}", flush=True)
        write_frame(frames, Frame(FrameType.READY, HERE))
        line = sys.stdin.readline()
        if line:
            fork_server.call_this_process(fork_server.TRAINER_NAME)
            globals()[script](Trainer(frames, json.loads(line)))
        return 0

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("script")
    parser.add_argument("--requests-fd", type=int, required=True)
    arguments = parser.parse_args()
    fork_server.serve(arguments.requests_fd, trainer(arguments.script))


if __name__ == "__main__":
    main()
