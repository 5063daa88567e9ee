"""Tables in folders and zips: one rule for both, and nothing outside them."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ampdata import Limits
from ampdata.description import describe
from ampspec.data.file_formats import CsvOptions
from ampspec.errors import InvalidData
from tests.ampdata.samples import example, png, write_records, write_zip


def write_csv(path, values):
    path.write_text("x,y\n" + "".join(f"{value},1\n" for value in values))


def write_parquet(path, values):
    pq.write_table(pa.table({"x": values, "y": [1] * len(values)}), path)


def write_tfrecord(path, values):
    write_records(path, *(example(x=[value], y=[1]) for value in values))


def write_gzip(path, values):
    write_tfrecord(path, values)
    path.write_bytes(gzip.compress(path.read_bytes()))


WRITERS = {
    "csv": write_csv,
    "parquet": write_parquet,
    "tfrecord": write_tfrecord,
    "tfrec": write_tfrecord,
    "tfrecord.gz": write_gzip,
}


@pytest.fixture(params=WRITERS)
def folder(request, tmp_path):
    """Shards for training and testing, and files of Spark and of people."""
    folder = tmp_path / "clicks"
    folder.mkdir()
    for name, values in {"train-0": [1, 2], "train-1": [3], "test-0": [4]}.items():
        WRITERS[request.param](folder / f"{name}.{request.param}", values)
    for name in ("_SUCCESS", ".part.crc", "README.md", "LICENSE"):
        (folder / name).write_text("nothing of the table")
    (folder / "_temporary").mkdir()
    WRITERS[request.param](folder / "_temporary" / f"train-9.{request.param}", [9])
    return folder


def packed(folder, separator="/"):
    """A zip of a folder's files."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    names = [separator.join((folder.name, *path.relative_to(folder).parts)) for path in files]
    contents = (path.read_bytes() for path in files)
    return write_zip(folder.with_suffix(".zip"), dict(zip(names, contents, strict=True)))


@pytest.mark.parametrize("separator", ["/", "\\"])
def test_a_zip_is_described_and_read_as_its_folder(folder, separator, open_file):
    archive = packed(folder, separator)
    folder_description, description = describe(folder), describe(archive)
    assert folder_description.splits == {"train": 3, "test": 1}
    for part in ("kind", "options", "splits", "columns", "preview"):
        assert getattr(description, part) == getattr(folder_description, part)
    options = CsvOptions() if description.kind == "csv" else None
    if options:
        source = open_file(archive, options)
        assert source.read(np.arange(3))["x"].tolist() == [1, 2, 3]
        assert source.row_places().of(2).file == "clicks.zip/clicks/train-1.csv"


def test_a_zip_of_one_file_is_read_as_the_file(tmp_path, read_all):
    write_csv(tmp_path / "data.csv", [1, 2])
    archive = write_zip(
        tmp_path / "data.csv.zip", {"data.csv": (tmp_path / "data.csv").read_bytes()}
    )
    assert describe(archive).kind == "csv"
    assert read_all(archive, CsvOptions())["x"].tolist() == [1, 2]


def test_files_beside_tables_are_left_out_and_counted(folder):
    other = "csv" if describe(folder).kind == "parquet" else "parquet"
    (folder / f"train-7.{other}").touch()
    (folder / f"train-8.{other}").touch()
    left_out = describe(folder).left_out
    assert describe(packed(folder)).left_out == left_out
    assert {one.name: one.reason for one in left_out} == {
        f".{other}": "2 files, not tables of this format",
        ".md": "1 file, not tables of this format",
        "LICENSE": "1 file, not tables of this format",
    }


@pytest.mark.parametrize("name", ["data.csv.gz", "data"])
def test_compressed_tables_are_read(tmp_path, read_all, name):
    content = gzip.compress(b"x,y\n1,2\n3,4\n")
    (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.csv.gz").write_bytes(content)
    archive = write_zip(tmp_path / "it.zip", {"train.csv.gz": content})
    for path in (tmp_path / name, tmp_path / "folder", archive):
        assert describe(path).kind == "csv"
        assert read_all(path, CsvOptions())["x"].tolist() == [1, 3]


def test_what_gzip_decompresses_is_limited(tmp_path, open_file):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * 1000))
    with pytest.raises(InvalidData, match="expected at most 1,000 bytes when decompressed"):
        open_file(tmp_path / "a.csv.gz", CsvOptions(), limits=Limits(cache_bytes=1000))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n")[:-5])
    with pytest.raises(InvalidData, match=r"b.csv.gz: expected undamaged gzip data"):
        open_file(tmp_path / "b.csv.gz", CsvOptions())


def test_the_only_file_of_a_zip_may_have_any_name(tmp_path, read_all):
    archive = write_zip(tmp_path / "it.zip", {"d/ratings.dat": "x,y\n1,2\n3,4\n"})
    assert describe(archive).kind == "csv"
    assert read_all(archive, CsvOptions())["x"].tolist() == [1, 3]


def test_a_bad_row_in_a_zip_is_named(tmp_path, open_file):
    archive = write_zip(tmp_path / "it.zip", {"a/b.csv": "x,y\n1,2\n1\n"})
    with pytest.raises(InvalidData, match=r"it.zip/a/b.csv, line 3: expected 2 cells"):
        open_file(archive, CsvOptions())


def test_what_a_zip_extracts_is_limited(tmp_path, open_file):
    archive = write_zip(tmp_path / "it.zip", {"a.csv": b"x,y\n" + b"1,2\n" * 1000}, method=8)
    with pytest.raises(InvalidData, match="expected at most 1,000 bytes when decompressed"):
        open_file(archive, CsvOptions(), limits=Limits(cache_bytes=1000))


def test_long_and_strange_names_are_no_names_in_the_cache(tmp_path, read_all):
    names = [f"{'x' * 300}.csv", 'a:b*?"<>|.csv', "con.csv"]
    archive = write_zip(tmp_path / "it.zip", {f"d/{name}": "x,y\n1,2\n" for name in names})
    assert len(read_all(archive, CsvOptions())["x"]) == 3
    assert all(len(path.name) < 64 for path in (tmp_path / "cache").rglob("*"))


def test_the_kind_of_most_files_decides(tmp_path):
    images = {f"pets/cat/{number}.png": png(2, 2) for number in range(3)}
    archive = write_zip(tmp_path / "it.zip", {"pets/annotations.csv": "a,b\n1,2\n", **images})
    assert describe(archive).kind == "images"
    tables = {"tables/a.csv": "a,b\n1,2\n", "tables/b.csv": "a,b\n1,2\n"}
    archive = write_zip(tmp_path / "it.zip", {**tables, "tables/plot.png": png(2, 2)})
    assert describe(archive).kind == "csv"
