"""The models of a run as they are evaluated, compared and saved."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ampcore import optimizers as moving_averages
from ampcore.checkpoint import array_is_finite, match_arrays, state
from ampcore.distributed.tables.whole_tables import VariableRows
from ampcore.models.task import Task
from ampcore.training.state.sharded_tables import ShardedTables


class ModelWeights:
    """The weights of a task's models.

    Args:
        task: The networks.
        optimizers: One for each network, which may keep moving averages.
        tables: The tables of which this rank has some rows.
    """

    def __init__(self, task: Task, optimizers: Sequence[Any], tables: ShardedTables) -> None:
        self._task, self._optimizers, self._tables = task, optimizers, tables

    def evaluated(self) -> list[list[Any]]:
        """The weights to evaluate: their moving averages if the optimizer has them."""
        return [
            moving_averages.averaged(optimizer, network.model.trainable_variables)
            for optimizer, network in zip(self._optimizers, self._task.networks, strict=True)
        ]

    def assign_averages(self) -> None:
        """Make the moving averages the weights, at the end of the training."""
        for optimizer, network in zip(self._optimizers, self._task.networks, strict=True):
            moving_averages.assign_averages(optimizer, network.model.trainable_variables)

    def capture(self) -> state.Arrays:
        """Copy the models to the host as they are evaluated: with averages as their weights."""
        return state.capture_model(self._task.networks, self.evaluated())

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Assign what `capture` copied, perhaps in another precision.

        Raises:
            IncompatibleCheckpoint: The arrays are not those of the models.
        """
        networks = self._task.networks
        variables = state.model_variables(networks)
        expected = {name: (tuple(value.shape), value.dtype) for name, value in variables}
        state.restore_model(networks, match_arrays(arrays, expected))

    def nonfinite_names(self) -> list[str]:
        """The names of the models' variables, and of averages, that hold non-finite values."""
        shards = self._task.shards()
        is_finite: dict[str, bool] = {}
        for network, weights in zip(self._task.networks, self.evaluated(), strict=True):
            model = network.model
            pairs = [(variable, variable.value) for variable in model.variables]
            pairs += zip(model.trainable_variables, weights, strict=True)
            for variable, value in pairs:
                name = f"{network.name}/{state.stable_path(variable)}"
                has_shard = id(variable) in shards and value is variable.value
                array = VariableRows(variable) if has_shard else np.asarray(value.numpy())
                is_finite[name] = is_finite.get(name, True) and array_is_finite(array)
        return self._tables.nonfinite_on_any_rank(
            [name for name, finite in is_finite.items() if not finite]
        )

    def digest(self) -> str:
        """The SHA-256 of all weights with their whole tables; all ranks call it together."""
        tables = self._tables.of_models()
        digest = hashlib.sha256()
        for network in self._task.networks:
            for weight in network.model.weights:
                if (table := tables.get(id(weight))) is None:
                    digest.update(weight.value.numpy().tobytes())
                    continue
                for piece in table.pieces():
                    digest.update(piece.tobytes())
        return digest.hexdigest()


def parameters(task: Task) -> int:
    """Trainable and other weights of all networks, with the rows of all ranks."""
    shards = task.shards()
    elsewhere: int = sum(
        (shards[id(variable)].rows - variable.shape[0]) * math.prod(variable.shape[1:])
        for network in task.networks
        for variable in network.model.trainable_variables
        if id(variable) in shards
    )
    here: int = sum(network.model.count_params() for network in task.networks)
    return here + elsewhere
