import hashlib
import json
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampcore.checkpoint import load, save
from ampspec.errors import UnreadableCheckpoint
from ampspec.jobs import Reason


@pytest.fixture(scope="module")
def content(make_checkpoint, tmp_path_factory):
    """The bytes of a valid checkpoint."""
    arrays = {"a": np.arange(5, dtype=np.float32), "b": np.zeros((2, 0), np.int64)}
    small = make_checkpoint(arrays=arrays, spec={}, loss_scales={}, versions={})
    return save(tmp_path_factory.mktemp("good"), small).read_bytes()


@pytest.fixture(scope="module")
def refusal(tmp_path_factory):
    """The error that reading these bytes gives."""
    file = tmp_path_factory.mktemp("bad") / "checkpoint"

    def read(content):
        file.write_bytes(content)
        with pytest.raises(UnreadableCheckpoint) as caught:
            load(file)
        assert caught.value.file == file
        return caught.value

    return read


def forged_file(document, data=b"", digest=True):
    """A file with this header whose lengths and whose digest at the end are correct."""
    if digest:
        array_entry = {"dtype": "U8", "shape": [32], "data_offsets": [len(data), len(data) + 32]}
        document = document | {"__sha256__": array_entry}
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    content = len(text).to_bytes(8, "little") + text + data
    return content + hashlib.sha256(content).digest()


def entry(dtype="F32", shape=(1,), data_offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(data_offsets)}


GOOD = {"format": "ampcore-checkpoint-1", "manifest": "{}"}


def test_a_change_of_any_byte_is_detected(content, refusal):
    for offset in range(len(content)):
        for mask in (0x01, 0x80):
            changed = bytearray(content)
            changed[offset] ^= mask
            refusal(changed)


def test_a_truncated_file_is_refused(content, refusal):
    for length in range(len(content)):
        refusal(content[:length])


def test_bytes_after_the_end_are_refused(content, refusal):
    assert refusal(content + b"\0").expected.endswith("bytes of arrays")


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(refusal, other):
    refusal(other)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_as_the_header_are_refused(refusal, text):
    refusal(forged_file(text, digest=False))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b"[" * 100_000, "a header in JSON"),
        (b'{"a": 1' + b"0" * 5_000 + b"}", "a header in JSON"),
        (b"[]", "a JSON object"),
        (b"{}", "the format ampcore-checkpoint-1"),
        (b'{"__metadata__": []}', "the format ampcore-checkpoint-1"),
        (b'{"__metadata__": {"format": "pt"}}', "the format ampcore-checkpoint-1"),
        (b'{"__metadata__": {"format": "ampcore-checkpoint-4"}}', "ampcore-checkpoint-1"),
    ],
)
def test_an_invalid_header_is_refused(refusal, document, expected):
    assert expected in refusal(forged_file(document, digest=False)).expected


@pytest.mark.parametrize(
    "array_entry",
    [
        entry(dtype="F31"),
        entry(shape=[-1], data_offsets=[0, -4]),
        entry(shape=[2**62], data_offsets=[0, 2**64]),
        entry(shape=[2**62], data_offsets=[0, 4]),
        entry(shape=[1e9], data_offsets=[0, 4]),
        entry(shape=[1] * 33),
        entry(shape=[0, 2**62, 2**62], data_offsets=[0, 0]),
        entry(data_offsets=[4, 8]),
        entry(data_offsets=[0, 4, 8]),
        entry(data_offsets=[0]),
        entry() | {"more": 1},
        {"dtype": "F32"},
        [],
        None,
    ],
)
def test_an_invalid_array_entry_is_refused(refusal, array_entry):
    refusal(forged_file({"__metadata__": GOOD, "a": array_entry}, b"four"))


def test_arrays_that_share_bytes_are_refused(refusal):
    document = {"__metadata__": GOOD, "a": entry(), "b": entry()}
    assert refusal(forged_file(document, b"four")).expected == "b in the bytes 4 to 8"


def test_no_memory_is_allocated_for_a_size_beyond_the_end_of_the_file(refusal):
    size = 2**42
    document = {"__metadata__": GOOD, "a": entry("U8", [size], [0, size])}
    tracemalloc.start()
    try:
        refusal(forged_file(document))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_a_checkpoint_without_a_digest_is_refused(refusal):
    document = {"__metadata__": GOOD, "a": entry("U8", [32], [0, 32])}
    assert refusal(forged_file(document, digest=False)).expected == "a SHA-256 as the last array"


@pytest.mark.parametrize("manifest", [None, 7, "", "{", "{}", '{"step": -1}', "[]", "NaN"])
def test_an_invalid_manifest_is_refused(refusal, manifest):
    metadata = GOOD | {"manifest": manifest}
    assert "manifest" in refusal(forged_file({"__metadata__": metadata})).expected


def test_a_message_names_file_and_field(refusal):
    error = refusal(forged_file({"__metadata__": GOOD | {"manifest": '{"step": "x"}'}}))
    assert str(error.file) in str(error)
    assert error.received.startswith("step:")
    assert error.reason is Reason.INVALID_CHECKPOINT


def test_a_path_that_is_not_a_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, received in [
        ("pipe", "something else"),
        (".", "something else"),
        ("no", "no such file"),
    ]:
        with pytest.raises(UnreadableCheckpoint) as caught:
            load(tmp_path / name)
        assert caught.value.received == received
