"""The layers of a Keras model by the paths that a spec's overrides match."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final

import keras

from ampcore.keras_internals import flatten_layers, input_tensors, producer, replaced_methods
from ampcore.precision.layers.layer_products import has_own_call
from ampspec.precision.layer_dtypes import SHAPE_ONLY_LAYERS, LayerInfo

_SHAPE_ONLY_CLASSES: Final = tuple(getattr(keras.layers, name) for name in SHAPE_ONLY_LAYERS)
_LOOPS: Final = (keras.layers.RNN, keras.layers.TimeDistributed)
"""The layers that call those inside them once for each time step."""

Layer = Any
Model = Any


@dataclass(frozen=True)
class LayerEntry:
    """A layer with its properties and its ancestors, the nearest first."""

    layer: Layer
    info: LayerInfo
    parent: Layer | None
    ancestors: tuple[str, ...]


def walk_layers(model: Model, output_layers: set[int] | None = None) -> Iterator[LayerEntry]:
    """Every layer once, under the first path that leads to it; parents before children.

    `output_layers` are the ids of the layers that compute the outputs; None: those that the graph
    of a functional or sequential model tells, and none of a subclassed one.
    """
    outputs = output_layers
    if outputs is None:
        outputs = _output_layers(model) if is_network(model) else set()
    seen: set[int] = set()

    def visit(
        parent: Layer | None, ancestors: tuple[str, ...], output: bool, in_loop: bool
    ) -> Iterator[LayerEntry]:
        layers = children(model if parent is None else parent)
        for layer, name in zip(layers, _names(parent, layers), strict=True):
            if id(layer) in seen:
                continue
            seen.add(id(layer))
            path = "/".join((*ancestors[:1], name))
            is_output = output or id(layer) in outputs
            if is_network(layer):
                yield from visit(layer, (path, *ancestors), False, in_loop)
                continue
            computing = applied_layer(layer)
            repeats = in_loop or isinstance(layer, _LOOPS)
            # It computes with the result of a layer that stays in float32, and is called here, too.
            has_output = computes_itself(layer) and any(
                id(child) in outputs for child in children(layer)
            )
            info = LayerInfo(
                path,
                _kind(computing),
                is_output or has_output,
                _is_softmax(computing),
                has_own_call(computing),
                in_loop if computing is layer else repeats,
            )
            yield LayerEntry(layer, info, parent, ancestors)
            yield from visit(layer, (path, *ancestors), is_output, repeats)

    return visit(None, (), False, False)


def children(layer: Layer) -> list[Layer]:
    """The direct sub-layers of a model or layer."""
    # Keras has no public attribute for a layer's sub-layers; its quantization uses this one.
    inner = layer.layers if isinstance(layer, keras.Model) else None
    children = (
        flatten_layers(layer, include_self=False, recursive=False) if inner is None else inner
    )
    return [child for child in children if not isinstance(child, keras.layers.InputLayer)]


def is_network(layer: Layer) -> bool:
    """Whether a layer is a functional or sequential model, with a graph of its own layers."""
    return isinstance(layer, keras.Model) and getattr(layer, "outputs", None) is not None


def computes_itself(layer: Layer) -> bool:
    """Whether a class that is not of Keras calls the sub-layers, and may compute with the results.

    TensorFlow's operators take tensors of one dtype; those of a graph of layers convert them.
    """
    return not is_network(layer) and not _is_of_keras(type(layer))


def _names(parent: Layer | None, layers: list[Layer]) -> list[str]:
    """The names of layers as parts of a path.

    Keras numbers unnamed sub-layers with a counter of the process; here they are numbered within
    their layer, so that an override that matches them in one run also matches in the next.
    """
    if parent is None or is_network(parent) or not _is_of_keras(type(parent)):
        return [layer.name for layer in layers]
    seen: Counter[str] = Counter()
    names = []
    for layer in layers:
        stem = re.sub(r"_\d+$", "", layer.name)
        unnamed = stem.replace("_", "") == type(layer).__name__.lower()
        names.append((f"{stem}_{seen[stem]}" if seen[stem] else stem) if unnamed else layer.name)
        seen[stem] += 1
    return names


def applied_layer(layer: Layer) -> Layer:
    """The layer itself, or the one that a TimeDistributed applies to every step.

    Keras calls that one within the other's call, without its own dtype policy: both have one.
    """
    return layer.layer if isinstance(layer, keras.layers.TimeDistributed) else layer


def _kind(layer: Layer) -> str:
    """The name of a layer's Keras class, or of the base class in Keras."""
    return next(base for base in type(layer).__mro__ if _is_of_keras(base)).__name__


def _is_of_keras(kind: type) -> bool:
    return kind.__module__.startswith("keras.")


def _is_softmax(layer: Layer) -> bool:
    activation = getattr(layer, "activation", None)
    return isinstance(layer, keras.layers.Softmax) or activation is keras.activations.softmax


def _output_layers(model: Model) -> set[int]:
    """The ids of the layers that compute a network's outputs."""
    layer_ids: set[int] = set()
    tensors = list(model.outputs)
    while tensors:
        operation, call = producer(tensors.pop())
        if is_network(operation):
            tensors += operation.outputs
            continue
        if isinstance(operation, keras.layers.Layer):
            layer_ids.add(id(operation))
        if not isinstance(operation, keras.layers.Layer) or isinstance(
            applied_layer(operation), _SHAPE_ONLY_CLASSES
        ):
            tensors += input_tensors(operation, call)
    return layer_ids


def layers_of_outputs(model: Model, example: Any = None) -> set[int]:
    """The ids of the layers that compute the outputs of a subclassed model.

    They are found in a call of the model on `example`. For an output that no layer returns, because
    the model computes it itself, they are the model and the last layer with weights; without an
    example, that layer.
    """
    layers = [entry.layer for entry in walk_layers(model, set())]
    weighted = [id(layer) for layer in layers if layer.weights and not children(layer)]
    if example is None:
        return set(weighted[-1:])
    returned: list[tuple[Layer, list[Any], list[Any]]] = []
    recorded = [(layer, _recorded_call(layer, returned)) for layer in layers]
    # What layers change in their calls stays as it was.
    with replaced_methods(recorded), keras.StatelessScope():
        outputs = keras.tree.flatten(model(example))
    layer_ids: set[int] = set()
    for output in outputs:
        layer_ids |= _layers_that_return(output, returned) or {
            id(model),
            *_last_called(returned, weighted),
        }
    return layer_ids


def _recorded_call(layer: Layer, returned: list[tuple[Layer, list[Any], list[Any]]]) -> Any:
    call = layer.call

    @wraps(call)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        returned.append((layer, keras.tree.flatten((args, kwargs)), keras.tree.flatten(result)))
        return result

    return recorded


def _layers_that_return(
    tensor: Any, returned: list[tuple[Layer, list[Any], list[Any]]]
) -> set[int]:
    layer_ids: set[int] = set()
    for layer, inputs, results in returned:
        if any(result is tensor for result in results):
            layer_ids.add(id(layer))
            if isinstance(applied_layer(layer), _SHAPE_ONLY_CLASSES):
                for argument in inputs:
                    layer_ids |= _layers_that_return(argument, returned)
    return layer_ids


def _last_called(
    returned: list[tuple[Layer, list[Any], list[Any]]], weighted: list[int]
) -> list[int]:
    return [id(layer) for layer, _, _ in returned if id(layer) in weighted][-1:]
