"""The values that a step reports: a line in `TELEMETRY_COLUMNS` is stored, served and plotted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import tensorflow as tf

from ampcore.training.step.gradients import NetworkGradients

Tensor = Any


class NetworkOutcome(NamedTuple):
    """What a step did with one network."""

    gradients: NetworkGradients
    loss_scale: Tensor
    learning_rate: Tensor


class StepOutcome(NamedTuple):
    """What a step did."""

    networks: list[NetworkOutcome]
    applied: Tensor
    nonfinite_micro_batches: Tensor


@dataclass(frozen=True)
class StepColumn:
    """A value of a step, whatever its networks.

    Args:
        name: Its name in telemetry.
        value: Computes it: a float32 scalar.
    """

    name: str
    value: Callable[[StepOutcome], Tensor]


@dataclass(frozen=True)
class NetworkColumn:
    """A value of each network; with several networks also named NAME/NETWORK.

    Args:
        name: Its name in telemetry.
        of_network: Computes that of one network: a float32 scalar.
        of_networks: Computes that of the step from those of several networks.
    """

    name: str
    of_network: Callable[[NetworkOutcome], Tensor]
    of_networks: Callable[[list[Tensor]], Tensor]

    def value(self, outcome: StepOutcome) -> Tensor:
        """The value of the step."""
        values = [self.of_network(network) for network in outcome.networks]
        return values[0] if len(values) == 1 else self.of_networks(values)


def _first(values: list[Tensor]) -> Tensor:
    return values[0]


TELEMETRY_COLUMNS: Final[tuple[StepColumn | NetworkColumn, ...]] = (
    NetworkColumn("loss", lambda network: network.gradients.loss, tf.add_n),
    NetworkColumn("loss_scale", lambda network: network.loss_scale, tf.reduce_min),
    StepColumn("skipped", lambda step: tf.cast(tf.logical_not(step.applied), tf.float32)),
    NetworkColumn("grad_norm", lambda network: network.gradients.norm, tf.norm),
    NetworkColumn("learning_rate", lambda network: network.learning_rate, _first),
)
"""The values of every step, in the order of its row."""

ACCUMULATION_COLUMNS: Final = (
    StepColumn("nonfinite_micro_batches", lambda step: step.nonfinite_micro_batches),
)
"""The values of a step of several micro-batches."""

STEP_COLUMNS: Final = tuple(column.name for column in TELEMETRY_COLUMNS)
NETWORK_COLUMNS: Final = tuple(
    column.name for column in TELEMETRY_COLUMNS if isinstance(column, NetworkColumn)
)


@dataclass(frozen=True)
class RowLayout:
    """The columns of a step's row.

    Args:
        networks: The names of the task's networks.
        accumulates: Whether a step has several micro-batches.
    """

    networks: tuple[str, ...]
    accumulates: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the values, in order.

        With several networks `loss` is the sum of their losses, `loss_scale` the smallest scale,
        `grad_norm` the norm of all gradients, and `learning_rate` that of the first network.
        """
        several = self.networks if len(self.networks) > 1 else ()
        extras = [f"{column}/{network}" for network in several for column in NETWORK_COLUMNS]
        return (*STEP_COLUMNS, *extras, *(column.name for column in self._last))

    def row(self, outcome: StepOutcome) -> Tensor:
        """A float32 vector with a value for each of `columns`."""
        values = [column.value(outcome) for column in TELEMETRY_COLUMNS]
        values += self._of_networks(outcome)
        values += [column.value(outcome) for column in self._last]
        return tf.stack(values)

    @property
    def _last(self) -> tuple[StepColumn, ...]:
        return ACCUMULATION_COLUMNS if self.accumulates else ()

    def _of_networks(self, outcome: StepOutcome) -> Iterator[Tensor]:
        if len(self.networks) == 1:
            return
        for network in outcome.networks:
            for column in TELEMETRY_COLUMNS:
                if isinstance(column, NetworkColumn):
                    yield column.of_network(network)
