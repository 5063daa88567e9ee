"""Rows without a target: an error, or left out of training and validation."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ampcore import data
from ampcore.data.registry import LoadOptions
from ampcore.data.sources.column_data import prepared_dataset, split_rows
from ampdata import Column
from ampdata.arrays.array_source import ArraySource
from ampspec.data.data import Csv, Npz, PackageData, Parquet
from ampspec.errors import InvalidData
from ampspec.objectives.task import Classification, MultiLabel, Outputs, Regression
from tests.tables import every_row

ROWS = 40
LEAVE_OUT = {"missing_targets": "leave_out", "batch_size": 1}


def missing(row):
    return row % 5 == 0


@pytest.fixture(params=["csv", "parquet", "npz"])
def load(request, tmp_path):
    """Loads a table of 40 rows; every fifth of them has no price."""
    age = np.arange(ROWS, dtype=float)
    price = np.where(missing(np.arange(ROWS)), np.nan, age * 2)
    kind = Csv
    if request.param == "csv":
        lines = [f"{a:g},{'' if np.isnan(p) else p}" for a, p in zip(age, price, strict=True)]
        (tmp_path / "it.csv").write_text("\n".join(["age,price", *lines]) + "\n")
    elif request.param == "parquet":
        kind, nulls = Parquet, [None if np.isnan(p) else p for p in price]
        pq.write_table(pa.table({"age": age, "price": nulls}), tmp_path / "it.parquet")
    else:
        kind = Npz
        np.savez(tmp_path / "it.npz", age=age, price=price)

    def load_it(**fields):
        columns = {"inputs": "age", "target": "price"}
        spec = kind.model_validate({"path": f"it.{request.param}", **columns, **fields})
        return data.load(spec, data_root=tmp_path, task=Regression())

    return load_it


def test_a_row_without_a_target_is_an_error_that_names_the_option(load):
    with pytest.raises(InvalidData, match=r"price.*, or `missing_targets: leave_out`"):
        load(batch_size=1)


def test_rows_without_a_target_are_neither_trained_on_nor_evaluated(load):
    options = {"validation_split": 0.25, "validation_rows": "random", "split_seed": 3}
    dataset = load(**LEAVE_OUT, **options)
    train = dataset.train.read(np.arange(len(dataset.train)))
    held_out = dataset.validation.read(np.arange(len(dataset.validation)))
    ages = np.concatenate([train.x, held_out.x]).ravel()
    assert sorted(ages) == [row for row in range(ROWS) if not missing(row)]
    assert np.concatenate([train.y, held_out.y]).ravel().tolist() == (2 * ages).tolist()
    assert dataset.validation_rows.tolist() == held_out.x.ravel().tolist()
    assert [dataset.place_of(n).row - 1 for n in range(len(train.x))] == train.x.ravel().tolist()
    summary = dataset.summary
    assert (summary.train, summary.validation) == (len(train.x), len(held_out.x))
    assert summary.train + summary.train_left_out == 30
    assert summary.validation + summary.validation_left_out == 10
    assert summary.train_left_out + summary.validation_left_out == ROWS // 5
    lines = dict(summary.lines())
    expected = f"{summary.train_left_out} rows to train on and {summary.validation_left_out} for "
    assert lines["no target"] == f"{expected}validation, left out"


def test_the_split_does_not_depend_on_which_rows_have_a_target(tmp_path):
    def validation(column):
        target = {"target": column, "inputs": "x", "validation_split": 0.5}
        spec = Npz.model_validate(
            {"path": "it.npz", "validation_rows": "random"} | target | LEAVE_OUT
        )
        return set(data.load(spec, data_root=tmp_path, task=Regression()).validation_rows.tolist())

    y = np.arange(ROWS, dtype=float)
    np.savez(tmp_path / "it.npz", x=y, y=y, z=np.where(missing(np.arange(ROWS)), np.nan, y))
    assert validation("z") == {row for row in validation("y") if not missing(row)}


def test_the_last_rows_are_the_last_ones_whatever_is_left_out(load):
    dataset = load(**LEAVE_OUT, validation_split=0.25, validation_rows="last")
    assert dataset.summary.validation_rows == "last"
    assert dataset.validation_rows.tolist() == [row for row in range(30, ROWS) if not missing(row)]


def load_table(tmp_path, text, task=None, **fields):
    (tmp_path / "it.csv").write_text(text)
    document = {"path": "it.csv", "validation_split": 0.0, **LEAVE_OUT, **fields}
    return data.load(Csv.model_validate(document), data_root=tmp_path, task=task or Regression())


def test_classes_keep_their_numbers_and_counts_without_the_rows_that_are_left_out(tmp_path):
    dataset = load_table(tmp_path, "a,y\n1,3\n2,\n3,5\n4,3\n", task=Classification())
    [target] = dataset.signature.targets.values()
    assert (target.names, target.examples) == (("3", "5"), (2, 1))
    assert dataset.train.read(np.arange(3)).y.tolist() == [0, 1, 0]


def test_a_row_needs_the_targets_of_all_columns_and_outputs(tmp_path):
    text = "a,p,q\n1,1,0\n2,,1\n3,0,\n4,0,1\n"
    both = load_table(tmp_path, text, MultiLabel(), inputs="a", target=["p", "q"])
    assert both.train.read(np.arange(2)).x.ravel().tolist() == [1, 4]
    tasks = {name: {"task": {"kind": "regression"}} for name in ("p", "q")}
    outputs = load_table(tmp_path, text, Outputs.model_validate({"outputs": tasks}), inputs="a")
    assert outputs.train.read(np.arange(2)).x.ravel().tolist() == [1, 4]
    assert outputs.summary.train_left_out == 2


@every_row(
    ("text", "fields", "message"),
    [
        ("a,y\n1,\n2,\n", {}, "y: expected a target in at least one row for training; .* 2 rows"),
        (
            "a,y\n1,2\n2,1\n3,\n",
            {"validation_split": 0.3, "validation_rows": "last"},
            "y: expected a target in at least one row for validation; received none in 1 rows",
        ),
        # Inputs may be missing only if the spec says so.
        ("a,y\n1,2\n,1\n3,\n", {}, "row 2, column a: expected a value, or `missing: keep`"),
        ("a,y\nUlm,2\n,1\nBonn,\n", {}, "row 2, column a: expected a value, or `missing: keep`"),
        ("a,y\n1,2\n,1\n3,\n", {"missing": "keep"}, "row 2, column a: .*missing: mean"),
        ("a,y\n1,2\n2,low\n", {}, "y: expected numbers; received text such as '2'"),
        ("a,y\n1,2\n2,inf\n", {}, "y: expected numbers that are finite in float32; received inf"),
    ],
)
def test_what_remains_must_be_valid(tmp_path, text, fields, message):
    with pytest.raises(InvalidData, match=message):
        load_table(tmp_path, text, **fields)


def test_an_input_may_be_missing_in_a_row_that_is_left_out(tmp_path):
    dataset = load_table(tmp_path, "a,y\n1,2\n,\n3,1\n")
    assert dataset.train.read(np.arange(2)).x.ravel().tolist() == [1, 3]


def test_arrays_of_a_package_may_lack_targets_too():
    arrays = {"x": np.eye(4), "y": np.array([1.0, np.nan, 2.0, 4.0])}
    columns = {"x": Column((4,), "float64"), "y": Column((), "float64")}
    source = ArraySource("it", columns, arrays)
    document = {"package": "it", "name": "data", **LEAVE_OUT, "validation_split": 0.0}
    spec = PackageData.model_validate(document)
    rows = split_rows(spec, source, "it")
    dataset = prepared_dataset(spec, LoadOptions(1e9, task=Regression()), *rows)
    assert dataset.train.read(np.arange(3)).y.ravel().tolist() == [1, 2, 4]
