"""Lets an optimizer of Keras update variables that it was not built with.

Such an optimizer creates its slots for the variables of its first `apply_gradients` and refuses all
others. A loop that calls it once for each group of variables works with older optimizers only.
"""

from collections.abc import Sequence
from typing import Any, Final

import keras

Optimizer = Any

_INDICES: Final = ("_trainable_variables_indices", "_index_dict")
"""The position of every variable in the lists of slots: in Keras 3, in tf_keras."""


def build_for_later_variables(optimizer: Optimizer, variables: Sequence[Any]) -> None:
    """Build an optimizer of Keras 3 or tf_keras; extend one that was built for other variables.

    An extension builds the same optimizer again, for the new variables alone, and puts the slots
    from before in front of the new ones: every list of slots has one entry for each variable.
    """
    name, indices = _indices(optimizer)
    if not _is_built(optimizer):
        optimizer.build(list(variables))
        return
    new = [variable for variable in variables if optimizer._var_key(variable) not in indices]
    if not new:
        return
    previous_attributes, old_indices = dict(vars(optimizer)), dict(indices)
    _set_built(optimizer, False)
    optimizer.build(new)
    replaced = []
    for attribute, old in previous_attributes.items():
        current = vars(optimizer).get(attribute)
        if current is old or attribute in (name, "built", "_built"):
            continue
        if isinstance(old, list) and isinstance(current, list):
            old.extend(current)
        elif hasattr(current, "assign"):  # a scalar that all variables share keeps its value
            replaced.append(current)
        object.__setattr__(optimizer, attribute, old)
    _forget(optimizer, replaced)
    merged = old_indices | {
        optimizer._var_key(variable): len(old_indices) + position
        for position, variable in enumerate(new)
    }
    object.__setattr__(optimizer, name, merged)


def _is_built(optimizer: Optimizer) -> bool:
    return bool(getattr(optimizer, _built_name(optimizer), False))


def _set_built(optimizer: Optimizer, built: bool) -> None:
    setattr(optimizer, _built_name(optimizer), built)


def _built_name(optimizer: Optimizer) -> str:
    return "built" if isinstance(optimizer, keras.optimizers.Optimizer) else "_built"


def _indices(optimizer: Optimizer) -> tuple[str, Any]:
    for name in _INDICES:
        if (indices := getattr(optimizer, name, None)) is not None:
            return name, indices
    return _INDICES[1], {}  # tf_keras, not built


def _forget(optimizer: Optimizer, replaced: Sequence[Any]) -> None:
    """Remove variables that the second build created needlessly."""
    if not replaced:
        return
    if isinstance(optimizer, keras.optimizers.Optimizer):
        for variable in replaced:
            optimizer._untrack_variable(variable)
        return
    gone = {id(variable) for variable in replaced}
    optimizer._variables = [
        variable for variable in optimizer._variables if id(variable) not in gone
    ]
