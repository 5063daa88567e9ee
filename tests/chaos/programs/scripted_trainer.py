"""A trainer process without TensorFlow, for tests that do not depend on what a step computes.

It reports, saves, resumes, stops and is held as the real one under `paced_trainer.py`, but its
steps follow a formula. A job's label `script` names the function that trains it.

`scripted_trainer.py CONTROL …`: the first argument is `Control.argument()`, the rest the fork
server's.
"""

import argparse
import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from control import Control
from scripted_ranks import END, STOP, TRAIN, RankLost, Ranks
from scripted_values import INITIAL_DIGEST, steps, weights_digest_after

from ampspec.telemetry.frames import Frame, FrameType, write_frame
from ampspec.telemetry.steps.steps_frame import steps_frame
from worker.trainer.child import fork_server

READY = {"hardware": {"device": "script"}, "versions": {"script": "1"}}
BALLAST = "x" * 2**14
"""Makes a checkpoint as large as a real one."""
BLOCK_S = 0.005
"""The duration of a block at pace 1, so that blocks do not arrive all at once."""


class Trainer:
    """One job: its frames, and its progress so far."""

    def __init__(self, control: Control, frames: BinaryIO, job: dict[str, Any]) -> None:
        self.control, self.job = control, job
        self.spec: dict[str, Any] = job["spec"]
        self.total: int = self.spec["train"]["steps"]
        self.done, self.weights = 0, INITIAL_DIGEST
        self.saves = self.spec["train"]["checkpoint_every_s"] is not None
        self.skipped = 0
        self.stopped = False
        self._frames = frames
        self._folder = Path(job["output_dir"]) / "checkpoints"
        signal.signal(signal.SIGTERM, self._stop)

    def write(self, kind: FrameType, **header: Any) -> None:
        write_frame(self._frames, Frame(kind, header))

    def event(self, event: str, step: int | None, **data: Any) -> None:
        self.write(FrameType.EVENT, event=event, step=step, data=data)

    def load(self) -> None:
        """Continue from the checkpoint, if there is one."""
        if self.job["resume"]:
            [file] = self._folder.iterdir()
            saved = json.loads(file.read_text())
            self.done, self.weights = saved["done"], saved["weights"]
            self.skipped = saved["skipped"]

    def begin(self) -> None:
        self.load()
        self.control.begin(self.job["job_id"], self.job["attempt"], lambda: self.stopped)
        self.control.after(0)
        stats = {"total_steps": self.total, "first_step": self.done}
        self.write(FrameType.RUNNING, **stats)
        self.event("started", self.done, **stats)

    def train(self, loss: float | None = None) -> None:
        """Train one block: write it, wait as the test asks, and save a checkpoint."""
        count = min(self.control.block_steps, self.total - self.done)
        block = steps(self.done, count, loss)
        self.weights = weights_digest_after(self.weights, self.done, count)
        self.done += count
        self.skipped += int(block["skipped"].sum())
        write_frame(self._frames, steps_frame(block))
        print(f"step {self.done} of {self.total}", flush=True)
        self.control.after(self.done, BLOCK_S)
        if self.saves:
            self.save()

    def save(self) -> None:
        self._folder.mkdir(exist_ok=True)
        file = self._folder / f"checkpoint-{self.done:09}-step-{self.done}.safetensors"
        saved = {"done": self.done, "weights": self.weights, "skipped": self.skipped}
        file.write_text(json.dumps(saved | {"ballast": BALLAST}))
        name = f"checkpoints/{file.name}"
        self.event("checkpoint_saved", self.done - 1, file=name, size_bytes=1, seconds=0.0)

    def succeed(self, **metrics: float) -> None:
        summary = {"steps": self.done, "skipped": self.skipped, "weights_digest": self.weights}
        self.write(FrameType.SUCCEEDED, summary=summary | metrics)

    def _stop(self, *_: object) -> None:
        self.stopped = True


def train_to_end(trainer: Trainer, **metrics: float) -> None:
    """Train to the end, or until SIGTERM."""
    trainer.begin()
    while trainer.done < trainer.total:
        if trainer.stopped:
            return trainer.write(FrameType.STOPPED)
        trainer.train()
    return trainer.succeed(**metrics)


def train_with_ranks(trainer: Trainer) -> None:
    """Train to the end together with the other ranks, of which rank 0 reports the steps."""
    try:
        control, attempt = trainer.control, trainer.job["attempt"]
        is_over = partial(control.exchange_has_ended, attempt)
        ranks = Ranks(trainer.job["cluster"], control.rank_proxy(), is_over)
        if ranks.rank == 0:
            return train_as_rank_0(trainer, ranks)
        return follow_rank_0(trainer, ranks)
    except RankLost as error:
        return trainer.write(FrameType.FAILED, reason="rank_lost", message=str(error))


def train_as_rank_0(trainer: Trainer, ranks: Ranks) -> None:
    trainer.begin()
    while trainer.done < trainer.total:
        if ranks.agree(STOP if trainer.stopped else TRAIN) == STOP:
            return trainer.write(FrameType.STOPPED)
        trainer.train()
    ranks.agree(END)
    return trainer.succeed()


def follow_rank_0(trainer: Trainer, ranks: Ranks) -> None:
    """Do what rank 0 decides."""
    name = f"{trainer.job['job_id']}-rank-{ranks.rank}"
    trainer.control.begin(name, trainer.job["attempt"], lambda: trainer.stopped)
    while (decision := ranks.follow(trainer.stopped)) == TRAIN:
        pass
    trainer.write(FrameType.SUCCEEDED if decision == END else FrameType.STOPPED, summary={})


def train_with_nan_loss(trainer: Trainer) -> None:
    """Fail with the reason in the label `reason`, after steps with a NaN loss."""
    trainer.begin()
    while trainer.done < trainer.total:
        trainer.train(float("nan"))
    trainer.write(FrameType.FAILED, reason=trainer.spec["labels"]["reason"], message="It is NaN.")


def train_to_accuracy(trainer: Trainer) -> None:
    """Train to the end; the accuracy depends on the seed alone."""
    train_to_end(trainer, val_accuracy=0.9 + trainer.spec["train"]["seed"] / 1000)


def explain_step(trainer: Trainer) -> None:
    """Repeat the steps to the one that the job explains; answer with what was recorded of it."""
    wanted = trainer.job["explain"]
    trainer.total, trainer.saves = wanted["step"] + 1, False
    trainer.begin()
    while trainer.done < trainer.total:
        if trainer.stopped:
            return trainer.write(FrameType.STOPPED)
        trainer.train()
    facts = {"attribution": "normal", "sentence": "It was repeated.", "recorded": wanted["values"]}
    trainer.event("explanation", wanted["step"], **facts)
    return trainer.succeed()


SCRIPTS = {
    "train_to_end": train_to_end,
    "train_to_accuracy": train_to_accuracy,
    "train_with_nan_loss": train_with_nan_loss,
}


def end_with_input() -> None:
    """End this process when its supervisor's end of the pipe is closed."""
    while os.read(0, 65_536):
        pass
    os._exit(1)


def run(control: Control, frames_fd: int) -> int:
    """Run a forked trainer: report ready, read the job, train it."""
    frames = os.fdopen(frames_fd, "wb")
    write_frame(frames, Frame(FrameType.READY, READY))
    line = sys.stdin.readline()
    if line:
        fork_server.set_process_name(fork_server.TRAINER_NAME)
        threading.Thread(target=end_with_input, daemon=True).start()
        job = json.loads(line)
        named = SCRIPTS[job["spec"]["labels"].get("script", "train_to_end")]
        if job.get("cluster") is not None:
            named = train_with_ranks
        script = explain_step if job["explain"] else named
        script(Trainer(control, frames, job))
    return 0


def main() -> None:
    control = Control.from_argument(sys.argv.pop(1))
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests-fd", type=int, required=True)
    requests_fd = parser.parse_args().requests_fd
    fork_server.serve(
        requests_fd,
        lambda frames_fd, _is_standby: run(control, frames_fd),
        extra_writable=[control.folder],
    )


if __name__ == "__main__":
    main()
