"""What ampcore uses of Keras beyond its public API, in one place.

`tests/ampcore/test_keras_internals.py` says what each of these does: after a release of Keras, look
there first.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

DTYPE_POLICY = "_dtype_policy"
"""The attribute with a layer's dtype policy; the public one builds the layer anew."""
MOMENTS = "_moments"
"""The method of BatchNormalization for the mean and the variance of its inputs in training."""


def flatten_layers(layer: Any, *, include_self: bool = True, recursive: bool = True) -> list[Any]:
    """A layer with its sub-layers, each once."""
    return list(layer._flatten_layers(include_self=include_self, recursive=recursive))


def direct_variables(layer: Any) -> list[Any]:
    """The variables of a layer itself, without those of its sub-layers."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def trained_variables(optimizer: Any) -> list[Any]:
    """The variables that an optimizer was built for."""
    return list(optimizer._trainable_variables)


def training_argument(model: Any, *, training: bool) -> dict[str, bool]:
    """The argument `training` of a call; a subclassed model need not have it."""
    return {"training": training} if model._call_has_training_arg else {}


def producer(tensor: Any) -> tuple[Any, int]:
    """The operation that returned a symbolic tensor, and the number of its call."""
    operation, call, _ = tensor._keras_history
    return operation, call


def input_tensors(operation: Any, call: int) -> list[Any]:
    """The symbolic inputs of one call of an operation."""
    return list(operation._inbound_nodes[call].input_tensors)


def calls_in_network(layer: Any, network: Any) -> list[Any]:
    """The calls of a layer in a network; other models may call it, too."""
    graph = getattr(network, "_functional", network)
    nodes_of_network = {id(node) for nodes in graph._nodes_by_depth.values() for node in nodes}
    return [node for node in layer._inbound_nodes if id(node) in nodes_of_network]


def metric_function(metric: Any) -> tuple[Any, Mapping[str, Any]]:
    """The function of an example whose mean a MeanMetricWrapper is, and its arguments."""
    return metric._fn, metric._fn_kwargs


def metric_direction(metric: Any) -> str | None:
    """Whether a metric should go "up" or "down"; None: it does not say it."""
    return getattr(metric, "_direction", None)


def is_layer_of_keras(layer: Any) -> bool:
    """Whether Keras itself defines the class of a layer."""
    return type(layer).__module__.startswith("keras.src.")


@contextmanager
def without_autocast(variable: Any) -> Iterator[None]:
    """A context in which a variable has its own dtype, not that of the layer that is called."""
    converts, variable._autocast = variable._autocast, False
    try:
        yield
    finally:
        variable._autocast = converts


@contextmanager
def replaced_methods(methods: Iterable[tuple[Any, Any]], name: str = "call") -> Iterator[None]:
    """A context in which a method of each layer is another function.

    Keras has no hooks: an attribute of the object hides the method of its class. __dict__ avoids
    __setattr__, with which Keras would track the function.
    """
    installed_before = []
    try:
        for layer, function in methods:
            installed_before.append((layer, layer.__dict__.get(name)))
            layer.__dict__[name] = function
        yield
    finally:
        for layer, installed in reversed(installed_before):
            if installed is None:
                del layer.__dict__[name]
            else:
                layer.__dict__[name] = installed
