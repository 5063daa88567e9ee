"""Opens data files, and reads all their rows."""

import numpy as np
import pytest

from ampdata import open_source


@pytest.fixture
def open_file(tmp_path):
    """Opens a file with a cache of the test; all sources are closed in the end."""
    opened = []

    def open_with(path, options, **keywords):
        source = open_source(path, options, cache=tmp_path / "cache", **keywords)
        opened.append(source)
        return source

    yield open_with
    for source in opened:
        source.close()


@pytest.fixture
def read_all(open_file):
    """All rows of a file, by column."""

    def read(path, options, **keywords):
        source = open_file(path, options, **keywords)
        return source.read(np.arange(source.rows))

    return read
