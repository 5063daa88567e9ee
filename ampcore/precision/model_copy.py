"""Creates Keras models again: functional and sequential ones, and subclassed ones."""

from collections.abc import Callable
from typing import Any

import keras

from ampcore.errors import InvalidModel
from ampcore.precision.layer_paths import is_network

Layer = Any
Model = Any


def copy_model(model: Model, example: Any = None) -> Model:
    """A copy of a built model, with its own variables and the same values.

    Args:
        model: Any keras.Model.
        example: Inputs of one or more examples, to build a subclassed model with.

    Raises:
        InvalidModel: The model, or a layer of it, cannot be created again.
    """
    if is_network(model):
        copied = clone_network(model, clone_layer)
    else:
        copied = recreate_subclassed(model)
        build_subclassed(copied, model, example)
    assign_values(model, copied)
    return copied


def clone_network(model: Model, clone: Callable[[Layer], Layer]) -> Model:
    """A functional or sequential model again, with each layer replaced by `clone(layer)`."""
    with _Explained(model):
        return keras.models.clone_model(model, clone_function=clone, recursive=True)


def clone_layer(layer: Layer) -> Layer:
    """An unbuilt copy of a layer; an operation has no state and stays."""
    if not isinstance(layer, keras.layers.Layer):
        return layer
    return layer_from_config(layer, layer.get_config())


def layer_from_config(layer: Layer, config: dict[str, Any]) -> Layer:
    """A layer of the same class with this config."""
    if isinstance(layer, keras.layers.Lambda):
        # Keras refuses to create a lambda from a config; here it comes from the object itself.
        function = {"function": layer.function, "output_shape": layer._output_shape}
        return type(layer)(
            **function,
            mask=layer.mask,
            arguments=layer.arguments,
            name=config["name"],
            dtype=config["dtype"],
        )
    return type(layer).from_config(config)


def can_recreate(model: Model) -> bool:
    """Whether a model can be created again: functional, sequential, or with its own get_config.

    The config that Keras makes for other subclassed models lacks the arguments of their
    constructors.
    """
    return is_network(model) or type(model).get_config is not keras.Model.get_config


def recreate_subclassed(model: Model) -> Model:
    """A subclassed model again, from its config; not built."""
    with _Explained(model):
        if not can_recreate(model):
            raise NotImplementedError("it has no get_config")
        return type(model).from_config(model.get_config())


def build_subclassed(copied: Model, model: Model, example: Any = None) -> None:
    """Create the variables of a copy as those of the model were."""
    with _Explained(model):
        if example is not None:
            copied(example)
        else:
            copied.build_from_config(model.get_build_config())


def assign_values(source: Model, target: Model) -> None:
    """Copy the values of all variables, in the dtypes of the target.

    Raises:
        InvalidModel: The target has other variables.
    """
    shapes = [[tuple(each.shape) for each in model.variables] for model in (source, target)]
    if shapes[0] != shapes[1]:
        raise InvalidModel(
            "model",
            expected=f"{len(shapes[0])} variables of the same shapes in a copy of the model",
            received=f"{len(shapes[1])} variables; its get_config must return the arguments of its "
            "constructor",
        )
    for old, new in zip(source.variables, target.variables, strict=True):
        # An initializer without a seed draws a new one for the copy.
        new.assign(keras.ops.cast(old.value, new.dtype))


class _Explained:
    """A context whose errors say what a model needs to be created again."""

    def __init__(self, model: Model) -> None:
        self._kind = type(model).__name__

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, InvalidModel) or not isinstance(error, Exception):
            return
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InvalidModel(
            "model",
            expected="a model that can be created again: an own layer or a subclassed model needs "
            "a get_config that returns the arguments of its constructor",
            received=f"{self._kind}: {type(error).__name__}: {reason[:300]}",
        ) from error
