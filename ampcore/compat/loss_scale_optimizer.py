"""A loss-scale optimizer with the methods that Keras 2 had, for custom training loops."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

import tensorflow as tf

from ampcore.compat.callable_values import CallableTensor
from ampcore.compat.collectives import Ranks, current_ranks, keep_reduced_mark, reduced_gradients
from ampcore.compat.configurations import arguments_of
from ampcore.compat.gradient_methods import GradientMethods
from ampcore.compat.graph_context import as_written, is_session_graph, session_graph
from ampcore.compat.optimizer_checkpoints import CheckpointedOptimizer
from ampcore.compat.step_transaction import GroupDecision, StepTransaction
from ampcore.precision import DynamicLossScale, LossScaleState
from ampcore.precision.loss_scale_arguments import (
    growth_steps_of,
    initial_scale_of,
    loss_scale_from_arguments,
)

Tensor = Any


class LossScaleOptimizer(GradientMethods, CheckpointedOptimizer):
    """Keras 2's LossScaleOptimizer, with one decision for all groups of gradients of a step.

        optimizer = ampcore.compat.LossScaleOptimizer(keras.optimizers.Adam(0.1))
        with tf.GradientTape() as tape:
            scaled_loss = optimizer.get_scaled_loss(loss)
        grads, table_grads = tape.gradient(scaled_loss, [weights, tables])
        table_grads = optimizer.get_unscaled_gradients(table_grads)
        grads = optimizer.get_unscaled_gradients(grads)
        optimizer.apply_gradients(zip(table_grads, tables))
        optimizer.apply_gradients(zip(grads, weights))

    A step begins with `get_scaled_loss`. Its first `apply_gradients` decides from all gradients
    that were unscaled since, on all ranks; all further calls follow. So the step changes every
    group or none, the loss scale moves once, and the optimizer counts one iteration for an applied
    step and none for a skipped one.

    It works in eager code, in tf.function, with jit_compile (on one rank), and in a graph that a
    session runs. One function may accumulate gradients and another apply them. For `model.fit` use
    `ampcore.LossScaleOptimizer`. Create it where the loop is: in TF 2 in eager code, in TF 1 while
    its graph is the default one.

    Differences from Keras 2: the scale has a maximum; a fixed scale skips non-finite steps, too;
    gradients are float32 after unscaling; a skipped step counts no iteration.

    Args:
        inner_optimizer: Of Keras 3, tf_keras or tf.compat.v1.train; in a session's graph of
            tf.compat.v1.train or tf_keras.optimizers.legacy.
        dynamic: Whether the scale changes; if not, `initial_scale` is the scale.
        initial_scale: The first loss scale; None: 2^15 for a dynamic one.
        dynamic_growth_steps: After how many finite steps in a row the scale doubles; None: 2000.
        minimum: The smallest dynamic scale; None: 1, or `initial_scale` if that is smaller.
        maximum: The largest dynamic scale; None: 2^24, or `initial_scale` if that is larger.
        ranks: The ranks that train together; None: those of this process (`compat.init`).

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has an impossible value.

    Source: Micikevicius et al. 2018, arXiv:1710.03740, section 3.2.
    """

    def __init__(
        self,
        inner_optimizer: Any,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        *,
        minimum: float | None = None,
        maximum: float | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__(inner_optimizer)
        self._constants = loss_scale_from_arguments(
            dynamic, initial_scale, dynamic_growth_steps, minimum, maximum
        )
        self._given_ranks = ranks
        with tf.init_scope():
            first = self._constants.init()
            if self.dynamic:
                self._scale = _scalar("loss_scale", first.scale)
                # The dtype that Keras saves.
                self._good_steps = _scalar("good_steps", tf.cast(first.good_steps, tf.int64))
                self._save_scale(self._scale, self._good_steps)
            self._skipped_steps = _scalar("skipped_steps", tf.constant(0))
            self._step_counts = (
                tf.Variable([0, 0, 0], trainable=False) if self._created_in is None else None
            )
        self._step = StepTransaction(
            self._constants, self._ranks, lambda: self.state, self._step_counts
        )
        self._shared_before: list[Tensor] = []
        self._last_operation: Any = None

    @property
    def dynamic(self) -> bool:
        """Whether the loss scale changes."""
        return isinstance(self._constants, DynamicLossScale)

    @property
    def initial_scale(self) -> float:
        """The first loss scale; of a fixed one the only."""
        return initial_scale_of(self._constants)

    @property
    def dynamic_growth_steps(self) -> int | None:
        """After how many finite steps in a row the scale doubles; None if it is fixed."""
        return growth_steps_of(self._constants)

    @property
    def loss_scale(self) -> Tensor:
        """The loss scale of the next step, a float32 scalar; in TF 2 it may also be called."""
        scale = self.state.scale
        return scale if is_session_graph() else CallableTensor(scale)

    @property
    def dynamic_counter(self) -> Tensor | None:
        """The finite steps in a row since the scale last changed; None if it is fixed."""
        return self._good_steps.read_value() if self.dynamic else None

    @property
    def skipped_steps(self) -> Tensor:
        """The number of steps skipped so far, an int32 scalar."""
        return self._skipped_steps.read_value()

    @property
    def state(self) -> LossScaleState:
        """The state of the loss scale in the next step; a fixed scale is a constant."""
        state = self._constants.init()
        if self.dynamic:
            good_steps = tf.cast(self._good_steps.read_value(), tf.int32)
            state = state._replace(scale=self._scale.read_value(), good_steps=good_steps)
        # A loop may assign zeros to all variables of an optimizer, or restore a scale beyond the
        # limits.
        return self._constants.clamp(state)

    def build(self, var_list: Iterable[Any]) -> None:
        """Create the variables of the inner optimizer before the first step."""
        self._inner.prepare(list(var_list))

    @as_written  # type: ignore[untyped-decorator]
    def get_scaled_loss(self, loss: Any) -> Any:
        """Begin a step: the loss times the loss scale, in float32.

        Args:
            loss: A tensor, or a function that returns one: then the result is a function, too.

        Raises:
            RuntimeError: The optimizer was created in another graph.
        """
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        if session_graph() is not self._created_in:
            raise RuntimeError(
                "get_scaled_loss: expected it where the optimizer was created: in TF 2, or in the "
                "same graph of a session. Received: a call elsewhere."
            )
        return self._constants.scale(self._step.begin(), loss)

    @as_written  # type: ignore[untyped-decorator]
    def get_unscaled_gradients(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients divided by the loss scale, in float32.

        Args:
            grads: Of the scaled loss: tensors, tf.IndexedSlices, which stay sparse, and None.

        Raises:
            RuntimeError: Not between get_scaled_loss and the first apply_gradients of a step.
        """
        state = self._step.state_to_unscale()
        unscaled: list[Any] = list(self._constants.unscale(state, list(grads)))
        self._step.add_unscaled(unscaled)
        keep_reduced_mark(grads, unscaled)
        return unscaled

    @as_written  # type: ignore[untyped-decorator]
    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        name: str | None = None,
        experimental_aggregate_gradients: bool | None = None,
        *,
        skip_gradients_aggregation: bool = False,
        global_step: Any = None,
    ) -> Any:
        """Apply one group of gradients if all gradients of the step are finite, on all ranks.

        Args:
            grads_and_vars: Unscaled gradients with their variables; None is allowed for some.
            name: Of the operation, in a session's graph.
            experimental_aggregate_gradients: Whether to average the gradients over the ranks,
                unless `all_reduce` did. None: in TF 2 yes; in a session's graph no, as in a loop
                that calls Horovod itself. Gradients of rows that only this rank has: False.
            skip_gradients_aggregation: The opposite, as newer optimizers of tf_keras name it.
            global_step: A variable to add 1 to, for optimizers of tf.compat.v1.train.

        Returns:
            Whether the group was applied, a boolean scalar; in a session's graph the operation.

        Raises:
            RuntimeError: Not after get_unscaled_gradients, or a variable for the second time; or
                inside a tf.distribute strategy, which would add up gradients after the check.
            tf.errors.InvalidArgumentError: In a run of a tf.function that applies gradients of
                other code: there are none since the last apply_gradients.
            ValueError: There is no gradient; or, with several ranks, sparse gradients without a
                word whether to average them.
        """
        if tf.distribute.has_strategy():
            raise RuntimeError(
                "apply_gradients: expected no tf.distribute strategy around it, but one process "
                "for each device, started by `python -m ampcore launch`. Received: "
                f"{type(tf.distribute.get_strategy()).__name__}."
            )
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        if all(grad is None for grad, _ in pairs):
            raise ValueError(
                "grads_and_vars: expected at least one gradient. Received: "
                f"{len(pairs)} pairs, all without a gradient."
            )
        average = False if skip_gradients_aggregation else experimental_aggregate_gradients
        grads = [grad for grad, _ in pairs]
        # As in tf_keras, before the finite check: a function of the user's may communicate.
        aggregated = None if average is False else self._inner.aggregate(grads, variables)
        grads = aggregated or reduced_gradients(self._ranks(), grads, average)
        decision = self._step.decide(grads, variables)
        self._inner.prepare(variables)
        if is_session_graph():
            return self._session_update(decision, grads, variables, global_step, name)
        return self._update(decision, grads, variables, global_step)

    def get_config(self) -> dict[str, Any]:
        """The arguments, as Keras 2 names them, and limits of the scale that are not its own."""
        config = {
            "inner_optimizer": self._inner.serialized(),
            "dynamic": self.dynamic,
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }
        described = loss_scale_from_arguments(
            self.dynamic, self.initial_scale, self.dynamic_growth_steps, None, None
        )
        if isinstance(self._constants, DynamicLossScale) and self._constants != described:
            config |= {"minimum": self._constants.minimum, "maximum": self._constants.maximum}
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Self:
        """An optimizer with the arguments of a configuration: of ampcore, Keras 2 or Keras 3.

        Raises:
            ImportError: The configuration is of Keras 2, and tf_keras is not installed.
            ValueError: It has arguments, or a loss scale of TensorFlow 2.3, that do not exist here.
        """
        return cls(**arguments_of(config, custom_objects))

    @property
    def _scale_variables(self) -> tuple[Any, ...]:
        scale = (self._scale, self._good_steps) if self.dynamic else ()
        return *scale, self._skipped_steps

    def _ranks(self) -> Ranks:
        return current_ranks() if self._given_ranks is None else self._given_ranks

    def _update(
        self, decision: GroupDecision, grads: Sequence[Any], variables: Sequence[Any], step: Any
    ) -> Tensor:
        """The update in TF 2, where a variable is read and written in the order of the code."""
        shared = self._inner.shared_variables()
        if decision.state is not None:
            self._shared_before = [tf.identity(variable) for variable in shared]
            self._assign(decision.state, decision.applied)
            restored: list[tuple[Any, Tensor]] = []
        else:
            restored = list(zip(shared, self._shared_before, strict=True))

        def commit() -> Tensor:
            for variable, value in restored:
                variable.assign(value)
            self._inner.apply(grads, variables, step)
            return tf.constant(True)

        applied = tf.cond(decision.applied, commit, lambda: tf.constant(False))
        if decision.broken is not None:
            tf.debugging.Assert(tf.logical_not(decision.broken), [_BROKEN])
        return applied

    def _session_update(
        self,
        decision: GroupDecision,
        grads: Sequence[Any],
        variables: Sequence[Any],
        step: Any,
        name: str | None,
    ) -> Any:
        """The update in a session's graph, where only dependencies make an order."""
        shared = self._inner.shared_variables()
        restored: list[tuple[Any, Tensor]] = []
        if decision.state is not None:
            # Copies: the value that was read of a reference variable changes with the variable.
            self._shared_before = [tf.raw_ops.DeepCopy(x=variable) for variable in shared]
            dependencies = list(self._shared_before)
            scale_updates = self._assign(decision.state, decision.applied)
        else:
            restored = list(zip(shared, self._shared_before, strict=True))
            dependencies, scale_updates = [self._last_operation], []

        def commit() -> Tensor:
            assigned = [tf.compat.v1.assign(variable, value) for variable, value in restored]
            with tf.control_dependencies(assigned):
                operation = self._inner.apply(grads, variables, step)
            with tf.control_dependencies([operation]):
                return tf.constant(True)

        with tf.control_dependencies(dependencies):
            done = tf.cond(decision.applied, commit, lambda: tf.constant(False))
        if decision.broken is not None:
            scale_updates = [
                *scale_updates,
                tf.debugging.Assert(tf.logical_not(decision.broken), [_BROKEN]),
            ]
        self._last_operation = tf.group(done, *scale_updates, name=name)
        return self._last_operation

    def _assign(self, state: LossScaleState, applied: Tensor) -> list[Any]:
        """Write the next state of the loss scale, once in a step."""
        assigned = [self._skipped_steps.assign_add(tf.where(applied, 0, 1))]
        if self.dynamic:
            good_steps = tf.cast(state.good_steps, tf.int64)
            assigned += [self._scale.assign(state.scale), self._good_steps.assign(good_steps)]
        return assigned


_BROKEN = (
    "A group of gradients became inf or NaN after get_unscaled_gradients, when another group of "
    "the same step had been applied: apply the group first whose gradients are changed, or change "
    "them so that they stay finite (ampcore.clip_by_global_norm does)."
)


def _scalar(name: str, value: Tensor) -> Any:
    return tf.compat.v1.Variable(value, trainable=False, use_resource=True, name=name)
