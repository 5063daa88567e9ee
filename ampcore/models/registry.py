"""The registry of models: the builder and the task of each kind."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ampcore.data.dataset import Signature
from ampcore.models.augmentation import with_augmentation
from ampcore.models.objectives import default_task, objectives
from ampcore.models.supervised import SupervisedTask
from ampcore.models.task import Network, Task
from ampspec.data.preprocessing import AnyAugmentation
from ampspec.errors import InvalidModel
from ampspec.models.model import ModelSpec
from ampspec.objectives.task import TaskSpec

Builder = Callable[[Any, Signature], Any]
"""(the spec's model part, the data's signature) to a functional float32 keras.Model, or to
several by name. Layers have explicit names, which are the paths that a spec's overrides match."""


class DtypePolicies(Protocol):
    """Gives every layer of a model its dtypes."""

    def apply(self, model: Any) -> Any:
        """A clone of the model with a dtype policy per layer."""


class RegisteredModel(NamedTuple):
    """The builder and the task of one kind of model."""

    build: Builder
    task: type[Task] | None


BUILDERS: dict[str, RegisteredModel] = {}


def register(kind: str, task: type[Task] | None = None) -> Callable[[Builder], Builder]:
    """Make the decorated function the builder of `kind`.

    Its models are trained as `task`; None: for whatever the targets of the data are.
    """

    def add(builder: Builder) -> Builder:
        BUILDERS[kind] = RegisteredModel(builder, task)
        return builder

    return add


def build(
    spec: ModelSpec,
    signature: Signature,
    policies: DtypePolicies,
    task: TaskSpec | None = None,
    augmentation: Sequence[AnyAugmentation] = (),
) -> Task:
    """Build the model of a spec with the dtype policies applied, and its task.

    Args:
        spec: The model section of the spec.
        signature: The inputs and targets of the data.
        policies: Gives every layer its dtypes.
        task: The task section; None: the task that belongs to the kind of model.
        augmentation: Layers in front of the model.

    Raises:
        InvalidModel: The model or the task does not support the data.
    """
    if spec.kind not in BUILDERS:
        raise InvalidModel(
            "model.kind",
            expected=f"a model that the spec alone describes: {', '.join(BUILDERS)}",
            received=f"{spec.kind}, which only a run builds",
        )
    kind = BUILDERS[spec.kind]
    models = kind.build(spec, signature)
    if not isinstance(models, dict):
        models = {"model": models}
    models = {name: with_augmentation(model, augmentation) for name, model in models.items()}
    networks = [Network(name, policies.apply(model)) for name, model in models.items()]
    if task is None and kind.task is not None:
        return kind.task(networks)
    [network] = networks
    task = task or default_task(signature)
    return SupervisedTask(network, objectives(task, network.model, signature))
