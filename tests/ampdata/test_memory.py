"""Files larger than the memory that the process may allocate are read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ampdata.samples import example, record
from tests.waiting import DEADLINE_S

CHILD = Path(__file__).with_name("memory_child.py")
MIB = 2**20
LARGE_MIB = 192
"""More than the child may allocate."""

EXACT_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_TRIM_THRESHOLD_": "1048576"}
"""Freed memory goes back to the system.

Otherwise Arrow's own allocators, and the arenas of glibc's threads, keep as much again as the
reader uses, more or less of it depending on how fast the threads run.
"""


def write_npy(path, size_mib):
    array = np.lib.format.open_memmap(path, "w+", np.uint8, (size_mib, MIB))
    del array  # the file has a hole, which needs no space on the disk
    return "npy", size_mib


def write_npz(path, size_mib):
    with path.open("wb") as stream:
        np.savez_compressed(stream, x=np.zeros((size_mib, MIB), np.uint8))
    return "npz", size_mib


def write_csv(path, size_mib):
    line = b"12345678,0.125,some text\n"
    rows = size_mib * MIB // (8 + 8 + 9 + 4)
    path.write_bytes(b"a,b,c\n" + line * rows)
    return "csv", rows


def write_parquet(path, size_mib):
    table = pa.table({"a": np.arange(MIB // 8)})
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(size_mib):
            writer.write_table(table)
    return "parquet", size_mib * MIB // 8


def write_tfrecord(path, size_mib):
    path.write_bytes(record(example(x=np.zeros(MIB // 4, np.float32))) * size_mib)
    return "tfrecord", size_mib


def write_text(path, size_mib):
    path.write_bytes(b"ab" * (size_mib * MIB // 8))
    return "text", (size_mib * MIB // 4 - 1) // 128


WRITERS = (write_npy, write_npz, write_csv, write_parquet, write_tfrecord, write_text)


@pytest.mark.parametrize(
    "write",
    [WRITERS[0], *(pytest.param(write, marks=pytest.mark.slow) for write in WRITERS[1:])],
    ids=lambda write: write.__name__.partition("_")[2],
)
def test_a_file_larger_than_the_memory_is_read(tmp_path, write):
    small, large = tmp_path / "small", tmp_path / "large"
    write(small, 1)
    kind, rows = write(large, LARGE_MIB)
    options, cache = json.dumps({"kind": kind}), tmp_path / "cache"
    command = [sys.executable, str(CHILD), str(small), str(large), options, str(cache)]
    finished = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env=os.environ | EXACT_MEMORY,
    )
    assert finished.returncode == 0, finished.stderr
    assert int(finished.stdout.split()[0]) == rows
