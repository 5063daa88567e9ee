"""Parquet files: columns of supported types come back; the others are refused by name."""

import datetime
import json
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ampdata import LeftOut, Limits, list_columns, list_splits, open_source
from ampspec.data.file_formats import ImageOptions, ParquetOptions
from ampspec.errors import InvalidData
from tests.ampdata.samples import noise, png, png_of, write_zip

PARQUET = ParquetOptions()
KEEP = ParquetOptions(missing="keep")
DTYPES = st.sampled_from(["u1", "i1", "i2", "u2", "i4", "u4", "i8", "f2", "f4", "f8", "?"])
COLUMNS = st.integers(1, 40).flatmap(
    lambda rows: st.lists(
        DTYPES.flatmap(
            lambda dtype: st.sampled_from([(rows,), (rows, 1), (rows, 3), (rows, 2, 2)]).flatmap(
                lambda shape: hnp.arrays(np.dtype(dtype), shape)
            )
        ),
        min_size=1,
        max_size=4,
    )
)


def as_arrow(array):
    return pa.array(array.tolist(), nested(pa.from_numpy_dtype(array.dtype), array.ndim - 1))


def nested(dtype, levels):
    return dtype if not levels else pa.list_(nested(dtype, levels - 1))


@settings(max_examples=60, deadline=None)
@given(COLUMNS, st.sampled_from(["none", "snappy", "zstd", "gzip"]), st.integers(1, 50))
def test_numbers_and_vectors_are_read_as_they_were_written(arrays, compression, group):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "it.parquet")
        table = pa.table({f"c{number}": as_arrow(one) for number, one in enumerate(arrays)})
        pq.write_table(table, path, compression=compression, row_group_size=group)
        source = open_source(path, PARQUET, cache=Path(folder))
        read = source.read(np.arange(source.rows))
        for number, array in enumerate(arrays):
            column = source.columns[f"c{number}"]
            assert column.shape == array.shape[1:]
            assert read[f"c{number}"].dtype == column.dtype
            np.testing.assert_array_equal(read[f"c{number}"], array)


@pytest.fixture
def write(tmp_path):
    """Writes birds.parquet."""

    def write_table(columns, **keywords):
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        pq.write_table(table, tmp_path / "birds.parquet", **keywords)
        return tmp_path / "birds.parquet"

    return write_table


@pytest.mark.parametrize(
    ("values", "read"),
    [
        (["a", "é", ""], ["a", "é", ""]),
        (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        ([datetime.date(2024, 2, 29)], ["2024-02-29"]),
        (pa.array([Decimal("1.25")]), [1.25]),
        (pa.array([[1.5, 2.5]], pa.list_(pa.float32(), 2)), [[1.5, 2.5]]),
        (pa.array([[1, 2]], pa.large_list(pa.int32())), [[1, 2]]),
    ],
)
def test_other_types_are_converted(write, read_all, values, read):
    assert read_all(write({"a": values}), PARQUET)["a"].tolist() == read


def test_images_of_hugging_face_are_decoded(write, open_file):
    pixels = [noise(5, 4, seed=seed) for seed in range(3)]
    images = [{"bytes": png_of(pixel), "path": "a.png"} for pixel in pixels]
    source = open_file(write({"image": images}), PARQUET)
    assert source.columns["image"].shape == (5, 4, 3)
    np.testing.assert_array_equal(source.read(np.arange(3))["image"], pixels)
    assert source.image_bytes("image", 2) == images[2]["bytes"]


def test_images_as_bytes_are_resized(write, read_all):
    path = write({"image": [png(4, 6, 9), png(8, 8, 9)], "y": [0, 1]})
    options = ParquetOptions(image=ImageOptions(size=(2, 3), channels=1))
    assert read_all(path, options)["image"].tolist() == np.full((2, 2, 3, 1), 9).tolist()


def test_images_of_different_sizes_need_the_option_size(write, open_file):
    with pytest.raises(InvalidData, match="column image: expected images of one size, or"):
        open_file(write({"image": [png(4, 6), png(8, 8)]}), PARQUET)


def test_images_are_checked_before_they_are_decoded(write, open_file):
    path = write({"image": [png(4, 6), png(200, 200)]})
    with pytest.raises(InvalidData, match="row 2, column image: expected at most 1,000 pixels"):
        open_file(path, PARQUET, limits=Limits(pixels=1000))


@pytest.mark.parametrize("options", [PARQUET, KEEP])
@pytest.mark.parametrize("missing", [None, {"bytes": None, "path": "a.png"}])
def test_a_missing_image_is_an_error(write, open_file, options, missing):
    images = [{"path": "a.png", "bytes": png(4, 6)}, missing]
    with pytest.raises(InvalidData, match=r"row 2, column image: expected a value; received none"):
        open_file(write({"image": images}), options)


def test_a_row_that_is_no_image_is_an_error(write, open_file):
    with pytest.raises(InvalidData, match="row 2, column image: expected a PNG or JPEG image"):
        open_file(write({"image": [png(4, 6), b"GIF89a"]}), PARQUET)


def test_class_names_of_hugging_face_are_kept(write, open_file):
    features = {"y": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "x": {"dtype": "int64"}}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    table = pa.table({"x": [1, 2], "y": [0, 1]}).replace_schema_metadata(metadata)
    columns = open_file(write(table), PARQUET).columns
    assert (columns["y"].classes, columns["x"].classes) == (("cat", "dog"), None)


def test_class_names_can_be_encoded(write, open_file):
    content = b'{"info": {"features": {"x": {"_type": "ClassLabel", "names": ["\\ud800", 3]}}}}'
    table = pa.table({"x": [1]}).replace_schema_metadata({b"huggingface": content})
    assert open_file(write(table), PARQUET).columns["x"].classes == ("?", "3")


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"info": 3}', b"[" * 100_000])
def test_other_metadata_is_ignored(write, open_file, content):
    table = pa.table({"x": [1]}).replace_schema_metadata({b"huggingface": content})
    assert open_file(write(table), PARQUET).columns["x"].classes is None


# Missing and bad values.


def test_a_missing_value_is_an_error_by_default(write, open_file):
    path = write({"price": pa.array([*range(9999), None, 1])}, row_group_size=100)
    with pytest.raises(
        InvalidData, match=r"birds.parquet, row 10000, column price: expected a value, or"
    ):
        open_file(path, PARQUET)


def test_kept_missing_values_are_nan_and_none(write, open_file):
    table = {"i": [1, None], "f": [None, 0.5], "b": [True, None], "t": ["x", None], "j": [1, 2]}
    source = open_file(write(table), KEEP)
    assert {name: (one.dtype, one.missing) for name, one in source.columns.items()} == {
        "i": ("float64", 1),
        "f": ("float64", 1),
        "b": ("float64", 1),
        "t": ("string", 1),
        "j": ("int64", 0),
    }
    read = source.read(np.array([1, 0]))
    np.testing.assert_array_equal(read["i"], [np.nan, 1])
    np.testing.assert_array_equal(read["b"], [np.nan, 1])
    assert read["t"].tolist() == [None, "x"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([[1.0], [2.0, 3.0]], "row 2, column a: expected 1 values"),
        ([[1.0, 2.0], None], "row 2, column a: expected a value"),
        ([[1.0, 2.0], [1.0, None]], "row 2, column a: expected a value"),
        ([[[1, 2]], [[1, 2, 3]]], "row 2, column a: expected 2 values"),
        (pa.array([1, 2**63], pa.uint64()), r"row 2, column a: expected integers below 2\^63"),
    ],
)
@pytest.mark.parametrize("options", [PARQUET, KEEP])
def test_a_bad_row_is_an_error_with_its_number(write, open_file, values, expected, options):
    with pytest.raises(InvalidData, match=expected):
        open_file(write({"a": values}), options)


def test_text_that_is_not_utf_8_is_an_error(write, open_file):
    broken = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(InvalidData, match="row 2, column a: expected text in UTF-8"):
        open_file(write({"a": broken}), PARQUET)


def test_times_in_an_unknown_zone_are_an_error(write, open_file):
    times = pa.array([0], pa.timestamp("us", tz="Nowhere/None"))
    with pytest.raises(InvalidData, match="column a: expected text, or times in a known time zone"):
        open_file(write({"a": times}), PARQUET)


# Columns.

UNSUPPORTED = {
    "struct": [{"a": 1}],
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "bytes": [b"abc"],
    "texts": [["a", "b"]],
    "nothing": pa.nulls(1),
    "empty": [[]],
    "deep": [[[[[[1]]]]]],
}


@pytest.mark.parametrize("values", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_columns_of_other_types_are_left_out_unless_they_are_wanted(write, open_file, values):
    path = write({"a": [1], "odd": values})
    assert list(open_file(path, PARQUET).columns) == ["a"]
    with pytest.raises(InvalidData, match="column odd: expected numbers, booleans, text"):
        open_file(path, PARQUET, columns=["a", "odd"])


def test_only_wanted_columns_are_converted(write, open_file, tmp_path):
    source = open_file(write({"a": [1], "b": [2]}), PARQUET, columns=["b"])
    assert list(source.columns) == ["b"]
    (table,) = (tmp_path / "cache").glob("*/table.arrow")
    assert pa.ipc.open_file(table).schema.names == ["b"]


def test_repeated_names_are_an_error(write, open_file):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(InvalidData, match="a different name for each column"):
        open_file(write(table), PARQUET)


def test_a_table_without_rows_or_columns_is_an_error(write, open_file):
    with pytest.raises(InvalidData, match="at least one row"):
        open_file(write({"a": pa.array([], pa.int64())}), PARQUET)
    with pytest.raises(InvalidData, match="a column with numbers"):
        open_file(write({"a": [b"x"]}), PARQUET)


# Hostile files.


def test_a_damaged_file_is_an_error_at_any_length(write, open_file):
    path = write({"a": list(range(100)), "t": ["text"] * 100})
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidData):
            open_file(path, PARQUET)


def test_a_changed_byte_is_an_error_or_changes_a_value_only(write, open_file, tmp_path):
    path = write({"a": list(range(50)), "t": ["text"] * 50}, write_page_checksum=True)
    content = path.read_bytes()
    for position in range(0, len(content), 5):
        changed = bytearray(content)
        changed[position] ^= 0xFF
        path.write_bytes(changed)
        try:
            source = open_file(path, PARQUET)
            source.read(np.arange(source.rows))
        except InvalidData:
            continue


def test_a_small_file_with_a_huge_table_is_an_error(write, open_file, tmp_path):
    path = write({"a": pa.array(["x" * 10_000]).take(pa.array([0] * 20_000))})
    assert path.stat().st_size < 100_000
    with pytest.raises(InvalidData, match="at most 10,000,000 bytes"):
        open_file(path, PARQUET, limits=Limits(cache_bytes=10_000_000))
    assert not list((tmp_path / "cache").rglob("*.arrow"))


# Several files.


def test_shards_are_joined_by_split(tmp_path, read_all, open_file):
    folder = tmp_path / "birds"
    folder.mkdir()
    for name, values in {"train-00000-of-00002": [1, 2], "train-00001-of-00002": [3]}.items():
        pq.write_table(pa.table({"a": values}), folder / f"{name}.parquet")
    (folder / "test").mkdir()
    pq.write_table(pa.table({"a": [4]}), folder / "test" / "0.parquet")
    assert list_splits(folder, PARQUET, cache=tmp_path) == ("train", "test")
    assert read_all(folder, PARQUET)["a"].tolist() == [1, 2, 3]
    assert read_all(folder, PARQUET, split="test")["a"].tolist() == [4]
    places = open_file(folder, PARQUET).row_places()
    last = places.of(2)
    assert (places.of(1).row, last.row) == (2, 1)
    assert last.file == "birds/train-00001-of-00002.parquet"


@pytest.fixture
def shards(tmp_path):
    """A folder with a file for each table."""

    def write_shards(*tables):
        folder = tmp_path / "shards"
        folder.mkdir()
        for name, columns in zip("abc", tables, strict=False):
            table = columns if isinstance(columns, pa.Table) else pa.table(columns)
            pq.write_table(table, folder / f"{name}.parquet")
        return folder

    return write_shards


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        (pa.nulls(2), [0.5, 1.5], "float64"),
        ([0.5, 1.5], pa.nulls(2), "float64"),
        (pa.array([1, 2], pa.int32()), [3, 2**40], "int64"),
        (pa.array([1, 2], pa.uint8()), pa.array([-1, 2], pa.int8()), "int32"),
        ([1, 2], [0.5, 1.5], "float64"),
        (pa.array(["a", "b"]).dictionary_encode(), ["c", "d"], "string"),
        (["a", "b"], pa.array(["c", "d"], pa.large_string()), "string"),
        (["a", "b"], pa.array(["c", "d"], pa.string_view()), "string"),
        (pa.nulls(2), ["c", None], "string"),
        (None, ["c", "d"], "string"),
        ([[1], [2]], pa.array([[3], [4]], pa.list_(pa.int32(), 1)), "int64"),
        ([[1], [2]], pa.array([[3], [4]], pa.large_list(pa.float32())), "float64"),
    ],
)
def test_shards_may_store_a_column_in_several_types(shards, open_file, first, second, dtype):
    tables = [{"y": [0, 1]} | ({} if one is None else {"a": one}) for one in (first, second)]
    source = open_file(shards(*tables), KEEP)
    assert source.columns["a"].dtype == dtype
    read = source.read(np.arange(4))["a"].tolist()
    values = [[None] * 2 if one is None else pa.array(one).to_pylist() for one in (first, second)]
    assert [None if pd.isna(value) is True else value for value in read] == [*values[0], *values[1]]


def test_a_file_without_a_column_names_the_way_out(shards, open_file):
    folder = shards({"y": [0], "a": [1]}, {"y": [0]})
    with pytest.raises(InvalidData, match=r"b.parquet, column a: expected a value, or `missing: k"):
        open_file(folder, PARQUET)
    assert open_file(folder, PARQUET, columns=["y"]).rows == 2


def test_types_that_no_column_can_hold_are_named_with_their_files(shards, open_file):
    folder = shards({"y": [0], "a": [1]}, {"y": [0], "a": ["x"]})
    (left_out,) = open_file(folder, PARQUET).left_out
    assert left_out.name == "a"
    assert left_out.reason == "int64 in shards/a.parquet, string in shards/b.parquet"
    with pytest.raises(InvalidData, match=r"column a: .* string in shards/b.parquet"):
        open_file(folder, PARQUET, columns=["a"])


def test_lists_and_images_are_known_by_the_first_values_of_any_file(shards):
    folder = shards({"a": pa.nulls(2), "i": pa.nulls(2)}, {"a": [[1, 2]], "i": [png(2, 3)]})
    listed = list_columns(folder, PARQUET, cache=folder.parent / "cache").columns
    assert (listed["a"].shape, listed["i"].dtype) == ((2,), "image")


def test_columns_that_cannot_be_read_are_left_out_with_the_reason(write, open_file):
    table = {
        "y": [0, 1],
        "tokens": [[1, 2], [3]],
        "late": [[1]] * 2,
        "id": pa.array([1, 2**63], pa.uint64()),
        "map": [{"a": 1}] * 2,
        "none": pa.nulls(2),
        "bytes": [b"x", b"y"],
        "took": pa.array([1, 2], pa.duration("s")),
    }
    source = open_file(write(table), PARQUET)
    assert list(source.columns) == ["y", "late"]
    assert {one.name: one.reason for one in source.left_out} == {
        "tokens": "lists of several lengths",
        "map": "struct<a: int64>, without images and lists of one length",
        "none": "no values",
        "bytes": "binary, without images and lists of one length",
        "took": "duration[s]",
        "id": "birds.parquet, row 2, column id: expected integers below 2^63; received "
        "9223372036854775808",
    }


def test_extension_types_are_read_as_what_they_store(write, read_all, open_file):
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.float32(), (2, 3)),
        pa.array([[0, 1, 2, 3, 4, 5]] * 2, pa.list_(pa.float32(), 6)),
    )
    table = {
        "tensor": tensors,
        "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", "[]"])),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())),
        "view": pa.array([[1, 2], [3, 4]], pa.list_view(pa.int64())),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16] * 2, pa.binary(16))),
    }
    read = read_all(write(table), PARQUET)
    assert read["tensor"].tolist() == [[[0, 1, 2], [3, 4, 5]]] * 2
    assert read["json"].tolist() == ["{}", "[]"]
    assert read["view"].tolist() == [[1, 2], [3, 4]]
    (left_out,) = open_file(write(table), PARQUET).left_out
    assert left_out.name == "uuid"


def test_a_missing_tensor_is_named(write, open_file):
    storage = pa.array([[1.0] * 4, None, [2.0] * 4], pa.list_(pa.float64(), 4))
    dtype = pa.fixed_shape_tensor(pa.float64(), (2, 2))
    path = write({"t": pa.ExtensionArray.from_storage(dtype, storage), "y": [0, 1, 2]})
    assert list(open_file(path, PARQUET).columns) == ["y"]
    with pytest.raises(InvalidData, match="row 2, column t: expected a value; received none"):
        open_file(path, PARQUET, columns=["t"])


def test_the_index_of_pandas_is_no_input(tmp_path, open_file):
    frame = pd.DataFrame({"x": [1.5, 2.5], "y": [0, 1]}, index=[7, 9])
    frame.to_parquet(tmp_path / "it.parquet")
    source = open_file(tmp_path / "it.parquet", PARQUET)
    assert list(source.columns) == ["x", "y"]
    (left_out,) = source.left_out
    assert left_out == LeftOut("__index_level_0__", "the index of a pandas frame")
    assert open_file(tmp_path / "it.parquet", PARQUET, columns=[left_out.name]).rows == 2


def packed(folder):
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    contents = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    return write_zip(folder.with_suffix(".zip"), contents)


@pytest.mark.parametrize("as_zip", [False, True])
def test_folders_of_hive_are_columns(tmp_path, open_file, as_zip):
    folder = tmp_path / "it"
    for name in (
        "kind=cat/day=2",
        "kind=big%20dog/day=10",
        "kind=__HIVE_DEFAULT_PARTITION__/day=1",
    ):
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table({"x": [0.5]}), folder / name / "part-0.snappy.parquet")
    source = open_file(packed(folder) if as_zip else folder, KEEP)
    read = source.read(np.arange(3))
    assert list(read) == ["x", "kind", "day"]
    assert sorted(read["kind"], key=str) == [None, "big dog", "cat"]
    assert (source.columns["day"].dtype, read["day"].sum()) == ("int64", 13)
    assert open_file(folder, KEEP, columns=["day"]).read(np.arange(3))["day"].sum() == 13


def test_a_column_of_the_file_is_used_instead_of_the_folder(tmp_path, read_all):
    (tmp_path / "it" / "kind=cat").mkdir(parents=True)
    pq.write_table(pa.table({"kind": ["tiger"]}), tmp_path / "it" / "kind=cat" / "0.parquet")
    assert read_all(tmp_path / "it", PARQUET)["kind"].tolist() == ["tiger"]
