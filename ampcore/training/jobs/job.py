"""What a run trains: its settings, and how its data, task and optimizers are made."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

from ampcore import data, models, optimizers
from ampcore.checkpoint.initial_weights import take_weights
from ampcore.data import Dataset
from ampcore.distributed import Communicator, SingleRank
from ampcore.models.builders.embedding import sharded
from ampcore.models.frozen_layers import freeze_layers
from ampcore.models.task import Network, Task
from ampcore.precision import LayerPolicies
from ampcore.training.step.clip import Clip
from ampspec.documents.text import join_names
from ampspec.errors import TrainingError, UnusableWeights
from ampspec.jobs import JobSpec
from ampspec.models.initial_weights import Init
from ampspec.models.model import EmbeddingModel
from ampspec.precision.precision import NoScale, Precision
from ampspec.telemetry import Event, EventType
from ampspec.training.run import RunSpec, micro_batches

MAX_NAMED = 4
"""The maximum number of names in a warning."""


class TrainingJob(ABC):
    """The settings of a run, and what it trains.

    A run builds one task, and a second one if it continues in float32. Of a model that was given
    there is only one: the first task is no longer used then.
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

    def set_initial_weights(self, task: Task) -> Sequence[Event]:
        """Replace the random weights of a run that begins; not called for one that is resumed.

        Returns:
            The events that tell what was replaced.
        """
        return ()

    @contextmanager
    def lent_model(self) -> Iterator[Callable[[], None]]:
        """A context for the time of a run; calling its value keeps what was trained.

        Otherwise a model that was given gets its variables back as they were.
        """
        yield lambda: None

    def in_float32(self) -> "TrainingJob":
        """The same job in float32, without a loss scale; ranks exchange no float16, either."""
        sections: dict[str, Any] = {"precision": Precision(), "loss_scale": NoScale()}
        runtime = self.spec.runtime
        if runtime.exchange.gradient_dtype == "float16":
            exchange = runtime.exchange.model_copy(update={"gradient_dtype": "float32"})
            sections["runtime"] = runtime.model_copy(update={"exchange": exchange})
        changed = copy(self)
        changed.spec = self.spec.model_copy(update=sections)
        return changed

    def for_ranks(self, communicator: Communicator) -> "TrainingJob":
        """The same job as one of these ranks trains it."""
        return self

    @property
    def shards_tables(self) -> bool:
        """Whether each rank has other rows of its tables."""
        return False

    def reason_for(self, error: Exception) -> TrainingError | None:
        """An unexpected error in the words of what the run trains; None if it has none."""
        return None


class SpecJob(TrainingJob):
    """The job of a spec.

    Args:
        spec: The spec.
        data_root: The folder that a path in the spec is relative to and cannot leave; None: any
            path is allowed.
        datasets: The local file of each dataset that the spec may name.
        init: The local safetensors file of the initial weights.
    """

    def __init__(
        self,
        spec: JobSpec,
        data_root: Path | None = None,
        datasets: Mapping[str, Path] | None = None,
        *,
        init: Path | None = None,
    ) -> None:
        self.spec: JobSpec = spec
        self._data_root, self._datasets, self._init = data_root, datasets, init
        self._communicator: Communicator = SingleRank()

    def for_ranks(self, communicator: Communicator) -> TrainingJob:
        """The same job, with tables whose rows the ranks share if the spec says so."""
        changed = copy(self)
        changed._communicator = communicator
        return changed

    @property
    def shards_tables(self) -> bool:
        """Whether several ranks train, and the spec divides the table between them."""
        model = self.spec.model
        is_sharded = isinstance(model, EmbeddingModel) and model.placement == "sharded"
        return is_sharded and self._communicator.size > 1

    def load_data(self) -> Dataset:
        """The data that the spec names."""
        dataset = self._load_spec_data()
        self._check_fills_step(dataset)
        return dataset

    def _load_spec_data(self) -> Dataset:
        spec = self.spec
        return data.load_unchecked(
            spec.data,
            data_root=self._data_root,
            task=spec.task,
            dataset_files=self._datasets,
        )

    def _check_fills_step(self, dataset: Dataset) -> None:
        data.check_fills_step(self.spec.data, dataset, micro_batches(self.spec))

    def build_task(self, dataset: Dataset, policies: LayerPolicies) -> Task:
        """The model that the spec names, for this data."""
        spec, signature = self.spec, dataset.require_signature()
        if isinstance(spec.model, EmbeddingModel) and self.shards_tables:
            return self.freeze(sharded(spec.model, signature, policies, self._communicator))
        augmentation = getattr(spec.data, "augmentation", ())
        return self.freeze(models.build(spec.model, signature, policies, spec.task, augmentation))

    def freeze(self, task: Task) -> Task:
        """The task, whose layers that the spec freezes are not trained."""
        freeze_layers(task, self.spec.init.freeze if self.spec.init is not None else ())
        return task

    def set_initial_weights(self, task: Task) -> Sequence[Event]:
        """Take the weights of the file, as `init` in the spec says.

        Raises UnreadableWeights, UnusableWeights and InvalidModel.
        """
        if self._init is None:
            if self.spec.init is None:
                return ()
            raise UnusableWeights(
                "init", expected="a local file of weights (--init FILE)", received="none"
            )
        report = take_weights(task.networks, self._init, self.spec.init or Init())
        events = [Event(EventType.WEIGHTS_LOADED, None, report.to_json())]
        if report.frozen_at_random:
            names = join_names(report.frozen_at_random, MAX_NAMED)
            message = f"Frozen weights keep their random values: {names}."
            events.append(Event.warning("frozen_at_random", message))
        return events

    def build_optimizer(self, network: Network, total_steps: int) -> tuple[Any, Clip]:
        """The optimizer that the spec names for this network."""
        section = self.spec.optimizers.get(network.name, self.spec.optimizer)
        return optimizers.build(section, total_steps), Clip(section.clip_norm, section.clip_value)
