"""Formats are recognized by content, and descriptions show what a file contains."""

import base64
import gzip
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ampdata import open_source
from ampdata.description import describe
from ampdata.file_description import FileDescription
from ampspec.data.file_formats import CsvOptions, ImagesOptions, ParquetOptions, TextOptions
from ampspec.errors import InvalidData
from tests.ampdata.samples import example, noise, png, png_of, write_records, write_zip


@pytest.fixture
def files(tmp_path):
    """One file of each kind, with names that do not tell the format."""
    (tmp_path / "a").mkdir()
    np.save(tmp_path / "npy.npy", np.arange(4))
    (tmp_path / "npy.npy").rename(tmp_path / "npy")
    np.savez(tmp_path / "npz.npz", x=np.arange(4))
    (tmp_path / "npz.npz").rename(tmp_path / "npz")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "parquet")
    write_records(tmp_path / "tfrecord", example(x=[1]))
    (tmp_path / "gzip").write_bytes(gzip.compress((tmp_path / "tfrecord").read_bytes()))
    write_zip(tmp_path / "images", {"a.png": png(2, 2)})
    (tmp_path / "csv").write_text("a;b\n1;2\n")
    (tmp_path / "text").write_text("To be, or not to be\nthat is the question\n")
    (tmp_path / "a" / "x.png").write_bytes(png(2, 2))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((one, one) for one in ("npy", "npz", "parquet", "tfrecord", "images", "csv", "text")),
        ("gzip", "tfrecord"),
        ("a", "images"),
    ],
)
def test_the_format_is_recognized_by_the_content(files, name, kind):
    assert describe(files / name).kind == kind


@pytest.mark.parametrize("content", [b"", b"\0\1\2\3" * 50, b"\xff\xfe" * 50, b"\x1f\x8b\0\0"])
def test_a_file_of_no_known_format_is_an_error(tmp_path, content):
    (tmp_path / "it").write_bytes(content)
    with pytest.raises(InvalidData, match="it: expected an npz, npy, csv, parquet, tfrecord or"):
        describe(tmp_path / "it")


@pytest.mark.parametrize(
    ("name", "text", "options"),
    [
        ("a.csv", "a,b\n1,2\n", {"delimiter": ",", "header": True}),
        ("a", "a;b;c\n1,5;2;3\n", {"delimiter": ";"}),
        ("a.csv", "a\tb\n1\t2\n", {"delimiter": "\t"}),
        ("a", 'a|b\n"x|y"|2\n', {"delimiter": "|"}),
        ("a.csv", "1,2\n3,4\n", {"header": False}),
        ("a.csv", "a\n1\n", {"delimiter": ",", "header": True}),
        ("a.csv", "1.5\n1\n", {"delimiter": ",", "header": False}),
        ("a.tsv", "a\n1\n", {"delimiter": "\t"}),
    ],
)
def test_the_dialect_of_a_csv_file_is_recognized(tmp_path, name, text, options):
    (tmp_path / name).write_text(text)
    described = describe(tmp_path / name)
    assert described.kind == "csv"
    assert described.options.items() >= options.items()


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Straße,Größe\nBäckerstraße,3\n", "windows-1252"),
        ("name,price\ncafé,3 €\n", "windows-1252"),
        ("слово,число\nмосква,3\n", "utf-16"),
        ("naïve,b\nx,3\n", "utf-8"),
    ],
)
def test_the_encoding_of_a_csv_file_is_recognized(tmp_path, text, encoding):
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    described = describe(tmp_path / "a.csv")
    assert described.options["encoding"] == encoding
    assert [column.name for column in described.columns] == text.partition("\n")[0].split(",")


def test_a_long_csv_file_is_recognized_by_its_start(tmp_path):
    (tmp_path / "a").write_text("é,b\n" + "üü,1\n" * 20_000)
    assert describe(tmp_path / "a").rows == 20_000


def test_the_options_of_a_description_open_the_file(files, tmp_path):
    described = describe(files / "csv")
    with open_source(
        files / "csv", CsvOptions.model_validate(described.options), cache=tmp_path / "cache"
    ) as source:
        assert source.rows == described.rows


def test_a_table_is_described_with_types_missing_values_and_first_rows(tmp_path):
    rows = "".join(f"{row},{row / 2},x{row},true\n" for row in range(50))
    (tmp_path / "it.csv").write_text(f"i,f,t,b\n{rows},,,\n")
    described = describe(tmp_path / "it.csv")
    assert (described.rows, described.splits) == (51, {})
    assert described.options["missing"] == "error"
    assert [(column.name, column.dtype, column.missing) for column in described.columns] == [
        ("i", "float64", 1),
        ("f", "float64", 1),
        ("t", "string", 1),
        ("b", "float64", 1),
    ]
    assert len(described.preview) == 10
    assert described.preview[3] == {"i": 3, "f": 1.5, "t": "x3", "b": 1}


def test_nan_is_counted_where_a_row_has_one_number(tmp_path):
    columns = {"a": [None, 1.0, float("nan")], "b": [1, None, 3], "c": [0.5, 1.0, float("inf")]}
    pq.write_table(pa.table(columns), tmp_path / "it.parquet")
    described = describe(tmp_path / "it.parquet").columns
    assert [(column.missing, column.nan) for column in described] == [(1, 1), (1, 0), (0, 0)]
    nan = np.array([1.0, np.nan, 3.0])
    arrays = {"a": nan, "b": nan.reshape(3, 1), "c": nan[:, None] + np.eye(3), "d": [1, 2, 3]}
    np.savez(tmp_path / "it.npz", **arrays)
    described = describe(tmp_path / "it.npz").columns
    assert [(column.missing, column.nan) for column in described] == [(0, 1)] * 2 + [(0, 0)] * 2


def test_missing_and_non_finite_values_are_shown_in_json(tmp_path):
    columns = {"a": [None, 1.0], "b": [float("inf"), float("nan")], "t": [None, "x" * 300]}
    pq.write_table(pa.table(columns), tmp_path / "it")
    described = json.loads(describe(tmp_path / "it").model_dump_json())
    assert described["preview"] == [
        {"a": None, "b": "Infinity", "t": None},
        {"a": 1.0, "b": "NaN", "t": "x" * 200 + "…"},
    ]


def test_images_are_described_with_classes_sizes_and_pictures(tmp_path):
    files = {f"{name}/{row}.png": png(90, 300, row) for name in "ab" for row in range(10)}
    files["b/other.png"] = png(200, 100)
    described = describe(write_zip(tmp_path / "it.zip", files))
    assert isinstance(described, FileDescription)
    image, label = described.columns
    assert (image.dtype, image.shape) == ("image", [None, None, 3])
    assert [(one.name, one.rows) for one in label.classes] == [("a", 10), ("b", 11)]
    assert described.preview[0] == {"image": "a/0.png", "label": "a"}
    assert len(described.pictures) == 8
    sizes = set()
    for picture in described.pictures:
        with Image.open(io.BytesIO(base64.b64decode(picture.png)), formats=["PNG"]) as small:
            sizes.add(small.size)
    assert {picture.row for picture in described.pictures} >= {0, 20}
    assert sizes == {(96, 29), (48, 96)}


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 1), (28, 28, 3)])
def test_arrays_of_bytes_with_the_shape_of_images_have_pictures(tmp_path, shape):
    np.savez(tmp_path / "it.npz", x=np.zeros((3, *shape), np.uint8), y=np.arange(3))
    described = describe(tmp_path / "it.npz")
    assert [picture.row for picture in described.pictures] == [0, 1, 2]
    assert described.preview[0] == {"x": f"uint8 {' × '.join(map(str, shape))}", "y": 0}


def test_splits_are_described_with_their_rows(tmp_path):
    arrays = {"x_train": np.ones((5, 2)), "x_test": np.ones((2, 2)), "x_val": np.ones((3, 2))}
    np.savez(tmp_path / "it.npz", **arrays)
    described = describe(tmp_path / "it.npz")
    assert described.splits == {"train": 5, "validation": 3, "test": 2}
    assert described.rows == 10


def test_text_is_shown_as_text(tmp_path):
    (tmp_path / "it.txt").write_text("To be, or not to be " * 100)
    described = describe(tmp_path / "it.txt", TextOptions(sequence=5))
    assert described.preview[1] == {"x": ", or ", "y": " or n"}


def test_a_bad_row_anywhere_is_an_error(tmp_path):
    (tmp_path / "it.csv").write_text("a,b\n" + "1,2\n" * 1000 + "1\n")
    with pytest.raises(InvalidData, match=r"it.csv, line 1002: expected 2 cells"):
        describe(tmp_path / "it.csv")


def test_a_damaged_image_in_a_table_is_an_error(tmp_path):
    pq.write_table(pa.table({"x": [png(2, 2), png(2, 2)[:20]]}), tmp_path / "it")
    with pytest.raises(InvalidData, match="row 2, column x: expected an undamaged image"):
        describe(tmp_path / "it")


def test_a_description_of_a_wide_table_is_short(tmp_path):
    columns = {f"c{number}": ["x" * 1000] * 20 for number in range(500)}
    pq.write_table(pa.table(columns), tmp_path / "it", compression="zstd")
    described = describe(tmp_path / "it", ParquetOptions())
    assert len(described.columns) == 500
    assert len(described.preview[0]) == 100
    assert len(described.model_dump_json()) < 400_000


def test_a_folder_of_images_reports_the_size_of_its_files(tmp_path):
    folder = tmp_path / "birds"
    folder.mkdir()
    contents = [png_of(noise(3, 3, seed=seed)) for seed in range(3)]
    for number, content in enumerate(contents):
        (folder / f"{number}.png").write_bytes(content)
    described = describe(folder, ImagesOptions(size=(2, 2)), name="birds@1")
    assert described.size_bytes == sum(map(len, contents))
    assert described.columns[0].shape == [2, 2, 3]
