"""A Keras optimizer with one pass over memory, which never touches unused rows of tables.

Differences from Keras's own optimizers, with the same results:

- A sparse gradient updates only its own rows, of weights and slots: an
  untouched row keeps its momenta and is not decayed ("lazy", as PyTorch's SparseAdam). Keras
  converts it to a dense gradient and passes over the whole table a dozen times.
- A dense float32 variable is updated by one fused TensorFlow kernel, if there is one.
- The arithmetic and the slots are float32 even if weights are stored in 16 bits: the square of
  a float16 gradient of 1e-4 would be 0. The weights are then rounded to nearest.
- The scalars of an update (rate, bias corrections) are computed once for all variables.
- It does not all-reduce over tf.distribute: the training step has reduced the gradients already.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from ampcore.optimizers import moving_average, sparse_rows
from ampcore.optimizers.moving_average import MovingAverage
from ampcore.optimizers.update_rules import Rule, UpdateScalars
from ampcore.precision import is_overwritten, map_values, sum_duplicate_rows

Tensor = Any


class Optimizer(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Updates weights with a rule.

    Args:
        rule: The update formula.
        learning_rate: A float, or a Keras LearningRateSchedule.
        name: The prefix of the paths of its variables.
        weight_decay: An update multiplies a weight by 1 - learning_rate * weight_decay.
        ema: The momentum of a moving average of the weights; None for no average.
    """

    def __init__(
        self,
        rule: Rule,
        learning_rate: Any,
        *,
        name: str,
        weight_decay: float | None = None,
        ema: float | None = None,
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, name=name)
        self.rule = rule
        self.ema = ema
        self._slots: list[list[Any]] = []
        self._averages: list[MovingAverage | None] = []
        self._applied: Tensor | None = None

    def build(self, variables: Sequence[Any]) -> None:
        """Create the slots, and the averages, which start as the weights.

        A variable that is overwritten with its "gradient" has neither.
        """
        if self.built:
            return
        super().build(variables)
        self._slots = [
            []
            if is_overwritten(variable)
            else [self._add_slot(variable, slot) for slot in self.rule.slots]
            for variable in variables
        ]
        if self.ema is not None:
            self._averages = [
                None if is_overwritten(variable) else self._add_average(variable)
                for variable in variables
            ]

    def average_of(self, variable: Any) -> MovingAverage | None:
        """The moving average of a variable; None without `ema`, and where it is overwritten."""
        return self._averages[self._get_variable_index(variable)] if self._averages else None

    def variables_by_row(self, variable: Any) -> list[Any]:
        """The variables that have a row for each row of a variable: its slots and its average."""
        average = self.average_of(variable)
        slots = self._slots[self._get_variable_index(variable)]
        return [*slots, *([] if average is None else average)]

    def apply_where(
        self, applied: Tensor, grads: Sequence[Any], trainable_variables: Sequence[Any]
    ) -> None:
        """As `apply` where `applied`, a boolean scalar, is true; else nothing changes.

        For XLA, which copies every variable that a branch around `apply` may change; only XLA can
        execute it.
        """
        # Keras assigns these itself, whatever `update_step` makes of `applied`.
        assigned = [self.iterations] + [
            variable
            for variable in trainable_variables
            if is_overwritten(variable) or variable.constraint
        ]
        old_values = [tf.convert_to_tensor(variable) for variable in assigned]
        self._applied = applied
        try:
            self.apply(grads, trainable_variables)
        finally:
            self._applied = None
        for variable, old in zip(assigned, old_values, strict=True):
            variable.assign(tf.where(applied, tf.convert_to_tensor(variable), old))

    def update_step(self, gradient: Any, variable: Any, scalars: UpdateScalars) -> None:
        """Update one variable, its slots and its average."""
        slots = [slot.value for slot in self._slots[self._get_variable_index(variable)]]
        if isinstance(gradient, tf.IndexedSlices):
            self._update_rows(gradient, variable, slots, scalars)
        else:
            self._update_whole(_float32(gradient), variable, slots, scalars)

    def _update_rows(
        self, gradient: Any, variable: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> None:
        [grad] = sum_duplicate_rows([_float32(gradient)])
        touched = grad.indices
        weight, *values = sparse_rows.gather([variable, *slots], touched)
        new_values = self.rule.new_slots(grad.values, values, scalars)
        moved = self.rule.new_weight(
            grad.values, self._with_weight_decay(weight, scalars), new_values, scalars
        )
        moved, *new_values = sparse_rows.select(
            scalars.applied, [moved, *new_values], [weight, *values]
        )
        sparse_rows.scatter([variable, *slots], touched, [moved, *new_values])
        average = self.average_of(variable)
        if self.ema is not None and average is not None:
            # The stored weight is averaged, after rounding.
            stored = tf.cast(tf.cast(moved, variable.dtype), tf.float32)
            moving_average.update_rows(
                average,
                touched,
                weight,
                stored,
                ema=self.ema,
                updates=scalars.updates,
                applied=scalars.applied,
            )

    def _update_whole(
        self, grad: Tensor, variable: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> None:
        if scalars.applied is not None or not self._try_fused(grad, variable, slots, scalars):
            self._assign(grad, variable, slots, scalars)
        average = self.average_of(variable)
        if self.ema is not None and average is not None:
            moving_average.update(average, variable, self.ema, scalars.updates, scalars.applied)

    def _assign(
        self, grad: Tensor, variable: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> None:
        weight, *values = [tf.convert_to_tensor(part) for part in (variable, *slots)]
        new_values = self.rule.new_slots(grad, values, scalars)
        if scalars.applied is not None and values:
            # Otherwise XLA computes the slots twice, and keeps copies of the old ones.
            new_values = xla.optimization_barrier(
                *sparse_rows.select(scalars.applied, new_values, values)
            )
        new_weight = self._with_weight_decay(tf.cast(weight, tf.float32), scalars)
        new_weight = tf.cast(
            self.rule.new_weight(grad, new_weight, new_values, scalars), weight.dtype
        )
        [new_weight] = sparse_rows.select(scalars.applied, [new_weight], [weight])
        for target, value in zip([variable, *slots], [new_weight, *new_values], strict=True):
            target.assign(value)

    def _try_fused(
        self, grad: Tensor, variable: Any, slots: Sequence[Any], scalars: UpdateScalars
    ) -> bool:
        if variable.dtype != tf.float32 or not self.rule.has_fused_kernel(variable):
            return False
        if self.weight_decay:
            variable.assign(self._with_weight_decay(tf.convert_to_tensor(variable), scalars))
        self.rule.apply_fused(grad, variable, slots, scalars)
        return True

    def _with_weight_decay(self, weight: Tensor, scalars: UpdateScalars) -> Tensor:
        return weight * (1.0 - scalars.rate * self.weight_decay) if self.weight_decay else weight

    def _add_slot(self, variable: Any, name: str, **how: Any) -> Any:
        """A float32 variable in the shape of a weight."""
        path = _dotted_path(variable.path)
        return self.add_variable(variable.shape, dtype="float32", name=f"{path}.{name}", **how)

    def _add_average(self, variable: Any) -> MovingAverage:
        def copied(shape: Any, dtype: Any = None) -> Tensor:
            return tf.cast(variable.value, dtype)

        name = f"{_dotted_path(variable.path)}.average_seen"
        seen = self.add_variable(variable.shape[:1], dtype="int64", name=name)
        return MovingAverage(self._add_slot(variable, "average", initializer=copied), seen)

    def _backend_update_step(
        self, grads: Sequence[Any], trainable_variables: Sequence[Any], learning_rate: Any
    ) -> None:
        updates, rate = tf.convert_to_tensor(self.iterations), tf.cast(learning_rate, tf.float32)
        scalars = UpdateScalars(updates, rate, self.rule.corrections(updates, rate), self._applied)
        # Not the method of Keras: inside a tf.distribute strategy it would all-reduce gradients
        # that the training step has reduced, and checked, already.
        for grad, variable in zip(grads, trainable_variables, strict=True):
            self.update_step(grad, variable.value, scalars)

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        """Do nothing: the update of each variable applies the decay."""


def _float32(grad: Any) -> Any:
    [cast] = map_values(lambda value: tf.cast(value, tf.float32), [grad])
    return cast


def _dotted_path(path: str) -> str:
    # A Keras name cannot contain a slash, and an underscore could make two paths equal.
    return path.replace("/", ".")
