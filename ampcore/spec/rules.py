"""Rules across the sections of a spec; each rule checks only sections that are valid."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from ampcore.spec.data import Digits, FileData, Synthetic, SyntheticClicks
from ampcore.spec.layers.inference import Shape
from ampcore.spec.layers.network import infer
from ampcore.spec.model import (
    Cnn,
    Embedding,
    Gan,
    KerasApplication,
    Layers,
    NamedInput,
    ResNet,
    TransformerLm,
)
from ampcore.spec.optimizer import Momentum, Sgd
from ampcore.spec.precision import AdaptiveScale
from ampcore.spec.problems import Problem, closest_match, json_pointer
from ampcore.spec.task import LOSSES, METRICS, Outputs

Parts = dict[str, Any]

DIGITS_SHAPE: Final = (8, 8, 1)
DIGITS_EXAMPLES: Final = 1797
CLASSES: Final = {"digits": 10, "synthetic_clicks": 2}
"""The classes of the kinds of data whose number is fixed."""

FILES: Final = ("npz", "npy", "csv", "parquet", "images", "tfrecord")
IMAGES: Final = ("digits", "synthetic", *FILES)
DATA_OF_MODEL: Final[dict[str, tuple[str, ...]]] = {
    "mlp": IMAGES,
    "cnn": IMAGES,
    "lenet5": IMAGES,
    "resnet": IMAGES,
    "gan": IMAGES,
    "keras_application": IMAGES,
    "embedding": ("synthetic_clicks",),
    "lstm_lm": ("text",),
    "transformer_lm": ("text",),
    "layers": (*IMAGES, "text", "synthetic_clicks"),
}
"""The kinds of data that each kind of model can train on."""


def train_examples(examples: int, validation_split: float) -> int:
    """The number of training examples: without the last share for validation, as in Keras."""
    return int(examples * (1.0 - validation_split))


def loss_scale_bounds(parts: Parts) -> Iterator[Problem]:
    """minimum ≤ initial ≤ maximum."""
    scale = parts.get("loss_scale")
    if isinstance(scale, AdaptiveScale) and not scale.minimum <= scale.initial <= scale.maximum:
        yield Problem(
            "/loss_scale/initial",
            "out_of_bounds",
            f"a scale from minimum ({scale.minimum:.10g}) to maximum ({scale.maximum:.10g})",
            f"{scale.initial:.10g}",
        )


def nesterov_needs_momentum(parts: Parts) -> Iterator[Problem]:
    """Nesterov momentum needs a momentum above 0."""
    own = (parts.get("optimizers") or {}).items()
    every = {("optimizer",): parts.get("optimizer")} | {("optimizers", name): o for name, o in own}
    for location, optimizer in every.items():
        if isinstance(optimizer, Sgd | Momentum) and optimizer.nesterov and not optimizer.momentum:
            expected = "a momentum above 0 with nesterov: true"
            yield Problem(json_pointer((*location, "momentum")), "out_of_bounds", expected, "0")


def batch_fits_data(parts: Parts) -> Iterator[Problem]:
    """The training examples must fill at least one step."""
    data, train = parts.get("data"), parts.get("train")
    match data:
        case Digits():
            examples = DIGITS_EXAMPLES
        case Synthetic() | SyntheticClicks():
            examples = data.examples
        case _:
            return
    training = train_examples(examples, data.validation_split)
    if data.batch_size > training:
        yield Problem(
            "/data/batch_size",
            "batch_too_large",
            f"at most {training}, the number of training examples of {data.kind} "
            f"with validation_split {data.validation_split:g}",
            str(data.batch_size),
        )
    elif train is not None and data.batch_size * train.accumulate > training:
        yield Problem(
            "/train/accumulate",
            "batch_too_large",
            f"at most {training // data.batch_size}, the number of batches of {data.batch_size} in "
            f"the {training} training examples of {data.kind}",
            str(train.accumulate),
        )


def one_data_source(parts: Parts) -> Iterator[Problem]:
    """Data from a file names a path or a dataset, not both."""
    data = parts.get("data")
    if not isinstance(data, FileData) or bool(data.path) != bool(data.dataset):
        return
    expected = "either path or dataset"
    if not data.path:
        yield Problem("/data/path", "missing_source", expected, "neither")
    else:
        yield Problem("/data/dataset", "two_sources", expected, "both")


def model_takes_data(parts: Parts) -> Iterator[Problem]:
    """Each kind of model trains on certain kinds of data."""
    model, data = parts.get("model"), parts.get("data")
    if model is None or data is None or data.kind in DATA_OF_MODEL[model.kind]:
        return
    yield Problem(
        "/data/kind",
        "model_cannot_take_data",
        f"{' or '.join(DATA_OF_MODEL[model.kind])} for the model {model.kind}",
        data.kind,
    )


TASKS_OF_MODEL: Final[dict[str, tuple[str, ...]]] = {
    "mlp": ("classification", "multi_label", "regression", "autoencoding"),
    "cnn": ("classification", "multi_label", "regression"),
    "lenet5": ("classification", "multi_label", "regression"),
    "resnet": ("classification", "multi_label", "regression"),
    "keras_application": ("classification", "multi_label", "regression"),
    "lstm_lm": ("language_model",),
    "transformer_lm": ("language_model",),
    "layers": (
        *("classification", "multi_label", "regression", "segmentation"),
        *("language_model", "autoencoding", "outputs"),
    ),
}
"""The tasks of each kind of model; a kind that is not listed has a task of its own."""


def task_fits_model(parts: Parts) -> Iterator[Problem]:
    """Each kind of model has outputs for certain tasks."""
    model, task = parts.get("model"), parts.get("task")
    if model is None or task is None:
        return
    allowed = TASKS_OF_MODEL.get(model.kind, ())
    if task.kind not in allowed:
        expected = (
            f"{' or '.join(allowed)} for the model {model.kind}"
            if allowed
            else f"no task: the model {model.kind} has one of its own"
        )
        yield Problem("/task/kind", "model_cannot_do_task", expected, task.kind)


def losses_and_metrics_fit_task(parts: Parts) -> Iterator[Problem]:
    """Losses and metrics are for certain kinds of targets."""
    task = parts.get("task")
    if isinstance(task, Outputs):
        named = {f"/task/outputs/{name}/task": output.task for name, output in task.outputs.items()}
    else:
        named = {"/task": task} if task is not None else {}
    for pointer, own in named.items():
        losses, metrics = LOSSES[own.target], METRICS[own.target]
        if own.loss is not None and own.loss.kind not in losses:
            yield Problem(
                f"{pointer}/loss",
                "loss_does_not_fit_task",
                f"{' or '.join(losses)} for the task {own.kind}",
                own.loss.kind,
            )
        for index, metric in enumerate(own.metrics or ()):
            if metric.kind not in metrics:
                yield Problem(
                    f"{pointer}/metrics/{index}",
                    "metric_does_not_fit_task",
                    f"{' or '.join(metrics)} for the task {own.kind}",
                    metric.kind,
                )


def image_shape(parts: Parts) -> Iterator[Problem]:
    """Convolutions need images that are large enough."""
    model, data = parts.get("model"), parts.get("data")
    shape = DIGITS_SHAPE if isinstance(data, Digits) else getattr(data, "shape", None)
    if model is None or shape is None or model.kind in ("mlp", "layers"):
        return
    if DATA_OF_MODEL[model.kind] is not IMAGES:
        return
    if len(shape) not in (2, 3):
        yield Problem(
            "/data/shape",
            "model_cannot_take_data",
            f"[height, width] or [height, width, channels] for the model {model.kind}",
            str(list(shape)),
        )
    elif too_small := _too_small(model, *shape[:2]):
        field, expected = too_small
        received = f"images of {shape[0]} × {shape[1]}"
        yield Problem(f"/model/{field}", "model_cannot_take_data", expected, received)


def _too_small(model: Any, height: int, width: int) -> tuple[str, str] | None:
    """The field to change and the expected images; None if the model supports the size."""
    match model:
        case Cnn():
            least = len(model.filters) * (model.kernel - 1) + 2
            field, reason = (
                "filters",
                (
                    f"{len(model.filters)} valid convolutions of {model.kernel} × {model.kernel} "
                    "and a 2 × 2 pool"
                ),
            )
        case KerasApplication():
            least, field, reason = model.min_image_size, "name", model.name
        case Gan():
            least, field = model.min_image_size, "discriminator"
            reason = f"{len(model.discriminator)} pools"
            if height % 4 or width % 4:
                return "kind", "images whose height and width are multiples of 4"
        case _:
            return None
    if min(height, width) >= least:
        return None
    return field, f"images of at least {least} × {least} for {reason}"


def keys_fit_table(parts: Parts) -> Iterator[Problem]:
    """An embedding model has the slots of the data, and a row for each of its keys."""
    model, data = parts.get("model"), parts.get("data")
    if isinstance(data, SyntheticClicks) and data.vocabulary < data.slots:
        yield Problem(
            "/data/vocabulary",
            "out_of_bounds",
            f"at least {data.slots}, one key per slot",
            str(data.vocabulary),
        )
    if not (isinstance(model, Embedding) and isinstance(data, SyntheticClicks)):
        return
    for field in ("slots", "nnz"):
        wanted, received = getattr(data, field), getattr(model, field)
        if wanted != received:
            expected = f"{wanted}, the {field} of the data"
            yield Problem(f"/model/{field}", "model_cannot_take_data", expected, str(received))
    if model.vocabulary < data.vocabulary:
        yield Problem(
            "/model/vocabulary",
            "model_cannot_take_data",
            f"at least {data.vocabulary}, the vocabulary of the data",
            str(model.vocabulary),
        )


def resnet_depth(parts: Parts) -> Iterator[Problem]:
    """Three stages of n blocks of two layers, one layer before and one after."""
    model = parts.get("model")
    if isinstance(model, ResNet) and model.depth % 6 != 2:
        near = model.depth - (model.depth - 2) % 6
        yield Problem(
            "/model/depth",
            "out_of_bounds",
            f"a depth of 6n + 2, such as {near} or {near + 6}",
            str(model.depth),
        )


def heads_divide_dim(parts: Parts) -> Iterator[Problem]:
    """Every attention head gets an equal part of the features."""
    model = parts.get("model")
    if isinstance(model, TransformerLm) and model.dim % model.heads:
        yield Problem(
            "/model/dim",
            "out_of_bounds",
            f"a multiple of the {model.heads} heads",
            str(model.dim),
        )


def layers_are_connected(parts: Parts) -> Iterator[Problem]:
    """The layers of a model form a network from its inputs to its outputs."""
    if isinstance(model := parts.get("model"), Layers):
        yield from model.connect().problems


def names_of_inputs_and_outputs(parts: Parts) -> Iterator[Problem]:
    """Several inputs of a model are inputs of the data, several outputs those of the task."""
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
            ", ".join(predicted) or "none",
        )


def layers_fit_data(parts: Parts) -> Iterator[Problem]:
    """The layers take the examples, and the output has a number for each class."""
    model, data = parts.get("model"), parts.get("data")
    if not isinstance(model, Layers) or data is None or len(model.inputs) > 1:
        return
    if (known := _known_input(data)) is None or (network := model.connect()).problems:
        return
    for name, given in model.inputs.items():
        if (given.shape, given.dtype) != (known.shape, known.dtype):
            yield Problem(
                json_pointer(("model", "inputs", name)),
                "model_cannot_take_data",
                f"the examples of {data.kind}: {known.dtype} {list(known.shape)}",
                f"{given.dtype} {list(given.shape)}",
            )
            return
    classes = data.classes if isinstance(data, Synthetic) else CLASSES[data.kind]
    sizes = {"classes": classes}
    if isinstance(data, SyntheticClicks):
        sizes["vocabulary"] = data.vocabulary
    found, problems = infer(network, {network.inputs[0]: known.shape}, sizes)
    yield from problems
    is_classified = parts.get("task") is None or parts["task"].kind == "classification"
    if not problems and is_classified:
        output = network.outputs[0]
        yield from output_problem(model, output, found[output].output, (classes,))


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


def optimizers_name_networks(parts: Parts) -> Iterator[Problem]:
    """Only a model with several networks takes an optimizer per network."""
    model, optimizers = parts.get("model"), parts.get("optimizers")
    if model is None or not optimizers:
        return
    names = model.networks if len(model.networks) > 1 else ()
    for name in optimizers:
        if name not in names:
            expected = (
                f"one of the networks {', '.join(names)}"
                if names
                else f"no entries: the model {model.kind} has one network, configured by optimizer"
            )
            yield Problem(
                json_pointer(("optimizers", name)),
                "unknown_network",
                expected,
                name,
                closest_match(name, names),
            )


def one_device(parts: Parts) -> Iterator[Problem]:
    """A job trains on one device: more are refused instead of ignored."""
    runtime = parts.get("runtime")
    if runtime is not None and runtime.devices != 1:
        yield Problem(
            "/runtime/devices",
            "not_available",
            "1: this version of ampcore trains on one device",
            str(runtime.devices),
        )


RULES: Final[tuple[Callable[[Parts], Iterator[Problem]], ...]] = (
    loss_scale_bounds,
    nesterov_needs_momentum,
    batch_fits_data,
    one_data_source,
    model_takes_data,
    task_fits_model,
    losses_and_metrics_fit_task,
    image_shape,
    keys_fit_table,
    resnet_depth,
    heads_divide_dim,
    layers_are_connected,
    names_of_inputs_and_outputs,
    layers_fit_data,
    optimizers_name_networks,
    one_device,
)
