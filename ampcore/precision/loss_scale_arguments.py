"""The loss scale that the arguments of Keras's LossScaleOptimizer describe, and the reverse."""

from typing import Any, Final

from ampcore.precision.loss_scale import DynamicLossScale, FixedLossScale, LossScale

_INNER_ARGUMENTS: Final[dict[str, Any]] = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}
"""Arguments of the inner optimizer, with the defaults that older configurations of Keras repeat."""


def loss_scale_from_arguments(
    dynamic: bool,
    initial_scale: float | None,
    growth_steps: int | None,
    minimum: float | None,
    maximum: float | None,
) -> DynamicLossScale | FixedLossScale:
    """A dynamic or a fixed loss scale.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A fixed scale has no value, or has arguments of a dynamic one.
    """
    if not isinstance(dynamic, bool):
        raise TypeError(
            f"dynamic: expected True or False. Received: {dynamic!r}. For a fixed loss scale write "
            "dynamic=False, initial_scale=1024."
        )
    if dynamic:
        initial = 2.0**15 if initial_scale is None else _number("initial_scale", initial_scale)
        return DynamicLossScale(
            initial=initial,
            growth_interval=2000 if growth_steps is None else _count(growth_steps),
            minimum=min(1.0, initial) if minimum is None else _number("minimum", minimum),
            maximum=max(2.0**24, initial) if maximum is None else _number("maximum", maximum),
        )
    limits = {"dynamic_growth_steps": growth_steps, "minimum": minimum, "maximum": maximum}
    for name, value in limits.items():
        if value is not None:
            raise ValueError(f"{name}: expected None with dynamic=False. Received: {value!r}.")
    if initial_scale is None:
        raise ValueError("initial_scale: expected a number with dynamic=False. Received: None.")
    return FixedLossScale(_number("initial_scale", initial_scale))


def check_inner_arguments(arguments: dict[str, Any]) -> None:
    """Refuse arguments that are unknown, or that only the inner optimizer has.

    Raises:
        ValueError: There is such an argument.
    """
    for argument, value in arguments.items():
        if argument in _INNER_ARGUMENTS and value != _INNER_ARGUMENTS[argument]:
            raise ValueError(
                f"{argument}: expected it on the `inner_optimizer`. "
                f"Received: {argument}={value!r} of LossScaleOptimizer."
            )
    if unknown := [f"`{argument}`" for argument in arguments if argument not in _INNER_ARGUMENTS]:
        raise ValueError(
            "LossScaleOptimizer: expected the arguments initial_scale, dynamic_growth_steps and "
            f"dynamic. Received the arguments: {', '.join(unknown)}."
        )


def initial_scale_of(loss_scale: LossScale) -> float:
    """The first value of a loss scale: its `initial_scale` in Keras."""
    if isinstance(loss_scale, DynamicLossScale):
        return loss_scale.initial
    return loss_scale.value if isinstance(loss_scale, FixedLossScale) else 1.0


def growth_steps_of(loss_scale: LossScale) -> int | None:
    """The finite steps in a row after which a loss scale grows; None if it never does."""
    return loss_scale.growth_interval if isinstance(loss_scale, DynamicLossScale) else None


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: expected a number. Received: {value!r}.")
    return float(value)


def _count(value: Any) -> int:
    # Keras 2 allowed 2000.0, too.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError(f"dynamic_growth_steps: expected an integer. Received: {value!r}.")
    return int(value)
