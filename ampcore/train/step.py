"""One training step: a pure function of (state, batch) over the variables it was made for.

After the gradients (see `gradients`): float32 → divided by the loss scale → clip → update of
every network, or of none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

import tensorflow as tf

from ampcore.data import Batch
from ampcore.models.gradients import Gradients, States, scaled_gradients
from ampcore.models.task import Held, Network, Task
from ampcore.precision import (
    LossScale,
    apply_together,
    each_value,
    exact_norm,
    global_norm,
    summed_rows,
)
from ampcore.train.accumulate import accumulated

Tensor = Any

OF_EVERY_STEP: Final = ("loss", "loss_scale", "skipped", "grad_norm", "learning_rate")
OF_EVERY_NETWORK: Final = ("loss", "loss_scale", "grad_norm", "learning_rate")
BAD_MICRO_BATCHES: Final = "bad_micro_batches"


@dataclass(frozen=True)
class Clip:
    """Limits of an unscaled gradient: its global norm, and the magnitude of each element."""

    norm: float | None = None
    value: float | None = None

    def told_norm(self, grads: list[Any], norm: Tensor) -> Tensor:
        """`norm`; where its squares overflowed and a limit makes that harmless, the true norm."""
        if self.norm is None and self.value is None:
            return norm
        exact = exact_norm(grads, norm)
        return tf.where(tf.math.is_finite(exact), exact, norm)

    def __call__(self, grads: list[Any], norm: Tensor) -> list[Any]:
        """The gradients within the limits; `norm` is their global norm."""
        if self.norm is not None:
            # Gradients that are not finite stay so: their norm is NaN, or infinity times zero is.
            factor = tf.minimum(1.0, self.norm / exact_norm(grads, norm))
            grads = each_value(lambda value: value * factor, grads)
        if self.value is not None:
            limit = self.value
            grads = each_value(lambda value: _clip_by_value(value, limit), grads)
        return grads


@dataclass(frozen=True)
class TrainStep:
    """The update of a task's weights from `accumulate` micro-batches; one of each per network."""

    task: Task
    optimizers: Sequence[Any]
    loss_scales: Sequence[LossScale]
    clips: Sequence[Clip]
    accumulate: int = 1
    xla: bool = False
    """Whether XLA compiles it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What a step tells, in the order of its row.

        With several networks `loss` is the sum of theirs, `loss_scale` the smallest one,
        `grad_norm` that of all gradients, `learning_rate` the first network's.
        """
        names = [network.name for network in self.task.networks]
        extras = [f"{column}/{name}" for name in names for column in OF_EVERY_NETWORK]
        bad = [BAD_MICRO_BATCHES] if self.accumulate > 1 else []
        return (*OF_EVERY_STEP, *(extras if len(names) > 1 else []), *bad)

    def __call__(self, states: States, batch: Batch, seed: Tensor) -> tuple[States, Tensor]:
        """Train on `accumulate` equal micro-batches; returns the new states and the row, float32.

        Losses and norms are unscaled, the norms unclipped. A skipped step changes the states of
        the loss scales and nothing else.
        """
        before = self.task.held()
        found, bad, remade = self._gradients(states, before, batch, seed)
        norms = [
            clip.told_norm(grads, global_norm(grads, xla=self.xla))
            for clip, grads in zip(self.clips, found.scaled, strict=True)
        ]
        # Read before the step counts: a schedule's next value belongs to the next step.
        rates = [tf.cast(optimizer.learning_rate, tf.float32) for optimizer in self.optimizers]
        groups = [
            (optimizer, _merged(clip(grads, norm), values), network.model.trainable_variables)
            for optimizer, clip, grads, norm, values, network in zip(
                self.optimizers,
                self.clips,
                found.scaled,
                norms,
                found.overwrites,
                self.task.networks,
                strict=True,
            )
        ]
        also = _changed(self.task.networks, before, found.held)
        new_states, applied, _ = apply_together(
            self.loss_scales, states, groups, also, norms, xla=self.xla, remade=remade
        )
        own = [found.losses, [state.scale for state in states], norms, rates]
        row = _row(applied, *own) + ([bad] if self.accumulate > 1 else [])
        return new_states, tf.stack(row)

    def _gradients(
        self, states: States, held: Held, batch: Batch, seed: Tensor
    ) -> tuple[Gradients, Tensor, list[Callable[[], list[Any]]] | None]:
        """Unscaled float32 gradients, and the number of micro-batches in which one was not finite.

        Duplicate rows of sparse gradients are added up. Also returns functions that make the
        gradients of each network once more, where that takes only a division.
        """
        remade: list[Callable[[], list[Any]]] = []

        def micro(held: Held, batch: Batch, seed: Tensor) -> Gradients:
            found = scaled_gradients(self.task, self.loss_scales, states, held, batch, seed)
            parts = zip(self.loss_scales, states, found.scaled, strict=True)
            unscaled = [partial(scale.unscale, state, grads) for scale, state, grads in parts]
            remade.extend(unscaled)
            return found._replace(scaled=[make() for make in unscaled])

        found, bad = accumulated(micro, self.accumulate, held, batch, seed)
        grads = [summed_rows(own) for own in found.scaled]
        simple = self.accumulate == 1 and not any(
            isinstance(grad, tf.IndexedSlices) for own in grads for grad in own
        )
        return found._replace(scaled=grads), bad, remade if simple else None


def _row(
    applied: Tensor,
    losses: list[Tensor],
    scales: list[Tensor],
    norms: list[Tensor],
    rates: list[Tensor],
) -> list[Tensor]:
    skipped = tf.cast(tf.logical_not(applied), tf.float32)
    if len(losses) == 1:
        return [losses[0], scales[0], skipped, norms[0], rates[0]]
    own = chain.from_iterable(zip(losses, scales, norms, rates, strict=True))
    return [tf.add_n(losses), tf.reduce_min(scales), skipped, tf.norm(norms), rates[0], *own]


def _merged(grads: list[Any], overwrites: list[Any]) -> list[Any]:
    """What an optimizer takes: each variable's gradient, or the value that overwrites it."""
    rows = zip(grads, overwrites, strict=True)
    return [grad if value is None else value for grad, value in rows]


def _clip_by_value(grad: Tensor, limit: float) -> Tensor:
    # Clipping would turn an infinity into a number and hide the overflow.
    clipped = tf.clip_by_value(grad, -limit, limit)
    return tf.where(tf.math.is_finite(grad), clipped, grad)


def _changed(
    networks: Sequence[Network], before: Held, after: Held
) -> Iterator[tuple[Any, Tensor]]:
    """The variables that the forward pass would have assigned, with their new values."""
    for network, *values in zip(networks, before, after, strict=True):
        rows = zip(network.model.non_trainable_variables, *values, strict=True)
        yield from ((variable, new) for variable, old, new in rows if new is not old)
