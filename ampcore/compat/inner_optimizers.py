"""The optimizers that a LossScaleOptimizer can wrap: of Keras 3, of tf_keras and of TF 1."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import keras
import tensorflow as tf

from ampcore.compat.graph_context import is_session_graph
from ampcore.compat.later_variables import build_for_later_variables
from ampcore.precision import sum_duplicate_rows

Tensor = Any
Variable = Any

_OF_ALL_VARIABLES: Final = ("use_ema", "gradient_accumulation_steps")
"""Options with which Keras 3 changes state of all variables in each call, also of other groups."""

_SHARED_ATTRIBUTES: Final = ("_iterations", "_u_product", "_m_cache")
"""Scalars that every update of a Keras optimizer changes: the count, and products of Nadam."""


_SUM_OVER_RANKS: Final = "all_reduce_sum_gradients"
"""The function with which tf_keras aggregates the gradients in a tf.distribute strategy."""


class InnerOptimizer(Protocol):
    """What a transaction needs of an optimizer of any library."""

    optimizer: Any
    saved_as_itself: bool
    """Whether a LossScaleOptimizer of its library is saved as the inner optimizer is."""

    def aggregate(self, grads: Sequence[Any], variables: Sequence[Variable]) -> list[Any] | None:
        """The gradients that the optimizer's own aggregation returns; None: it has none."""

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Create the slots of these variables, outside of branches and functions."""

    def shared_variables(self) -> list[Variable]:
        """The variables that every call of `apply` changes, whatever it updates."""

    def apply(self, grads: Sequence[Any], variables: Sequence[Variable], step: Any) -> Any:
        """Update the variables; the operation of it in a graph. `step` is the global step."""

    def all_variables(self) -> list[Variable]:
        """All variables of the optimizer."""

    def serialized(self) -> dict[str, Any]:
        """The configuration, for `deserialize`."""


def adapt(optimizer: Any) -> InnerOptimizer:
    """The adapter for an optimizer.

    Raises:
        TypeError: It is no optimizer that is known, or is a LossScaleOptimizer.
        ValueError: It scales losses itself, is wrapped already, or cannot be used in the graph that
            is being built.
    """
    if "LossScale" in type(optimizer).__name__:
        raise TypeError(
            "inner_optimizer: expected an optimizer without a loss scale. Received: "
            f"{type(optimizer).__name__}. Pass its inner_optimizer."
        )
    if getattr(optimizer, "_is_wrapped_by_loss_scale_optimizer", False):
        raise ValueError(
            "inner_optimizer: expected an optimizer of no other LossScaleOptimizer. Received: "
            f"{type(optimizer).__name__}, which is already wrapped by one. Create another."
        )
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return SessionOptimizer(optimizer)
    tf_keras = sys.modules.get("tf_keras")  # whoever has an optimizer of it has imported it
    if tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        return LegacyKerasOptimizer(optimizer)
    of_keras = isinstance(optimizer, keras.optimizers.Optimizer)
    if of_keras or (tf_keras is not None and isinstance(optimizer, tf_keras.optimizers.Optimizer)):
        if is_session_graph():
            raise ValueError(
                "inner_optimizer: in a graph that a session runs, expected an optimizer of "
                "tf.compat.v1.train or of tf_keras.optimizers.legacy. Received: "
                f"{type(optimizer).__module__}.{type(optimizer).__name__}."
            )
        _check_state(optimizer, of_keras)
        return KerasInnerOptimizer(optimizer) if of_keras else TfKerasOptimizer(optimizer)
    raise TypeError(
        "inner_optimizer: expected an optimizer of keras, tf_keras or tf.compat.v1.train. "
        f"Received: {type(optimizer).__module__}.{type(optimizer).__name__}."
    )


def _check_state(optimizer: Any, of_keras: bool) -> None:
    """Refuse optimizers whose state several calls in a step would change wrongly."""
    name = type(optimizer).__name__
    factor = getattr(optimizer, "loss_scale_factor", None)
    if factor is not None:
        raise ValueError(
            "inner_optimizer: expected an optimizer without a loss scale. Received: "
            f"{name} with loss_scale_factor={factor}."
        )
    for option in _OF_ALL_VARIABLES if of_keras else ():
        if getattr(optimizer, option, None):
            raise ValueError(
                f"inner_optimizer: expected an optimizer without {option}, which belongs to all "
                f"variables, where each apply_gradients updates some. Received: {name} with "
                f"{option}={getattr(optimizer, option)}."
            )
    if not of_keras and name == "Nadam":
        raise ValueError(
            "inner_optimizer: expected an optimizer whose state is in variables. Received: Nadam of"
            " tf_keras, which counts steps in Python; use tf_keras.optimizers.legacy.Nadam."
        )


class KerasInnerOptimizer:
    """An optimizer of Keras 3."""

    saved_as_itself = False

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def aggregate(self, grads: Sequence[Any], variables: Sequence[Variable]) -> None:
        """Keras 3 has none."""

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Build it, or extend it where it was built for other variables only."""
        _check_state(self.optimizer, of_keras=True)  # options may be set later
        with tf.init_scope():
            build_for_later_variables(self.optimizer, variables)

    def shared_variables(self) -> list[Variable]:
        """The iteration count, and the product of Nadam."""
        return _shared(self.optimizer)

    def apply(self, grads: Sequence[Any], variables: Sequence[Variable], step: Any) -> Any:
        """Update the variables."""
        _no_global_step(self.optimizer, step)
        # Keras 2 adds duplicate rows up itself; Keras 3 would square each of them alone.
        return self.optimizer.apply(sum_duplicate_rows(grads), list(variables))

    def all_variables(self) -> list[Variable]:
        """All variables."""
        return list(self.optimizer.variables)

    def serialized(self) -> dict[str, Any]:
        """As Keras serializes it."""
        return dict(keras.saving.serialize_keras_object(self.optimizer))


class TfKerasOptimizer:
    """An optimizer of tf_keras, except the legacy ones."""

    saved_as_itself = True

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def aggregate(self, grads: Sequence[Any], variables: Sequence[Variable]) -> list[Any] | None:
        """What an `aggregate_gradients` of the user's class returns."""
        original = sys.modules["tf_keras"].optimizers.Optimizer.aggregate_gradients
        if type(self.optimizer).aggregate_gradients is original:
            return None
        return _aggregated(self.optimizer.aggregate_gradients, grads, variables)

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Build it, or extend it where it was built for other variables only."""
        with tf.init_scope():
            build_for_later_variables(self.optimizer, _tf_variables(variables))

    def shared_variables(self) -> list[Variable]:
        """The iteration count, and the product of Nadam."""
        return _shared(self.optimizer)

    def apply(self, grads: Sequence[Any], variables: Sequence[Variable], step: Any) -> Any:
        """Update the variables."""
        _no_global_step(self.optimizer, step)
        pairs = _pairs_of_one_dtype(grads, variables)
        return self.optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)

    def all_variables(self) -> list[Variable]:
        """All variables."""
        return list(self.optimizer.variables)

    def serialized(self) -> dict[str, Any]:
        """As Keras serializes it."""
        return dict(sys.modules["tf_keras"].optimizers.serialize(self.optimizer))


class LegacyKerasOptimizer:
    """An optimizer of tf_keras.optimizers.legacy, as Keras 2 had them before version 2.11."""

    saved_as_itself = True

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def aggregate(self, grads: Sequence[Any], variables: Sequence[Variable]) -> list[Any] | None:
        """What a `gradient_aggregator`, or a method of the user's class, returns."""
        original = sys.modules["tf_keras"].optimizers.legacy.Optimizer._aggregate_gradients
        aggregator = self.optimizer.gradient_aggregator
        is_original = type(self.optimizer)._aggregate_gradients is original
        if is_original and getattr(aggregator, "__name__", "") == _SUM_OVER_RANKS:
            return None
        return _aggregated(self.optimizer._aggregate_gradients, grads, variables)

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Create the counter, the hyper-parameters and the slots."""
        _check_no_references(variables, allowed=False)
        with tf.init_scope():
            self.optimizer._create_all_weights(_tf_variables(variables))

    def shared_variables(self) -> list[Variable]:
        """The iteration count, and the product of Nadam."""
        return _shared(self.optimizer)

    def apply(self, grads: Sequence[Any], variables: Sequence[Variable], step: Any) -> Any:
        """Update the variables."""
        _no_global_step(self.optimizer, step)
        pairs = _pairs_of_one_dtype(grads, variables)
        return self.optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)

    def all_variables(self) -> list[Variable]:
        """All variables."""
        return list(self.optimizer.variables())

    def serialized(self) -> dict[str, Any]:
        """As Keras serializes it."""
        return dict(sys.modules["tf_keras"].optimizers.serialize(self.optimizer))


class SessionOptimizer:
    """An optimizer of tf.compat.v1.train, in a session's graph or in TF 2."""

    saved_as_itself = False

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def aggregate(self, grads: Sequence[Any], variables: Sequence[Variable]) -> None:
        """TF 1 has none."""

    def prepare(self, variables: Sequence[Variable]) -> None:
        """Create the slots."""
        _check_no_references(variables, allowed=not _new_branches())
        with tf.init_scope():
            self.optimizer._create_slots(_tf_variables(variables))

    def shared_variables(self) -> list[Variable]:
        """The variables that are slots of no variable: of Adam, the powers of beta."""
        return list(self.optimizer._non_slot_dict.values())

    def apply(self, grads: Sequence[Any], variables: Sequence[Variable], step: Any) -> Any:
        """Update the variables, and add 1 to the global step."""
        pairs = _pairs_of_one_dtype(grads, variables)
        return self.optimizer.apply_gradients(pairs, global_step=step)

    def all_variables(self) -> list[Variable]:
        """All variables of the present graph."""
        return list(self.optimizer.variables())

    def serialized(self) -> dict[str, Any]:
        """Not possible.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"get_config: expected an optimizer of Keras. Received: {type(self.optimizer).__name__}"
            " of tf.compat.v1.train, which has no configuration."
        )


def _aggregated(
    aggregate: Callable[[list[tuple[Any, Variable]]], Any],
    grads: Sequence[Any],
    variables: Sequence[Variable],
) -> list[Any]:
    """The gradients after a function of pairs, which may leave some out or change their order."""
    pairs = list(zip(grads, variables, strict=True))
    results = {id(variable): grad for grad, variable in aggregate(pairs)}
    return [results.get(id(variable)) for variable in variables]


def _new_branches() -> bool:
    """Whether branches are functions, which cannot contain updates of reference variables."""
    return bool(getattr(tf.compat.v1, "control_flow_v2_enabled", lambda: False)())


def _check_no_references(variables: Sequence[Variable], *, allowed: bool) -> None:
    """Refuse the older kind of variables of TF 1 where its updates cannot be in a branch."""
    for variable in variables if is_session_graph() and not allowed else ():
        if not hasattr(variable, "handle"):
            raise ValueError(
                f"grads_and_vars: expected resource variables. Received: {variable.name}, a "
                "reference variable. Create it with use_resource=True, or, for an optimizer of "
                "tf.compat.v1.train, call tf.compat.v1.disable_control_flow_v2() first."
            )


def _shared(optimizer: Any) -> list[Variable]:
    attributes = (getattr(optimizer, name, None) for name in _SHARED_ATTRIBUTES)
    return [variable for variable in attributes if variable is not None]


def _tf_variables(variables: Sequence[Variable]) -> list[Variable]:
    """The variables of TensorFlow inside those of Keras 3."""
    return [
        variable.value if isinstance(variable, keras.Variable) else variable
        for variable in variables
    ]


def _pairs_of_one_dtype(
    grads: Sequence[Any], variables: Sequence[Variable]
) -> list[tuple[Any, Variable]]:
    """The gradients in the dtypes of their variables, which kernels of these optimizers need."""
    return [
        (grad if grad is None else _cast(grad, variable.dtype.base_dtype), variable)
        for grad, variable in zip(grads, _tf_variables(variables), strict=True)
    ]


def _cast(grad: Any, dtype: Any) -> Any:
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(grad.values, dtype), grad.indices, grad.dense_shape)
    return tf.cast(grad, dtype)


def _no_global_step(optimizer: Any, step: Any) -> None:
    if step is not None:
        raise TypeError(
            "apply_gradients: expected global_step only with an optimizer of tf.compat.v1.train. "
            f"Received: global_step with {type(optimizer).__name__}, which counts in iterations."
        )
