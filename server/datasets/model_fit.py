"""Check the model of a spec against the described columns that it would be trained on.

What a description does not tell, as the width of a table with categories, is left to the job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ampspec.data.data import Images
from ampspec.data.preprocessing import Preprocessing
from ampspec.documents.problems import json_pointer
from ampspec.documents.text import plural
from ampspec.jobs import JobSpec, Problem
from ampspec.layers.graph import LayerGraph, Node
from ampspec.models.model import Layers
from ampspec.objectives.task import Outputs, TargetKind
from server.datasets.described_column import DescribedColumn

IMAGE_MODELS: Final = ("cnn", "lenet5", "resnet", "gan", "keras_application")
"""Kinds of models whose examples are images."""
IMAGE_RANKS: Final = (2, 3)
Shape = tuple[int | None, ...]
"""Of one example; None for a size that the description does not tell."""


@dataclass(frozen=True)
class DescribedData:
    """What is known of the data of a job.

    Attributes:
        columns: By name.
        inputs: The columns of each input.
        targets: The columns of the target of each output.
        reference: What the version is called: `birds@3`.
    """

    columns: Mapping[str, DescribedColumn]
    inputs: Mapping[str, Sequence[str]]
    targets: Mapping[str, Sequence[str]]
    reference: str

    def input_shape(self, spec: JobSpec, name: str) -> Shape | None:
        """The shape of an example of an input; None if it is not known."""
        group = [self.columns[column] for column in self.inputs[name]]
        options = [preprocessing_of(spec, column.name) for column in group]
        encodes = any(_is_encoded(*pair) for pair in zip(group, options, strict=True))
        if len(group) > 1:
            is_table = all(len(column.shape) <= 1 for column in group)
            return (None if encodes else _width(group),) if is_table else None
        [column] = group
        if column.dtype == "image" and isinstance(spec.data, Images) and spec.data.size:
            return (*spec.data.size, *column.shape[2:])
        return None if encodes or not column.shape else column.shape


def preprocessing_of(spec: JobSpec, column: str) -> Preprocessing:
    """How the data section prepares a column."""
    by_column: Mapping[str, Preprocessing] = getattr(spec.data, "preprocessing", {})
    return by_column.get(column, by_column.get("*", Preprocessing()))


def problems_of_model(spec: JobSpec, data: DescribedData) -> Iterator[Problem]:
    """Where the shapes of inputs and the sizes of outputs do not fit the columns."""
    yield from _kind(spec, data)
    if not isinstance(spec.model, Layers):
        return
    yield from _input_shapes(spec, spec.model, data)
    graph = spec.model.connect()
    if graph.problems:
        return
    yield from _embeddings(spec, graph, data)
    yield from _outputs(spec, graph, data)


def _is_encoded(column: DescribedColumn, options: Preprocessing) -> bool:
    """Whether the layers between the column and the model change its shape."""
    has_encoding = options.categories is not None or options.tokens is not None or options.keys
    return has_encoding or column.dtype == "string"


def _kind(spec: JobSpec, data: DescribedData) -> Iterator[Problem]:
    if spec.model.kind not in IMAGE_MODELS or len(data.inputs) != 1:
        return
    [name] = data.inputs
    shape = data.input_shape(spec, name)
    if shape is not None and len(shape) not in IMAGE_RANKS:
        expected = (
            "mlp, or another model for examples that are no images: those of "
            f"{data.reference} have the shape {_text(shape)}"
        )
        yield Problem("/model/kind", "wrong_model", expected, spec.model.kind)


def _input_shapes(spec: JobSpec, model: Layers, data: DescribedData) -> Iterator[Problem]:
    for name, declared in model.inputs.items():
        column = name if name in data.inputs else None
        if column is None and len(model.inputs) == len(data.inputs) == 1:
            [column] = data.inputs
        if column is not None:
            yield from _input_dtype(spec, name, declared.dtype, data.inputs[column], data)
        shape = None if column is None else data.input_shape(spec, column)
        if column is None or shape is None or None in shape or shape == tuple(declared.shape):
            continue
        source = " and ".join(data.inputs[column][:3])
        size = ", or data.size that fits" if isinstance(spec.data, Images) else ""
        expected = f"{_text(shape)}, the shape of {source} of {data.reference}{size}"
        pointer = json_pointer(("model", "inputs", name, "shape"))
        yield Problem(pointer, "wrong_shape", expected, _text(tuple(declared.shape)))


def _input_dtype(
    spec: JobSpec, name: str, declared: str, group: Sequence[str], data: DescribedData
) -> Iterator[Problem]:
    """Numbers are float32, and keys are int32."""
    if any(data.columns[column].dtype in ("string", "image", "") for column in group):
        return
    options = [preprocessing_of(spec, column) for column in group]
    are_keys = [option.keys or option.categories == "integer" for option in options]
    source = f"{' and '.join(group[:3])} of {data.reference}"
    pointer = json_pointer(("model", "inputs", name, "dtype"))
    if declared == "int32" and not any(are_keys):
        expected = f"float32, or `keys: true` in data.preprocessing, for the numbers of {source}"
        yield Problem(pointer, "wrong_dtype", expected, declared)
    elif declared == "float32" and all(are_keys):
        yield Problem(pointer, "wrong_dtype", f"int32, for the keys of {source}", declared)


def _embeddings(spec: JobSpec, graph: LayerGraph, data: DescribedData) -> Iterator[Problem]:
    """The keys of a column are rows of the table that looks them up."""
    for node in graph.nodes:
        rows = getattr(node.layer.computing, "input_dim", None)
        if node.layer.computing.layer != "Embedding" or not isinstance(rows, int):
            continue
        for name in _data_inputs(node, graph, data):
            for column in (data.columns[column] for column in data.inputs[name]):
                if preprocessing_of(spec, column.name).categories is not None:
                    continue
                if column.high is not None and column.high >= rows:
                    largest = int(column.high)
                    expected = (
                        f"at least {largest + 1}, since {column.name} of {data.reference} has the "
                        f"key {largest}, or `vocabulary`"
                    )
                    pointer = f"{node.pointer}/input_dim"
                    yield Problem(pointer, "keys_beyond_table", expected, str(rows))


def _data_inputs(node: Node, graph: LayerGraph, data: DescribedData) -> list[str]:
    """The inputs of the data that a layer takes itself."""
    taken = [name for name in node.inputs if name in graph.inputs]
    if len(graph.inputs) == len(data.inputs) == 1 and taken:
        return list(data.inputs)
    return [name for name in taken if name in data.inputs]


def _outputs(spec: JobSpec, graph: LayerGraph, data: DescribedData) -> Iterator[Problem]:
    """The last Dense layer has a unit for each class, label or number of its target."""
    nodes = {node.name: node for node in graph.nodes}
    is_single = len(graph.outputs) == len(data.targets) == 1
    for name in graph.outputs:
        target = next(iter(data.targets)) if is_single else name
        layer = nodes[name].layer.computing if name in nodes else None
        units = getattr(layer, "units", None)
        if layer is None or layer.layer != "Dense" or not isinstance(units, int):
            continue
        kind = target_kind(spec, target)
        if target not in data.targets or kind is None:
            continue
        group = [data.columns[column] for column in data.targets[target]]
        if (expected := _units(kind, group, units, data.reference)) is not None:
            yield Problem(f"{nodes[name].pointer}/units", "wrong_units", expected, str(units))


def _units(
    kind: TargetKind, group: Sequence[DescribedColumn], units: int, reference: str
) -> str | None:
    """How many units are expected; None if those are right, or if the data do not tell."""
    names = " and ".join(column.name for column in group[:3])
    if kind == "class":
        [column] = group[:1]
        if len(group) > 1 or column.shape:
            return None
        if column.classes is not None and column.classes != units:
            return f"{column.classes} units, one for each class of {names} of {reference}"
        if column.classes is None and column.distinct is not None and column.distinct > units:
            counted = f"{column.distinct:,} classes" if column.distinct > 1 else "1 class"
            return (
                f"at least {column.distinct} units, or `classes`: {names} of {reference} has at "
                f"least {counted}"
            )
        return None
    if any(len(column.shape) > 1 for column in group):
        return None
    width = _width(group)
    if kind == "input" or width is None or width == units:
        return None
    what = "label" if kind == "labels" else "number"
    return f"{plural(width, 'unit')}, one for each {what} of {names} of {reference}"


def _width(group: Sequence[DescribedColumn]) -> int | None:
    """How many numbers the columns have in a row; None if it is not known."""
    width = 0
    for column in group:
        size = column.shape[0] if column.shape else 1
        if size is None:
            return None
        width += size
    return width


def target_kind(spec: JobSpec, output: str) -> TargetKind | None:
    """What the targets of an output are; None of an output that the task does not have.

    The job reads the targets before it runs code of the user, whatever that makes of them.
    """
    task = spec.task
    if isinstance(task, Outputs):
        return task.outputs[output].task.target if output in task.outputs else None
    return "class" if task is None else task.target


def _text(shape: Shape) -> str:
    return str(["?" if size is None else size for size in shape]).replace("'", "")
