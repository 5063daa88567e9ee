"""Checks that a completed run has a result that is of use."""

import math
from typing import Final

from ampcore.checkpoint import nonfinite_names
from ampcore.diagnostics.input_statistics import InputStatistics
from ampcore.training.run.guard import nonfinite_advice
from ampcore.training.run.run import Run
from ampspec.documents.text import join_names
from ampspec.errors import NonFiniteResult

MAX_FIRST_SKIPS: Final = 32
"""How many skipped steps at the start of a run do not count as skipped."""
VALIDATION_LOSS: Final = "val_loss"
SKIPS_ADVICE: Final = (
    "The overflow events say why: a loss scale that is still too high (train for more steps, or "
    "lower loss_scale.initial), an operation, or the data."
)


def check_result(run: Run) -> None:
    """Check the weights, statistics, averages, the loss, the evaluation and the skipped steps.

    Raises:
        NonFiniteResult: One of them is not finite, or more steps were skipped than the guard
            allows.
    """
    if (damage := _damage(run)) is not None:
        advice = run.diagnosis or nonfinite_advice(run.spec)
    elif (damage := _nonfinite_evaluation(run)) is not None:
        advice = _advice_on_validation(run)
    elif (damage := _too_many_skips(run)) is not None:
        advice = run.diagnosis or SKIPS_ADVICE
    else:
        return
    steps = run.totals.steps
    raise NonFiniteResult(f"No model was saved after {steps} steps: {damage}. {advice}")


def _damage(run: Run) -> str | None:
    loss = run.totals.final_loss
    if names := run.runner.weights.nonfinite_names():
        return f"{join_names(names)} hold non-finite values"
    if not math.isfinite(loss) and run.totals.skipped < run.totals.steps:
        return f"the last loss is {loss}"
    if run.guard.damage is not None:
        return run.guard.damage
    best = run.evaluations.best_arrays
    if best is None:
        return None
    names = run.runner.tables.nonfinite_on_any_rank(nonfinite_names(best))
    return f"{join_names(names)} of the best evaluation hold non-finite values" if names else None


def _nonfinite_evaluation(run: Run) -> str | None:
    """The validation loss of the weights that are kept, if it is not finite."""
    if run.evaluations.best_arrays is not None:
        return None
    for name, value in run.totals.evaluation.items():
        if name.startswith(VALIDATION_LOSS) and not math.isfinite(value):
            return f"{name} of the last evaluation is {value}"
    return None


def _advice_on_validation(run: Run) -> str:
    """What to do about an evaluation that is not finite, of weights that are."""
    validation = run.context.dataset.validation
    statistics = InputStatistics.of(validation) if validation is not None else None
    names = [str(extreme.example) for extreme in statistics.extremes] if statistics else []
    if not names:
        return run.diagnosis or nonfinite_advice(run.spec)
    noun = "example has" if len(names) == 1 else "examples have"
    return (
        f"The validation {noun} values that are not finite, or far from all others: "
        f"{join_names(names)}. Repair or remove them, and resume the run from its checkpoint."
    )


def _too_many_skips(run: Run) -> str | None:
    skipped, steps = run.totals.skipped, run.totals.steps
    limit = run.spec.guard.max_skipped_share
    if skipped == steps > 0:
        return "every step was skipped, and nothing was learned"
    # At the start a loss scale may back off once a step, from its maximum down to 1.
    first_skips = min(run.totals.first_skips, MAX_FIRST_SKIPS)
    if skipped - first_skips <= limit * (steps - first_skips):
        return None
    return (
        f"{skipped:,} of them ({skipped / steps:.1%}) were skipped, more than "
        f"guard.max_skipped_share ({limit:.0%}) allows"
    )
