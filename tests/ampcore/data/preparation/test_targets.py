"""Values of a column as classes: whole numbers of every dtype, with gaps, and names."""

import numpy as np
import pytest

from ampcore.data.preparation.targets import Encoding, check_targets, find_encoding
from ampdata import Column
from ampspec.errors import InvalidData
from tests.tables import every_row


def encoding_of(values, classes=None):
    """The encoding of training rows with these values."""
    values = np.array(values)
    dtype = "string" if values.dtype.kind in "UO" else values.dtype.name
    values = values.astype(object) if dtype == "string" else values
    column = Column(values.shape[1:], dtype, classes)
    return find_encoding("class", [(np.arange(len(values)), values)], column, "it", "label")


def classes_of(values, **options):
    """The classes of these values, which are also the training rows."""
    encoding = encoding_of(values, **options)
    values = np.array(
        values, object if encoding.names and np.array(values).dtype.kind == "U" else None
    )
    return encoding, encoding(values, "it", "label").tolist()


WHOLE = [
    ([0, 1, 2, 1], 3, None, [0, 1, 2, 1]),
    ([0.0, 1.0, 1.0], 2, None, [0, 1, 1]),
    ([[0.0], [1.0]], 2, None, [0, 1]),
    ([1, 1, 1], 2, None, [1, 1, 1]),
    ([True, False], 2, None, [1, 0]),
    ([1, 2, 3, 2], 3, ("1", "2", "3"), [0, 1, 2, 1]),
    ([3.0, 1.0, 2.0], 3, ("1", "2", "3"), [2, 0, 1]),
    ([-1, 1, 1, -1], 2, ("-1", "1"), [0, 1, 1, 0]),
    ([10, 20], 2, ("10", "20"), [0, 1]),
    ([0, 4], 2, ("0", "4"), [0, 1]),  # Sentiment140
    ([2, 4, 4], 2, ("2", "4"), [0, 1, 1]),  # breast cancer of UCI
    ([0, 1, 3], 3, ("0", "1", "3"), [0, 1, 2]),
    ([20190101, 20200101, 20190101], 2, ("20190101", "20200101"), [0, 1, 0]),
    (["no", "yes"], 2, ("no", "yes"), [0, 1]),
]


@every_row(("values", "size", "names", "classes"), WHOLE)
def test_the_values_that_occur_are_classes(values, size, names, classes):
    encoding, result = classes_of(values)
    assert (encoding.size, encoding.names, result) == (size, names, classes)


def test_numbers_of_classes_in_the_data_are_kept():
    assert encoding_of([-1, 1, 1]).values == (-1, 1)
    assert encoding_of([0, 1, 2]).values is None


@pytest.mark.parametrize("high", [1, 255])
def test_masks_have_the_classes_that_occur(high):
    masks = (np.arange(2 * 4 * 4).reshape(2, 4, 4) % 2 * high).astype(np.uint8)
    encoding = encoding_of(masks)
    assert (encoding.size, encoding.shape, encoding.examples) == (2, (4, 4), (16, 16))
    np.testing.assert_array_equal(encoding(masks, "it", "mask"), masks // high)


def test_the_border_of_masks_is_a_class_of_its_own():
    masks = np.resize(np.array([*range(21), 255], np.uint8), (1, 22, 22))
    encoding = encoding_of(masks)
    assert (encoding.size, encoding.names[-1]) == (22, "255")


def test_rare_numbers_may_be_missing_from_the_training_rows():
    encoding = encoding_of(np.repeat(np.delete(np.arange(20), 7), 2))
    assert (encoding.size, encoding.names, encoding.examples[7]) == (20, None, 0)


def test_classes_of_the_format_may_have_no_training_rows():
    encoding = encoding_of(np.array([0, 2, 2]), classes=("cat", "dog", "rabbit", "tit"))
    assert (encoding.size, encoding.examples) == (4, (1, 0, 2, 0))


MISSING = "a class in every row, .*missing_targets: leave_out`; received a missing value in row 2"
REFUSED = [
    (
        np.array([0.5, 1.0]),
        "classes: whole numbers, .*task.kind: regression.* received 0.5 in row 1",
    ),
    (
        np.array([0.0, np.nan]),
        MISSING,
    ),
    (np.array([0.0, np.inf]), "received inf in row 2"),
    (
        np.array(["a", None], object),
        MISSING,
    ),
    (np.arange(30) * 1000, r"task.kind: regression.*30 different numbers in 30 rows"),
    (np.arange(100), r"task.kind: regression.*100 different numbers in 100 rows"),
    (np.repeat(np.arange(1500) * 7, 2), r"at most 1000 other .*1500 different numbers in 3000"),
    (np.array([0, 5]), r"classes from 0 to 1; received 5"),
]


@every_row(("values", "message"), REFUSED)
def test_what_is_no_class_is_refused_with_the_reason(values, message):
    with pytest.raises(InvalidData, match=message):
        encoding_of(values, classes=("a", "b") if message.startswith("classes from") else None)


VALIDATION = [
    ([10, 20], [20, 30], "the classes of the training examples, 10, 20; received 30"),
    ([0, 1], [0, 2], "classes from 0 to 1"),
    ([0.0, 1.0], [0.0, np.nan], "a missing value in row 2"),
    ([0, 1], [0.0, 0.5], "received 0.5 in row 2"),
]


@every_row(("training", "validation", "message"), VALIDATION)
def test_validation_rows_have_the_classes_of_training_rows(training, validation, message):
    pieces = [(np.arange(2), np.array(validation))]
    with pytest.raises(InvalidData, match=message):
        check_targets(encoding_of(training), pieces, "it", "label")


def test_validation_rows_may_be_whole_floats():
    encoding = encoding_of([10, 20])
    assert encoding(np.array([20.0, 10.0]), "it", "label").tolist() == [1, 0]


def test_an_encoding_without_numbers_of_its_own_takes_integers_as_they_are():
    encoding = Encoding("class", 3)
    assert encoding(np.array([[2], [0]]), "it", "label").tolist() == [2, 0]
