"""The real trainer process, held and paced by the test's Control.

`paced_trainer.py CONTROL …`: the first argument is `Control.argument()`, the rest the fork
server's.
"""

import json
import sys
import threading
from queue import SimpleQueue
from typing import Any, BinaryIO

import phases
from control import Control

from ampspec.telemetry import StepBlock
from ampspec.telemetry.frames import Frame
from worker.trainer.child import trainer_process


def wrap(control: Control) -> None:
    """Wrap the functions that train a job and that write its blocks with the test's control."""
    train, write_block = trainer_process._train, trainer_process._FrameWriter.block

    def train_controlled(
        line: bytes, frames: BinaryIO, stop: threading.Event, messages: SimpleQueue[Any]
    ) -> Frame:
        job = json.loads(line)
        _use_blocks_of(control.block_steps)
        rank = (job.get("cluster") or {}).get("rank", 0)
        name = f"{job['job_id']}-rank-{rank}" if rank else job["job_id"]
        control.begin(name, job["attempt"], stop.is_set, rank=rank)
        phases.wrap(control.enter)
        return train(line, frames, stop, messages)

    def block_controlled(frame_writer: Any, block: StepBlock) -> None:
        write_block(frame_writer, block)
        # Here the steps are written, and the checkpoint after them is not saved yet.
        control.after(block.first_step + len(block))

    trainer_process._train, trainer_process._FrameWriter.block = train_controlled, block_controlled  # type: ignore[method-assign]


def _use_blocks_of(steps: int) -> None:
    """Use blocks of a fixed number of steps instead of a fixed duration."""
    from ampcore.training import callback_buffer
    from ampcore.training.step import plan

    plan.AdaptiveBlockSize.next_size = lambda _, remaining: min(steps, remaining)  # type: ignore[method-assign]
    callback_buffer.FLUSH_INTERVAL_S = 0.0  # type: ignore[misc]


if __name__ == "__main__":
    control = Control.from_argument(sys.argv.pop(1))
    wrap(control)
    sys.exit(trainer_process.main(extra_writable=[control.folder]))
