"""Training, validation and test data by the names of arrays, files and folders, or by patterns."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ampdata import list_splits
from ampdata.description import describe
from ampdata.place import Place
from ampdata.split_names import file_split, split_arrays
from ampspec.data.file_formats import CsvOptions, NpzOptions, ParquetOptions
from ampspec.errors import InvalidData
from tests.ampdata.samples import write_zip
from tests.tables import every_row

PLACE = Place("it.npz")


@every_row(
    ("names", "parts"),
    [
        (
            "x_train y_train x_test y_test",
            {"train": "x y", "test": "x y"},
        ),
        (
            "train_images val_images test_images train_labels val_labels test_labels",
            {"train": "images labels", "validation": "images labels", "test": "images labels"},
        ),
        (
            "x y x_test y_test",
            {"train": "x y", "test": "x y"},
        ),
        ("X Y X_val Y_val", {"train": "X Y", "validation": "X Y"}),
        ("trainX trainY testX testY", {"train": "X Y", "test": "X Y"}),
        ("XTrain yTrain XTest yTest", {"train": "X y", "test": "X y"}),
        ("train/images test/images", {"train": "images", "test": "images"}),
        ("x.train x-test", {"train": "x", "test": "x"}),
        ("train test", {"train": "x", "test": "x"}),
        ("X_TRAIN X_TEST", {"train": "X", "test": "X"}),
        ("x y blood_test", {None: "x y blood_test"}),
        ("x y dev", {None: "x y dev"}),
        ("x y latest strain", {None: "x y latest strain"}),
        ("x_test y_test", {"test": "x y"}),
        ("x_train x_test class_names", {"train": "x", "test": "x"}),
    ],
)
def test_arrays_have_splits_by_their_names(names, parts):
    arrays = split_arrays(PLACE, names.split(), {})
    assert {split: set(part) for split, part in arrays.parts.items()} == {
        split: set(columns.split()) for split, columns in parts.items()
    }
    assert set(arrays.other_arrays) <= {"class_names"}


@every_row(
    "names",
    ["data labels x_test y_test", "x y x_train y_train", "x_train train_x"],
)
def test_ambiguous_arrays_are_an_error_that_names_them(names):
    with pytest.raises(InvalidData, match=names.split()[-1]):
        split_arrays(PLACE, names.split(), {})


def test_patterns_decide_where_names_do_not(tmp_path, read_all):
    arrays = {"x_fit": np.arange(3), "x_held": np.arange(2), "x_test": np.arange(9)}
    np.savez(tmp_path / "it.npz", **arrays)
    options = NpzOptions(splits={"train": "*_fit", "validation": "*_held"})
    assert list_splits(tmp_path / "it.npz", options, cache=tmp_path) == ("train", "validation")
    assert len(read_all(tmp_path / "it.npz", options)["x"]) == 3
    assert len(read_all(tmp_path / "it.npz", options, split="validation")["x"]) == 2


def test_an_archive_is_described_by_its_splits_with_what_is_left_out(tmp_path):
    x, y = np.zeros((6, 2)), np.zeros(6)
    extras = {
        "names": np.array(["cat", "dog"], object),
        "size": np.array(28),
        "z": np.zeros(6, complex),
        "days": np.zeros(6, "datetime64[D]"),
        "mean": np.zeros(2),
    }
    np.savez(tmp_path / "it.npz", x=x, y=y, x_test=x[:2], y_test=y[:2], **extras)
    described = describe(tmp_path / "it.npz")
    assert described.splits == {"train": 6, "test": 2}
    assert [column.name for column in described.columns] == ["x", "y"]
    reasons = {one.name: one.reason for one in described.left_out}
    assert reasons == {
        "names": "dtype object, which needs pickle",
        "size": "shape []",
        "z": "dtype complex128",
        "days": "dtype datetime64[D]",
        "mean": "2 rows instead of 6 rows, as many as x",
    }


def test_an_array_that_cannot_be_a_column_is_an_error_if_it_is_named(tmp_path, open_file):
    np.savez(tmp_path / "it.npz", x=np.zeros(3), z=np.zeros(3, complex))
    with pytest.raises(InvalidData, match=r"it.npz, z: expected numbers, booleans or text"):
        open_file(tmp_path / "it.npz", NpzOptions(), columns=["x", "z"])


def test_test_data_alone_are_no_training_data(tmp_path, open_file):
    np.savez(tmp_path / "it.npz", x_test=np.zeros(3), y_test=np.zeros(3))
    with pytest.raises(InvalidData, match=r"expected training data.*`splits`; received only test"):
        open_file(tmp_path / "it.npz", NpzOptions())
    assert open_file(tmp_path / "it.npz", NpzOptions(x="x_test"), columns=["x"]).rows == 3


@every_row(
    ("name", "split"),
    [
        ("train-00000-of-00002.parquet", "train"),
        ("train00-672.tfrec", "train"),
        ("mnistTest.csv", "test"),
        ("fashion_VAL.csv", "validation"),
        ("eval.csv", "test"),
        ("latest.csv", None),
        ("strains-1.csv", None),
    ],
)
def test_files_have_splits_by_a_word_of_their_names(name, split):
    assert file_split(name) == split


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "clicks"
    folder.mkdir()
    for name, rows in {"a-1": 1, "a-2": 2, "b": 3, "sample_submission": 4}.items():
        (folder / f"{name}.csv").write_text("x,y\n" + "1,2\n" * rows)
    return folder


def test_patterns_choose_the_files_of_a_folder_and_of_a_zip_of_it(tmp_path, folder, open_file):
    options = CsvOptions(splits={"train": "a-*.csv", "test": "b.csv"})
    archive = write_zip(
        tmp_path / "it.zip", {file.name: file.read_bytes() for file in folder.iterdir()}
    )
    for path in (folder, archive):
        assert list_splits(path, options, cache=tmp_path / "cache") == ("train", "test")
        assert open_file(path, options).rows == 3
        assert open_file(path, options, split="test").rows == 3


def test_patterns_without_a_file_are_an_error(folder, open_file):
    with pytest.raises(InvalidData, match=r"clicks, splits: expected files for c\*; received none"):
        open_file(folder, CsvOptions(splits={"train": "c*"}))


def test_a_file_of_no_split_beside_others_names_the_way_out(folder, open_file):
    (folder / "train.csv").write_text("x,y\n1,2\n")
    with pytest.raises(InvalidData, match=r"a-1.csv: expected a name .*, or the option `splits`"):
        open_file(folder, CsvOptions())


@pytest.mark.parametrize("key", ["split", "phase"])
def test_folders_of_hive_may_be_splits(tmp_path, open_file, key):
    for split in ("train", "val"):
        (tmp_path / "it" / f"{key}={split}").mkdir(parents=True)
        pq.write_table(pa.table({"a": [1]}), tmp_path / "it" / f"{key}={split}" / "0.parquet")
    assert list_splits(tmp_path / "it", ParquetOptions(), cache=tmp_path) == ("train", "validation")
    assert list(open_file(tmp_path / "it", ParquetOptions()).columns) == ["a"]
