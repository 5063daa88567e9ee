"""Damaged files of every format are described, or invalid data with a message."""

import gzip
import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ampdata.description import describe
from ampspec.errors import InvalidData
from tests.ampdata.samples import encoded, example, noise, png, png_of, record, write_zip

MUTATIONS = 40
"""For each file; more were tried by hand."""
RECORDS = b"".join(
    record(example(x=[row, 2], y=[0.5], t=b"abc", im=png_of(noise(5, 5)))) for row in range(8)
)


def saved(save, *arrays, **named):
    stream = io.BytesIO()
    save(stream, *arrays, **named)
    return stream.getvalue()


def zipped(path, files, method):
    return write_zip(path, files, method).read_bytes()


def table(path):
    image = {"bytes": png(3, 3), "path": "a"}
    columns = {"a": range(30), "t": ["x"] * 30, "l": [[1.0, 2.0]] * 30, "im": [image] * 30}
    pq.write_table(pa.table({name: list(one) for name, one in columns.items()}), path)
    return path.read_bytes()


FILES = {
    "npy": lambda path: saved(np.save, np.arange(60).reshape(20, 3)),
    "npy of text": lambda path: saved(np.save, np.array(["ab", "é"] * 5)),
    "npz": lambda path: saved(
        np.savez_compressed, x_train=np.zeros((9, 28, 28), np.uint8), x_test=np.arange(2)
    ),
    "csv": lambda path: b"a,b,c\n" + b'1,0.5,"x"\n2,0.25,"y ""z"""\n' * 20,
    "parquet": table,
    "tfrecord": lambda path: RECORDS,
    "tfrecord in gzip": lambda path: gzip.compress(RECORDS),
    "zip of PNG": lambda path: zipped(
        path, {f"{name}/1.png": png_of(noise(9, 9)) for name in "ab"}, 8
    ),
    "zip of JPEG": lambda path: zipped(
        path, {"1.jpg": encoded("JPEG", Image.fromarray(noise(9, 9)))}, 0
    ),
    "text": lambda path: "héllo wörld\nsome more text".encode() * 9,
}


def mutate(content, rng):
    """Change, remove, insert or repeat some bytes."""
    mutated = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(mutated) + 1)
        match rng.randrange(5):
            case 0 | 1:
                mutated[at : at + 1] = bytes([rng.choice([0, 1, 0x80, 0xFF, rng.randrange(256)])])
            case 2:
                del mutated[at : at + rng.randrange(1, 30)]
            case 3:
                mutated[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                mutated = mutated[:at] + mutated[rng.randrange(len(mutated) + 1) :]
    return bytes(mutated)


@pytest.mark.filterwarnings("ignore")  # a file cannot cause more than a warning
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_described_or_invalid(tmp_path, name):
    content = FILES[name](tmp_path / "original")
    assert describe_or_error(tmp_path, content) is None
    rng = random.Random(name)
    errors = [describe_or_error(tmp_path, mutate(content, rng)) for _ in range(MUTATIONS)]
    assert name == "text" or any(errors)


def describe_or_error(folder, content):
    """The message of an InvalidData, or None. Every other exception fails the test."""
    path = folder / "it"
    path.write_bytes(content)
    try:
        describe(path).model_dump_json()
    except InvalidData as error:
        return str(error).encode()
    return None
