"""What all sources promise: any order, any number of threads, the wanted columns only."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ampdata import open_source
from ampdata.tables import arrow_table
from ampspec.data.file_formats import (
    CsvOptions,
    ImagesOptions,
    NpyOptions,
    NpzOptions,
    ParquetOptions,
    TextOptions,
    TfrecordOptions,
)
from tests.ampdata.samples import example, noise, png_of, write_records, write_zip
from tests.waiting import join

ROWS = 500
LAST_IMAGE = "it.zip/2/98.png"


def write_npy(folder):
    np.save(folder / "it.npy", np.arange(ROWS * 3).reshape(ROWS, 3))
    return folder / "it.npy", NpyOptions()


def write_npz(folder):
    np.savez_compressed(
        folder / "it.npz", x=np.arange(ROWS * 2.0).reshape(ROWS, 2), y=np.arange(ROWS)[::-1]
    )
    return folder / "it.npz", NpzOptions()


def write_csv(folder):
    rows = "".join(f"{row},{row / 7},{'even' if row % 2 == 0 else ''}\n" for row in range(ROWS))
    (folder / "it.csv").write_text(f"a,b,t\n{rows}")
    return folder / "it.csv", CsvOptions(missing="keep")


def write_parquet(folder):
    columns = {
        "a": range(ROWS),
        "v": [[row, row + 0.5] for row in range(ROWS)],
        "n": [None if row % 3 else row for row in range(ROWS)],
        "image": [png_of(noise(2, 3, seed=row)) for row in range(ROWS)],
    }
    pq.write_table(pa.table({name: list(one) for name, one in columns.items()}), folder / "it")
    return folder / "it", ParquetOptions(missing="keep")


def write_tfrecord(folder):
    rows = (
        example(i=[row], f=[row / 3, 1.0], t=str(row).encode(), r=bytes([255, row % 256]))
        for row in range(ROWS)
    )
    return write_records(folder / "it", *rows), TfrecordOptions()


def write_images(folder):
    files = {f"{row % 3}/{row}.png": png_of(noise(2, 3, seed=row)) for row in range(ROWS)}
    return write_zip(folder / "it.zip", files), ImagesOptions()


def write_text(folder):
    rng = np.random.default_rng(0)
    (folder / "it.txt").write_text("".join(rng.choice(list("abcé"), ROWS * 4 + 1)))
    return folder / "it.txt", TextOptions(sequence=4)


WRITERS = (
    write_npy,
    write_npz,
    write_csv,
    write_parquet,
    write_tfrecord,
    write_images,
    write_text,
)


@pytest.fixture(params=WRITERS, ids=lambda write: write.__name__.removeprefix("write_"))
def source(request, tmp_path, monkeypatch):
    # Many small batches, so that rows come from several.
    monkeypatch.setattr(arrow_table, "BATCH_ROWS", 37)
    path, options = request.param(tmp_path)
    with open_source(path, options, cache=tmp_path / "cache") as opened:
        yield opened


def assert_rows(read, everything, indices):
    assert read.keys() == everything.keys()
    for name, values in read.items():
        assert values.dtype == everything[name].dtype
        np.testing.assert_array_equal(values, everything[name][indices], strict=True)


def test_random_access_returns_the_rows_of_sequential_access(source):
    assert source.rows == ROWS
    everything = source.read(np.arange(ROWS))
    rng = np.random.default_rng(0)
    for indices in (rng.permutation(ROWS), rng.integers(0, ROWS, 64), np.array([ROWS - 1, 0, 0])):
        assert_rows(source.read(indices), everything, indices)
    blocks = [source.read(np.arange(start, min(start + 64, ROWS))) for start in range(0, ROWS, 64)]
    for name, values in everything.items():
        np.testing.assert_array_equal(np.concatenate([block[name] for block in blocks]), values)


def test_every_row_has_a_place_in_its_file(source):
    places = source.row_places()
    source.close()
    found = [places.of(row) for row in (0, 37, ROWS - 1)]
    if source.columns.get("label") is not None:  # each image is a file
        assert [place.row for place in found] == [None] * 3
        assert [place.file for place in found] == ["it.zip/0/0.png", "it.zip/0/201.png", LAST_IMAGE]
    else:
        assert [place.row for place in found] == [1, 38, ROWS]
        assert {place.file.partition(".")[0] for place in found} == {"it"}


def test_arrays_have_the_shape_and_dtype_of_their_column(source):
    for count in (0, 1, 5):
        read = source.read(np.arange(count))
        for name, column in source.columns.items():
            dtype = {"string": "object", "image": "uint8"}.get(column.dtype, column.dtype)
            assert (read[name].shape, read[name].dtype) == ((count, *column.shape), dtype)


def test_only_the_wanted_columns_are_read(source):
    name = list(source.columns)[-1]
    assert source.read(np.array([1]), [name]).keys() == {name}
    with pytest.raises(KeyError):
        source.read(np.array([1]), ["unknown"])


@pytest.mark.parametrize("indices", [[-1], [ROWS], [0, ROWS], [[0]]])
def test_rows_that_do_not_exist_are_an_error(source, indices):
    with pytest.raises(IndexError, match="Expected row numbers"):
        source.read(np.array(indices))


def test_what_was_read_belongs_to_the_caller(source):
    first = source.read(np.arange(10))
    for values in first.values():
        values[...] = values[::-1].copy()
    assert_rows(source.read(np.arange(10)), source.read(np.arange(10)), np.arange(10))
    second = source.read(np.arange(10))
    for name, values in first.items():
        np.testing.assert_array_equal(values[::-1], second[name])


def test_several_threads_read_at_the_same_time(source):
    everything = source.read(np.arange(ROWS))
    failures = []

    def read(seed):
        try:
            for indices in np.random.default_rng(seed).integers(0, ROWS, (10, 50)):
                assert_rows(source.read(indices), everything, indices)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    join(*threads)
    assert failures == []
