"""Names of the weights of networks, the same in every process: `conv2d/kernel`.

A name is the path of the layer, as overrides match it, and the name that the layer gives the
weight. Random seeds are no weights. A file of weights has its arrays under these names.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ampcore.models.task import Network
from ampcore.precision.layers.layer_paths import children, walk_layers


class NamedWeight(NamedTuple):
    """A weight, its name, and the path of its layer."""

    name: str
    path: str
    variable: Any


def named_weights(networks: Sequence[Network]) -> list[NamedWeight]:
    """The weights of all networks; with several, names begin with that of the network."""
    if len(networks) == 1:
        return list(weights_of_model(networks[0].model))
    return [
        weight._replace(name=f"{network.name}/{weight.name}")
        for network in networks
        for weight in weights_of_model(network.model)
    ]


def weights_of_model(model: Any) -> Iterator[NamedWeight]:
    """Every weight of a model once, under the first path that leads to it."""
    names: set[str] = set()
    seen: set[int] = set()
    layers = [(entry.info.path, entry.layer) for entry in walk_layers(model, set())]
    for path, layer in [*layers, ("", model)]:
        inner = {id(weight) for child in children(layer) for weight in child.weights}
        for weight in layer.weights:
            if id(weight) in seen or id(weight) in inner:
                continue
            seen.add(id(weight))
            name = _unused(f"{path}/{weight.name}" if path else weight.name, names)
            names.add(name)
            yield NamedWeight(name, path, weight)


def _unused(name: str, names: set[str]) -> str:
    """The name, with a number if another weight of the layer has it."""
    number, candidate = 1, name
    while candidate in names:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
