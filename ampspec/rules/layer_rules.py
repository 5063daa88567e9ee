"""Rules about a model of layers: its connections, its inputs and outputs, and their shapes."""

from collections.abc import Iterator
from typing import Any

from ampspec.data.data import Digits, Synthetic, SyntheticClicks
from ampspec.documents.problems import Parts, Problem, json_pointer
from ampspec.layers.graph import infer
from ampspec.layers.inference import Shape
from ampspec.models.model import Layers, NamedInput
from ampspec.objectives.task import Outputs
from ampspec.rules.data_rules import CLASSES, DIGITS_SHAPE


def layers_are_connected(parts: Parts) -> Iterator[Problem]:
    """The layers of a model form a network from its inputs to its outputs."""
    if isinstance(model := parts.get("model"), Layers):
        yield from model.connect().problems


def names_of_inputs_and_outputs(parts: Parts) -> Iterator[Problem]:
    """Several inputs of a model exist in the data, and several outputs in the task."""
    model, data, task = parts.get("model"), parts.get("data"), parts.get("task")
    if not isinstance(model, Layers):
        return
    columns = getattr(data, "inputs", None) or {}
    if data is not None and len(model.inputs) > 1 and set(columns) != set(model.inputs):
        yield Problem(
            "/data/inputs",
            "unknown_input",
            f"columns for each input of the model: {', '.join(model.inputs)}",
            ", ".join(columns) or "none",
        )
    outputs = model.outputs or ()
    predicted = task.outputs if isinstance(task, Outputs) else {}
    if len(outputs) > 1 and set(predicted) != set(outputs):
        yield Problem(
            "/task/outputs" if predicted else "/task",
            "unknown_output",
            f"kind: outputs, with each output of the model: {', '.join(outputs)}",
            ", ".join(predicted) or (task.kind if task is not None else "none"),
        )


def layers_fit_data(parts: Parts) -> Iterator[Problem]:
    """The layers accept the examples, and the output has one value for each class."""
    model, data = parts.get("model"), parts.get("data")
    if not isinstance(model, Layers) or data is None or len(model.inputs) > 1:
        return
    if (example := _known_input(data)) is None or (network := model.connect()).problems:
        return
    for name, model_input in model.inputs.items():
        if (model_input.shape, model_input.dtype) != (example.shape, example.dtype):
            yield Problem(
                json_pointer(("model", "inputs", name)),
                "model_cannot_take_data",
                f"the examples of {data.kind}: {example.dtype} {list(example.shape)}",
                f"{model_input.dtype} {list(model_input.shape)}",
            )
            return
    classes = data.classes if isinstance(data, Synthetic) else CLASSES[data.kind]
    sizes = {"classes": classes}
    if isinstance(data, SyntheticClicks):
        sizes["vocabulary"] = data.vocabulary
    inferences, problems = infer(network, {network.inputs[0]: example.shape}, sizes)
    yield from problems
    is_classified = parts.get("task") is None or parts["task"].kind == "classification"
    if not problems and is_classified:
        output = network.outputs[0]
        yield from output_problem(model, output, inferences[output].output, (classes,))


def _known_input(data: Any) -> NamedInput | None:
    """The examples, if the spec alone decides their shape."""
    match data:
        case Digits():
            return NamedInput(shape=DIGITS_SHAPE)
        case Synthetic():
            return NamedInput(shape=data.shape)
        case SyntheticClicks():
            return NamedInput(shape=(data.slots, data.nnz), dtype="int32")
    return None


def output_problem(
    model: Layers, output: str, received: Shape, expected: Shape
) -> Iterator[Problem]:
    """The problem of an output without one number for each class, label or number to predict."""
    if received == expected:
        return
    [node] = [node for node in model.connect().nodes if node.name == output]
    field = next((name for name in ("units", "filters") if hasattr(node.layer, name)), "layer")
    yield Problem(
        f"{node.pointer}/{field if node.reuses is None else 'reuse'}",
        "model_cannot_take_data",
        f"an output {list(expected)} of the layer {output}: one logit for each class or label, or "
        "one value for each number to predict",
        str(list(received)),
    )
