"""What the parts of a spec must agree on; each rule looks at the parts that are valid alone."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from ampcore.spec.data import Digits, Synthetic
from ampcore.spec.model import Cnn, LeNet5
from ampcore.spec.optimizer import Momentum, Sgd
from ampcore.spec.precision import DynamicScale
from ampcore.spec.problems import Problem

Parts = dict[str, Any]

DIGITS_SHAPE: Final = (8, 8, 1)
DIGITS_EXAMPLES: Final = 1797


def train_examples(examples: int, validation_split: float) -> int:
    """How many of `examples` train when the last share of them only evaluates, as in Keras."""
    return int(examples * (1.0 - validation_split))


def loss_scale_bounds(parts: Parts) -> Iterator[Problem]:
    """minimum ≤ initial ≤ maximum."""
    scale = parts.get("loss_scale")
    if isinstance(scale, DynamicScale) and not scale.minimum <= scale.initial <= scale.maximum:
        yield Problem(
            "/loss_scale/initial",
            "out_of_bounds",
            f"a scale from minimum ({scale.minimum:.10g}) to maximum ({scale.maximum:.10g})",
            f"{scale.initial:.10g}",
        )


def nesterov_needs_momentum(parts: Parts) -> Iterator[Problem]:
    """Nesterov's form is a form of momentum."""
    optimizer = parts.get("optimizer")
    if isinstance(optimizer, Sgd | Momentum) and optimizer.nesterov and not optimizer.momentum:
        yield Problem(
            "/optimizer/momentum", "out_of_bounds", "a momentum above 0 with nesterov: true", "0"
        )


def batch_fits_data(parts: Parts) -> Iterator[Problem]:
    """At least one whole batch must be left to train on, and one example to evaluate on."""
    data = parts.get("data")
    match data:
        case Digits():
            examples = DIGITS_EXAMPLES
        case Synthetic():
            examples = data.examples
        case _:
            return
    training = train_examples(examples, data.validation_split)
    if data.batch_size > training:
        yield Problem(
            "/data/batch_size",
            "batch_too_large",
            f"at most {training}, the training examples of {data.kind} "
            f"with validation_split {data.validation_split:g}",
            str(data.batch_size),
        )


def image_shape(parts: Parts) -> Iterator[Problem]:
    """Convolutions need images, large enough to be left with something after them."""
    model, data = parts.get("model"), parts.get("data")
    shape = DIGITS_SHAPE if isinstance(data, Digits) else getattr(data, "shape", None)
    if shape is None or not isinstance(model, Cnn | LeNet5):
        return
    if len(shape) not in (2, 3):
        yield Problem(
            "/data/shape",
            "model_cannot_take_data",
            f"[height, width] or [height, width, channels] for the model {model.kind}",
            str(list(shape)),
        )
    elif isinstance(model, Cnn):
        least = len(model.filters) * (model.kernel - 1) + 2
        if min(shape[:2]) < least:
            yield Problem(
                "/model/filters",
                "model_cannot_take_data",
                f"images of at least {least} × {least} for {len(model.filters)} valid "
                f"convolutions of {model.kernel} × {model.kernel} and a 2 × 2 pool",
                f"images of {shape[0]} × {shape[1]}",
            )


RULES: Final[tuple[Callable[[Parts], Iterator[Problem]], ...]] = (
    loss_scale_bounds,
    nesterov_needs_momentum,
    batch_fits_data,
    image_shape,
)
