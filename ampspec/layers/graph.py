"""Connects the layers of a model and infers their shapes from its inputs."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import islice
from typing import Final

from ampspec.documents.problems import (
    MAX_PROBLEMS,
    Problem,
    closest_match,
    format_value,
    json_pointer,
)
from ampspec.documents.text import join_names, plural
from ampspec.layers.base import Layer, default_name
from ampspec.layers.entry import Reuse
from ampspec.layers.inference import (
    MAX_OUTPUT_SIZE,
    MAX_PARAMETERS,
    MAX_RANK,
    Inference,
    Shape,
    ShapeError,
)
from ampspec.precision.layer_dtypes import SHAPE_ONLY_LAYERS

INPUT: Final = "input"
"""The default name of a model's only input."""
MAX_SUGGESTIONS: Final = 10
"""Maximum number of suggestions; each compares a name with all layer names."""
LAYERS_POINTER: Final = "/model/layers"


@dataclass(frozen=True)
class Node:
    """One call of a layer."""

    index: int
    """Its index in the `layers` of the model."""
    name: str
    layer: Layer
    inputs: tuple[str, ...]
    """The names of nodes or of inputs of the model."""
    reuses: str | None = None
    """The name of the node whose weights it shares; None for the first call of the layer."""

    @property
    def pointer(self) -> str:
        """The JSON pointer of its entry in a spec."""
        return f"{LAYERS_POINTER}/{self.index}"

    @property
    def softmax(self) -> bool:
        """Whether it is a softmax, or ends in one."""
        layer = self.layer.computing
        return layer.layer == "Softmax" or getattr(layer, "activation", "") == "softmax"


@dataclass(frozen=True)
class LayerGraph:
    """The calls of a model's layers, in topological order."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    problems: tuple[Problem, ...] = ()
    """Why the layers do not form a network; without problems it is complete."""

    @property
    def output_layers(self) -> frozenset[str]:
        """The nodes that compute an output, looking through layers that only reshape it."""
        nodes = {node.name: node for node in self.nodes}
        pending, names = list(self.outputs), set()
        while pending:
            name = pending.pop()
            if name in names or name not in nodes:
                continue
            names.add(name)
            if nodes[name].layer.computing.layer in SHAPE_ONLY_LAYERS:
                pending += nodes[name].inputs
        return frozenset(names)


def connect(
    entries: Sequence[Layer | Reuse],
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
) -> LayerGraph:
    """Connect the entries of `layers`; mistakes are the network's `problems`.

    Args:
        entries: The layers.
        inputs: The names of the model's inputs; empty: one input, INPUT.
        outputs: The names of the layers that are the model's outputs; by default the last layer.
    """
    names = tuple(inputs) or (INPUT,)
    problems = _Problems()
    nodes = tuple(_nodes(entries, names, problems))
    output_names = tuple(outputs) or (nodes[-1].name,)
    layers = {node.name for node in nodes}
    for node in nodes:
        _check_inputs(node, entries[node.index].inputs is not None, {*names, *layers}, problems)
    _check_outputs(outputs, layers, problems)
    if problems.problems:
        return LayerGraph(names, nodes, output_names, tuple(problems.problems))
    ordered, cycle = _in_order(nodes, names)
    if cycle is not None:
        return LayerGraph(names, nodes, output_names, (cycle,))
    graph = LayerGraph(names, tuple(ordered), output_names)
    unused = islice(_unused(graph, declared=bool(inputs)), MAX_PROBLEMS)
    return replace(graph, problems=tuple(unused))


class _Problems:
    """At most MAX_PROBLEMS problems; only the first ones get suggestions, which take time."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, problem: Problem, word: str = "", candidates: Collection[str] = ()) -> None:
        """Add a problem, with the candidate that is closest to `word` as its suggestion."""
        if len(self.problems) >= MAX_PROBLEMS:
            return
        if candidates and len(self.problems) < MAX_SUGGESTIONS:
            problem = replace(problem, suggestion=closest_match(word, candidates))
        self.problems.append(problem)


def infer(
    graph: LayerGraph, shapes: Mapping[str, Shape], sizes: Mapping[str, int]
) -> tuple[dict[str, Inference], list[Problem]]:
    """Infer the shapes of each node from the network's inputs, up to the first problem.

    Args:
        graph: A network without problems.
        shapes: The shape of one example of each input.
        sizes: By word, such as `classes`, the size decided by the data.
    """
    known_shapes = dict(shapes)
    inferences: dict[str, Inference] = {}
    parameters = 0
    for node in graph.nodes:
        try:
            inference = _infer_node(node, known_shapes, sizes, inferences)
        except ShapeError as error:
            pointer = f"{node.pointer}/{error.field}"
            message = f"{error.expected} for the layer {node.name}"
            return inferences, [
                Problem(pointer, "layer_cannot_take_input", message, error.received)
            ]
        if node.reuses is None:
            parameters += inference.parameters
        if parameters > MAX_PARAMETERS:
            expected = f"at most {MAX_PARAMETERS:,} parameters in all"
            received = f"{parameters:,} up to the layer {node.name}"
            return inferences, [Problem(LAYERS_POINTER, "too_many_parameters", expected, received)]
        known_shapes[node.name] = inference.output
        inferences[node.name] = inference
    return inferences, []


def _infer_node(
    node: Node,
    shapes: Mapping[str, Shape],
    sizes: Mapping[str, int],
    inferences: Mapping[str, Inference],
) -> Inference:
    layer = node.layer.with_sizes(sizes)
    if unknown := layer.computing.unknown_sizes:
        word = getattr(layer.computing, unknown[0])
        field = unknown[0] if layer.computing is layer else f"of/{unknown[0]}"
        raise ShapeError(
            field, expected=f"a number, since the data has no {word}", received=repr(word)
        )
    inference = layer.infer(*(shapes[name] for name in node.inputs))
    size = 1
    for length in inference.output:
        size *= length
    if len(inference.output) > MAX_RANK or size > MAX_OUTPUT_SIZE:
        raise ShapeError(
            "inputs",
            expected=f"an output of at most {MAX_RANK} axes and {MAX_OUTPUT_SIZE:,} numbers",
            received=str(list(inference.output)),
        )
    if node.reuses is not None:
        first = inferences[node.reuses]
        if (inference.weights, inference.state) != (first.weights, first.state):
            raise ShapeError(
                "inputs",
                expected=f"an input for the weights of {node.reuses}, "
                f"{join_names(map(list, first.weights))}",
                received=f"one for {join_names(map(list, inference.weights))}",
            )
    return inference


def _nodes(
    entries: Sequence[Layer | Reuse], inputs: Sequence[str], problems: _Problems
) -> Iterator[Node]:
    """A node for each entry, with names and inputs; entries without a layer are left out."""
    names = _names(entries, inputs)
    layers = {
        name: entry for name, entry in zip(names, entries, strict=True) if isinstance(entry, Layer)
    }
    counts = Counter((*names, *inputs))
    previous = inputs[0]
    for index, (name, entry) in enumerate(zip(names, entries, strict=True)):
        pointer = f"{LAYERS_POINTER}/{index}"
        if counts[name] > 1:
            expected = "a name that no other layer or input has"
            problems.add(Problem(f"{pointer}/name", "duplicate_name", expected, format_value(name)))
        if index == 0 and entry.inputs is None and len(inputs) > 1:
            expected = f"the names of inputs: {join_names(inputs)}"
            problems.add(Problem(f"{pointer}/inputs", "missing_inputs", expected, "nothing"))
        taken, previous = entry.inputs or (previous,), name
        if isinstance(entry, Layer):
            yield Node(index, name, entry, taken)
        elif entry.reuse in layers:
            yield Node(index, name, layers[entry.reuse], taken, entry.reuse)
        else:
            expected = "the name of a layer that is not a reuse"
            problem = Problem(
                f"{pointer}/reuse", "unknown_name", expected, format_value(entry.reuse)
            )
            problems.add(problem, entry.reuse, layers)
            # The following layers are checked as well.
            yield Node(index, name, Layer(layer="unknown"), taken)


def _names(entries: Sequence[Layer | Reuse], inputs: Sequence[str]) -> list[str]:
    """The names of all entries; unnamed ones get the names that Keras gives in a new process."""
    reserved = {entry.name for entry in entries if entry.name is not None} | set(inputs)
    used: Counter[str] = Counter()
    names = []
    for entry in entries:
        name = entry.name
        stem = default_name(entry.layer) if isinstance(entry, Layer) else entry.reuse
        # A reuse cannot have the name of its layer itself.
        used[stem] += isinstance(entry, Reuse) and not used[stem]
        while name is None:
            candidate = f"{stem}_{used[stem]}" if used[stem] else stem
            used[stem] += 1
            name = candidate if candidate not in reserved else None
        names.append(name)
    return names


def _check_inputs(node: Node, is_explicit: bool, names: set[str], problems: _Problems) -> None:
    min_inputs, max_inputs = node.layer.input_count
    if not min_inputs <= len(node.inputs) <= max_inputs:
        expected = (
            plural(min_inputs, "input")
            if min_inputs == max_inputs
            else f"{min_inputs} to {max_inputs} inputs"
        )
        problems.add(
            Problem(
                f"{node.pointer}/inputs",
                "wrong_number_of_inputs",
                f"{expected} for the layer {node.name} ({node.layer.layer})",
                str(len(node.inputs)),
            )
        )
    for position, name in enumerate(node.inputs if is_explicit else ()):
        if name not in names:
            expected = "the name of a layer or of an input"
            pointer = f"{node.pointer}/inputs/{position}"
            problems.add(
                Problem(pointer, "unknown_name", expected, format_value(name)), name, names
            )


def _check_outputs(outputs: Sequence[str], layers: set[str], problems: _Problems) -> None:
    for position, name in enumerate(outputs):
        pointer, received = f"/model/outputs/{position}", format_value(name)
        if name not in layers:
            problem = Problem(pointer, "unknown_name", "the name of a layer", received)
            problems.add(problem, name, layers)
        elif name in outputs[:position]:
            problems.add(Problem(pointer, "duplicate_name", "a layer once", received))


def _in_order(nodes: Sequence[Node], inputs: Sequence[str]) -> tuple[list[Node], Problem | None]:
    """The nodes in topological order, keeping their own order where possible; or the cycle."""
    by_name = {node.name: node for node in nodes}
    missing = {node.name: set(_dependencies(node)) - set(inputs) for node in nodes}
    needed_by: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for name in missing[node.name]:
            needed_by[name].append(node)
    ready = [node.index for node in nodes if not missing[node.name]]
    by_index = {node.index: node for node in nodes}
    ordered: list[Node] = []
    while ready:
        node = by_index[heappop(ready)]
        ordered.append(node)
        for dependent in needed_by[node.name]:
            missing[dependent.name].discard(node.name)
            if not missing[dependent.name]:
                heappush(ready, dependent.index)
    done = {node.name for node in ordered}
    waiting = {name: node for name, node in by_name.items() if name not in done}
    return ordered, _cycle(waiting) if waiting else None


def _dependencies(node: Node) -> tuple[str, ...]:
    # The first call creates the weights of the other calls.
    return node.inputs if node.reuses is None else (*node.inputs, node.reuses)


def _cycle(waiting: Mapping[str, Node]) -> Problem:
    path = [next(iter(waiting))]
    position = {path[0]: 0}
    while True:
        # Every waiting node depends on another waiting node.
        name = next(name for name in _dependencies(waiting[path[-1]]) if name in waiting)
        if name in position:
            circle = [*path[position[name] :], name]
            break
        position[name] = len(path)
        path.append(name)
    node = min((waiting[name] for name in circle), key=lambda node: node.index)
    return Problem(
        f"{node.pointer}/inputs",
        "cycle",
        "layers that do not depend on their own output",
        " → ".join(reversed(circle[-8:])),
    )


def _unused(graph: LayerGraph, *, declared: bool) -> Iterator[Problem]:
    """Layers and inputs that no output needs."""
    used_names = set(graph.outputs)
    for node in reversed(graph.nodes):
        if node.name in used_names:
            used_names.update(_dependencies(node))
    for node in sorted(graph.nodes, key=lambda node: node.index):
        if node.name not in used_names:
            expected = f"a layer that an output needs ({join_names(graph.outputs)})"
            yield Problem(node.pointer, "unreachable_layer", expected, node.name)
    for name in graph.inputs:
        if name not in used_names:
            expected = "an input that an output needs"
            pointer = json_pointer(("model", "inputs", name)) if declared else LAYERS_POINTER
            yield Problem(pointer, "unreachable_input", expected, name)
