"""What a spec alone says of its data: the shape of an example, and how many train."""

from dataclasses import dataclass

from ampcore.preflight.layer import Shape
from ampcore.spec.data import DataSpec, Digits, Synthetic, SyntheticClicks
from ampcore.spec.rules import DIGITS_EXAMPLES, DIGITS_SHAPE, train_examples
from ampcore.spec.training import Train


@dataclass(frozen=True)
class Shapes:
    """One example of the data."""

    example: Shape
    classes: int
    pointer: str = "/data"
    """The field of the spec that says so."""


@dataclass(frozen=True)
class Unknown:
    """Something that only the job itself will find out."""

    why: str


def shapes(data: DataSpec) -> Shapes | Unknown:
    """The shape of the data, or why nobody can tell before it is read."""
    match data:
        case Digits():
            return Shapes(DIGITS_SHAPE, 10)
        case Synthetic():
            return Shapes(data.shape, data.classes, "/data/shape")
        case SyntheticClicks():
            return Shapes((data.slots, data.nnz), 2)
    return Unknown(f"The shape of {data.kind} data is known when the job has read it.")


def total_steps(data: DataSpec, train: Train) -> int | None:
    """The steps of a run; None when that depends on data that nobody has read yet."""
    if train.steps is not None:
        return train.steps
    match data:
        case Digits():
            examples = DIGITS_EXAMPLES
        case Synthetic() | SyntheticClicks():
            examples = data.examples
        case _:
            return None
    batches = train_examples(examples, data.validation_split) // data.batch_size
    return train.epochs * (batches // train.accumulate)
