"""Rules about the data of a spec: where it comes from, and how many examples it has."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ampcore.spec.data import Digits, FileData, Synthetic, SyntheticClicks
from ampcore.spec.object_url import EXPECTED as EXPECTED_URL
from ampcore.spec.object_url import InvalidUrl, ObjectUrl, is_url
from ampcore.spec.problems import Parts, Problem, format_value

DIGITS_SHAPE: Final = (8, 8, 1)
DIGITS_EXAMPLES: Final = 1797
CLASSES: Final = {"digits": 10, "synthetic_clicks": 2}
"""The classes of the kinds of data whose number is fixed."""
INPUT_NAMES: Final = ("x", "image", "images")
TARGET_NAMES: Final = ("y", "label", "labels", "mask", "target")
"""Columns that are inputs and targets by their names."""


def columns_named(names: Sequence[str], columns: Iterable[str]) -> list[str]:
    """The columns with these names, or, as `X` and `Y`, with these names in capitals."""
    found: dict[str, str] = {}
    for column in columns:
        found.setdefault(column.lower(), column)
        found[column] = column
    return [found[name] for name in names if name in found]


def train_examples(examples: int, validation_split: float) -> int:
    """The number of training examples: without the last share for validation, as in Keras."""
    return int(examples * (1.0 - validation_split))


def known_train_examples(data: object) -> int | None:
    """The number of training examples, if the spec alone decides it."""
    match data:
        case Digits():
            return train_examples(DIGITS_EXAMPLES, data.validation_split)
        case Synthetic() | SyntheticClicks():
            return train_examples(data.examples, data.validation_split)
    return None


def batch_fits_data(parts: Parts) -> Iterator[Problem]:
    """The training examples must fill at least one step."""
    data, train = parts.get("data"), parts.get("train")
    if data is None or (training := known_train_examples(data)) is None:
        return
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


def path_is_a_valid_url(parts: Parts) -> Iterator[Problem]:
    """A path with a scheme is the URL of an object."""
    path = getattr(parts.get("data"), "path", None)
    if path is None or not is_url(path):
        return
    try:
        ObjectUrl.parse(path)
    except InvalidUrl:
        yield Problem("/data/path", "invalid_url", EXPECTED_URL, format_value(path))
