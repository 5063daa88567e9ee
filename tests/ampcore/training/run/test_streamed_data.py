"""Data that is read during the training, from files of every format."""

import csv

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import ampcore
from ampcore import JobSpec
from ampcore.data import feed, registry
from ampcore.data.sources.file_examples import FileExamples
from ampcore.training import context as run_context
from ampspec.errors import InvalidData
from tests.ampdata.samples import example, png_of, write_records

ROWS = 60
RANDOM = np.random.default_rng(7)
PIXELS = RANDOM.integers(0, 256, (ROWS, 6, 6, 3), dtype=np.uint8)
CLASSES = np.arange(ROWS) % 3
NUMBERS = RANDOM.normal(50.0, 20.0, (ROWS, 2))
SUMS = (NUMBERS.sum(axis=1), NUMBERS[:, 0] - NUMBERS[:, 1])
WORDS = ["green owl", "red finch", "white swan"]

FLOAT32 = {
    "runtime": {"device": "cpu", "engine": "graph"},
    "telemetry": {"ranges": {"enabled": False}},
}
MLP = {"kind": "mlp", "hidden": [8]}
AS_PIXELS = {"*": {"rescaling": "pixels", "normalize": True}}
STEPS_OF_TWO_BATCHES = {"epochs": 3, "accumulate": 2, "seed": 3}
FORMATS = {}


def data_format(write):
    """Register a function that writes a file, and returns the sections of a job that reads it."""
    FORMATS[write.__name__] = write
    return write


@data_format
def npz(folder):
    np.savez_compressed(folder / "it.npz", x=PIXELS, y=CLASSES)
    data = {"path": "it.npz", "validation_split": 0.2, "preprocessing": AS_PIXELS}
    return {"model": MLP, "data": data}


@data_format
def npy(folder):
    np.save(folder / "it.npy", NUMBERS.astype(np.float32))
    return {"model": MLP, "data": {"path": "it.npy"}, "task": {"kind": "autoencoding"}}


@data_format
def csv_table(folder):
    with (folder / "it.csv").open("w", newline="", encoding="utf-8") as file:
        rows = zip(*NUMBERS.T.tolist(), CLASSES.tolist(), *SUMS, strict=True)
        csv.writer(file).writerows([("a", "b", "kind", "sum", "difference"), *rows])
    preprocessing = {"a": {"normalize": True}, "kind": {"categories": "one_hot"}}
    data = {"path": "it.csv", "target": ["sum", "difference"], "preprocessing": preprocessing}
    return {"model": MLP, "data": data, "task": {"kind": "regression"}}


@data_format
def parquet_images(folder):
    encoded = [{"bytes": png_of(pixels), "path": None} for pixels in PIXELS]
    pq.write_table(pa.table({"image": encoded, "label": CLASSES}), folder / "it.parquet")
    return {"model": MLP, "data": {"path": "it.parquet", "preprocessing": AS_PIXELS}}


@data_format
def parquet_text(folder):
    texts = [f"{WORDS[kind]} {row}" for row, kind in enumerate(CLASSES)]
    kinds = [WORDS[kind] for kind in CLASSES]
    pq.write_table(pa.table({"text": texts, "kind": kinds}), folder / "it.parquet")
    layers = [
        {"layer": "Embedding", "input_dim": "vocabulary", "output_dim": 4},
        {"layer": "GlobalAveragePooling1D"},
        {"layer": "Dense", "name": "logits", "units": "classes"},
    ]
    preprocessing = {"text": {"tokens": {"length": 4}}}
    data = {"path": "it.parquet", "target": "kind", "preprocessing": preprocessing}
    return {"model": {"kind": "layers", "layers": layers}, "data": data}


@data_format
def images(folder):
    for row, kind in enumerate(CLASSES):
        path = folder / "birds" / WORDS[kind] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[row]).save(path)
    augmentation = [{"layer": "RandomFlip"}]
    data = {"path": "birds", "preprocessing": AS_PIXELS, "augmentation": augmentation}
    return {"model": MLP, "data": data}


@data_format
def masks(folder):
    for row, pixels in enumerate(PIXELS):
        for kind, values in (("images", pixels), ("masks", pixels[..., 0] // 128)):
            (folder / "cells" / kind).mkdir(parents=True, exist_ok=True)
            Image.fromarray(values).save(folder / "cells" / kind / f"{row}.png")
    layers = [{"layer": "Conv2D", "filters": "classes", "kernel_size": 1}]
    return {
        "model": {"kind": "layers", "layers": layers},
        "data": {"path": "cells", "preprocessing": AS_PIXELS},
        "task": {"kind": "segmentation"},
    }


@data_format
def tfrecord(folder):
    rows = zip(PIXELS, CLASSES, strict=True)
    examples = [example(image=png_of(pixels), label=[kind]) for pixels, kind in rows]
    write_records(folder / "it.tfrecord", *examples)
    return {"model": MLP, "data": {"path": "it.tfrecord", "preprocessing": AS_PIXELS}}


KINDS = {"csv_table": "csv", "parquet_images": "parquet", "parquet_text": "parquet"}


@pytest.fixture(params=FORMATS)
def sections(request, tmp_path):
    """The sections of a job on a file of each format."""
    made = FORMATS[request.param](tmp_path)
    kind = KINDS.get(request.param, "images" if request.param == "masks" else request.param)
    data = {"kind": kind, "batch_size": 7, **made["data"]}
    return {**FLOAT32, "train": STEPS_OF_TWO_BATCHES, **made, "data": data}


@pytest.fixture
def stream(monkeypatch):
    """Let the next runs read their data in windows of 20 examples or less; lists their examples."""
    streamed = []

    def small_windows(examples, order):
        streamed.append(examples)
        return made(examples, order, window_bytes=20 * feed.example_bytes(examples))

    made = feed.StreamedFeed

    def start():
        monkeypatch.setattr(registry, "RESIDENT_BYTES", 0.0)
        monkeypatch.setattr(run_context, "RESIDENT_SHARE", 0.0)
        monkeypatch.setattr(feed, "StreamedFeed", small_windows)
        return streamed

    return start


def run(sections, folder, output=None, **options):
    output_dir = None if output is None else folder / output
    return ampcore.Trainer(JobSpec.parse(sections), folder, output_dir, **options).run()


def test_data_that_is_read_in_each_epoch_trains_as_data_in_memory(sections, tmp_path, stream):
    resident = run(sections, tmp_path)
    streamed_examples = stream()
    streamed = run(sections, tmp_path)
    assert [type(examples) for examples in streamed_examples] == [FileExamples]
    assert streamed.weights_digest == resident.weights_digest
    assert streamed.metrics == pytest.approx(resident.metrics, rel=1e-5)
    assert streamed.metrics["val_loss"] > 0


def test_a_run_on_streamed_data_resumes_exactly(tmp_path, stream):
    sections = {**FLOAT32, **images(tmp_path)}
    sections["data"] = {"kind": "images", "batch_size": 4, **sections["data"]}
    streamed = stream()
    whole = run(sections | {"train": {"steps": 20}}, tmp_path)
    run(sections | {"train": {"steps": 9}}, tmp_path, "parts")  # in the middle of a window
    resumed = run(sections | {"train": {"steps": 20}}, tmp_path, "parts", resume=True)
    assert {type(examples) for examples in streamed} == {FileExamples}
    assert resumed.weights_digest == whole.weights_digest
    assert resumed.metrics == whole.metrics


def test_the_model_of_streamed_data_takes_the_raw_data(tmp_path, stream):
    sections = {**FLOAT32, **npz(tmp_path), "train": {"epochs": 1}}
    sections["data"] = {"kind": "npz", "batch_size": 8, **sections["data"]}
    stream()
    result = run(sections, tmp_path, "out")
    model = keras.saving.load_model(result.model_file)
    right = model(PIXELS[48:]).numpy().argmax(axis=-1) == CLASSES[48:]
    assert result.val_accuracy == pytest.approx(right.mean(), abs=1e-6)


def test_a_bad_row_of_streamed_data_is_named(tmp_path, stream):
    x = np.ones((ROWS, 3), np.float32)
    x[17, 1] = np.inf
    np.savez(tmp_path / "it.npz", x=x, y=CLASSES)
    data = {"kind": "npz", "path": "it.npz", "batch_size": 8}
    stream()
    with pytest.raises(InvalidData, match=r"row 18, column x: expected a number that is finite"):
        run({**FLOAT32, "model": MLP, "data": data}, tmp_path)
