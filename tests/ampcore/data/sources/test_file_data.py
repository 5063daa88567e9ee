"""Rows, keys and targets of data files that no training could use."""

import numpy as np
import pytest

from ampcore import data
from ampcore.data import registry
from ampspec.data.data import Csv, Npz
from ampspec.data.preprocessing import Preprocessing
from ampspec.errors import InvalidData
from ampspec.objectives.task import Outputs, Regression

KEYS = {"x": Preprocessing(keys=True)}
ARRAYS = {
    "x_train": np.array([[0, 4], [2, 3], [1, 0]]),
    "y_train": np.array([0, 1, 0]),
    "x_test": np.array([[4, 4], [0, 0]]),
    "y_test": np.array([1, 0]),
}


@pytest.fixture(params=["resident", "streamed"])
def load(request, tmp_path, monkeypatch):
    """Loads an archive of keys, in memory or not."""
    if request.param == "streamed":
        monkeypatch.setattr(registry, "RESIDENT_BYTES", 0)

    def write_and_load(task=None, preprocessing=KEYS, **changed):
        np.savez(tmp_path / "it.npz", **ARRAYS | changed)
        spec = Npz(path="it.npz", batch_size=2, preprocessing=preprocessing)
        return data.load(spec, data_root=tmp_path, task=task)

    return write_and_load


def test_the_vocabulary_has_all_keys_of_the_training_rows(load):
    dataset = load()
    assert dataset.signature.vocabulary == 5
    assert dataset.train.read(np.array([1])).x.tolist() == [[2, 3]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"x_train": np.array([[0, 4], [2, -3], [1, 0]])},
            "row 2, column x: expected a key from 0",
        ),
        ({"x_train": np.array([[0, 2**31], [2, 3], [1, 0]])}, "row 1, column x: .* to 2147483646;"),
        (
            {"x_test": np.array([[4, 4], [0, 5]])},
            "row 2, column x: expected a key from 0 to 4, those of the training .* received 5",
        ),
        (
            {"x_test": np.array([[4, -1], [0, 0]])},
            "row 1, column x: .* 0 to 4, .* received -1",
        ),
    ],
)
def test_a_key_without_a_row_in_the_table_is_named(load, changed, message):
    with pytest.raises(InvalidData, match=message):
        load(**changed)


@pytest.mark.parametrize("rows", [[1.0, np.nan], [1.0, 1e300]])
def test_numbers_to_predict_are_finite_also_for_validation(load, rows):
    targets = {"y_train": np.array([0.5, 1.5, 2.5]), "y_test": np.array(rows)}
    with pytest.raises(InvalidData, match=r"y: expected numbers that are finite .* in row 2"):
        load(Regression(), {}, **targets)


def test_targets_for_validation_have_the_shape_of_those_for_training(load):
    with pytest.raises(InvalidData, match=r"y of the validation examples: .* received .* \[2\]"):
        load(y_test=np.array([[1, 0], [0, 1]]))


def test_a_table_of_one_row_leaves_nothing_to_train_on(tmp_path):
    (tmp_path / "it.csv").write_text("x,y\n1.5,2.5\n")
    spec = Csv(path="it.csv", validation_split=0.2, batch_size=1)
    with pytest.raises(InvalidData) as caught:
        data.load(spec, data_root=tmp_path, task=Regression())
    assert str(caught.value) == (
        "it.csv, validation_split: expected a share that leaves at least one training example; "
        "received 0.2 of 1 rows."
    )


def test_an_archive_without_rows_is_refused(load):
    with pytest.raises(InvalidData, match=r"x_train: expected 1 to [\d,]+ rows, not empty"):
        load(x_train=np.zeros((0, 2), np.int64), y_train=np.zeros(0, np.int64))


def test_an_archive_without_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "it.npz")
    with pytest.raises(InvalidData, match="expected an array; received an empty archive"):
        data.load(Npz(path="it.npz"), data_root=tmp_path)


def test_the_split_seed_draws_the_rows_that_the_seed_of_a_job_drew_in_older_versions(tmp_path):
    """The numbers are those of version 0.5 with `train.seed: 7`."""
    lines = "".join(f"{row},{row}\n" for row in range(20))
    (tmp_path / "birds.csv").write_text(f"x,y\n{lines}")
    spec = Csv(path="birds.csv", target="y", batch_size=2, split_seed=7)
    dataset = data.load(spec, data_root=tmp_path, task=Regression())
    rows = [3, 11, 15, 16]
    assert dataset.validation_rows.tolist() == rows
    assert dataset.validation.read(np.arange(4)).y.ravel().tolist() == rows
    assert dataset.split_seed == 7


@pytest.mark.parametrize("rows", ["last", "random"])
@pytest.mark.parametrize("memory_bytes", [0, 2**20])
def test_an_example_has_its_row_in_the_file_also_if_rows_are_split_off(
    tmp_path, monkeypatch, rows, memory_bytes
):
    monkeypatch.setattr(registry, "RESIDENT_BYTES", memory_bytes)
    lines = "".join(f"{row},{row}\n" for row in range(20))
    (tmp_path / "birds.csv").write_text(f"x,y\n{lines}")
    dataset = data.load(
        Csv(path="birds.csv", target="y", batch_size=2, validation_rows=rows),
        data_root=tmp_path,
        task=Regression(),
    )
    written = dataset.train.read(np.arange(16)).y.ravel().tolist()
    places = [dataset.place_of(example) for example in range(16)]
    assert [place.row - 1 for place in places] == written
    assert {place.file for place in places} == {"birds.csv"}
    assert (written == list(range(16))) == (rows == "last")


def test_the_rows_of_an_archive_are_those_of_its_training_arrays(load):
    places = [load().place_of(example) for example in range(3)]
    assert [(place.file, place.row) for place in places] == [("it.npz", row) for row in (1, 2, 3)]


# ---- Columns


@pytest.fixture
def load_table(tmp_path):
    """Loads a table with these lines."""

    def write_and_load(*lines, **fields):
        (tmp_path / "it.csv").write_text("\n".join(lines) + "\n")
        spec = Csv(path="it.csv", batch_size=1, validation_split=0.0, **fields)
        return data.load(spec, data_root=tmp_path, task=Regression())

    return write_and_load


def test_a_batch_that_is_too_large_names_the_rows_that_are_left_for_validation(tmp_path):
    (tmp_path / "it.csv").write_text("a,y\n" + "1,2\n" * 10)
    spec = Csv(path="it.csv")  # its default is a fifth
    message = "at most 8, the number of training examples besides 2 for validation; received 128"
    with pytest.raises(InvalidData, match=message):
        data.load(spec, data_root=tmp_path, task=Regression())


def test_the_targets_of_several_outputs_need_no_array_y(tmp_path):
    np.savez(tmp_path / "it.npz", x=np.eye(4), left=np.array([0, 1, 2, 1]), b=np.arange(4) % 2)
    outputs = {"left": {}, "right": {"target": "b"}}
    parts = {name: {"task": {"kind": "classification"}} | own for name, own in outputs.items()}
    task = Outputs.model_validate({"outputs": parts})
    dataset = data.load(Npz(path="it.npz", batch_size=1), data_root=tmp_path, task=task)
    sizes = {output: target.size for output, target in dataset.signature.targets.items()}
    assert sizes == {"left": 3, "right": 2}


def test_a_table_with_a_column_x_is_trained_on_all_its_columns(load_table):
    points = ("x,y,z,height", "1,2,3,0.5", "4,5,6,0.25")
    assert load_table(*points, target="height").signature.input_shape == (3,)
    assert load_table(*points).signature.input_shape == (3,)  # the target is y


def test_an_array_x_is_the_input_of_an_archive(load):
    dataset = load(index_train=np.arange(3), index_test=np.arange(2))
    assert dataset.signature.input_shape == (2,)


def test_arrays_may_be_named_in_capitals(tmp_path):
    np.savez(tmp_path / "it.npz", X=np.eye(4), Y=np.array([0, 1, 0, 1]), index=np.arange(4))
    dataset = data.load(Npz(path="it.npz", batch_size=2), data_root=tmp_path)
    assert dataset.signature.input_shape == (4,)
    assert dataset.signature.classes == 2


def test_inputs_without_a_name_are_columns_of_one_input(load_table):
    lines = ("a,b,c,price", "1,2,3,4", "5,6,7,8")
    assert load_table(*lines, target="price", inputs="b").signature.input_shape == (1,)
    dataset = load_table(*lines, target="price", inputs=["c", "a"])
    assert dataset.signature.input_shape == (2,)
    assert dataset.train.read(np.array([0])).x.tolist() == [[3, 1]]


def test_a_missing_number_is_an_error_that_names_the_option(load_table):
    message = r"row 2, column age: .* or `preprocessing: {age: {missing: mean}}`; received nan"
    with pytest.raises(InvalidData, match=message):
        load_table("age,y", "3,1", ",0", missing="keep")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("1.5", "low"), r"text such as 'low' in row 2 \(or `missing_values`: the words"),
        (("Ulm", "Bonn"), "text such as 'Ulm' in row 1; received rescaling, normalize"),
        (("13.5%", "2%"), "text such as '13.5%' in row 1; received rescaling, normalize"),
        (("10", "02"), r"text such as '02' in row 2 \(or `dtypes: {income: int64}`\); received"),
    ],
)
def test_a_word_that_makes_a_column_of_numbers_text_is_named(load_table, cells, message):
    numbers = {"income": Preprocessing(normalize=True)}
    lines = ("income,y", *(f"{cell},1" for cell in cells))
    with pytest.raises(InvalidData, match=f"it.csv, preprocessing.income: expected .*{message}"):
        load_table(*lines, preprocessing=numbers)


def test_text_that_is_to_be_predicted_as_a_number_is_shown(load_table):
    with pytest.raises(InvalidData, match=r"y: expected numbers; received text such as '\$10'"):
        load_table("a,y", "1,$10", "2,$20")


def test_an_infinite_number_in_a_table_is_named_with_its_row(load_table):
    with pytest.raises(InvalidData, match=r"row 2, column a: .* finite in float32; received inf"):
        load_table("a,y", "1.5,0", "Infinity,1")
