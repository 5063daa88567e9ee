"""Reads random rows of a file in a process that may allocate less memory than the file has."""

import resource
import sys
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from ampdata import open_source
from ampspec.data.file_formats import FormatOptions

ALLOWED_BYTES = 128 * 2**20


def data_bytes():
    """The private memory that RLIMIT_DATA counts; files that are mapped do not count."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel reports no VmData")


def read(path, options, cache):
    with open_source(path, options, cache=cache) as source:
        rows = np.random.default_rng(0).integers(0, source.rows, 32)
        total = sum(values.nbytes for values in source.read(rows).values())
        return source.rows, total


def main():
    small, large, options, cache = sys.argv[1:]
    parsed = TypeAdapter(FormatOptions).validate_json(options)
    read(Path(small), parsed, Path(cache))  # loads the libraries and starts their threads
    limit = data_bytes() + ALLOWED_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    print(*read(Path(large), parsed, Path(cache)))


main()
