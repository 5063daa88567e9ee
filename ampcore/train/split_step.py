"""A step of several replicas in which XLA compiles the gradients and the update.

XLA cannot compile the communication between processes, so it stays between the two programs.
"""

from typing import Any

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.gradients import Gradients
from ampcore.models.task import NonTrainable
from ampcore.precision import LossScaleStates
from ampcore.train.step import TrainStep
from ampspec.errors import InvalidModel

Tensor = Any


class SplitStep:
    """Calls the parts of a step as functions of their own; see `TrainStep`."""

    def __init__(self, step: TrainStep) -> None:
        self._step = step
        self._changed: list[list[bool]] = []
        """Which non-trainable values a step changes; known once the gradients are traced."""
        self._compute = tf.function(self._traced_compute, autograph=False, jit_compile=True)
        self._update = tf.function(self._traced_update, autograph=False, jit_compile=True)

    def __call__(
        self, states: LossScaleStates, batch: Batch, seed: Tensor
    ) -> tuple[LossScaleStates, Tensor]:
        """As the step itself."""
        found, updates, bad = self._compute(states, batch, seed)
        before = self._step.task.non_trainable()
        found = found._replace(state_updates=self._with_changes(before, updates))
        found, bad, seconds = self._step.communicate(states, before, found, bad)
        updates = self._changes(found.state_updates)
        states, row = self._update(states, found._replace(state_updates=[]), updates, bad)
        return states, tf.concat([row, [seconds]], axis=0)

    def _traced_compute(
        self, states: LossScaleStates, batch: Batch, seed: Tensor
    ) -> tuple[Gradients, list[Tensor], Tensor]:
        before = self._step.task.non_trainable()
        found, bad = self._step.compute(states, before, batch, seed)
        _check_dense(found)
        pairs = [zip(*own, strict=True) for own in zip(before, found.state_updates, strict=True)]
        self._changed = [[new is not old for old, new in own] for own in pairs]
        updates = self._changes(found.state_updates)
        return found._replace(state_updates=[], recompute_gradients=None), updates, bad

    def _traced_update(
        self, states: LossScaleStates, found: Gradients, updates: list[Tensor], bad: Tensor
    ) -> tuple[LossScaleStates, Tensor]:
        before = self._step.task.non_trainable()
        found = found._replace(state_updates=self._with_changes(before, updates))
        return self._step.update(states, before, found, bad)

    def _changes(self, values: NonTrainable) -> list[Tensor]:
        """The values that a step changes."""
        return [
            value
            for own, changed in zip(values, self._changed, strict=True)
            for value, is_changed in zip(own, changed, strict=True)
            if is_changed
        ]

    def _with_changes(self, before: NonTrainable, updates: list[Tensor]) -> NonTrainable:
        """The values before, with the changed ones in their places."""
        rest = iter(updates)
        return [
            [
                next(rest) if is_changed else value
                for value, is_changed in zip(own, changed, strict=True)
            ]
            for own, changed in zip(before, self._changed, strict=True)
        ]


def _check_dense(found: Gradients) -> None:
    """Raise InvalidModel for sparse gradients: XLA would compile for each number of rows."""
    if any(isinstance(grad, tf.IndexedSlices) for own in found.gradients for grad in own):
        raise InvalidModel(
            "runtime.engine",
            expected="auto or graph for a model with sparse gradients on several ranks",
            received="xla_step",
        )
