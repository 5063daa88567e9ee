"""Measures the first step of a job without training it."""

from typing import Any

from ampcore.data import Batch
from ampcore.diagnostics.ranges.perturbation import LayerPerturbation, PerturbationTest
from ampcore.diagnostics.ranges.range_probe import RangeProbe
from ampcore.training.context import RunContext
from ampcore.training.run.prepared_context import device_settings
from ampcore.training.step.step_runner import StepRunner
from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS
from ampspec.telemetry.ranges.range_report import range_report
from ampspec.telemetry.ranges.range_samples import RangeSample


class UntrainedJob:
    """A job with its initial weights and its first batch; nothing changes them.

    Args:
        context: The job, whose device computes as in a run of it.
        runner: Trains its steps.
    """

    def __init__(self, context: RunContext, runner: StepRunner) -> None:
        self._context, self._runner = context, runner
        batch, seed = runner.step_inputs(0)
        self._batch: Batch = batch
        self._seed: Any = seed

    def ranges(self) -> RangeSample:
        """The exponents of all layers' values and gradients."""
        runner = self._runner
        probe = RangeProbe(runner.task, runner.train_step.accumulate)
        with device_settings(self._context.spec, self._context.device):
            return probe(0, self._scales, self._batch, self._seed)

    def perturb(self, number_format: str = "float16") -> list[LayerPerturbation]:
        """What rounding one layer at a time does to the loss and the gradients, the worst first.

        The loss scale is the one nearest to that of the job that suits the most layers, because
        a dynamic scale backs off from one that is too high.
        """
        runner = self._runner
        report = range_report([self.ranges()], NUMBER_FORMATS[number_format])
        scales = [2.0**advice.best_exponent for advice in report.scales] if report else self._scales
        test = PerturbationTest(runner.task, number_format, runner.train_step.accumulate)
        with device_settings(self._context.spec, self._context.device):
            return test(scales, self._batch, self._seed)

    @property
    def _scales(self) -> list[float]:
        return list(self._runner.state.scale_by_network.values())
