"""The registry of models: the builder and the task of each kind."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ampcore.data.dataset import Signature
from ampcore.models.task import Network, Task
from ampcore.spec.model import ModelSpec

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
    task: type[Task]


BUILDERS: dict[str, RegisteredModel] = {}


def register(kind: str, task: type[Task]) -> Callable[[Builder], Builder]:
    """Make the decorated function the builder of `kind`, trained as `task`."""

    def add(builder: Builder) -> Builder:
        BUILDERS[kind] = RegisteredModel(builder, task)
        return builder

    return add


def build(spec: ModelSpec, signature: Signature, policies: DtypePolicies) -> Task:
    """Build the task of a spec's model section, with the dtype policies applied.

    Raises InvalidModel if the model does not support the data.
    """
    kind = BUILDERS[spec.kind]
    made = kind.build(spec, signature)
    models = made if isinstance(made, dict) else {"model": made}
    return kind.task([Network(name, policies.apply(model)) for name, model in models.items()])
