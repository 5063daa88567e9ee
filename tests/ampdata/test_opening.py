"""Every kind of data rejects what is no such file, and says so without the folder of the server."""

import os

import pytest
from pydantic import TypeAdapter

from ampdata import list_splits
from ampdata.opening import MODULES
from ampspec.data.file_formats import FormatOptions
from ampspec.errors import InvalidData


def missing(path):
    pass


def empty_folder(path):
    path.mkdir()


def pipe(path):
    os.mkfifo(path)


def empty_file(path):
    path.write_bytes(b"")


def zero_bytes(path):
    path.write_bytes(bytes(1000))


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("make", [missing, empty_folder, pipe, empty_file, zero_bytes])
def test_what_is_no_such_file_is_invalid_data(tmp_path, open_file, kind, make):
    path = tmp_path / "secret" / "it"
    path.parent.mkdir()
    make(path)
    options = TypeAdapter(FormatOptions).validate_python({"kind": kind})
    with pytest.raises(InvalidData) as caught:
        open_file(path, options)
    assert caught.value.source.startswith("it")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["npy", "text"])
def test_formats_without_splits_have_none(tmp_path, open_file, kind):
    path = tmp_path / "it"
    path.write_text("some text that has no splits")
    options = TypeAdapter(FormatOptions).validate_python({"kind": kind})
    assert list_splits(path, options, cache=tmp_path) == ()
    with pytest.raises(InvalidData, match=r"it, split test: expected one of the splits \(none\)"):
        open_file(path, options, split="test")


def test_the_name_in_messages_can_be_chosen(tmp_path, open_file):
    options = TypeAdapter(FormatOptions).validate_python({"kind": "npy"})
    with pytest.raises(InvalidData, match=r"^birds@3: expected"):
        open_file(tmp_path / "it", options, name="birds@3")
