"""Stored specs keep the validation rows that they were split with."""

import pytest

from ampcore import JobSpec
from ampspec.data.stored_split import FIXED_ROWS, with_split_seed

CSV = {"model": {"kind": "mlp"}, "data": {"kind": "csv", "path": "a.csv"}, "train": {"seed": 7}}


def test_a_spec_of_a_version_without_the_field_was_split_by_the_seed_of_the_training():
    stored = JobSpec.parse(CSV).to_json()
    del stored["data"]["split_seed"]
    assert JobSpec.parse(with_split_seed(stored)).data.split_seed == 7


def test_a_spec_of_this_version_keeps_its_split_whatever_the_seed_of_the_training_is():
    stored = JobSpec.parse(CSV).to_json()
    assert stored["data"]["split_seed"] == 0
    assert with_split_seed(stored) == stored


@pytest.mark.parametrize("kind", ["csv", "parquet", "images", "tfrecord", "npz", "npy"])
def test_every_kind_of_file_with_columns_has_a_split_seed(kind):
    data = {"kind": kind, "path": "a"}
    assert with_split_seed({"data": data, "train": {"seed": 7}})["data"]["split_seed"] == 7


@pytest.mark.parametrize("kind", FIXED_ROWS)
def test_data_whose_last_rows_are_always_for_validation_has_none(kind):
    document = {"data": {"kind": kind}, "train": {"seed": 7}}
    assert with_split_seed(document) == document


def test_a_document_that_is_no_spec_stays_as_it_is():
    assert with_split_seed({"data": 3}) == {"data": 3}
    assert with_split_seed({"data": {"kind": "csv"}, "train": 3})["data"]["split_seed"] == 0
