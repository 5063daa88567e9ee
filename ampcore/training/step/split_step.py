"""A step of several ranks in which XLA compiles the gradients and the update.

XLA cannot compile the communication between processes, so it stays between the two programs.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ampcore.data import Batch
from ampcore.precision import LossScaleStates
from ampcore.training.step.gradients import StepGradients
from ampcore.training.step.train_step import TrainStep
from ampspec.errors import InvalidModel

Tensor = Any
Step = Callable[[LossScaleStates, Batch, Tensor], tuple[LossScaleStates, Tensor]]


def split_step(step: TrainStep) -> Step:
    """The same step as `TrainStep.__call__`, its two ends compiled by XLA.

    Raises:
        InvalidModel: When it is traced, for a model with sparse gradients.
    """

    def dense_gradients(states: LossScaleStates, batch: Batch, seed: Tensor) -> StepGradients:
        gradients = step.accumulated_gradients(states, batch, seed)
        _check_dense(gradients)
        # A function cannot be returned by a compiled program.
        networks = [network._replace(recompute_gradients=None) for network in gradients.networks]
        return gradients._replace(networks=networks)

    accumulated_gradients = tf.function(dense_gradients, autograph=False, jit_compile=True)
    update = tf.function(step.update, autograph=False, jit_compile=True)

    def call(states: LossScaleStates, batch: Batch, seed: Tensor) -> tuple[LossScaleStates, Tensor]:
        gradients = accumulated_gradients(states, batch, seed)
        gradients = step.mean_of_ranks(states, gradients)
        next_states, row = update(states, gradients)
        return next_states, row

    return call


def _check_dense(gradients: StepGradients) -> None:
    """Raise InvalidModel for sparse gradients: XLA would compile for each number of rows."""
    grads = (grad for network in gradients.networks for grad in network.gradients)
    if any(isinstance(grad, tf.IndexedSlices) for grad in grads):
        raise InvalidModel(
            "runtime.engine",
            expected="auto or graph for a model with sparse gradients on several ranks",
            received="xla_step",
        )
