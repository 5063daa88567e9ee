"""What a LossScaleOptimizer shows of its inner optimizer: hyper-parameters, variables, weights."""

import warnings
from collections.abc import Sequence
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from ampcore.compat.callable_values import VariableList
from ampcore.compat.graph_context import is_session_graph
from ampcore.compat.inner_optimizers import InnerOptimizer, adapt

_WRITE_INSTEAD: Final = {
    "apply": "get_unscaled_gradients(grads), then apply_gradients(zip(grads, variables))",
    "assign": "variable.assign(value)",
    "assign_add": "variable.assign_add(value)",
    "assign_sub": "variable.assign_sub(value)",
    "check_finite": "ampcore.precision.all_finite(grads)",
    "dynamic_scale": "loss_scale",
    "iterations": "apply_gradients(grads_and_vars, global_step=variable)",
    "load_own_variables": "tf.train.Checkpoint(optimizer=optimizer).restore(path)",
    "save_own_variables": "tf.train.Checkpoint(optimizer=optimizer).save(path)",
    "scale_loss": "get_scaled_loss(loss)",
    "stateless_apply": "ampcore.apply_if_finite, whose state is a value",
    "step_counter": "dynamic_counter",
    "update_step": "apply_gradients(grads_and_vars)",
}
"""What does the same as methods of Keras 3 that would bypass the loss scale, and as `iterations`
with an optimizer of TF 1, which does not count."""

_SLOTS: Final = "variables; only tf_keras.optimizers.legacy and tf.compat.v1.train name slots"
_NEW_VARIABLE: Final = "the variable in a subclass of the inner optimizer"
_CLIP: Final = "ampcore.clip_by_global_norm on the unscaled gradients"
_AVERAGE: Final = "a tf.train.ExponentialMovingAverage of the variables"
_WITHOUT_IT_WRITE: Final = {
    "add_optimizer_variables": _NEW_VARIABLE,
    "add_slot": _NEW_VARIABLE,
    "add_variable": _NEW_VARIABLE,
    "add_variable_from_reference": _NEW_VARIABLE,
    "add_weight": _NEW_VARIABLE,
    "aggregate_gradients": "compat.all_reduce(grads)",
    "built": "build(variables)",
    "clipnorm": _CLIP,
    "clipvalue": _CLIP,
    "decay": "a schedule of the same library as learning_rate",
    "ema_momentum": _AVERAGE,
    "ema_overwrite_frequency": _AVERAGE,
    "exclude_from_weight_decay": "an inner optimizer of Keras 3, which has it",
    "finalize_variable_values": "nothing: the variables have their final values",
    "get_slot": _SLOTS,
    "get_slot_names": _SLOTS,
    "global_clipnorm": _CLIP,
    "gradient_accumulation_steps": "get_unscaled_gradients for each micro-batch",
    "jit_compile": "tf.function(step, jit_compile=True)",
    "loss_scale_factor": "loss_scale",
    "use_ema": _AVERAGE,
    "weight_decay": "an inner optimizer of tf_keras or Keras 3 with weight_decay",
}
"""What to write where the inner optimizer lacks a name that optimizers of other libraries have."""


class WrappedOptimizer(tf.Module):  # type: ignore[misc]
    """An inner optimizer, and the variables of a loss scale beside its own.

    Args:
        inner_optimizer: Of Keras 3, tf_keras or tf.compat.v1.train.

    Raises:
        TypeError: It is no optimizer that is known.
        ValueError: It scales losses itself, or another LossScaleOptimizer has it.
    """

    def __init__(self, inner_optimizer: Any) -> None:
        super().__init__(name="loss_scale_optimizer")
        self._inner: InnerOptimizer = adapt(inner_optimizer)
        self._inner_optimizer = inner_optimizer
        # The name that tf_keras uses: so neither wraps an optimizer of the other.
        inner_optimizer._is_wrapped_by_loss_scale_optimizer = True

    @property
    def inner_optimizer(self) -> Any:
        """The optimizer that applies the unscaled gradients."""
        return self._inner_optimizer

    @property
    def iterations(self) -> Any:
        """The number of applied steps: the variable of the inner optimizer."""
        return self._inner_optimizer.iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        if isinstance(self._inner_optimizer, keras.optimizers.Optimizer):
            raise AttributeError(
                "iterations: expected an optimizer of tf_keras, whose variable can be replaced. "
                f"Received: {type(self._inner_optimizer).__name__} of Keras 3. Write: "
                "optimizer.iterations.assign(value)."
            )
        self._inner_optimizer.iterations = variable

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the inner optimizer; can be set if its library allows that."""
        for name in ("learning_rate", "_learning_rate", "_lr"):  # the last two: of TF 1
            if hasattr(self._inner_optimizer, name):
                return getattr(self._inner_optimizer, name)
        raise AttributeError(f"{type(self._inner_optimizer).__name__} has no learning rate")

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if isinstance(self._inner_optimizer, tf.compat.v1.train.Optimizer):
            raise AttributeError(
                "learning_rate: expected an optimizer of Keras, whose learning rate can be set. "
                f"Received: {type(self._inner_optimizer).__name__} of tf.compat.v1.train; give it "
                "a tensor or a function as learning rate."
            )
        self._inner_optimizer.learning_rate = value

    @property
    def lr(self) -> Any:
        """The learning rate, under its older name."""
        return self.learning_rate

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value

    @property
    def variables(self) -> VariableList:
        """The variables of the inner optimizer, then those of the loss scale; may be called."""
        return VariableList([*self._inner.all_variables(), *self._scale_variables])

    @property
    def weights(self) -> VariableList:
        """The variables, under their older name."""
        return self.variables

    def get_weights(self) -> list[Any]:
        """The values of the variables, the loss scale included, for `set_weights`.

        Raises:
            RuntimeError: In a session's graph, where a value needs a session.
        """
        if is_session_graph():
            raise RuntimeError(
                "get_weights: expected it in TF 2. Received: a call in a session's graph; write "
                "session.run(optimizer.weights), or save with tf.compat.v1.train.Saver."
            )
        return [np.array(variable) for variable in self.variables]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Assign what `get_weights` returned, here or in Keras 2.

        A list of Keras 2 has no loss scale: then the scale stays, with a warning.

        Raises:
            RuntimeError: In a session's graph.
            ValueError: The number or a shape differs: the inner optimizer may not be built.
        """
        if is_session_graph():
            raise RuntimeError(
                "set_weights: expected it in TF 2. Received: a call in a session's graph; restore "
                "with tf.compat.v1.train.Saver."
            )
        variables = self.variables
        inner_count = len(variables) - len(self._scale_variables)
        if len(weights) not in (len(variables), inner_count):
            raise ValueError(
                f"weights: expected {len(variables)} arrays, or the {inner_count} of the inner "
                f"optimizer. Received: {len(weights)}. Call build(variables) before set_weights."
            )
        if len(weights) < len(variables):
            warnings.warn(
                "set_weights: the list has no loss scale, as those of Keras 2: the scale and its "
                "counters stay as they are.",
                stacklevel=2,
            )
        for variable, value in zip(variables, weights, strict=False):
            variable.assign(value)

    @property
    def _scale_variables(self) -> tuple[Any, ...]:
        """The variables of the loss scale."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        """Whatever else the inner optimizer has, such as `beta_1` and `clipnorm`."""
        inner = vars(self).get("_inner_optimizer")
        if inner is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in _WRITE_INSTEAD:
            raise AttributeError(
                f"compat.LossScaleOptimizer with {type(inner).__name__} has no {name}. "
                f"Write: {_WRITE_INSTEAD[name]}."
            )
        try:
            return getattr(inner, name)
        except AttributeError:
            if name not in _WITHOUT_IT_WRITE:
                raise
            raise AttributeError(
                f"compat.LossScaleOptimizer with {type(inner).__name__} of "
                f"{type(inner).__module__.partition('.')[0]} has no {name}. "
                f"Write: {_WITHOUT_IT_WRITE[name]}."
            ) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Hyper-parameters are set on the inner optimizer, as in Keras 2."""
        inner = vars(self).get("_inner_optimizer")
        if name.startswith("_") or hasattr(type(self), name) or not hasattr(inner, name):
            # Not that of tf.Module: it would read the attribute first, which creates variables, and
            # track the value, where CheckpointedOptimizer lists what checkpoints contain.
            object.__setattr__(self, name, value)
        else:
            setattr(inner, name, value)
