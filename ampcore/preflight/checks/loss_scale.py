"""Checks of the loss scale against the dtypes in use and the length of the run."""

import math
from collections.abc import Iterator
from typing import Final

from ampcore.preflight.case import Case
from ampcore.preflight.finding import Finding
from ampcore.spec.precision import AdaptiveScale, CalibratedScale, FixedScale

LARGEST_FLOAT16: Final = 65_504.0


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
    """A scale at which the first gradient that float16 has to hold is above its range.

    The loss is a mean, so the gradient of each label's logit is about scale / labels.
    """
    if "float16" not in case.half_dtypes:
        return
    labels = case.spec.data.batch_size * _labels_per_example(case)
    largest = LARGEST_FLOAT16 * labels
    facts = {"largest": largest, "labels": labels}
    match case.spec.loss_scale:
        case FixedScale(scale=scale) if scale > largest:
            yield Finding(
                "fixed_scale_overflows",
                "warning",
                "/loss_scale/scale",
                f"A scale of {scale:,.10g} makes the first gradients about {scale / labels:,.6g}, "
                f"above float16's {LARGEST_FLOAT16:,.0f}: expect every step to be skipped. Take "
                "at most "
                f"{largest:,.10g}, or loss_scale.mode dynamic.",
                facts,
            )
        case AdaptiveScale(initial=initial) as scale if initial > largest:
            backoffs = math.ceil(math.log(initial / largest) / -math.log(scale.backoff_factor))
            skips = backoffs * scale.hysteresis
            yield Finding(
                "initial_scale_overflows",
                "warning" if skips >= case.spec.guard.max_consecutive_skips else "info",
                "/loss_scale/initial",
                f"An initial scale of {initial:,.10g} is above float16's range for this batch: "
                f"expect the first {skips} steps or more to be skipped until it has come down.",
                {**facts, "skips": skips},
            )


def scale_never_grows(case: Case) -> Iterator[Finding]:
    """A run, or a calibration, that ends before the scale could grow once."""
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
            f"{what} has {min(lengths):,} steps, so the scale never grows above its initial "
            f"{scale.initial:,.10g}: it would take {scale.growth_interval:,} finite steps in a "
            "row.",
            {"steps": min(lengths)},
        )


def never_frozen(case: Case) -> Iterator[Finding]:
    """A calibration that lasts as long as the run."""
    scale, steps = case.spec.loss_scale, case.total_steps
    if not isinstance(scale, CalibratedScale) or steps is None:
        return
    if scale.calibration_steps >= steps:
        yield Finding(
            "calibration_longer_than_run",
            "info",
            "/loss_scale/calibration_steps",
            f"The run has {steps:,} steps and the calibration takes "
            f"{scale.calibration_steps:,}: the scale is dynamic all the time.",
            {"total_steps": steps},
        )


def useless_scale(case: Case) -> Iterator[Finding]:
    """A loss scale where nothing computes in float16."""
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
    """The positions of a sequence that have a label each; 1 for all else."""
    shapes = [layer.output_shape for layer in case.layers if layer.output]
    return min((shape[0] for shape in shapes if len(shape) == 2), default=1)
