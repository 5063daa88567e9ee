"""Rules about built-in models: the data that each can train on, and its sizes."""

from collections.abc import Iterator
from typing import Any, Final

from ampspec.data.data import Digits, SyntheticClicks
from ampspec.documents.problems import Parts, Problem
from ampspec.models.model import (
    Cnn,
    EmbeddingModel,
    Gan,
    KerasApplication,
    Mlp,
    ResNet,
    TransformerLm,
)
from ampspec.rules.data_rules import DIGITS_SHAPE

FILES: Final = ("npz", "npy", "csv", "parquet", "images", "tfrecord")
IMAGES: Final = ("digits", "synthetic", *FILES, "package")
ANY_DATA: Final = (*IMAGES, "text", "synthetic_clicks")
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
    "layers": ANY_DATA,
    "bundle": ANY_DATA,
    "package": ANY_DATA,
}
"""The kinds of data that each kind of model can train on."""


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


def image_shape(parts: Parts) -> Iterator[Problem]:
    """Convolutions need images that are large enough."""
    model, data = parts.get("model"), parts.get("data")
    shape = DIGITS_SHAPE if isinstance(data, Digits) else getattr(data, "shape", None)
    if model is None or shape is None or isinstance(model, Mlp):
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
    if not (isinstance(model, EmbeddingModel) and isinstance(data, SyntheticClicks)):
        return
    for field in ("slots", "nnz"):
        data_size, model_size = getattr(data, field), getattr(model, field)
        if data_size != model_size:
            expected = f"{data_size}, the {field} of the data"
            yield Problem(f"/model/{field}", "model_cannot_take_data", expected, str(model_size))
    if model.vocabulary < data.vocabulary:
        yield Problem(
            "/model/vocabulary",
            "model_cannot_take_data",
            f"at least {data.vocabulary}, the vocabulary of the data",
            str(model.vocabulary),
        )


def tables_fit_ranks(parts: Parts) -> Iterator[Problem]:
    """A sharded table has a row for each rank; several ranks train an embedding with `graph`."""
    model, runtime = parts.get("model"), parts.get("runtime")
    if not isinstance(model, EmbeddingModel) or runtime is None:
        return
    if runtime.ranks > 1 and runtime.engine == "xla_step":
        yield Problem(
            "/runtime/engine",
            "not_available",
            "auto or graph for an embedding on several ranks: the number of rows that they "
            "exchange changes, and XLA would compile each step again",
            "xla_step",
        )
    if model.placement == "replicated":
        return
    if runtime.ranks > model.vocabulary:
        expected = f"at least {runtime.ranks}, one row for each rank of a sharded table"
        yield Problem("/model/vocabulary", "out_of_bounds", expected, str(model.vocabulary))
    for section in ("init", "task"):
        if parts.get(section) is not None:
            expected = f"replicated with a section {section}"
            yield Problem("/model/placement", "not_available", expected, "sharded")


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
