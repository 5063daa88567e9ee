"""The shape of the data and the length of the run, if the spec alone decides them."""

from dataclasses import dataclass

from ampspec.data.data import DataSpec, Digits, Synthetic, SyntheticClicks
from ampspec.jobs import JobSpec
from ampspec.networks import DataShape
from ampspec.rules.data_rules import DIGITS_SHAPE, known_train_examples


@dataclass(frozen=True)
class NotYetKnown:
    """Stands for a value that is known only once the job runs."""

    reason: str


def data_shape(data: DataSpec) -> DataShape | NotYetKnown:
    """The shape of the data, or why it is not known before the data is read."""
    match data:
        case Digits():
            return DataShape(DIGITS_SHAPE, 10)
        case Synthetic():
            return DataShape(data.shape, data.classes, "/data/shape")
        case SyntheticClicks():
            return DataShape((data.slots, data.nnz), 2, dtype="int32", vocabulary=data.vocabulary)
    return NotYetKnown(f"The shape of {data.kind} data is known only once the job has read it.")


def total_steps(spec: JobSpec, measured_examples: int | None = None) -> int | None:
    """The steps of a run; None when it depends on data that has to be read first.

    `measured_examples` are the training examples of another run on the same data.
    """
    if spec.train.steps is not None:
        return spec.train.steps
    examples = known_train_examples(spec.data, spec.model) or measured_examples
    if examples is None:
        return None
    return spec.train.epochs * (examples // spec.global_batch_size)
