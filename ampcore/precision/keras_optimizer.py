"""Loss scaling for models that are trained by `model.fit`: an optimizer."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final, Self

import keras
import tensorflow as tf

from ampcore.keras_internals import trained_variables
from ampcore.precision.finite import sum_duplicate_rows
from ampcore.precision.fit_losses import add_up_layer_losses_in_float32
from ampcore.precision.loss_scale import (
    CalibratedLossScale,
    DynamicLossScale,
    FixedLossScale,
    LossScale,
    LossScaleState,
    NoLossScale,
)
from ampcore.precision.loss_scale_arguments import (
    check_inner_arguments,
    growth_steps_of,
    initial_scale_of,
    loss_scale_from_arguments,
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
    TensorFlow. Losses of float16 layers (`add_loss`, activity regularizers) are added up in
    float32. All arguments of Keras's optimizer are accepted, the second one also by position.

    Args:
        inner_optimizer: Applies the unscaled gradients.
        loss_scale: Any of ampcore's loss scales; a number is the `initial_scale` of a dynamic one;
            None: the one that the next arguments describe.
        name: The name of the optimizer.
        initial_scale: The first loss scale; None: 2^15.
        dynamic_growth_steps: After how many finite steps in a row the scale doubles; None: 2000.
        dynamic: Whether the scale changes; if not, `initial_scale` is the scale.
        arguments: Arguments of the inner optimizer, with their defaults, as older configurations
            of Keras have them.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The inner optimizer scales losses itself; or an argument is unknown, belongs to
            the inner optimizer, or describes another loss scale than `loss_scale`.

    Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
    """

    loss_scale: LossScale

    def __init__(
        self,
        inner_optimizer: Any,
        loss_scale: LossScale | float | None = None,
        name: str | None = None,
        *,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        dynamic: bool = True,
        **arguments: Any,
    ) -> None:
        if isinstance(inner_optimizer, keras.optimizers.LossScaleOptimizer):
            raise ValueError(
                "inner_optimizer: expected an optimizer without a loss scale; received "
                f"{type(inner_optimizer).__name__}. Pass its inner_optimizer."
            )
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"name: expected a string. Received: {name!r}. For the number of growth steps "
                f"write dynamic_growth_steps={name!r}."
            )
        check_inner_arguments(arguments)
        if isinstance(loss_scale, int | float):
            if initial_scale is not None:
                raise ValueError(
                    f"loss_scale: expected no number beside initial_scale={initial_scale!r}. "
                    f"Received: {loss_scale!r}."
                )
            loss_scale, initial_scale = None, loss_scale
        if loss_scale is None:
            loss_scale = loss_scale_from_arguments(
                dynamic, initial_scale, dynamic_growth_steps, None, None
            )
        elif (initial_scale, dynamic_growth_steps, dynamic) != (None, None, True):
            raise ValueError(
                "loss_scale: expected it, or initial_scale, dynamic_growth_steps and dynamic. "
                f"Received: {loss_scale!r}, initial_scale={initial_scale!r}, "
                f"dynamic_growth_steps={dynamic_growth_steps!r}, dynamic={dynamic!r}."
            )
        # Before the constructor of Keras, which assigns `initial_scale` and `dynamic_growth_steps`.
        object.__setattr__(self, "loss_scale", loss_scale)
        super().__init__(inner_optimizer, self.initial_scale, self.dynamic_growth_steps, name=name)
        add_up_layer_losses_in_float32(LossScaleOptimizer)
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
    def initial_scale(self) -> float:
        """The first loss scale."""
        return initial_scale_of(self.loss_scale)

    @initial_scale.setter
    def initial_scale(self, value: float) -> None:
        _check_unchanged("initial_scale", self.initial_scale, value)

    @property
    def dynamic_growth_steps(self) -> int | None:
        """After how many finite steps in a row the scale grows; None if it never does."""
        return growth_steps_of(self.loss_scale)

    @dynamic_growth_steps.setter
    def dynamic_growth_steps(self, value: int | None) -> None:
        _check_unchanged("dynamic_growth_steps", self.dynamic_growth_steps, value)

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
    def step_counter(self) -> Tensor:
        """The finite steps in a row since the scale last changed, an int32 scalar."""
        return self.state.good_steps

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
        variables = list(trainable_variables or trained_variables(self))
        state = self.state
        unscaled = sum_duplicate_rows(self.loss_scale.unscale(state, list(grads), variables))
        group = (self.inner_optimizer, unscaled, variables)
        next_state, applied = apply_if_finite(self.loss_scale, state, [group])
        for variable, value in zip(self._state_variables, next_state, strict=True):
            variable.assign(value)
        self._skipped_steps.assign_add(tf.where(applied, 0, 1))

    def stateless_apply(self, *_: Any) -> Any:
        """Not supported.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("ampcore.LossScaleOptimizer needs TensorFlow as Keras's backend.")

    def get_config(self) -> dict[str, Any]:
        """The arguments, for saving a compiled model: those of Keras, if they say everything."""
        config = {
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }
        described = loss_scale_from_arguments(
            True, self.initial_scale, self.dynamic_growth_steps, None, None
        )
        if self.loss_scale != described:
            constants = asdict(self.loss_scale)
            config["loss_scale"] = {"kind": type(self.loss_scale).__name__, **constants}
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """An optimizer with the arguments that `get_config` returned, here or in Keras."""
        arguments = dict(config)
        inner = keras.saving.deserialize_keras_object(
            arguments.pop("inner_optimizer"), custom_objects
        )
        if (constants := arguments.pop("loss_scale", None)) is None:
            return cls(inner, **arguments)
        kind = KINDS[constants["kind"]]
        constants = {key: value for key, value in constants.items() if key != "kind"}
        return cls(inner, kind(**constants), name=arguments["name"])

    def _add_scalar(self, name: str, value: float) -> Any:
        initializer = keras.initializers.Constant(value)
        dtype = "float32" if isinstance(value, float) else "int32"
        return self.add_variable((), initializer, dtype=dtype, aggregation="none", name=name)


def _check_unchanged(argument: str, value: float | None, assigned: float | None) -> None:
    """Refuse the assignment of a constant, which a compiled step would not notice.

    Raises:
        AttributeError: The assigned value is another one.
    """
    if assigned != value:
        raise AttributeError(
            f"{argument}: expected it as an argument of LossScaleOptimizer, which has "
            f"{argument}={value!r}. Received: the assignment of {assigned!r}."
        )
