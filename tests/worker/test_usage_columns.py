"""Samples of processor and memory among the steps of a job."""

import numpy as np

from ampspec.telemetry import COLUMN_DTYPES, StepBlock
from ampspec.telemetry.process_usage import CPU, MEMORY, ProcessUsage
from worker.trainer.child.usage_columns import UsageColumns


def test_the_last_step_of_a_block_has_the_sample_that_is_due():
    times = iter([0.0, 1.0, 10.0, 21.0, 21.0])
    usage = UsageColumns(ProcessUsage(has_gpu=False, clock=lambda: next(times)))
    blocks = [StepBlock(first, {name: [0, 1] for name in COLUMN_DTYPES}) for first in (0, 2, 4)]
    plain, first, second = [usage.add_to(block) for block in blocks]
    assert plain is blocks[0]
    assert np.isnan(first[MEMORY][0])
    assert first[MEMORY][1] > 10_000_000
    joined = StepBlock.concat([plain, first, second])
    assert np.isfinite(joined[CPU]).tolist() == [False] * 5 + [True]
    assert joined["loss"].tolist() == [0, 1] * 3
