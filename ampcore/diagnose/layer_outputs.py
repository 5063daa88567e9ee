"""What every layer of a task's networks returns while its losses are computed."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple

import tensorflow as tf

from ampcore.models.task import Task
from ampcore.precision.places import places

Tensor = Any


class LayerPlace(NamedTuple):
    """Where a layer stands: its network, its path as a spec's overrides see it, and its kind."""

    network: str
    path: str
    kind: str
    """The name of its class, the one in Keras that it is or is made from."""


class LayerOutput(NamedTuple):
    """One tensor that one call of a layer returned, of a floating dtype."""

    place: LayerPlace
    tensor: Tensor


@contextmanager
def layer_outputs(task: Task) -> Iterator[list[LayerOutput]]:
    """While it is open, the list grows by what the layers return, in the order of their calls.

    To be opened while a function is traced.

    The tensors are those that go on to the next layers, so that gradients can be taken by them.
    A layer that runs inside of a loop, as the cell of a recurrent layer does, is left out: its
    values cannot leave the loop. So is a layer that the task goes around.
    """
    outputs: list[LayerOutput] = []
    graph = tf.compat.v1.get_default_graph()

    def note(place: LayerPlace, result: Any) -> None:
        for tensor in tf.nest.flatten(result):
            if tf.is_tensor(tensor) and tensor.dtype.is_floating and tensor.graph is graph:
                outputs.append(LayerOutput(place, tensor))

    watched = [
        (found.layer, LayerPlace(network.name, found.facts.path, found.facts.kind))
        for network in task.networks
        for found in places(network.model)
    ]
    for layer, place in watched:
        # Keras has no hooks. The attribute of the one object hides the method of its class, and
        # is taken away below; around __setattr__, by which Keras would track it.
        layer.__dict__["call"] = _noting(layer.call, place, note)
    try:
        yield outputs
    finally:
        for layer, _ in watched:
            del layer.__dict__["call"]


def _noting(call: Any, place: LayerPlace, note: Any) -> Any:
    @wraps(call)
    def noted(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        note(place, result)
        return result

    return noted
