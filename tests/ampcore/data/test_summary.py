"""What `started` says about the data, read from the rows and columns that are trained on."""

from types import SimpleNamespace

import numpy as np
import pytest

from ampcore import data
from ampcore.data.registry import LoadOptions
from ampcore.data.sources.column_data import all_rows, prepared_dataset
from ampcore.data.summary import data_summary
from ampcore.diagnostics.preflight.data_findings import data_findings
from ampdata import Column
from ampdata.arrays.array_source import ArraySource
from ampspec.api.data_summary import MAX_LISTED
from ampspec.data.data import Digits, Npz
from ampspec.data.preprocessing import Preprocessing
from ampspec.objectives.task import Classification, Regression


@pytest.fixture
def load(tmp_path):
    """The dataset of arrays in an archive."""

    def write_and_load(*, task=None, arrays=None, **options):
        np.savez(tmp_path / "it.npz", **arrays)
        spec = Npz(path="it.npz", batch_size=2, **options)
        return data.load(spec, data_root=tmp_path, task=task or Classification())

    return write_and_load


ARRAYS = {"x": np.arange(40.0), "z": np.arange(40), "y": np.repeat([1, 5], 20)}


def test_roles_and_preparations_of_columns_are_said(load):
    options = {"x": Preprocessing(normalize=True)}
    summary = load(arrays=ARRAYS, preprocessing=options, validation_split=0.25).summary
    columns = {column.name: (column.role, column.preparation) for column in summary.columns}
    assert columns["x"] == ("input", "normalize")
    assert columns["y"] == ("target", "")
    assert summary.column_count == len(columns)


@pytest.mark.parametrize(
    ("options", "origin", "validation"),
    [
        ({"validation_split": 0.25, "validation_rows": "random"}, "random", 10),
        ({"validation_split": 0.25, "validation_rows": "last"}, "last", 10),
        ({}, "none", 0),
    ],
)
def test_the_origin_of_validation_rows_is_what_was_done(load, options, origin, validation):
    arrays = ARRAYS | {"y": np.tile([1, 5], 20)}
    summary = load(arrays=arrays, **options).summary
    assert (summary.train, summary.validation) == (40 - validation, validation)
    assert summary.validation_rows == origin


def test_a_part_of_the_data_for_validation_is_named(load):
    arrays = {"x_train": np.arange(8.0), "y_train": np.tile([0, 1], 4)}
    arrays |= {"x_test": np.arange(4.0), "y_test": np.array([0, 1, 1, 0])}
    summary = load(arrays=arrays).summary
    assert (summary.train, summary.validation, summary.validation_rows) == (8, 4, "own_part")


def test_classes_are_counted_in_the_training_rows(load):
    [target] = load(arrays=ARRAYS).summary.targets.values()
    assert [(entry.name, entry.examples) for entry in target.classes] == [("1", 20), ("5", 20)]


def test_lists_of_classes_and_columns_are_bounded(load):
    arrays = {"x": np.arange(600.0), "y": np.repeat(np.arange(300), 2)}
    [target] = load(arrays=arrays).summary.targets.values()
    assert (target.size, len(target.classes)) == (300, MAX_LISTED)


def test_data_without_columns_have_their_rows_and_classes():
    summary = data_summary(data.load(Digits()))
    assert (summary.train, summary.validation, summary.validation_rows) == (1437, 360, "given")
    assert summary.targets["output"].size == 10


@pytest.fixture
def source():
    """Four rows of two classes, of three that the format knows."""
    columns = {"x": Column((), "float64"), "y": Column((), "int64", ("cat", "dog", "rabbit"))}
    return ArraySource("it", columns, {"x": np.arange(4.0), "y": np.array([0, 1, 0, 1])})


def prepared(source):
    """The dataset of all rows of a source."""
    options = LoadOptions(memory_bytes=2**20, task=Classification())
    return prepared_dataset(Npz(path="it.npz"), options, all_rows(source, "it"), None)


def test_parts_that_a_reader_leaves_out_are_said(source):
    source.left_out = [SimpleNamespace(name="wolf", reason="a folder without images")]
    [part] = prepared(source).summary.left_out
    assert (part.name, part.reason) == ("wolf", "a folder without images")


def test_a_class_without_training_examples_is_a_warning(source):
    [finding] = data_findings(prepared(source))
    assert finding.code == "classes_without_examples"
    assert "rabbit, one of the 3 classes" in finding.message


COLLAPSING = {"x": 1.7e12 + np.arange(64.0), "y": np.arange(64.0)}


def test_numbers_that_float32_makes_equal_are_a_warning(load):
    dataset = load(arrays=COLLAPSING, task=Regression())
    assert dataset.summary.collapsed == {"x": 63}
    [finding] = data_findings(dataset)
    assert (finding.code, finding.data["values"]) == ("values_equal_in_float32", 63)
    assert "63 different values of x" in finding.message


def test_targets_that_float32_makes_equal_are_a_warning(load):
    arrays = {"x": np.arange(64.0), "y": 2**53 + np.arange(64)}
    assert load(arrays=arrays, task=Regression()).summary.collapsed == {"y": 63}


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (np.arange(64.0) / 7, Preprocessing()),
        (1.7e12 + np.arange(64.0), Preprocessing(normalize=True)),
        (2**60 + np.arange(64), Preprocessing(categories="integer")),
    ],
)
def test_numbers_that_are_kept_are_no_warning(load, values, options):
    arrays = {"x": values, "y": np.tile([0, 1], 32)}
    assert load(arrays=arrays, preprocessing={"x": options}).summary.collapsed == {}


def test_columns_and_arrays_that_are_not_read_are_said(load):
    summary = load(arrays=ARRAYS | {"notes": np.array([{}, 1], object)}, inputs="x").summary
    roles = {column.name: column.role for column in summary.columns}
    assert roles == {"x": "input", "y": "target", "z": "left_out"}
    assert [part.name for part in summary.left_out] == ["notes"]
