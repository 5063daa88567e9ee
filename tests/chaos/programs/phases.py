"""The phases of a rank in which a test can hold it: functions of the real trainer are wrapped.

The tests import the names, and `paced_trainer.py` wraps the functions.
"""

from collections.abc import Callable
from typing import Any

CONNECTING = "connecting"
"""Its server listens; the control channel is not connected."""
TRAINING = "training"
"""Before the second block: the others are in their compiled loops, and wait for its gradients."""
CHECKPOINT = "checkpoint"
"""Half of the first bytes of a checkpoint are written."""
EVALUATION = "evaluation"
FINAL_SAVE = "final-save"
"""All steps are done; the weights are saved, and the model is not."""

ALL = (CONNECTING, TRAINING, CHECKPOINT, EVALUATION, FINAL_SAVE)
OF_RANK_0 = (CHECKPOINT, EVALUATION, FINAL_SAVE)
"""The phases that only rank 0 enters, while the others wait for it."""


def wrap(enter: Callable[[str], None]) -> None:
    """Call `enter` in each phase. For a process that trains one attempt."""
    from ampcore.checkpoint import writer
    from ampcore.distributed import connection
    from ampcore.training.evaluation import evaluate
    from ampcore.training.result import model_selection
    from ampcore.training.step import loop

    before(connection, "_control_connections", enter, CONNECTING)
    before(evaluate.Evaluator, "__call__", enter, EVALUATION)
    run, save_weights, write_all = loop.Loop.run, model_selection.save_weights, writer._write_all
    blocks = 0

    def run_in_phase(*arguments: Any, **options: Any) -> Any:
        nonlocal blocks
        blocks += 1
        if blocks > 1:
            enter(TRAINING)
        return run(*arguments, **options)

    def save_weights_in_phase(*arguments: Any) -> Any:
        saved = save_weights(*arguments)
        enter(FINAL_SAVE)
        return saved

    def write_in_phase(descriptor: int, piece: memoryview) -> None:
        half = len(piece) // 2
        write_all(descriptor, piece[:half])
        enter(CHECKPOINT)
        write_all(descriptor, piece[half:])

    loop.Loop.run = run_in_phase  # type: ignore[method-assign]
    model_selection.save_weights = save_weights_in_phase
    writer._write_all = write_in_phase


def before(owner: Any, name: str, enter: Callable[[str], None], phase: str) -> None:
    """Call `enter` before a function."""
    function = getattr(owner, name)

    def in_phase(*arguments: Any) -> Any:
        enter(phase)
        return function(*arguments)

    setattr(owner, name, in_phase)
