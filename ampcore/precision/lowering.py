"""Two forms of the norms and the update of a step: for TensorFlow's graph executor and for XLA.

Both give the same result, but have different costs. Source of the numbers: measurements on two CPU
cores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, Self

import tensorflow as tf

from ampcore.precision.finite import dense_values, global_norm
from ampcore.precision.overwrite_with_gradient import split_overwrites

Tensor = Any
Assignments = Sequence[tuple[Any, Tensor]]
"""Variables with the values that they take in an applied step."""

SMALL_SIZE: Final = 4096
"""XLA sums this many elements in a few microseconds, in any form."""
PARTIAL_SUMS: Final = 32
"""The number of parallel partial sums: enough to fill a CPU's vector registers."""


@dataclass(frozen=True)
class OptimizerUpdate:
    """The part of a step that one optimizer applies.

    Args:
        optimizer: One of ampcore or Keras, without a loss scale of its own.
        gradients: Unscaled, one for each variable; None for one that is overwritten.
        variables: The variables.
        overwrites: The values of variables that are overwritten, by their index; not checked.
        checks_finite: Whether gradients that are not finite skip the step.
        norm: The global norm of the gradients before clipping; None: it is computed. A finite one
            proves that all elements are finite.
        recompute_gradients: Computes what is checked if the norm is not finite; None: the gradients
            are.
    """

    optimizer: Any
    gradients: Sequence[Any]
    variables: Sequence[Any]
    overwrites: Mapping[int, Tensor] = field(default_factory=dict)
    checks_finite: bool = True
    norm: Tensor | None = None
    recompute_gradients: Callable[[], Sequence[Any]] | None = None

    @classmethod
    def of(
        cls, optimizer: Any, grads: Sequence[Any], variables: Sequence[Any], **checks: Any
    ) -> Self:
        """The update from the "gradients" of a tape, which may contain overwrites."""
        gradients, overwrites = split_overwrites(grads, variables)
        return cls(optimizer, gradients, variables, overwrites, **checks)

    @property
    def inputs(self) -> tuple[list[Any], list[Any]]:
        """What the optimizer is called with; the value of an overwritten variable is its gradient.

        Keras's layers in float8 ask its optimizers for that.
        """
        grads = [self.overwrites.get(index, grad) for index, grad in enumerate(self.gradients)]
        return grads, list(self.variables)


@dataclass(frozen=True)
class GraphLowering:
    """For TensorFlow's executor: branches are cheap, and one kernel computes the sum of squares."""

    def global_norm(self, grads: Sequence[Any]) -> Tensor:
        """The L2 norm of all gradients together, float32."""
        return global_norm(grads)

    def commit(
        self,
        applied: Tensor | None,
        updates: Sequence[OptimizerUpdate],
        state_updates: Assignments,
    ) -> None:
        """Apply gradients and state updates where `applied` is true; always where it is None."""

        def commit() -> Tensor:
            # First: a layer may have assigned a weight, which the optimizer then updates.
            for variable, value in state_updates:
                variable.assign(value)
            for update in updates:
                update.optimizer.apply(*update.inputs)
            return tf.constant(True)

        if applied is None:
            commit()
        else:
            tf.cond(applied, commit, lambda: tf.constant(False))


@dataclass(frozen=True)
class XlaLowering:
    """For XLA, which copies variables that a branch may change, and sums serially on a CPU."""

    def global_norm(self, grads: Sequence[Any]) -> Tensor:
        """The L2 norm of all gradients together, float32; its rounding differs from the graph's."""
        values = dense_values(grads)
        return tf.sqrt(_sum_of_squares(values)) if values else tf.constant(0.0)

    def commit(
        self,
        applied: Tensor | None,
        updates: Sequence[OptimizerUpdate],
        state_updates: Assignments,
    ) -> None:
        """Choose between the old and the new value of every variable."""
        applied = tf.constant(True) if applied is None else applied
        for variable, value in state_updates:
            variable.assign(tf.where(applied, value, tf.convert_to_tensor(variable.value)))
        for update in updates:
            if hasattr(update.optimizer, "apply_where"):
                update.optimizer.apply_where(applied, *update.inputs)
            else:
                _apply_and_choose(applied, update)


Lowering = GraphLowering | XlaLowering
GRAPH: Final = GraphLowering()
XLA: Final = XlaLowering()


def _apply_and_choose(applied: Tensor, update: OptimizerUpdate) -> None:
    """Apply an optimizer of Keras, and assign the old values again where `applied` is false."""
    changed = [*update.variables, *update.optimizer.variables]
    old_values = [tf.convert_to_tensor(variable.value) for variable in changed]
    update.optimizer.apply(*update.inputs)
    for variable, old in zip(changed, old_values, strict=True):
        variable.assign(tf.where(applied, tf.convert_to_tensor(variable.value), old))


def _sum_of_squares(values: Sequence[Tensor]) -> Tensor:
    """The sum of squares over all elements, with vector additions.

    On a CPU XLA sums an array serially, and fuses even two sums over one axis each into such a sum:
    40 µs for 50,000 elements, instead of 8 µs here.
    """
    return tf.add_n([_vector_sum(tf.square(tf.reshape(value, [-1]))) for value in values])


def _vector_sum(flat: Tensor) -> Tensor:
    size = flat.shape[0]
    if size is None or size <= SMALL_SIZE:
        return tf.reduce_sum(flat)
    whole = size // PARTIAL_SUMS * PARTIAL_SUMS
    parts = tf.unstack(tf.reshape(flat[:whole], [PARTIAL_SUMS, -1]))
    total = _vector_sum(reduce(tf.add, parts))
    return total if whole == size else total + tf.reduce_sum(flat[whole:])
