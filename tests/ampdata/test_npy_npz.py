"""NumPy's files: every supported array comes back, and nothing else is read."""

import io
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ampdata import Column, Limits, list_splits, open_source
from ampspec.data.file_formats import NpyOptions, NpzOptions
from ampspec.errors import InvalidData
from tests.ampdata.samples import write_zip

NPY, NPZ = NpyOptions(), NpzOptions()
WIDENED = {
    "int8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
}
NUMBERS = st.sampled_from(
    ["u1", "i1", "<i2", ">i2", "<u2", "<i4", ">u4", "<i8", ">i8", "<f2", ">f4", "<f8", "?", "<U5"]
)
ARRAYS = NUMBERS.flatmap(
    lambda dtype: hnp.arrays(
        np.dtype(dtype),
        hnp.array_shapes(min_dims=1, max_dims=4, max_side=6),
        elements=st.text("abé", max_size=5) if "U" in dtype else None,
    )
)


def check(array, column, read):
    """The column and its rows hold exactly the array's values."""
    if array.dtype.kind == "U":
        assert column == Column(array.shape[1:], "string")
        assert read.tolist() == array.tolist()
        return
    name = array.dtype.newbyteorder("=").name
    assert column == Column(array.shape[1:], WIDENED.get(name, name))
    assert read.dtype == column.dtype
    np.testing.assert_array_equal(read, array)


@settings(max_examples=60, deadline=None)
@given(ARRAYS, st.booleans())
def test_npy_arrays_are_read_as_they_were_saved(array, fortran):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it.npy")
        np.save(path, np.asfortranarray(array) if fortran else array)
        source = open_source(path, NPY, cache=Path(folder))
        assert source.rows == len(array)
        check(array, source.columns["x"], source.read(np.arange(len(array)))["x"])


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text("abcé_", min_size=1, max_size=8), ARRAYS, min_size=1, max_size=4),
    st.booleans(),
)
def test_npz_arrays_are_read_as_they_were_saved(arrays, compressed):
    rows = min(map(len, arrays.values()))
    arrays = {name: array[:rows] for name, array in arrays.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it.npz")
        (np.savez_compressed if compressed else np.savez)(path, **arrays)
        source = open_source(path, NPZ, cache=Path(folder, "cache"))
        read = source.read(np.arange(rows))
        assert read.keys() == arrays.keys()
        for name, array in arrays.items():
            check(array, source.columns[name], read[name])


def test_bytes_are_text_in_utf_8(tmp_path, read_all):
    np.save(tmp_path / "it.npy", np.array(["é".encode(), b"a"]))
    assert read_all(tmp_path / "it.npy", NPY)["x"].tolist() == ["é", "a"]
    np.save(tmp_path / "bad.npy", np.array([b"a", b"\xff"]))
    with pytest.raises(InvalidData, match=r"bad.npy, row 2, column x: expected text in UTF-8"):
        read_all(tmp_path / "bad.npy", NPY)


@pytest.mark.parametrize("code", [0xD800, 0x11_0000, 0xFFFF_FFFF])
@pytest.mark.parametrize("order", ["<", ">"])
def test_text_must_have_code_points(tmp_path, read_all, code, order):
    codes = np.array([65, 0xE9, 0xE9, code], f"{order}u4")
    np.save(tmp_path / "it.npy", codes.view(f"{order}U2"))
    with pytest.raises(InvalidData, match=r"it.npy, row 2, column x: expected text in UTF-8"):
        read_all(tmp_path / "it.npy", NPY)


def test_integers_of_64_bits_without_sign_must_fit_into_int64(tmp_path, read_all):
    np.save(tmp_path / "it.npy", np.array([1, 2**63], np.uint64))
    with pytest.raises(InvalidData, match=r"row 2, column x: expected integers below 2\^63"):
        read_all(tmp_path / "it.npy", NPY)


# Splits and columns.


@pytest.fixture
def splits(tmp_path):
    path = tmp_path / "mnist.npz"
    np.savez(
        path,
        x_train=np.zeros((4, 2, 2), np.uint8),
        y_train=np.arange(4),
        x_test=np.ones((2, 2, 2), np.uint8),
        y_test=np.arange(2),
    )
    return path


def test_names_with_train_and_test_are_splits(splits, tmp_path, open_file):
    assert list_splits(splits, NPZ, cache=tmp_path) == ("train", "test")
    assert open_file(splits, NPZ).rows == 4
    test = open_file(splits, NPZ, split="test")
    assert test.columns.keys() == {"x", "y"}
    assert test.read(np.array([0]))["x"].max() == 1


def test_a_missing_split_is_an_error_that_names_the_existing_ones(splits, open_file):
    with pytest.raises(InvalidData, match="one of the splits train, test"):
        open_file(splits, NPZ, split="validation")


def test_arrays_of_any_name_become_x_and_y(tmp_path, read_all):
    np.savez(tmp_path / "it.npz", pixels=np.ones((3, 2)), kind=np.arange(3), other=np.zeros(7))
    read = read_all(tmp_path / "it.npz", NpzOptions(x="pixels", y="kind"))
    assert {name: array.shape for name, array in read.items()} == {"x": (3, 2), "y": (3,)}


def test_one_split_can_be_named_in_full(splits, open_file):
    source = open_file(splits, NpzOptions(x="x_test", y="y_test"), columns=["x", "y"])
    assert source.rows == 2


def test_wanted_arrays_must_have_equal_rows(tmp_path, open_file):
    np.savez(tmp_path / "it.npz", x=np.ones((3, 2)), y=np.arange(2))
    with pytest.raises(InvalidData, match=r"it.npz, y: expected 3 rows, as many as x; received 2"):
        open_file(tmp_path / "it.npz", NPZ, columns=["x", "y"])


@pytest.mark.parametrize("wanted", ["z", "x_train"])
def test_a_missing_column_is_an_error_that_names_the_existing_ones(splits, open_file, wanted):
    with pytest.raises(InvalidData, match="expected one of the columns x, y"):
        open_file(splits, NPZ, columns=[wanted])


# Hostile files.


class Pickled:
    """Pickle would call this class."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def npy(header, data=b"", version=1):
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


HOSTILE = {
    "empty": (b"", "a header"),
    "other magic": (b"\x93NUMPI" + b"\0" * 100, "a header"),
    "truncated header": (npy("{'descr': '<f4'")[:14], "a header"),
    "format 4": (b"\x93NUMPY\4\0\2\0\0\0{}", "version 1.0, 2.0 or 3.0"),
    "zero bytes in the header": (npy("{'descr': '<f4\0', (((("), "a header"),
    "integers of Python 2": (
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1L,)}", b"\0" * 4),
        "a header",
    ),
    "a shape of booleans": (
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}", b"\0" * 4),
        "a header",
    ),
    "huge header": (npy("{" + " " * 100_000 + "}", version=2), "a header"),
    "header length beyond the file": (b"\x93NUMPY\2\0\xff\xff\xff\x7f", "a header"),
    "code in the header": (npy("__import__('os').abort()\n"), "a header"),
    "deeply nested header": (npy("(" * 9000 + ")" * 9000), "a header"),
    "too few bytes": (
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}", b"\0" * 35),
        "36 bytes of data",
    ),
    "overflowing shape": (
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4611686018427387904)}"),
        "bytes of data",
    ),
    "negative shape": (
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
        "a header",
    ),
    "a shape with very large integers": (
        npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1, 10**4000, 10**4000)}}}"),
        "a header",
    ),
    "no rows": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}"), "not empty"),
    "no axis": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", b"\0" * 4), "rows"),
    "many axes": (
        npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1,) * 9}}}", b"\0" * 4),
        "1 to 8 axes",
    ),
    "objects": (
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"\x80\4."),
        "without Python objects",
    ),
    "records": (
        npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", b"\0" * 4),
        "numbers, booleans or text",
    ),
    "complex": (
        npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", b"\0" * 8),
        "numbers, booleans or text",
    ),
    "dates": (
        npy("{'descr': '<M8[D]', 'fortran_order': False, 'shape': (1,)}", b"\0" * 8),
        "numbers, booleans or text",
    ),
    "empty text": (
        npy("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000,)}"),
        "not empty",
    ),
}


@pytest.mark.parametrize(("content", "expected"), HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("kind", ["npy", "stored", "compressed"])
def test_a_hostile_array_is_rejected(tmp_path, open_file, kind, content, expected):
    if kind == "npy":
        path, options = tmp_path / "it.npy", NPY
        path.write_bytes(content)
    else:
        path, options = tmp_path / "it.npz", NPZ
        method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("x.npy", content)
    with pytest.raises(InvalidData, match=expected):
        open_file(path, options)


def test_pickles_are_not_loaded(tmp_path, open_file):
    array = np.array([Pickled()], object)
    np.save(tmp_path / "it.npy", array, allow_pickle=True)
    np.savez(tmp_path / "it.npz", x=array)
    for name, options in (("it.npy", NPY), ("it.npz", NPZ)):
        with pytest.raises(InvalidData, match="without Python objects"):
            open_file(tmp_path / name, options)


def test_other_files_in_an_archive_are_rejected(tmp_path, open_file):
    with zipfile.ZipFile(tmp_path / "it.npz", "w") as archive:
        archive.writestr("evil.pkl", b"\x80\4.")
    with pytest.raises(InvalidData, match=r"evil.pkl: expected only arrays"):
        open_file(tmp_path / "it.npz", NPZ)


def test_entries_of_folders_are_no_arrays(tmp_path, read_all):
    array = io.BytesIO()
    np.save(array, np.arange(3))
    members = {"train/": b"", "train/x.npy": array.getvalue()}
    assert read_all(write_zip(tmp_path / "it.npz", members), NPZ)["x"].tolist() == [0, 1, 2]


def test_an_empty_archive_is_rejected(tmp_path, open_file):
    zipfile.ZipFile(tmp_path / "it.npz", "w").close()
    with pytest.raises(InvalidData, match="expected an array"):
        open_file(tmp_path / "it.npz", NPZ)


def test_a_decompression_bomb_is_rejected_before_anything_is_written(tmp_path, open_file):
    np.savez_compressed(tmp_path / "it.npz", x=np.zeros((1000, 1000)))
    with pytest.raises(InvalidData, match="at most 1,000,000 bytes when decompressed"):
        open_file(tmp_path / "it.npz", NPZ, limits=Limits(cache_bytes=1_000_000))
    assert not any((tmp_path / "cache").rglob("*.npy"))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_changed_bit_is_found(tmp_path, open_file, save):
    path = tmp_path / "it.npz"
    save(path, x=np.random.default_rng(0).bytes(10_000) and np.arange(10_000.0))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=r"it.npz, x.npy: expected"):
        open_file(path, NPZ)


def test_a_truncated_archive_is_rejected_at_any_length(tmp_path, open_file):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=np.arange(20))
    content = buffer.getvalue()
    path = tmp_path / "it.npz"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidData):
            open_file(path, NPZ)


def test_messages_do_not_show_the_folder_of_the_server(tmp_path, open_file):
    path = tmp_path / "secret" / "it.npy"
    path.parent.mkdir()
    path.write_bytes(b"")
    for one in (path, path.with_name("missing.npy"), path.parent):
        with pytest.raises(InvalidData) as caught:
            open_file(one, NPY, name="it.npy")
        assert "secret" not in str(caught.value)
