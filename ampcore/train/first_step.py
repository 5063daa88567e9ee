"""Measures the first step of a job without training it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ampcore.data import Batch
from ampcore.diagnostics.perturbation import LayerPerturbation, PerturbationTest
from ampcore.diagnostics.range_probe import RangeProbe
from ampcore.train.session import Session
from ampspec.telemetry.ranges.number_formats import NUMBER_FORMATS
from ampspec.telemetry.ranges.range_report import range_report
from ampspec.telemetry.ranges.range_samples import RangeSample


class FirstStep:
    """A job with its initial weights and its first batch; nothing changes them.

    Args:
        session: The session of the job.
        settings: Makes a context in which the device computes as in a run of the job.
    """

    def __init__(
        self, session: Session, settings: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._session, self._settings = session, settings
        batch, seed = session.step_inputs(0)
        self._batch: Batch = batch
        self._seed: Any = seed

    def ranges(self) -> RangeSample:
        """The exponents of all layers' values and gradients."""
        session = self._session
        probe = RangeProbe(session.task, session.step.accumulate)
        with self._settings():
            return probe(0, self._scales, self._batch, self._seed)

    def perturb(self, number_format: str = "float16") -> list[LayerPerturbation]:
        """What rounding one layer at a time does to the loss and the gradients, the worst first.

        The loss scale is the one nearest to that of the job that suits the most layers, because
        a dynamic scale backs off from one that is too high.
        """
        session = self._session
        report = range_report([self.ranges()], NUMBER_FORMATS[number_format])
        scales = [2.0**found.best_exponent for found in report.scales] if report else self._scales
        test = PerturbationTest(session.task, number_format, session.step.accumulate)
        with self._settings():
            return test(scales, self._batch, self._seed)

    @property
    def _scales(self) -> list[float]:
        return list(self._session.scale_by_network.values())
