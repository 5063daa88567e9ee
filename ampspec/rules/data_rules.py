"""Rules about the data of a spec: where it comes from, and how many examples it has."""

from collections.abc import Iterator
from typing import Final

from ampspec.data.data import Data, Digits, FileData, Synthetic, SyntheticClicks
from ampspec.data.row_split import train_examples
from ampspec.documents.problems import Parts, Problem, format_value
from ampspec.models.model import Bundle
from ampspec.references.object_url import EXPECTED as EXPECTED_URL
from ampspec.references.object_url import InvalidUrl, ObjectUrl, is_url

DIGITS_SHAPE: Final = (8, 8, 1)
DIGITS_EXAMPLES: Final = 1797
CLASSES: Final = {"digits": 10, "synthetic_clicks": 2}
"""The number of classes, for kinds of data where it is fixed."""


def known_train_examples(data: object, model: object) -> int | None:
    """The number of training examples, if the spec alone decides it.

    A custom `build` function may return its own examples.
    """
    if isinstance(model, Bundle):
        return None
    match data:
        case Digits():
            return train_examples(DIGITS_EXAMPLES, data.validation_split)
        case Synthetic() | SyntheticClicks():
            return train_examples(data.examples, data.validation_split)
    return None


def batch_fits_data(parts: Parts) -> Iterator[Problem]:
    """The training examples must fill at least one step."""
    data, train = parts.get("data"), parts.get("train")
    if data is None or (training := known_train_examples(data, parts.get("model"))) is None:
        return
    accumulate = train.accumulate if train is not None else 1
    yield from step_problems(data, accumulate, training, training_examples_text(data, data.kind))


def training_examples_text(data: Data, source: str) -> str:
    """The name of a source's training examples in problems of a spec."""
    share: float | None = getattr(data, "validation_split", None)
    split = f" with validation_split {share:g}" if share else ""
    return f"training examples of {source}{split}"


def step_problems(data: Data, accumulate: int, training: int, examples: str) -> Iterator[Problem]:
    """The problem of a step that is too large for `training` examples.

    Args:
        data: Has the batch size.
        accumulate: The batches of a step.
        training: The number of training examples.
        examples: Their name in the problem: `training examples of digits`.
    """
    if data.batch_size > training:
        yield Problem(
            "/data/batch_size",
            "batch_too_large",
            f"at most {training}, the number of {examples}",
            str(data.batch_size),
        )
    elif data.batch_size * accumulate > training:
        yield Problem(
            "/train/accumulate",
            "batch_too_large",
            f"at most {training // data.batch_size}, the number of batches of {data.batch_size} in "
            f"the {training} {examples}",
            str(accumulate),
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


def path_is_a_valid_url(parts: Parts) -> Iterator[Problem]:
    """A path with a scheme is the URL of an object."""
    path = getattr(parts.get("data"), "path", None)
    if path is None or not is_url(path):
        return
    try:
        ObjectUrl.parse(path)
    except InvalidUrl:
        yield Problem("/data/path", "invalid_url", EXPECTED_URL, format_value(path))
