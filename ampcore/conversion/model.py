"""Converts a Keras model and proves the result: the model of the spec gives the same outputs."""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import keras
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ampcore.checkpoint.tensors import WEIGHTS_FORMAT, encode_tensors
from ampcore.conversion.errors import NotConvertible
from ampcore.conversion.graph import Graph, functional, read_graph
from ampcore.models.builders.from_description import build_network
from ampcore.models.weight_names import weights_of_model
from ampspec.documents.problems import from_pydantic
from ampspec.layers.graph import INPUT, infer
from ampspec.models.model import Layers
from ampspec.networks import DataShape, describe_networks

Array = NDArray[Any]

OPEN_SIZE: Final = 16
"""What stands for an axis of unknown size while the conversion is proved."""
EXAMPLES: Final = 4
TOLERANCE: Final = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""By the compute dtype of the original, relative: the spec's model computes in float32, and
kernels may add up in another order in another graph."""


class ConvertedModel(NamedTuple):
    """A Keras model as a spec's `model` section, and its weights."""

    model: dict[str, Any]
    """`{"kind": "layers", …}`, for a JobSpec."""
    weights: bytes
    """A safetensors file: arrays by layer and weight, such as `conv2d/kernel`."""


def layers_spec_from_keras(model: Any, *, logits: bool = False) -> ConvertedModel:
    """Convert a functional or sequential Keras model into `model: {kind: layers}`.

    The conversion is proved: the model that a worker would build gets the same weights and must
    compute the same outputs for random inputs.

    Args:
        model: A built keras.Model; models inside it become layers with the prefix of their name.
        logits: Leave out a softmax at the end of an output, since the loss of a job takes logits.

    Returns:
        The section and the weights, which can be unpacked.

    Raises:
        NotConvertible: It names the layer that has no place in the grammar, and why.
    """
    graph = read_graph(model)
    softmax = _remove_softmax(graph) if logits else set()
    section = _section(graph)
    weights = _prove(model, _layers(section), graph, softmax=softmax)
    return ConvertedModel(section, encode_tensors(weights, {"format": WEIGHTS_FORMAT}))


def _section(graph: Graph) -> dict[str, Any]:
    """The section of the spec. Raises NotConvertible for inputs or layers that it cannot have."""
    shapes = _input_shapes(graph)
    inputs = {
        name: {"shape": list(shape), "dtype": _dtype(name, graph.inputs[name])}
        for name, shape in shapes.items()
        if None not in shape
    }
    if len(inputs) < len(shapes):
        if len(shapes) > 1:
            raise NotConvertible(None, "with several inputs each needs a fixed shape")
        # The only input, whose shape the data decides, has the grammar's own name.
        [name] = shapes
        for entry in graph.entries:
            entry["inputs"] = [INPUT if source == name else source for source in entry["inputs"]]
        graph.inputs = {INPUT: graph.inputs[name]}
    section = {
        "kind": "layers",
        "inputs": inputs,
        "layers": graph.entries,
        "outputs": graph.outputs,
    }
    network = _layers(section).connect()
    problems = list(network.problems)
    if not problems:
        input_shapes = {name: _closed(shape) for name, shape in _input_shapes(graph).items()}
        _, problems = infer(network, input_shapes, {})
    if problems:
        raise NotConvertible(None, str(problems[0]).rstrip("."))
    return section


def _layers(section: Mapping[str, Any]) -> Layers:
    """The section, checked. Raises NotConvertible."""
    try:
        return Layers.model_validate(section)
    except ValidationError as error:
        [problem, *_] = from_pydantic(error, Layers)
        raise NotConvertible(None, str(problem).rstrip(".")) from None


def _input_shapes(graph: Graph) -> dict[str, tuple[int | None, ...]]:
    return {name: tuple(tensor.shape[1:]) for name, tensor in graph.inputs.items()}


def _closed(shape: tuple[int | None, ...]) -> tuple[int, ...]:
    return tuple(OPEN_SIZE if size is None else size for size in shape)


def _dtype(name: str, tensor: Any) -> str:
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if dtype.startswith(("int", "uint")):
        return "int32"
    if "float" in dtype:
        return "float32"
    raise NotConvertible(name, f"its dtype is {dtype}; expected numbers")


def _remove_softmax(graph: Graph) -> set[str]:
    """Leave out the softmax at the end of each output; the names of outputs that had one."""
    logits = [_logits(graph, name) for name in [*graph.outputs]]
    return {name for name in logits if name is not None}


def _logits(graph: Graph, name: str) -> str | None:
    """The output with the logits of an output; None if it has no softmax at its end."""
    entry = next((entry for entry in graph.entries if entry["name"] == name), None)
    users = [user for user in graph.entries if name in (*user["inputs"], user.get("reuse"))]
    if entry is None or users:  # an input, or something else needs the probabilities
        return None
    is_layer = (entry.get("layer") == "Softmax" and entry.get("axis", -1) == -1) or (
        entry.get("layer") == "Activation" and entry.get("activation") == "softmax"
    )
    if is_layer and len(graph.outputs) == 1:
        graph.entries.remove(entry)
        [logits] = graph.outputs = list(entry["inputs"])
        del graph.layers[name]
        return str(logits)
    if is_layer:  # it stays, since the task names the outputs
        entry.pop("axis", None)
        entry |= {"layer": "Activation", "activation": "linear"}
        return name
    if entry.get("activation") == "softmax":
        del entry["activation"]
        return name
    return None


def _prove(
    model: Any, spec: Layers, graph: Graph, *, softmax: Collection[str]
) -> Mapping[str, Array]:
    """The weights by name, after both models gave the same outputs. Raises NotConvertible."""
    shapes = {name: _closed(shape) for name, shape in _input_shapes(graph).items()}
    first = next(iter(graph.inputs))
    data = DataShape(shapes[first], 1, dtype=_dtype(first, graph.inputs[first]))  # type: ignore[arg-type]
    built = build_network(describe_networks(spec, data)["model"])
    weights = _copy_weights(built, graph)
    rng = np.random.default_rng(0)
    inputs = {
        name: _examples(rng, shape, _dtype(name, graph.inputs[name]))
        for name, shape in shapes.items()
    }
    network = functional(model)
    taken = keras.tree.pack_sequence_as(network._inputs_struct, list(inputs.values()))
    expected = keras.tree.flatten(network(taken, training=False))
    outputs = built(inputs if len(inputs) > 1 else inputs[first], training=False)
    received = [outputs[name] for name in graph.outputs] if isinstance(outputs, dict) else [outputs]
    for name, mine, theirs in zip(graph.outputs, received, expected, strict=True):
        probabilities = keras.ops.softmax(mine) if name in softmax else mine
        _compare(name, _float64(probabilities), _float64(theirs), _tolerance(network))
    return weights


def _copy_weights(built: Any, graph: Graph) -> dict[str, Array]:
    for name, layer in graph.layers.items():
        if not isinstance(layer, keras.layers.Layer):
            continue
        built_layer = built.get_layer(name)
        if not built_layer.weights:  # a Normalization has its numbers in the spec
            continue
        built_layer.set_weights(layer.get_weights())
    return {name: np.asarray(variable) for name, _, variable in weights_of_model(built)}


def _examples(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    # Keys below 2 are in every table.
    size = (EXAMPLES, *shape)
    return rng.integers(0, 2, size, np.int32) if dtype == "int32" else rng.random(size, np.float32)


def _float64(tensor: Any) -> Array:
    array: Array = keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float64"))
    return array


def _tolerance(network: Any) -> float:
    dtypes = {layer.compute_dtype for layer in network._flatten_layers()}
    return max(TOLERANCE.get(dtype, TOLERANCE["float32"]) for dtype in dtypes)


def _compare(name: str, received: Array, expected: Array, tolerance: float) -> None:
    scale = float(np.max(np.abs(expected), initial=1.0))
    if received.shape != expected.shape or not np.allclose(
        received, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True
    ):
        raise NotConvertible(
            name, "the model built from the spec computes other outputs; please report this"
        )
