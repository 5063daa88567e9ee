"""Evaluations as a table, for the formats that steps have."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from server.telemetry.step_table import StepTable
from store.telemetry.evaluations import StoredEvaluation

UNKNOWN_EPOCH: Final = -1
MAX_COLUMNS: Final = 256
"""The metrics of a table, in the order of their first evaluation; more are left out."""


def evaluation_table(evaluations: Sequence[StoredEvaluation]) -> StepTable:
    """One row per evaluation: `step`, `epoch` (-1 if unknown), and a column for each metric.

    A metric that an evaluation does not have is NaN.
    """
    every = dict.fromkeys(name for evaluation in evaluations for name in evaluation.metrics)
    names = list(every)[:MAX_COLUMNS]
    epochs = [
        UNKNOWN_EPOCH if evaluation.epoch is None else evaluation.epoch
        for evaluation in evaluations
    ]
    return {
        "step": np.array([evaluation.step for evaluation in evaluations], np.int64),
        "epoch": np.array(epochs, np.int64),
        **{
            name: np.array(
                [evaluation.metrics.get(name, np.nan) for evaluation in evaluations], np.float64
            )
            for name in names
        },
    }
