"""Columns that are read from the objects of a training: loss scales, learning rates."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

SCALE_ATTRIBUTES: Final = ("scale", "loss_scale")
"""Of flax's DynamicScale, and of the loss scales of jmp."""


class Watched(Protocol):
    """An object that adds columns to each row."""

    def columns(self) -> dict[str, Any]:
        """The columns of the steps since the call before."""


def watched(thing: Any) -> Watched:
    """What watches an object of a training.

    Raises:
        TypeError: It is neither a GradScaler nor an optimizer of PyTorch.
    """
    if callable(getattr(thing, "get_scale", None)) and callable(getattr(thing, "update", None)):
        return WatchedScaler(thing)
    if isinstance(getattr(thing, "param_groups", None), list):
        return WatchedOptimizer(thing)
    raise TypeError(
        "expected a torch.amp.GradScaler or a torch.optim.Optimizer, received "
        f"{type(thing).__name__}; for JAX see ampclient.loss_scale_columns"
    )


class WatchedScaler:
    """Reads the scale of a torch.amp.GradScaler around its `update`, which backs off after a skip.

    Args:
        scaler: Its `update` is replaced by a method that calls it.
    """

    def __init__(self, scaler: Any) -> None:
        self._scaler, self._update = scaler, scaler.update
        self._scale: float | None = None
        self._has_skipped = False
        scaler.update = self._watched_update

    def _watched_update(self, new_scale: Any = None) -> None:
        scale = float(self._scaler.get_scale())
        if new_scale is None:
            self._update()
            # `step` has skipped the optimizer if and only if the scale backs off.
            self._has_skipped |= float(self._scaler.get_scale()) < scale
        else:
            self._update(new_scale)
        self._scale = scale

    def columns(self) -> dict[str, Any]:
        """The scale of the last update, and whether any since the call before was skipped."""
        scale = float(self._scaler.get_scale()) if self._scale is None else self._scale
        has_skipped, self._has_skipped = self._has_skipped, False
        return {"loss_scale": scale, "skipped": has_skipped}


class WatchedOptimizer:
    """Reads the learning rate of each parameter group of a torch.optim.Optimizer."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def columns(self) -> dict[str, Any]:
        """The learning rate of each group: `learning_rate`, `learning_rate_2`, and so on."""
        rates = [group.get("lr") for group in self._optimizer.param_groups]
        return {
            "learning_rate" if place == 1 else f"learning_rate_{place}": rate
            for place, rate in enumerate(rates, start=1)
        }


def loss_scale_columns(state: Any, is_finite: Any = None) -> dict[str, Any]:
    """The columns `loss_scale` and `skipped` of a step in JAX, for `TrackedRun.log`.

    Args:
        state: The loss scale that the step used, so from before its update: a
            flax.training.dynamic_scale.DynamicScale or a loss scale of jmp. Or, from after its
            update, the state of an optimizer with optax.apply_if_finite, alone or in a chain.
        is_finite: Whether the gradients were finite, as DynamicScale returns it; None: as the state
            of the optimizer says.

    Raises:
        TypeError: The state has neither.
    """
    columns: dict[str, Any] = {}
    for name in SCALE_ATTRIBUTES:
        if (scale := getattr(state, name, None)) is not None and not callable(scale):
            columns["loss_scale"] = float(scale)
            break
    if is_finite is None:
        is_finite = next(_last_finite(state), None)
    if is_finite is not None:
        columns["skipped"] = not bool(is_finite)
    if not columns:
        raise TypeError(
            "expected a DynamicScale of flax, a loss scale of jmp, or the state of an optimizer "
            f"with optax.apply_if_finite, received {type(state).__name__}"
        )
    return columns


def _last_finite(state: Any) -> Iterator[Any]:
    """The `last_finite` of each state of apply_if_finite in nested states."""
    if (last_finite := getattr(state, "last_finite", None)) is not None:
        yield last_finite
        return
    parts = state.values() if isinstance(state, Mapping) else state
    if isinstance(state, Mapping | tuple | list):
        for part in parts:
            yield from _last_finite(part)
