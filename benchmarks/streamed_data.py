"""Training on data that is read in each epoch, compared with data in memory: one JSON line.

The MNIST CNN (batch 128, mixed_bfloat16, dynamic loss scale) trains on 28 × 28 images in an
archive, in Parquet and TFRecord files with PNG images, and in TFRecord files with raw bytes. Each
candidate trains whole epochs; resident and streamed rounds alternate, and a ratio is the quotient
of the medians of examples per second. Memory is the largest anonymous memory of a process that
reads an epoch of an archive without training, for two sizes of the archive.
"""

import argparse
import io
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from compare import report

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROUNDS = 7
BATCH = 128
EXAMPLES = 5_120
MEMORY_EXAMPLES = (60_000, 240_000)
SIDE = 28
CLASSES = 10
CNN = {"kind": "cnn", "filters": [32, 64], "dense": [128], "dropout": 0.25, "dense_dropout": 0.5}
PIXELS = {"*": {"rescaling": "pixels"}}


def digits(count: int) -> tuple[Any, Any]:
    """Images (n, 28, 28, 1) of uint8, as compressible as written digits, and classes."""
    rng = np.random.default_rng(0)
    pixels = np.zeros((count, SIDE, SIDE, 1), np.uint8)
    pixels[:, 6:22, 8:20] = rng.integers(0, 256, (count, 16, 12, 1), np.uint8)
    return pixels, rng.integers(0, CLASSES, count)


def png(pixels: Any) -> bytes:
    """An image as a PNG file."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels[..., 0]).save(stream, "PNG")
    return stream.getvalue()


def write_npz(folder: Path, x: Any, y: Any) -> dict[str, Any]:
    """A compressed archive."""
    np.savez_compressed(folder / "it.npz", x=x, y=y)
    return {"kind": "npz", "path": "it.npz"}


def write_parquet(folder: Path, x: Any, y: Any) -> dict[str, Any]:
    """A table with PNG images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"bytes": png(pixels), "path": None} for pixels in x]
    pq.write_table(pa.table({"image": rows, "label": y}), folder / "it.parquet")
    return {"kind": "parquet", "path": "it.parquet", "image": {"channels": 1}}


def write_records(path: Path, contents: list[bytes], y: Any) -> None:
    """A TFRecord file with the bytes of an image and its class in each example."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for content, label in zip(contents, y, strict=True):
            features = {
                "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[content])),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def write_tfrecord_png(folder: Path, x: Any, y: Any) -> dict[str, Any]:
    """TFRecord with PNG images."""
    write_records(folder / "png.tfrecord", [png(pixels) for pixels in x], y)
    return {"kind": "tfrecord", "path": "png.tfrecord", "image": {"channels": 1}}


def write_tfrecord_raw(folder: Path, x: Any, y: Any) -> dict[str, Any]:
    """TFRecord with the bytes of arrays."""
    write_records(folder / "raw.tfrecord", [pixels.tobytes() for pixels in x], y)
    raw = {"x": {"dtype": "uint8", "shape": list(x.shape[1:])}}
    return {"kind": "tfrecord", "path": "raw.tfrecord", "raw": raw}


FORMATS = {
    "npz": write_npz,
    "parquet, PNG": write_parquet,
    "tfrecord, PNG": write_tfrecord_png,
    "tfrecord, raw": write_tfrecord_raw,
}

Epoch = Callable[[], tuple[float, float]]
"""Trains an epoch; returns examples per second and per CPU second."""


def built(folder: Path, sections: dict[str, Any], *, resident: bool) -> tuple[Any, int]:
    """The session of a job before its first step, and the steps of an epoch."""
    from ampcore import JobSpec
    from ampcore.data import registry
    from ampcore.data.feed import feed_for
    from ampcore.diagnostics import hardware
    from ampcore.training.context import RunContext
    from ampcore.training.jobs.job import SpecJob
    from ampcore.training.step.plan import Plan

    spec = JobSpec.parse(
        {
            "model": CNN,
            "data": {**sections, "batch_size": BATCH, "validation_split": 0.0}
            | {"preprocessing": PIXELS},
            "precision": {"policy": "mixed_bfloat16"},
            "optimizer": {"kind": "adam"},
            "train": {"epochs": 1000, "checkpoint_every_s": None},
        }
    )
    registry.RESIDENT_BYTES = 4 * 2**30 if resident else 0
    job = SpecJob(spec, folder)
    dataset = job.load_data()
    plan = Plan.from_spec(spec.train, dataset.steps_per_epoch(BATCH))
    budget = float("inf") if resident else 0.0
    feed = feed_for(dataset.train, BATCH, shuffle=True, seed=0, budget_bytes=budget)
    facts = hardware.device_info(hardware.select("cpu"))
    runner = RunContext(job, dataset, plan, feed, facts).build_runner()
    return runner, dataset.steps_per_epoch(BATCH)


def prepared(folder: Path, sections: dict[str, Any], *, resident: bool) -> Epoch:
    """A job after its first epoch, whose next epochs are measured."""
    runner, steps = built(folder, sections, resident=resident)
    runner.use_engine("graph")
    step = 0

    def epoch() -> tuple[float, float]:
        nonlocal step
        end = step + steps
        start, cpu = time.perf_counter(), time.process_time()
        while step < end:
            step += len(runner.run_block(step, max_steps=end - step))
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
        return EXAMPLES / seconds, EXAMPLES / cpu_seconds

    epoch()
    return epoch


def measure(folder: Path, sections: dict[str, Any]) -> dict[str, Any]:
    """Medians of rounds that alternate."""
    epochs = {name: prepared(folder, sections, resident=name == "resident") for name in KINDS}
    speeds: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
    for number in range(ROUNDS):
        for name in KINDS if number % 2 else KINDS[::-1]:
            speeds[name].append(epochs[name]())
    medians = {
        name: [statistics.median(values) for values in zip(*pairs, strict=True)]
        for name, pairs in speeds.items()
    }
    clock, cpu = (medians["streamed"][at] / medians["resident"][at] for at in (0, 1))
    return {
        "streamed_over_resident": round(clock, 3),
        "streamed_over_resident_cpu": round(cpu, 3),
        "examples_per_s": {name: round(values[0]) for name, values in medians.items()},
    }


KINDS = ("resident", "streamed")


def memory_mb(folder: Path) -> dict[str, int]:
    """The largest anonymous memory while an epoch is read, by the number of examples."""
    found = {}
    for count in MEMORY_EXAMPLES:
        x, y = digits(count)
        sections = write_npz(folder, x, y)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found[f"{count:,}"] = round(pool.apply(read_epoch, (folder, sections)) / 1e6)
    return found


def read_epoch(folder: Path, sections: dict[str, Any]) -> int:
    """Read the windows of an epoch; the largest anonymous memory after any of them."""
    runner, steps = built(folder, sections, resident=False)
    peak = step = 0
    while step < steps:
        step = runner.window(step).end_batch
        peak = max(peak, anonymous_bytes())
    return peak


def anonymous_bytes() -> int:
    """The memory of this process that is no file: mapped files can be dropped at any time."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel reports no RssAnon")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", choices=[*FORMATS, []], default=[])
    chosen = parser.parse_args().formats or list(FORMATS)
    x, y = digits(EXAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        results = {
            name: measure(Path(folder), FORMATS[name](Path(folder), x, y)) for name in chosen
        }
        memory = memory_mb(Path(folder))
    report("streamed_data", **results, memory_mb_by_examples=memory)


if __name__ == "__main__":
    main()
