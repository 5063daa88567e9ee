"""Everything that the next step depends on: captured, restored, and compared between ranks."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from ampcore.checkpoint import match_arrays, state
from ampcore.distributed.tables.whole_tables import VariableRows
from ampcore.models.task import Network
from ampcore.precision import LossScale, LossScaleState
from ampcore.training.state.sharded_tables import ShardedTables


class TrainState:
    """The variables of networks and optimizers, and the states of the loss scales.

    Args:
        networks: The networks.
        optimizers: One for each network, built.
        loss_scales: One for each network.
        scale_spec: How the loss scales are set; states of others are not restored.
        tables: The tables of which this rank has some rows.

    Attributes:
        scales: The loss scales' states of the next step, which the caller of the loop replaces.
        first_scales: The captured states before the first step.
    """

    def __init__(
        self,
        networks: Sequence[Network],
        optimizers: Sequence[Any],
        loss_scales: Sequence[LossScale],
        scale_spec: Mapping[str, Any],
        tables: ShardedTables,
    ) -> None:
        self._networks, self._optimizers, self._loss_scales = networks, optimizers, loss_scales
        self.scale_spec, self._tables = dict(scale_spec), tables
        self.scales: tuple[LossScaleState, ...] = tuple(scale.init() for scale in loss_scales)
        self.first_scales = state.capture_scales(networks, self.scales)

    @property
    def scale_by_network(self) -> dict[str, float]:
        """The loss scale of the next step, by network."""
        rows = zip(self._networks, self.scales, strict=True)
        return {network.name: float(state.scale) for network, state in rows}

    @property
    def smallest_scale(self) -> float:
        """The smallest loss scale of the next step."""
        return min(self.scale_by_network.values())

    def capture(self) -> state.Arrays:
        """Copy everything that the next step depends on to the host."""
        return state.capture(self._networks, self._optimizers, self.scales)

    def capture_common(self) -> state.Arrays:
        """As `capture`, without the rows of tables that only this rank has."""
        return state.capture(self._networks, self._optimizers, self.scales, self._tables.shards)

    def views(self) -> dict[str, Any]:
        """As `capture`, for a reader that is done before the next step.

        The rows of tables that only this rank has are not copied, but read in pieces.
        """
        shards = self._tables.shards
        rows = {
            name: VariableRows(variable) for name, variable in self._variables() if name in shards
        }
        return self.capture_common() | rows

    def restore(self, arrays: Mapping[str, NDArray[Any]], *, scales: bool = True) -> None:
        """Restore what `capture` copied; without `scales` the loss scales stay."""
        state.restore(self._networks, self._optimizers, arrays)
        if scales:
            self.restore_scales(arrays)

    def restore_common(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `capture_common` copied."""
        state.restore(self._networks, self._optimizers, arrays, self._tables.shards)
        self.restore_scales(arrays)

    def restore_scales(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the states of the loss scales, within the bounds of their kinds."""
        self._clamp(state.scale_states(self._networks, self.scales, arrays))

    def lower_scales(self, factor: float) -> None:
        """Multiply every loss scale by `factor`, within the bounds of its kind."""
        self._clamp([state._replace(scale=state.scale * factor) for state in self.scales])

    def split_loss_scales(
        self, arrays: Mapping[str, NDArray[Any]]
    ) -> tuple[state.Arrays, state.Arrays]:
        """Split what `capture` copied into the variables and the states of the loss scales."""
        scales = {name: array for name, array in arrays.items() if state.is_loss_scale(name)}
        return {name: array for name, array in arrays.items() if name not in scales}, scales

    def expected_arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """The shape and dtype of every variable that `restore` needs, by name."""
        return {
            name: (tuple(variable.shape), variable.dtype) for name, variable in self._variables()
        }

    def match_variables(self, arrays: Mapping[str, NDArray[Any]]) -> state.Arrays:
        """The arrays of all variables, copied perhaps in another precision, for `restore`.

        Raises:
            IncompatibleCheckpoint: They are not those of these variables.
        """
        expected = self.expected_arrays()
        return match_arrays(state.with_amax_histories(arrays, expected), expected)

    def statistic_names(self) -> list[str]:
        """The names in `capture` of the floats that a forward pass changes."""
        statistics = {
            id(variable)
            for network in self._networks
            for variable in network.model.non_trainable_variables
            if "float" in variable.dtype
        }
        return [name for name, variable in self._variables() if id(variable) in statistics]

    def _variables(self) -> list[tuple[str, Any]]:
        return list(state.named_variables(self._networks, self._optimizers))

    def _clamp(self, states: Sequence[LossScaleState]) -> None:
        self.scales = tuple(
            loss_scale.clamp(state)
            for loss_scale, state in zip(self._loss_scales, states, strict=True)
        )
