"""The job of `Trainer.from_keras`: a Keras model with its own data, losses and metrics."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from ampcore import optimizers
from ampcore.data import Dataset
from ampcore.data.local import LocalDataset
from ampcore.models.supervised import Objective, SupervisedTask
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.precision.layers.dtype_conflict import explain_dtype_conflict, explain_missing_kernel
from ampcore.training.jobs.job import TrainingJob
from ampcore.training.jobs.keras_model_state import GivenModel, GivenOptimizer
from ampcore.training.jobs.local_spec import KerasOptimizer, LocalSpec
from ampcore.training.step.clip import Clip
from ampspec.errors import TrainingError


class KerasJob(TrainingJob):
    """A Keras model that is trained on given data.

    The model itself is trained, with the optimizer itself, as in `fit`. A run that fails or is
    stopped puts the variables of both back.

    Args:
        model: A built keras.Model.
        data: The examples.
        spec: The settings.
        objectives: The loss and the metrics of each output as they were given, by its name.
        optimizer: An optimizer of Keras; None: the one that the spec describes.
        keeps_dtypes: Whether layers without an override compute in the dtypes that they have.
    """

    def __init__(
        self,
        model: Any,
        data: LocalDataset,
        spec: LocalSpec,
        objectives: Mapping[str, Objective],
        optimizer: Any = None,
        *,
        keeps_dtypes: bool = False,
    ) -> None:
        self.spec: LocalSpec = spec
        self.model = model
        self.keeps_dtypes = keeps_dtypes
        self._model_state: GivenModel | None = None
        self._data, self._objectives = data, dict(objectives)
        self._optimizer = optimizer
        self._given_optimizer: GivenOptimizer | None = None

    def load_data(self) -> Dataset:
        """The given examples."""
        return self._data.dataset()

    @property
    def _given_model(self) -> GivenModel:
        if self._model_state is None:
            self._model_state = GivenModel(self.model, self._data.example)
        return self._model_state

    @contextmanager
    def lent_model(self) -> Iterator[Callable[[], None]]:
        """A context after which model and optimizer are as before, unless its value is called."""
        self._model_state = model_state = GivenModel(self.model, self._data.example)
        optimizer = None if self._optimizer is None else GivenOptimizer(self._optimizer)
        self._given_optimizer = optimizer
        parts = [part for part in (model_state, optimizer) if part is not None]
        completed = False

        def keep() -> None:
            nonlocal completed
            completed = True

        try:
            yield keep
        finally:
            for part in parts:
                part.keep() if completed else part.put_back()
            self._model_state = self._given_optimizer = None

    def build_task(self, dataset: Dataset, policies: LayerPolicies) -> Task:
        """The model with the policy's dtypes while it is called, its losses and metrics."""
        policies.keeps_dtypes = self.keeps_dtypes
        return SupervisedTask(self._given_model.network(policies), self._objectives)

    def in_float32(self) -> "KerasJob":
        """The same job in float32, whatever dtypes the layers have."""
        changed = cast(KerasJob, super().in_float32())
        changed.keeps_dtypes = False
        return changed

    def reason_for(self, error: Exception) -> TrainingError | None:
        """An error of a layer that computes with two dtypes, or in one without a kernel."""
        conflict = explain_dtype_conflict(self.model, error)
        return conflict or explain_missing_kernel(self.model, error)

    def build_optimizer(self, network: Network, total_steps: int) -> tuple[Any, Clip]:
        """The given optimizer, or a new one whose slots are zero."""
        section = self.spec.optimizer
        if isinstance(section, KerasOptimizer):
            optimizer = self._given_optimizer or GivenOptimizer(self._optimizer)
            return optimizer.built_for(network), Clip()
        return optimizers.build(section, total_steps), Clip(section.clip_norm, section.clip_value)
