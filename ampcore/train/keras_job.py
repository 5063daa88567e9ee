"""The job of `Trainer.from_keras`: a Keras model with its own data, losses and metrics."""

from collections.abc import Mapping
from typing import Any, Final

from ampcore import optimizers
from ampcore.data import Dataset
from ampcore.data.local import LocalDataset
from ampcore.models.supervised import Objective, SupervisedTask
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.precision.model_copy import assign_values, can_recreate, copy_model
from ampcore.train.clip import Clip
from ampcore.train.job import TrainingJob
from ampcore.train.local_spec import KerasOptimizer, LocalSpec

NETWORK: Final = "model"
"""The name of the network, and of its file."""


def copied_network(model: Any, example: Any, policies: LayerPolicies) -> Network:
    """A network with a copy of a model, in the policy's dtypes.

    A subclassed model without a get_config is not copied, but given its dtypes when it is called.
    """
    if not can_recreate(model):
        return Network(NETWORK, model, policies.in_place(model, example))
    converted = policies.apply(model, example)
    copied = copy_model(model, example) if converted is model else converted
    return Network(NETWORK, copied)


class KerasJob(TrainingJob):
    """A Keras model that is trained on given data.

    A run trains a copy of the model, and a complete run copies the trained values back. A
    subclassed model without a get_config is trained itself.

    Args:
        model: A built keras.Model in float32.
        data: The examples.
        spec: The settings.
        objectives: The loss and the metrics of each output as they were given, by its name.
        optimizer: An optimizer of Keras to copy; None: the one that the spec describes.
    """

    def __init__(
        self,
        model: Any,
        data: LocalDataset,
        spec: LocalSpec,
        objectives: Mapping[str, Objective],
        optimizer: Any = None,
    ) -> None:
        self.spec: LocalSpec = spec
        self.model = model
        self._data, self._objectives = data, dict(objectives)
        self._optimizer = optimizer

    def load_data(self) -> Dataset:
        """The given examples."""
        return self._data.dataset()

    def build_task(self, dataset: Dataset, policies: LayerPolicies) -> Task:
        """A copy of the model with the policy's dtypes, with its losses and metrics.

        A subclassed model without a get_config is not copied: all tasks have its variables.
        """
        network = copied_network(self.model, self._data.example, policies)
        return SupervisedTask(network, self._objectives)

    def build_optimizer(self, network: Network, total_steps: int) -> tuple[Any, Clip]:
        """A new optimizer, whose slots are zero."""
        own = self.spec.optimizer
        if isinstance(own, KerasOptimizer):
            given = self._optimizer
            return type(given).from_config(given.get_config()), Clip()
        return optimizers.build(own, total_steps), Clip(own.clip_norm, own.clip_value)

    def on_success(self, task: Task) -> None:
        """Copy the trained values into the given model."""
        trained = task.networks[0].model
        if trained is not self.model:
            assign_values(trained, self.model)
