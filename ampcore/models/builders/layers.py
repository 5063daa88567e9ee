"""A network that the spec describes layer by layer."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ampcore.data.dataset import Signature
from ampcore.models.builders.from_description import build_networks, data_shape
from ampcore.models.registry import register
from ampspec.data.target_columns import OUTPUT
from ampspec.documents.problems import Problem
from ampspec.errors import InvalidModel
from ampspec.layers.graph import infer
from ampspec.layers.inference import Inference
from ampspec.models.model import Layers, NamedInput
from ampspec.networks.custom_layers import named_sizes
from ampspec.rules.layer_rules import output_problem


@register("layers")
def custom_layers(spec: Layers, signature: Signature) -> Any:
    """The layers of the spec; raises InvalidModel where they cannot take the data."""
    if problem := _first_problem(spec, signature):
        raise _invalid_model(problem)
    try:
        return build_networks(spec, signature)
    except (ValueError, TypeError, NotImplementedError) as error:
        message = str(error).partition("\n")[0]
        raise InvalidModel(
            "model.layers", expected="layers that Keras can build", received=message
        ) from error


def _first_problem(spec: Layers, signature: Signature) -> Problem | None:
    """Rules of the spec that need the data: it may not have been known when the job was posted."""
    network = spec.connect()
    if network.problems:
        return network.problems[0]
    data_inputs = _data_inputs(network.inputs, signature)
    if set(data_inputs) != set(network.inputs):
        return Problem(
            "/model/inputs",
            "model_cannot_take_data",
            f"the inputs of the data: {', '.join(data_inputs)}",
            ", ".join(network.inputs),
        )
    for name, declared in spec.inputs.items():
        if declared != (data_input := data_inputs[name]):
            return Problem(
                f"/model/inputs/{name}",
                "model_cannot_take_data",
                f"the examples of the data: {data_input.dtype} {list(data_input.shape)}",
                f"{declared.dtype} {list(declared.shape)}",
            )
    sizes = named_sizes(data_shape(signature))
    shapes = {name: declared_input.shape for name, declared_input in data_inputs.items()}
    inferences, problems = infer(network, shapes, sizes)
    if problems:
        return problems[0]
    return next(_output_problems(spec, network.outputs, inferences, signature), None)


def _data_inputs(names: tuple[str, ...], signature: Signature) -> dict[str, NamedInput]:
    """The inputs of the data; the only one has the name that the model gives it."""
    if not signature.inputs:
        only = NamedInput(shape=signature.input_shape, dtype=signature.input_dtype)
        return {names[0]: only}
    return {
        name: NamedInput(shape=tuple(array_spec.shape), dtype=array_spec.dtype.name)
        for name, array_spec in signature.inputs.items()
    }


def _output_problems(
    spec: Layers,
    outputs: tuple[str, ...],
    inferences: Mapping[str, Inference],
    signature: Signature,
) -> Iterator[Problem]:
    targets = signature.targets
    if OUTPUT in targets and len(outputs) == 1:
        targets = {outputs[0]: targets[OUTPUT]}
    if set(targets) != set(outputs):
        yield Problem(
            "/model/outputs",
            "model_cannot_take_data",
            f"the outputs of the task: {', '.join(targets)}",
            ", ".join(outputs),
        )
        return
    for output in outputs:
        target, received = targets[output], inferences[output].output
        expected = target.output_shape
        if target.kind == "input" and math.prod(received) == math.prod(expected):
            expected = received  # the targets get the shape of the output
        yield from output_problem(spec, output, received, expected)


def _invalid_model(problem: Problem) -> InvalidModel:
    field = problem.pointer.removeprefix("/").replace("/", ".", 1)
    return InvalidModel(field, expected=problem.expected, received=problem.received or "nothing")
