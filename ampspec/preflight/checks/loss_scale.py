"""Checks of the loss scale against the dtypes in use and the length of the run."""

import math
from collections.abc import Iterator

from ampspec.documents.text import plural
from ampspec.precision.precision import FLOAT16_MAX, AdaptiveScale, CalibratedScale, FixedScale
from ampspec.preflight.case import Case, Finding


def unscaled_float16(case: Case) -> Iterator[Finding]:
    """Float16 compute without a loss scale."""
    if "float16" in case.half_dtypes and case.spec.loss_scale.mode == "none":
        yield Finding(
            "float16_without_loss_scale",
            "warning",
            "/loss_scale/mode",
            "Small float16 gradients become 0 without a loss scale, and overflows are not "
            "skipped: set loss_scale.mode to dynamic.",
        )


def overflowing_scale(case: Case) -> Iterator[Finding]:
    """A loss scale at which the first float16 gradient is out of range.

    The loss is a mean, so the gradient of each label's logit is about scale / labels.
    """
    if "float16" not in case.half_dtypes:
        return
    labels = case.spec.data.batch_size * _labels_per_example(case)
    largest = FLOAT16_MAX * labels
    data = {"largest": largest, "labels": labels}
    match case.spec.loss_scale:
        case FixedScale(scale=scale) if scale > largest:
            yield Finding(
                "fixed_scale_overflows",
                "warning",
                "/loss_scale/scale",
                f"A scale of {scale:,.10g} makes the first gradients about {scale / labels:,.6g}, "
                f"above float16's {FLOAT16_MAX:,.0f}: expect every step to be skipped. Use "
                "at most "
                f"{largest:,.10g}, or loss_scale.mode dynamic.",
                data,
            )
        case AdaptiveScale(initial=initial) as scale if initial > largest:
            backoffs = math.ceil(math.log(initial / largest) / -math.log(scale.backoff_factor))
            skips = backoffs * scale.hysteresis
            yield Finding(
                "initial_scale_overflows",
                "warning" if skips >= case.spec.guard.max_consecutive_skips else "info",
                "/loss_scale/initial",
                f"An initial scale of {initial:,.10g} is above float16's range for this batch: "
                f"expect at least the first {plural(skips, 'step')} to be skipped while it backs "
                "off.",
                {**data, "skips": skips},
            )


def scale_never_grows(case: Case) -> Iterator[Finding]:
    """A run or a calibration that ends before the scale grows once."""
    scale = case.spec.loss_scale
    if not isinstance(scale, AdaptiveScale) or "float16" not in case.half_dtypes:
        return
    calibration = scale.calibration_steps if isinstance(scale, CalibratedScale) else None
    lengths = [steps for steps in (case.total_steps, calibration) if steps is not None]
    if lengths and scale.growth_interval > min(lengths):
        what = "A calibration" if calibration == min(lengths) else "The run"
        yield Finding(
            "scale_never_grows",
            "info",
            "/loss_scale/growth_interval",
            f"{what} has {plural(min(lengths), 'step')}, so the scale never grows above its "
            f"initial {scale.initial:,.10g}: it would take {scale.growth_interval:,} finite steps "
            "in a row.",
            {"steps": min(lengths)},
        )


def calibration_longer_than_run(case: Case) -> Iterator[Finding]:
    """A calibration that does not end before the run."""
    scale, steps = case.spec.loss_scale, case.total_steps
    if not isinstance(scale, CalibratedScale) or steps is None:
        return
    if scale.calibration_steps >= steps:
        yield Finding(
            "calibration_longer_than_run",
            "info",
            "/loss_scale/calibration_steps",
            f"The run has {plural(steps, 'step')} and the calibration takes "
            f"{scale.calibration_steps:,}: the scale stays dynamic and is never frozen.",
            {"total_steps": steps},
        )


def unneeded_loss_scale(case: Case) -> Iterator[Finding]:
    """A loss scale although no layer computes in float16."""
    mode = case.spec.loss_scale.mode
    if mode not in ("none", "auto") and "float16" not in case.half_dtypes:
        yield Finding(
            "loss_scale_without_float16",
            "info",
            "/loss_scale/mode",
            "Nothing computes in float16 here, and other dtypes have float32's range: the loss "
            "scale only adds the check for gradients that are not finite.",
        )


def _labels_per_example(case: Case) -> int:
    """The labels of an example: one per position of a sequence, else 1."""
    shapes = [layer.output_shape for layer in case.layers if layer.output]
    return min((shape[0] for shape in shapes if len(shape) == 2), default=1)
