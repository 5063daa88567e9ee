"""What a run trains: its settings, and how its data, task and optimizers are made."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

from ampcore import data, models, optimizers
from ampcore.data import Dataset
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.spec import JobSpec
from ampcore.spec.precision import NoScale, Precision
from ampcore.spec.run import RunSpec
from ampcore.train.clip import Clip


class TrainingJob(ABC):
    """The settings of a run, and what it trains.

    Every task that `build_task` returns has its own weights: a run builds a second one to replay a
    skipped step in float32.
    """

    spec: RunSpec

    @abstractmethod
    def load_data(self) -> Dataset:
        """The examples. Raises InvalidData."""

    @abstractmethod
    def build_task(self, dataset: Dataset, policies: LayerPolicies) -> Task:
        """The networks with their initial weights and their dtypes. Raises InvalidModel."""

    @abstractmethod
    def build_optimizer(self, network: Network, total_steps: int) -> tuple[Any, Clip]:
        """The optimizer of a network, not built yet, and the limits of its gradients."""

    def in_float32(self) -> "TrainingJob":
        """The same job in float32, without a loss scale."""
        plain = {"precision": Precision(), "loss_scale": NoScale()}
        changed = copy(self)
        changed.spec = self.spec.model_copy(update=plain)
        return changed

    def on_success(self, task: Task) -> None:  # noqa: B027 - most jobs have nothing to do
        """Called with the trained task at the end of a complete run."""


class SpecJob(TrainingJob):
    """The job of a spec.

    Args:
        spec: The spec.
        data_root: The folder that a path in the spec is relative to and cannot leave; None: any
            path is allowed.
        datasets: The local file of each dataset that the spec may name.
    """

    def __init__(
        self,
        spec: JobSpec,
        data_root: Path | None = None,
        datasets: Mapping[str, Path] | None = None,
    ) -> None:
        self.spec: JobSpec = spec
        self._data_root, self._datasets = data_root, datasets

    def load_data(self) -> Dataset:
        """The data that the spec names."""
        spec = self.spec
        return data.load(
            spec.data,
            seed=spec.train.seed,
            data_root=self._data_root,
            accumulate=spec.train.accumulate,
            task=spec.task,
            dataset_files=self._datasets,
        )

    def build_task(self, dataset: Dataset, policies: LayerPolicies) -> Task:
        """The model that the spec names, for this data."""
        spec, signature = self.spec, dataset.require_signature()
        augmentation = getattr(spec.data, "augmentation", ())
        return models.build(spec.model, signature, policies, spec.task, augmentation)

    def build_optimizer(self, network: Network, total_steps: int) -> tuple[Any, Clip]:
        """The optimizer that the spec names for this network."""
        own = self.spec.optimizers.get(network.name, self.spec.optimizer)
        return optimizers.build(own, total_steps), Clip(own.clip_norm, own.clip_value)
