"""Converts one layer of Keras: its configuration, read as data and checked by the grammar."""

import inspect
import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import keras
import numpy as np
from pydantic import ValidationError

from ampcore.conversion.errors import NotConvertible
from ampspec.documents.problems import from_pydantic
from ampspec.layers.base import Layer
from ampspec.layers.catalog import LAYERS, LEFT_OUT, LEFT_OUT_ARGUMENTS
from ampspec.layers.weight_options import Constraint, Initializer, Regularizer, WeightOption

OPTIONS: Final[tuple[tuple[str, type[WeightOption], Any], ...]] = (
    ("initializer", Initializer, keras.initializers),
    ("regularizer", Regularizer, keras.regularizers),
    ("constraint", Constraint, keras.constraints),
)
"""By the end of an argument's name, the option and where Keras has its classes."""

WITHOUT_EFFECT: Final = frozenset({"dtype", "name", "seed", "use_cudnn", "zero_output_for_mask"})
"""What a configuration says that the job decides."""


def layer_of_spec(layer: Any, output_shape: tuple[int | None, ...] | None = None) -> Layer:
    """The layer of the grammar for a layer of Keras, without name and inputs.

    Args:
        layer: A layer.
        output_shape: That of its output with the batch, where its configuration leaves it open.

    Raises:
        NotConvertible: It is a class of its own, or has an argument outside of the grammar.
    """
    kind = kind_of(layer)
    config = _with_learned(layer, layer.get_config(), output_shape)
    field_names = LAYERS[kind].model_fields.keys() - {"layer", "name", "inputs"}
    _check_left_out(layer, kind, {k: v for k, v in config.items() if k not in field_names})
    fields = {
        name: _value(layer, name, config[name])
        for name in field_names & config.keys()
        if config[name] is not None
    }
    try:
        return LAYERS[kind].model_validate({"layer": kind, **fields})
    except ValidationError as error:
        [problem, *_] = from_pydantic(error, LAYERS[kind])
        field = problem.pointer.removeprefix("/").replace("/", ".")
        raise NotConvertible(
            layer.name, f"{kind}, {field}: expected {problem.expected}, received {problem.received}"
        ) from None


def layer_for_shapes(layer: Any) -> Layer | None:
    """A layer of the grammar with the same shapes and arithmetic; None without one.

    It lacks what shapes do not depend on, and so exists for subclasses and own activations, too.
    """
    of_keras: Any = next((base for base in type(layer).__mro__ if base in _kinds()), None)
    if of_keras is None:
        return None
    kind = _kinds()[of_keras]
    if isinstance(layer, keras.layers.Bidirectional):
        inner = layer_for_shapes(layer.forward_layer)
        return None if inner is None else _bidirectional(layer, inner)
    if isinstance(layer, keras.layers.TimeDistributed):
        return _time_distributed(layer_for_shapes(layer.layer))
    try:
        with warnings.catch_warnings():
            # Keras warns of lambdas in a file, but this config goes into none.
            warnings.simplefilter("ignore")
            # That of a subclass may lack anything.
            config = of_keras.get_config(layer)
    except Exception:  # of a person's own initializer or activation, which nothing here needs
        return None
    config = _with_learned(layer, config, None)
    without = {"layer", "name", "inputs", "activation", "recurrent_activation"}
    try:
        fields = {
            name: _value(layer, name, config[name])
            for name in LAYERS[kind].model_fields.keys() - without
            if config.get(name) is not None and not _is_option(name)
        }
        if kind == "Activation":
            fields["activation"] = "linear"
        return LAYERS[kind].model_validate({"layer": kind, **fields})
    except (NotConvertible, ValidationError):  # a value that the grammar does not have
        return None


def _bidirectional(layer: Any, inner: Layer) -> Layer:
    document = {"layer": "Bidirectional", "of": inner, "merge_mode": layer.merge_mode or "concat"}
    return LAYERS["Bidirectional"].model_validate(document)


def _time_distributed(inner: Layer | None) -> Layer | None:
    try:
        document = {"layer": "TimeDistributed", "of": inner}
        return LAYERS["TimeDistributed"].model_validate(document)
    except ValidationError:  # a layer that the grammar does not have, or not inside of another
        return None


def _is_option(name: str) -> bool:
    return any(name.endswith(f"_{suffix}") for suffix, _, _ in OPTIONS)


def kind_of(layer: Any) -> str:
    """The name of the layer's class in the grammar. Raises NotConvertible."""
    if (kind := _kinds().get(type(layer))) is not None:
        return kind
    name = type(layer).__name__
    if reason := LEFT_OUT.get(name) if type(layer).__module__.startswith("keras.") else None:
        raise NotConvertible(layer.name, f"{name} is not in the grammar, because {reason}")
    raise NotConvertible(layer.name, f"{name} is a class that the grammar does not have")


@cache
def _kinds() -> dict[type, str]:
    return {getattr(keras.layers, kind): kind for kind in LAYERS}


def _with_learned(
    layer: Any, config: dict[str, Any], output_shape: tuple[int | None, ...] | None
) -> dict[str, Any]:
    """A configuration, with what the layer has learned from data before training."""
    match layer:
        case keras.layers.Bidirectional():
            config["of"] = _both_directions(layer)
            del config["layer"], config["backward_layer"]
        case keras.layers.TimeDistributed():
            config["of"] = layer_of_spec(layer.layer).model_dump(mode="json")
            del config["layer"]
        case keras.layers.Normalization() if config["mean"] is None and layer.built:
            config["mean"] = np.ravel(np.asarray(layer.mean)).tolist()
            config["variance"] = np.ravel(np.asarray(layer.variance)).tolist()
        case keras.layers.Discretization():
            config["bin_boundaries"] = layer.bin_boundaries
            config["num_bins"] = None
        case keras.layers.EinsumDense() if output_shape is not None:
            output_axes = layer.equation.replace("...", "").rpartition("->")[2]
            elided = layer.equation.startswith("...")
            config["output_shape"] = (
                output_shape[-len(output_axes) :] if elided else output_shape[1 : len(output_axes)]
            )
        case keras.layers.MultiHeadAttention():
            if config["attention_axes"] == (1,):  # what a built layer has without the argument
                config["attention_axes"] = None
            if config["output_shape"] is not None and len(config["output_shape"]) == 1:
                [config["output_shape"]] = config["output_shape"]
    return config


def _both_directions(layer: Any) -> dict[str, Any]:
    """The document of the forward layer, if the backward one is the same."""
    forward, backward = (
        layer_of_spec(direction).model_dump(mode="json")
        for direction in (layer.forward_layer, layer.backward_layer)
    )
    backward.pop("go_backwards", None)
    if forward != backward:
        raise NotConvertible(layer.name, "its backward_layer has other arguments than its layer")
    return forward


def _check_left_out(layer: Any, kind: str, config: Mapping[str, Any]) -> None:
    """Raise NotConvertible for an argument outside of the grammar that is not Keras's default."""
    parameters = inspect.signature(type(layer).__init__).parameters
    for name, value in config.items():
        if name in WITHOUT_EFFECT or name not in parameters:
            continue
        default = parameters[name].default
        if name == "data_format":
            default = "channels_last" if value != "channels_first" else default
        if value is not None and value != default:
            reason = LEFT_OUT_ARGUMENTS.get(name, "it has no field in the grammar")
            raise NotConvertible(layer.name, f"{kind} has {name}={value!r}, but {reason}")


def _value(layer: Any, name: str, value: Any) -> Any:
    """The value of a field as in a document."""
    for suffix, option, module in OPTIONS:
        if name.endswith(f"_{suffix}"):
            return _option(layer, name, option, module, value)
    match value:
        case np.ndarray() | np.generic():
            return value.tolist()
        case dict() if name != "of":
            raise NotConvertible(layer.name, f"its {name} is code of your own")
    return value


def _option(layer: Any, name: str, option: type[WeightOption], module: Any, value: Any) -> Any:
    """An initializer, a regularizer or a constraint with its arguments."""
    names = {getattr(module, kind).__name__: kind for kind in option.arguments}
    # What Keras serializes as the class; others keep their module.
    kind = names.get(value["class_name"]) if isinstance(value, dict) else None
    if kind is None or not str(value.get("module", "")).startswith("keras."):
        class_name = value.get("class_name", value) if isinstance(value, dict) else value
        allowed = ", ".join(option.arguments)
        raise NotConvertible(layer.name, f"its {name} {class_name} is none of {allowed}")
    parameters = inspect.signature(getattr(module, kind).__init__).parameters
    arguments = {
        key: _plain(value["config"][key])
        for key in option.arguments[kind]
        if key in value["config"] and value["config"][key] != parameters[key].default
    }
    return {"name": kind, **arguments}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic | np.ndarray) else value
