"""Text: windows of characters over the vocabulary of the file."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampdata import Limits, open_source
from ampdata.csv import text_file
from ampspec.data.file_formats import TextOptions
from ampspec.errors import InvalidData


@settings(max_examples=80, deadline=None)
@given(st.text(min_size=2, max_size=60), st.integers(1, 9), st.integers(1, 7))
def test_windows_are_consecutive_and_labels_are_the_next_characters(text, sequence, block):
    text_file_block, text_file.BLOCK = text_file.BLOCK, block
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "it.txt")
            path.write_bytes(text.encode("utf-8", "replace"))
            text = path.read_bytes().decode("utf-8-sig")
            if len(set(text)) < 2 or len(text) <= sequence:
                return
            source = open_source(path, TextOptions(sequence=sequence), cache=Path(folder))
            read = source.read(np.arange(source.rows))
            vocabulary = source.columns["x"].classes
            assert list(vocabulary) == sorted(set(text))
            assert source.rows == (len(text) - 1) // sequence
            for name, shift in (("x", 0), ("y", 1)):
                decoded = "".join(vocabulary[one] for one in read[name].ravel())
                assert decoded == text[shift : shift + source.rows * sequence]
    finally:
        text_file.BLOCK = text_file_block


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "at least two different characters; received 0 characters"),
        (b"aaaa", "received 4 characters, 1 different"),
        (b"abc", "it.txt, sequence: expected at most 2"),
        (b"ab\xff", "received byte 0xff at 2"),
        (b"a" * 2**20 + b"\xc3", "received byte 0xc3 at 1048576"),
        (b"a" * (2**20 - 1) + b"\xc3a", "received byte 0xc3 at 1048575"),
    ],
    ids=range(6),
)
def test_unusable_text_is_an_error(tmp_path, open_file, content, expected):
    (tmp_path / "it.txt").write_bytes(content)
    with pytest.raises(InvalidData, match=expected):
        open_file(tmp_path / "it.txt", TextOptions(sequence=9))


def test_text_beyond_the_limit_is_an_error(tmp_path, open_file):
    (tmp_path / "it.txt").write_text("ab" * 100)
    with pytest.raises(InvalidData, match="at most 100 characters; received 200"):
        open_file(tmp_path / "it.txt", TextOptions(), limits=Limits(cache_bytes=400))
