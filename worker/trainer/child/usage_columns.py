"""Adds samples of processor, memory and GPU to the steps of a job."""

from ampspec.telemetry import StepBlock
from ampspec.telemetry.process_usage import ProcessUsage
from ampspec.telemetry.steps.block import missing_column


class UsageColumns:
    """Adds a sample to the last step of a block when one is due; its other steps have none.

    Args:
        usage: Takes the samples.
    """

    def __init__(self, usage: ProcessUsage) -> None:
        self._usage = usage

    def add_to(self, block: StepBlock) -> StepBlock:
        """The block, with the columns of a sample if one is due."""
        sample = self._usage.sample_if_due() if len(block) else {}
        if not sample:
            return block
        columns = {name: block[name] for name in block.names}
        for name, value in sample.items():
            columns[name] = missing_column(name, len(block))
            columns[name][-1] = value
        return StepBlock(block.first_step, columns)
