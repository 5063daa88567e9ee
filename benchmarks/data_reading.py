"""Shuffled reading of data files, compared with tf.data, pandas and Pillow: one JSON line.

Each candidate reads an epoch in batches of 256 rows, in random order. `first_open` is the first
open, which converts the file; rows per second are those of later epochs, in rounds that alternate.
Seconds are also counted as CPU time of all threads, which other work on the machine changes less.
"""

import argparse
import os
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from compare import report

from ampdata import open_source
from ampspec.data.file_formats import (
    CsvOptions,
    FormatOptions,
    ImagesOptions,
    NpzOptions,
    ParquetOptions,
    RawBytes,
    TfrecordOptions,
)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

BATCH = 256
ROUNDS = 5
ROWS = 200_000
DIGITS = 50_000
PHOTOS = 1_000
PHOTO_SIDE = 256
RESIZED = (96, 96)

Epoch = Callable[[], Iterator[int]]
"""Reads an epoch; yields the rows of each batch."""
Seconds = tuple[float, float]
"""Of a clock, and of the CPU."""
Measured = tuple[str, Seconds, dict[str, Epoch]]
"""The name of a format, the first open, and the candidates."""


def ours(path: Path, options: FormatOptions, cache: Path, seed: int = 0) -> tuple[Seconds, Epoch]:
    """Seconds and CPU seconds of the first open, and an epoch of shuffled batches."""
    open_source(path, options, cache=cache / "warm-up").close()  # loads the libraries
    start, cpu = time.perf_counter(), time.process_time()
    source = open_source(path, options, cache=cache)
    seconds = time.perf_counter() - start, time.process_time() - cpu

    def epoch() -> Iterator[int]:
        order = np.random.default_rng(seed).permutation(source.rows)
        for at in range(0, source.rows, BATCH):
            batch = source.read(order[at : at + BATCH])
            yield len(next(iter(batch.values())))

    return seconds, epoch


def tf_epoch(dataset: Any, rows: int) -> Epoch:
    """An epoch of a dataset of single rows, shuffled over all of them."""
    import tensorflow as tf

    batches = dataset.shuffle(rows).batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def epoch() -> Iterator[int]:
        for batch in batches:
            first = tf.nest.flatten(batch)[0]
            yield int(first.shape[0])

    return epoch


def pandas_epoch(read: Callable[[], Any]) -> Epoch:
    """The table is read into memory in each epoch, and batches are taken by row numbers."""

    def epoch() -> Iterator[int]:
        table = read()
        order = np.random.default_rng(0).permutation(len(table))
        for at in range(0, len(table), BATCH):
            part = table.iloc[order[at : at + BATCH]]
            yield len({name: part[name].to_numpy() for name in part}["f0"])

    return epoch


def measure(candidates: dict[str, Epoch]) -> dict[str, dict[str, int]]:
    """Rows per second and per CPU second: medians over rounds in which the candidates alternate."""
    speeds: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, epoch in candidates.items():
            start, cpu = time.perf_counter(), time.process_time()
            rows = sum(epoch())
            seconds = time.perf_counter() - start, time.process_time() - cpu
            speeds[name].append((rows / seconds[0], rows / seconds[1]))
    medians = {
        name: [round(statistics.median(values)) for values in zip(*pairs, strict=True)]
        for name, pairs in speeds.items()
    }
    return {
        "rows_per_s": {name: values[0] for name, values in medians.items()},
        "rows_per_cpu_s": {name: values[1] for name, values in medians.items()},
    }


def tables(folder: Path) -> Iterator[Measured]:
    """CSV and Parquet: six floats, three integers, one text."""
    import pandas as pd
    import tensorflow as tf

    rng = np.random.default_rng(0)
    columns = {f"f{number}": rng.normal(size=ROWS) for number in range(6)}
    columns |= {f"i{number}": rng.integers(0, 10**6, ROWS) for number in range(3)}
    table = pd.DataFrame({**columns, "kind": rng.choice(["owl", "finch", "swan"], ROWS)})
    csv_file, parquet_file = folder / "it.csv", folder / "it.parquet"
    table.to_csv(csv_file, index=False)
    table.to_parquet(parquet_file, index=False)

    opened, epoch = ours(csv_file, CsvOptions(), folder / "cache")
    defaults = [tf.float64] * 6 + [tf.int64] * 3 + [tf.string]
    rows = tf.data.experimental.CsvDataset(str(csv_file), defaults, header=True)
    peers = {"tf.data": tf_epoch(rows, ROWS), "pandas": pandas_epoch(lambda: pd.read_csv(csv_file))}
    yield "csv", opened, {"ampcore": epoch, **peers}

    opened, epoch = ours(parquet_file, ParquetOptions(), folder / "cache")
    pandas = pandas_epoch(lambda: pd.read_parquet(parquet_file))
    yield "parquet", opened, {"ampcore": epoch, "pandas": pandas}


def arrays(folder: Path) -> Iterator[Measured]:
    """A compressed archive and TFRecord files of images of 28 × 28 bytes."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (DIGITS, 28, 28), np.uint8)
    y = rng.integers(0, 10, DIGITS)
    np.savez_compressed(folder / "it.npz", x=x, y=y)

    def in_memory() -> Iterator[int]:
        with np.load(folder / "it.npz") as archive:
            pair = archive["x"], archive["y"]
        yield from tf_epoch(tf.data.Dataset.from_tensor_slices(pair), DIGITS)()

    opened, epoch = ours(folder / "it.npz", NpzOptions(), folder / "cache")
    yield "npz", opened, {"ampcore": epoch, "numpy.load and tf.data": in_memory}

    path = folder / "it.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for pixels, label in zip(x, y, strict=True):
            bytes_list = tf.train.BytesList(value=[pixels.tobytes()])
            int64_list = tf.train.Int64List(value=[label])
            features = {
                "x": tf.train.Feature(bytes_list=bytes_list),
                "y": tf.train.Feature(int64_list=int64_list),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    spec = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([], tf.int64)}

    def parse(records: Any) -> Any:
        parsed = tf.io.parse_example(records, spec)
        return tf.io.decode_raw(parsed["x"], tf.uint8), parsed["y"]

    batches = tf.data.TFRecordDataset(str(path)).shuffle(DIGITS).batch(BATCH)
    batches = batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def parsed_epoch() -> Iterator[int]:
        for pixels, _ in batches:
            yield int(pixels.shape[0])

    options = TfrecordOptions(raw={"x": RawBytes(dtype="uint8", shape=(28, 28))})
    opened, epoch = ours(path, options, folder / "cache")
    yield "tfrecord", opened, {"ampcore": epoch, "tf.data": parsed_epoch}


def photos(folder: Path) -> Iterator[Measured]:
    """JPEG files of 256 × 256 in folders and in an archive, resized to 96 × 96."""
    import tensorflow as tf
    from PIL import Image

    rng = np.random.default_rng(0)
    root = folder / "photos"
    for number in range(PHOTOS):
        # Smooth like a photo: noise would take much longer to decode.
        small = Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8))
        path = root / f"class{number % 10}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small.resize((PHOTO_SIDE, PHOTO_SIDE), Image.Resampling.BICUBIC).save(path, quality=90)
    files = sorted(root.rglob("*.jpg"))
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for file in files:
            archive.write(file, file.relative_to(folder))

    def pillow() -> Iterator[int]:
        order = np.random.default_rng(0).permutation(len(files))
        for at in range(0, len(files), BATCH):
            loaded = []
            for row in order[at : at + BATCH]:
                with Image.open(files[row]) as image:
                    loaded.append(np.asarray(image.convert("RGB").resize(RESIZED[::-1])))
            yield len(np.stack(loaded))

    def decode(path: Any) -> Any:
        pixels = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
        return tf.cast(tf.image.resize(pixels, RESIZED, antialias=True), tf.uint8)

    names = tf.data.Dataset.from_tensor_slices([str(file) for file in files]).shuffle(PHOTOS)
    decoded = names.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(BATCH).prefetch(1)

    def tensorflow() -> Iterator[int]:
        for batch in decoded:
            yield int(batch.shape[0])

    options = ImagesOptions(size=RESIZED)
    for name, path in (("images in folders", root), ("images in a zip", folder / "photos.zip")):
        opened, epoch = ours(path, options, folder / "cache")
        peers = {"Pillow in a loop": pillow, "tf.data": tensorflow}
        yield name, opened, {"ampcore": epoch, **peers}


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for files in (tables, arrays, photos):
            for name, opened, candidates in files(Path(folder)):
                seconds = {"s": round(opened[0], 2), "cpu_s": round(opened[1], 2)}
                results[name] = {"first_open": seconds, **measure(candidates)}
    report("data_reading", **results)


if __name__ == "__main__":
    main()
