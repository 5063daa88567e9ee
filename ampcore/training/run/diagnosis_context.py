"""Collects what a step is compared with: other batches, all inputs, and the start of the run."""

from collections.abc import Sequence
from typing import Final

from ampcore.diagnostics.steps.probe import Measured, StepInputs
from ampcore.diagnostics.steps.step_diagnosis import StepContext
from ampcore.training.context import RunContext
from ampcore.training.step.step_runner import StepRunner

MAX_OTHERS: Final = 6
"""The maximum number of other batches that are computed."""


def step_context(
    context: RunContext,
    runner: StepRunner,
    step: int,
    learning_rate: float,
    at_start: Measured | None,
) -> StepContext:
    """The context of a step.

    Args:
        context: The run.
        runner: Trains its steps; the state is the one before the step or right after it.
        step: The step.
        learning_rate: Its learning rate.
        at_start: Loss and gradient norm of the first step of the run; None if not known.
    """

    def other_inputs() -> Sequence[StepInputs]:
        # Rows of other ranks are fetched by all of them together, for the step alone.
        if runner.tables.shards:
            return ()
        _, batch = runner.position(step)
        window = runner.window(step)
        first = step - batch + window.first_batch
        steps = list(range(first, first + window.end_batch - window.first_batch))
        nearest = sorted(steps, key=lambda number: abs(number - step))[1 : MAX_OTHERS + 1]
        return [StepInputs(*runner.step_inputs(number)) for number in nearest]

    def was_trained_on(example: int) -> bool:
        epoch, batch = runner.position(step)
        earlier_steps = range(step - batch, step)
        return epoch > 0 or any(
            example in runner.example_indices(number) for number in earlier_steps
        )

    return StepContext(
        other_inputs,
        lambda: context.input_statistics,
        was_trained_on,
        at_start,
        learning_rate,
        step,
    )
