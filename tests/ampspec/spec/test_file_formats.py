"""The options of data formats: strict, bounded, and distinguished by their kind."""

import pytest
from pydantic import TypeAdapter, ValidationError

from ampspec.data.file_formats import (
    CsvOptions,
    FormatOptions,
    ImagesOptions,
    ParquetOptions,
    TfrecordOptions,
)

OPTIONS = TypeAdapter(FormatOptions)


@pytest.mark.parametrize("kind", ["npz", "npy", "csv", "parquet", "images", "tfrecord", "text"])
def test_every_field_but_the_kind_has_a_default(kind):
    options = OPTIONS.validate_python({"kind": kind})
    assert options.kind == kind
    assert OPTIONS.validate_json(options.model_dump_json()) == options


def test_lists_of_json_become_tuples():
    assert OPTIONS.validate_python({"kind": "images", "size": [4, 5]}).size == (4, 5)
    document = {"kind": "tfrecord", "raw": {"x": {"dtype": "uint8", "shape": [2, 3]}}}
    assert OPTIONS.validate_python(document).raw["x"].shape == (2, 3)
    assert CsvOptions(missing_values=["", "NA"]).missing_values == ("", "NA")


REJECTED = [
    {"kind": "pickle"},
    {"kind": "csv", "sep": ","},
    {"kind": "csv", "delimiter": ",a"},
    {"kind": "csv", "delimiter": '"'},
    {"kind": "csv", "header": "no"},
    {"kind": "csv", "dtypes": {"a": "object"}},
    {"kind": "csv", "dtypes": {"": "int64"}},
    {"kind": "csv", "missing": "mean"},
    {"kind": "csv", "missing_values": ["x"] * 17},
    {"kind": "images", "size": [0, 4]},
    {"kind": "images", "size": [5000, 4]},
    {"kind": "images", "size": [4]},
    {"kind": "images", "channels": 4},
    {"kind": "images", "channels": "3"},
    {"kind": "images", "resample": "nearest"},
    {"kind": "parquet", "image": {"size": "4x4"}},
    {"kind": "tfrecord", "raw": {"x": {"dtype": "object"}}},
    {"kind": "tfrecord", "raw": {"x": {"dtype": "uint8", "shape": [1] * 5}}},
    {"kind": "tfrecord", "raw": {"x": {"dtype": "uint8", "shape": [2**14, 2**13]}}},
    {"kind": "text", "sequence": 0},
    {"kind": "npz", "x": ""},
]


def is_rejected(document):
    try:
        OPTIONS.validate_python(document)
    except ValidationError:
        return True
    return False


def test_other_values_are_rejected():
    assert [document for document in REJECTED if not is_rejected(document)] == []


def test_options_can_be_part_of_a_key():
    assert repr(ParquetOptions()) == repr(ParquetOptions())
    assert ImagesOptions(size=(1, 2)) == ImagesOptions(size=(1, 2))
    assert repr(TfrecordOptions()) != repr(TfrecordOptions(missing="keep"))
