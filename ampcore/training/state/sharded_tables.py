"""The tables of a run whose rows are on several ranks; without any, everything stays as it is."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any

from ampcore.checkpoint import state
from ampcore.distributed import Communicator
from ampcore.distributed.row_shards import RowShard
from ampcore.distributed.tables.whole_tables import VariableRows, WholeTable
from ampcore.models.task import Task


class ShardedTables:
    """The tables of a task of which each rank has some rows.

    Args:
        task: The networks.
        optimizers: One for each network, whose slots have the same rows.
        communicator: The ranks.
    """

    def __init__(self, task: Task, optimizers: Sequence[Any], communicator: Communicator) -> None:
        self._task, self._optimizers, self._communicator = task, optimizers, communicator

    @cached_property
    def shards(self) -> Mapping[str, RowShard]:
        """The arrays of a captured state or model that have only the rows of this rank."""
        tables = self._task.shards()
        shards: dict[int, RowShard] = dict(tables)
        for optimizer, network in zip(self._optimizers, self._task.networks, strict=True):
            for variable in network.model.trainable_variables:
                if (shard := tables.get(id(variable))) is not None:
                    slots = optimizer.variables_by_row(variable)
                    shards |= {id(slot): shard for slot in slots}
        pairs = state.named_variables(self._task.networks, self._optimizers)
        return {name: shards[id(variable)] for name, variable in pairs if id(variable) in shards}

    def whole(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """A captured state or model, with whole tables that arrive in pieces."""
        return {
            name: WholeTable(array, self.shards[name], self._communicator)
            if name in self.shards
            else array
            for name, array in arrays.items()
        }

    def of_models(self) -> dict[int, WholeTable]:
        """The tables by `id` of the models' variables; all ranks take their pieces together."""
        shards = self._task.shards()
        return {
            id(variable): WholeTable(
                VariableRows(variable), shards[id(variable)], self._communicator
            )
            for network in self._task.networks
            for variable in network.model.trainable_variables
            if id(variable) in shards
        }

    def nonfinite_on_any_rank(self, names: Sequence[str]) -> list[str]:
        """The names that this rank, or another one with other rows, has seen not finite."""
        if not self.shards:
            return list(names)
        return list(
            dict.fromkeys(chain.from_iterable(self._communicator.all_gather_object(list(names))))
        )
