"""Calls a model as a function of the values of its variables, which stay as they are.

A layer may assign a trainable variable in its call, as SpectralNormalization does with its kernel:
then, as in `fit`, the gradient is the one by the assigned value, and the optimizer updates that.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ampcore.keras_internals import flatten_layers, is_layer_of_keras, training_argument

Tensor = Any
Variable = Any
StateUpdates = dict[int, Tensor]
"""By the index of a state variable, its next value; others do not change."""


def call_stateless(
    model: Any,
    weights: Sequence[Tensor],
    states: Sequence[Tensor],
    x: Any,
    *,
    training: bool,
    assigned: Sequence[int] = (),
) -> tuple[Any, StateUpdates, list[Tensor]]:
    """Call a model without assigning its variables.

    Args:
        model: A built keras.Model.
        weights: The values of its trainable variables.
        states: Those of its other variables, then those of the variables in `assigned`.
        x: The inputs.
        training: Whether it is called to train.
        assigned: The indices of trainable variables that the call assigns when it trains.

    Returns:
        The outputs on `x`; the next states of the variables that the call changes, by their index;
        and the losses that layers add, such as weight regularization.
    """
    # Keras would read the variables again, so that unchanged values could not be recognised.
    old_states = [tf.convert_to_tensor(value) for value in states]
    keywords = training_argument(model, training=training)
    if assigned:
        outputs, new_states, losses = _call_with_assigned(
            model, weights, old_states, x, keywords, assigned
        )
    else:
        outputs, new_states, losses = model.stateless_call(
            list(weights), old_states, x, return_losses=True, **keywords
        )
    rows = enumerate(zip(old_states, new_states, strict=True))
    return outputs, {index: new for index, (old, new) in rows if new is not old}, losses


def with_updates(states: Sequence[Tensor], updates: StateUpdates) -> list[Tensor]:
    """The states after these updates."""
    return [updates.get(index, state) for index, state in enumerate(states)]


def assigned_variables(model: Any, example: Any) -> tuple[int, ...]:
    """The indices of the trainable variables that a call of the model in training assigns.

    Args:
        model: A built keras.Model. It is called only if it has a layer that may assign some.
        example: Inputs of one example.
    """
    if not any(_may_assign(layer) for layer in flatten_layers(model)):
        return ()
    keywords = training_argument(model, training=True)
    with _RecordingScope(model.trainable_variables) as scope:
        model(example, **keywords)
    return tuple(sorted(scope.assigned))


def _may_assign(layer: Any) -> bool:
    """Of Keras's own layers only one assigns a trainable variable in its call."""
    return not is_layer_of_keras(layer) or isinstance(layer, keras.layers.SpectralNormalization)


class _RecordingScope(keras.StatelessScope):  # type: ignore[misc]
    """A scope that notes which variables are assigned in it."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        super().__init__()
        self._indices = {id(variable): index for index, variable in enumerate(variables)}
        self.assigned: set[int] = set()

    def add_update(self, update: tuple[Variable, Tensor]) -> None:
        """Called by Keras for each assignment."""
        if (index := self._indices.get(id(update[0]))) is not None:
            self.assigned.add(index)
        super().add_update(update)


class _AssigningScope(keras.StatelessScope):  # type: ignore[misc]
    """A scope in which the gradient by an assigned value is that by the weight."""

    def __init__(self, values: Sequence[tuple[Variable, Tensor]], weights: dict[int, Tensor]):
        super().__init__(state_mapping=values, collect_losses=True)
        self._weights = weights
        """By the id of their variable, those that are assigned."""
        self.assigned: dict[int, Tensor] = {}

    def add_update(self, update: tuple[Variable, Tensor]) -> None:
        """Called by Keras for each assignment."""
        variable, value = update
        if (weight := self._weights.get(id(variable))) is not None:
            self.assigned[id(variable)] = tf.stop_gradient(value)
            value = _with_gradient_of(weight, self.assigned[id(variable)])
        super().add_update((variable, value))


def _call_with_assigned(  # noqa: PLR0917 - as `call_stateless`
    model: Any,
    weights: Sequence[Tensor],
    states: list[Tensor],
    x: Any,
    keywords: dict[str, bool],
    assigned: Sequence[int],
) -> tuple[Any, list[Tensor], list[Tensor]]:
    state_variables = model.non_trainable_variables
    variables = [model.trainable_variables[index] for index in assigned]
    values = [tf.convert_to_tensor(weight) for weight in weights]
    sources = {
        id(variable): values[index] for variable, index in zip(variables, assigned, strict=True)
    }
    for index, state in zip(assigned, states[len(state_variables) :], strict=True):
        # Of an earlier micro-batch of the same step.
        values[index] = _with_gradient_of(values[index], state)
    pairs = [
        *zip(model.trainable_variables, values, strict=True),
        *zip(state_variables, states[: len(state_variables)], strict=True),
    ]
    with _AssigningScope(pairs, sources) as scope:
        outputs = model.call(x, **keywords)
        losses = model.losses
    new_states = [scope.get_current_value(variable) for variable in state_variables]
    rows = zip(variables, states[len(state_variables) :], strict=True)
    new_states += [scope.assigned.get(id(variable), state) for variable, state in rows]
    return outputs, new_states, losses


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _with_gradient_of(weight: Tensor, value: Tensor) -> Any:
    """The value, whose gradient goes to the weight unchanged."""

    def gradients(upstream: Tensor) -> tuple[Tensor, None]:
        return tf.cast(upstream, weight.dtype), None

    return tf.identity(value), gradients
