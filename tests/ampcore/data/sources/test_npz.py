import numpy as np
import pytest

from ampcore import data
from ampspec.data.data import Npz
from ampspec.data.preprocessing import Preprocessing
from ampspec.errors import InvalidData
from ampspec.jobs import Reason
from ampspec.objectives.task import Autoencoding


def arrays(**changed):
    """A small archive in Keras's layout; None leaves an array out."""
    made = {
        "x_train": np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2) * 10,
        "y_train": np.array([0, 1, 2, 0, 1, 2], np.uint8),
        "x_test": np.full((3, 2, 2), 255, np.uint8),
        "y_test": np.array([2, 1, 0], np.uint8),
    }
    return {name: array for name, array in (made | changed).items() if array is not None}


@pytest.fixture
def load(tmp_path):
    """Writes an archive and loads it."""

    def write_and_load(validation_split=0.0, **changed):
        np.savez(tmp_path / "it.npz", **arrays(**changed))
        preprocessing = {"x": Preprocessing(rescaling="pixels")}
        split = {"validation_split": validation_split, "preprocessing": preprocessing}
        spec = Npz(path="it.npz", batch_size=2, **split)
        return data.load(spec, data_root=tmp_path)

    return write_and_load


def test_integers_that_are_pixels_are_scaled_to_float32_up_to_one(load):
    dataset = load()
    assert dataset.train.arrays.x.dtype == np.float32
    assert dataset.train.arrays.x[0, 0, 1] == pytest.approx(10 / 255)
    assert dataset.validation.arrays.x.max() == 1.0


def test_the_test_arrays_are_for_validation_without_a_split(load):
    dataset = load()
    assert (len(dataset.train.arrays.x), len(dataset.validation.arrays.x)) == (6, 3)
    assert dataset.signature.classes == 3


def test_a_split_takes_the_end_of_the_training_data(load):
    dataset = load(validation_split=0.5)
    assert (len(dataset.train.arrays.x), len(dataset.validation.arrays.x)) == (3, 3)
    assert dataset.validation.arrays.y.tolist() == [0, 1, 2]


def test_test_data_are_optional(load):
    assert load(x_test=None, y_test=None).validation is None


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_not_scaled(load, dtype):
    values = np.full((6, 2, 2), 0.5, dtype)
    dataset = load(x_train=values, x_test=None, y_test=None)
    assert dataset.train.arrays.x.dtype == np.float32
    assert (dataset.train.arrays.x == 0.5).all()


def test_labels_may_have_the_shape_of_a_column(load):
    dataset = load(y_train=np.array([[0], [1], [2], [0], [1], [2]]))
    assert dataset.train.arrays.y.shape == (6,)


WITH_NAN = np.ones((6, 2, 2), np.float32)
WITH_NAN[4, 1, 0] = np.nan
TOO_LARGE = np.full((6, 2, 2), 1e300)


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"x_train": None}, "inputs.features", "expected columns of the data: y"),
        ({"y_train": None}, "target", "expected the column to predict, one of x; received none"),
        ({"x_train": np.full((6, 2), "a")}, "preprocessing.x", "categories or tokens, for text"),
        ({"x_train": WITH_NAN}, "row 5, column x", "finite in float32, or .*; received nan"),
        ({"x_train": TOO_LARGE}, "row 1, column x", "finite in float32; received 1e\\+300"),
        ({"y_train": np.zeros(5, int)}, "y", "expected 6 rows, as many as x; received 5"),
        ({"y_train": np.full(6, 0.5)}, "y", "expected classes: .* received 0.5 in row 1"),
        (
            {"y_train": np.array([0, 1, -1, 0, 0, 0])},
            "y",
            "classes of the training .*, -1, 0, 1; received 2",
        ),
        ({"y_train": np.full(6, 10**6)}, "y", "the classes of the training .*, 1000000;"),
        (
            {"x_test": np.zeros((3, 2, 3), np.uint8)},
            "x of the validation examples",
            r"uint8 \[2, 2\]",
        ),
        ({"y_test": np.array([0, 1, 3], np.uint8)}, "y", "expected classes from 0 to 2"),
    ],
)
def test_bad_data_are_refused_with_file_field_expected_and_received(load, changed, field, message):
    with pytest.raises(InvalidData, match=message) as caught:
        load(**changed)
    assert caught.value.source == "it.npz"
    assert caught.value.field == field
    assert caught.value.reason is Reason.INVALID_DATA
    assert str(caught.value).startswith(f"it.npz, {field}: expected ")


def test_pickled_objects_are_never_loaded(load):
    with pytest.raises(InvalidData, match="without Python objects"):
        load(y_train=np.array([{}] * 6, dtype=object))


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04 not really", b"not an archive at all", b"\x93NUMPY\x01\x00"],
)
def test_a_file_that_is_not_an_archive_is_refused(tmp_path, content):
    (tmp_path / "it.npz").write_bytes(content)
    with pytest.raises(InvalidData, match="expected a zip archive"):
        data.load(Npz(path="it.npz"), data_root=tmp_path)


def test_a_damaged_archive_is_refused(tmp_path):
    file = tmp_path / "it.npz"
    np.savez_compressed(file, **arrays(x_train=np.random.default_rng(0).random((6, 9, 9))))
    content = bytearray(file.read_bytes())
    content[300:900] = bytes(600)
    file.write_bytes(content)
    with pytest.raises(InvalidData, match="x_train"):
        data.load(Npz(path="it.npz"), data_root=tmp_path)


def test_an_npy_file_is_refused(tmp_path):
    np.save(tmp_path / "it.npy", np.zeros(3))
    with pytest.raises(InvalidData, match="expected a zip archive"):
        data.load(Npz(path="it.npy"), data_root=tmp_path)


def test_a_missing_file_is_named_as_in_the_spec(tmp_path):
    with pytest.raises(InvalidData, match=r"^none\.npz: expected a file") as caught:
        data.load(Npz(path="none.npz"), data_root=tmp_path)
    assert str(tmp_path) not in str(caught.value)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(InvalidData, match="expected a file"):
        data.load(Npz(path="."), data_root=tmp_path)


@pytest.fixture
def root_with_links(tmp_path):
    """A data root with a link to a valid archive outside it, and a link to itself."""
    root = tmp_path / "root"
    root.mkdir()
    np.savez(tmp_path / "secret.npz", **arrays())
    (root / "link.npz").symlink_to(tmp_path / "secret.npz")
    (root / "loop").symlink_to(root / "loop")
    return root


@pytest.mark.parametrize("path", ["../secret.npz", "link.npz", "a/../../secret.npz", "\0"])
def test_a_path_cannot_leave_the_data_root(root_with_links, path):
    with pytest.raises(InvalidData, match="expected a path inside the data root"):
        data.load(Npz(path=path, batch_size=2), data_root=root_with_links)


def test_an_absolute_path_cannot_leave_the_data_root(root_with_links):
    path = str(root_with_links.parent / "secret.npz")
    with pytest.raises(InvalidData, match="inside the data root"):
        data.load(Npz(path=path, batch_size=2), data_root=root_with_links)


def test_a_link_to_itself_is_refused(root_with_links):
    with pytest.raises(InvalidData):
        data.load(Npz(path="loop", batch_size=2), data_root=root_with_links)


def test_without_a_data_root_any_path_is_allowed(root_with_links):
    path = str(root_with_links / "link.npz")
    assert len(data.load(Npz(path=path, batch_size=2)).train) == 6


def test_an_autoencoder_needs_no_labels(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.ones((8, 3), np.float32))
    spec = Npz(path="x.npz", batch_size=4)
    dataset = data.load(spec, data_root=tmp_path, task=Autoencoding())
    assert dataset.signature.targets["output"].kind == "input"
