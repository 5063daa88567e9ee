"""Loss scaling for models that are trained by `model.fit`: an optimizer."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, Self

import keras
import tensorflow as tf

from ampcore.precision.finite import sum_duplicate_rows
from ampcore.precision.loss_scale import (
    CalibratedLossScale,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleState,
    NoLossScale,
)
from ampcore.precision.transaction import apply_if_finite

Tensor = Any

KINDS: Final[dict[str, Callable[..., LossScale]]] = {
    kind.__name__: kind
    for kind in (CalibratedLossScale, DynamicLossScale, FixedLossScale, NoLossScale)
}


@keras.saving.register_keras_serializable("ampcore")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):  # type: ignore[misc]
    """An optimizer of Keras with one of ampcore's loss scales, for `model.compile`.

        optimizer = ampcore.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
        model.compile(optimizer, loss="sparse_categorical_crossentropy")
        model.fit(x, y, callbacks=[ampcore.LossScaleCallback()])

    Keras has an optimizer of the same name, which `compile` adds itself to a model with float16
    layers. This one differs:

    - the scale has a minimum and a maximum, so that it never becomes 0 or infinite; it may also be
      fixed or calibrated;
    - sparse gradients stay sparse, and their duplicate rows are summed before the finite check;
    - skipped steps are counted, and a LossScaleCallback reports them.

    In a skipped step neither the weights nor any variable of the inner optimizer change. The
    statistics of batch normalization do, since `fit` assigns them in the forward pass;
    `ampcore.Trainer` restores those, too.

    Works with `jit_compile`, `run_eagerly` and `steps_per_execution`; the backend of Keras must be
    TensorFlow.

    Args:
        inner_optimizer: Applies the unscaled gradients.
        loss_scale: Any of ampcore's loss scales; None: DynamicLossScale().
        name: The name of the optimizer.

    Raises:
        ValueError: The inner optimizer scales losses itself.

    Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
    """

    def __init__(
        self, inner_optimizer: Any, loss_scale: LossScale | None = None, name: str | None = None
    ) -> None:
        if isinstance(inner_optimizer, keras.optimizers.LossScaleOptimizer):
            raise ValueError(
                "inner_optimizer: expected an optimizer without a loss scale; received "
                f"{type(inner_optimizer).__name__}. Pass its inner_optimizer."
            )
        super().__init__(inner_optimizer, name=name)
        self.loss_scale = DynamicLossScale() if loss_scale is None else loss_scale
        self._state_variables: list[Any] = []

    def build(self, var_list: Sequence[Any]) -> None:
        """Create the variables of the loss scale and of the inner optimizer."""
        with tf.init_scope():
            first = [value.numpy().item() for value in self.loss_scale.init()]
        for name, value in zip(LossScaleState._fields, first, strict=True):
            self._state_variables.append(self._add_scalar(name, value))
        self._skipped_steps = self._add_scalar("skipped_steps", 0)
        self.inner_optimizer.build(var_list)
        keras.optimizers.Optimizer.build(self, var_list)

    @property
    def state(self) -> LossScaleState:
        """The state of the loss scale in the next step; before `build`, its first one."""
        if not self._state_variables:
            return self.loss_scale.init()
        return LossScaleState(*(variable.value for variable in self._state_variables))

    @property
    def dynamic_scale(self) -> Tensor:
        """The loss scale of the next step, a float32 scalar."""
        # Not `self.state.scale`, which reads all variables: callbacks read it after each step.
        return self._state_variables[0].value if self._state_variables else self.state.scale

    @property
    def skipped_steps(self) -> Tensor:
        """The number of steps skipped so far, an int32 scalar."""
        return self._skipped_steps.value if self.built else tf.constant(0)

    def scale_loss(self, loss: Tensor) -> Tensor:
        """The loss times the scale, in float32: its gradients are what `apply` expects."""
        return self.loss_scale.scale(self.state, loss)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Unscale the gradients; apply them if all are finite, else skip the step.

        Args:
            grads: Of the scaled loss: tensors, tf.IndexedSlices and None, one for each variable.
            trainable_variables: Their variables; None: those that the optimizer was built with.

        Raises:
            ValueError: Inside a tf.distribute strategy.
        """
        if not self.built:
            with tf.init_scope():
                self.build(trainable_variables or [])
        variables = list(trainable_variables or self._trainable_variables)
        state = self.state
        unscaled = sum_duplicate_rows(self.loss_scale.unscale(state, list(grads), variables))
        group = (self.inner_optimizer, unscaled, variables)
        after, applied = apply_if_finite(self.loss_scale, state, [group])
        for variable, value in zip(self._state_variables, after, strict=True):
            variable.assign(value)
        self._skipped_steps.assign_add(tf.where(applied, 0, 1))

    def stateless_apply(self, *_: Any) -> Any:
        """Not supported.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("ampcore.LossScaleOptimizer needs TensorFlow as Keras's backend.")

    def get_config(self) -> dict[str, Any]:
        """The arguments, for saving a compiled model."""
        return {
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "loss_scale": {"kind": type(self.loss_scale).__name__, **asdict(self.loss_scale)},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """An optimizer with the arguments that `get_config` returned."""
        inner = keras.saving.deserialize_keras_object(config["inner_optimizer"], custom_objects)
        constants = dict(config["loss_scale"])
        return cls(inner, KINDS[constants.pop("kind")](**constants), name=config["name"])

    def _add_scalar(self, name: str, value: float) -> Any:
        initializer = keras.initializers.Constant(value)
        dtype = "float32" if isinstance(value, float) else "int32"
        return self.add_variable((), initializer, dtype=dtype, aggregation="none", name=name)
