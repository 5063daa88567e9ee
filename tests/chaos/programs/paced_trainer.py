"""The real trainer process, but it trains only as far as the test lets it, and at its pace.

`paced_trainer.py CONTROL …`: the first argument is `Control.argument()`, the rest the fork
server's.
"""

import json
import sys
import threading
from typing import Any, BinaryIO

from control import Control

from ampcore import child
from ampcore.series import StepBlock
from ampcore.series.frames import Frame


def wrap(control: Control) -> None:
    """Put the test's control around what trains a job and around what tells of its steps."""
    train, tell = child._train, child._Teller.block

    def train_controlled(line: bytes, frames: BinaryIO, stop: threading.Event) -> Frame:
        job = json.loads(line)
        _use_blocks_of(control.block_steps)
        control.begin(job["job_id"], job["attempt"], stop.is_set)
        return train(line, frames, stop)

    def block_controlled(teller: Any, block: StepBlock) -> None:
        tell(teller, block)
        # Here the steps are told, and the checkpoint behind them is not saved yet.
        control.after(block.first_step + len(block))

    child._train, child._Teller.block = train_controlled, block_controlled  # type: ignore[method-assign]


def _use_blocks_of(steps: int) -> None:
    """Train, and tell, in blocks of so many steps, and not of so much time."""
    from ampcore.train import outbox, pacing

    pacing.Pacing.next_size = lambda _, remaining: min(steps, remaining)  # type: ignore[method-assign]
    outbox.EVERY_S = 0.0  # type: ignore[misc]


if __name__ == "__main__":
    control = Control.from_argument(sys.argv.pop(1))
    wrap(control)
    sys.exit(child.main(also_writable=[control.folder]))
