"""Variables whose "gradient" is their next value: the scales and amax histories of float8 layers.

Keras marks them with `overwrite_with_gradient`; its optimizers assign the "gradient" unchanged.
Loss scaling, the finite check, norms and clipping must leave it out.
"""

from collections.abc import Sequence
from typing import Any


def is_overwritten(variable: Any) -> bool:
    """Whether an optimizer assigns the "gradient" of this variable to it."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


def without_overwrites(grads: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The gradients, one for each variable, with None where it is the next value instead."""
    rows = zip(grads, variables, strict=True)
    return [None if is_overwritten(variable) else grad for grad, variable in rows]


def split_overwrites(
    grads: Sequence[Any], variables: Sequence[Any]
) -> tuple[list[Any], dict[int, Any]]:
    """The gradients without overwrites; and by the index of its variable, each next value."""
    overwrites = {
        index: grad
        for index, (grad, variable) in enumerate(zip(grads, variables, strict=True))
        if is_overwritten(variable)
    }
    return without_overwrites(grads, variables), overwrites
