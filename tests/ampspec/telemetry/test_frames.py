import io
import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampspec.telemetry.frames import (
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    Frame,
    FrameReader,
    FrameType,
    write_frame,
)

HEADERS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "type"),
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9)),
    max_size=4,
)
FRAMES = st.builds(Frame, st.sampled_from(FrameType), HEADERS, st.binary(max_size=60))


def written(frames):
    stream = io.BytesIO()
    for frame in frames:
        write_frame(stream, frame)
    return stream.getvalue()


@given(st.lists(FRAMES, max_size=5), st.lists(st.integers(1, 40), max_size=30))
def test_frames_are_parsed_from_bytes_split_at_any_point(frames, sizes):
    data, reader, received = written(frames), FrameReader(), []
    for size in sizes:
        piece, data = data[:size], data[size:]
        received += reader.feed(piece)
    received += reader.feed(data)
    assert received == frames


def test_a_frame_is_returned_with_its_last_byte():
    frame = Frame(FrameType.STEPS, {"count": 3}, b"payload")
    *first, last = (bytes([byte]) for byte in written([frame]))
    reader = FrameReader()
    assert not [received for byte in first for received in reader.feed(byte)]
    assert list(reader.feed(last)) == [frame]


def test_a_frame_keeps_numbers_that_are_not_finite():
    frame = Frame(FrameType.STEPS, {"loss": math.nan, "norm": math.inf})
    [received] = FrameReader().feed(written([frame]))
    assert math.isnan(received.header["loss"])
    assert received.header["norm"] == math.inf


@pytest.mark.parametrize("sizes", [(10, MAX_FRAME_BYTES), (MAX_HEADER_BYTES + 1, 0)])
def test_a_frame_with_too_large_a_declared_size_is_refused_before_it_is_read(sizes):
    lengths = struct.pack(">II", *sizes)
    with pytest.raises(ValueError, match="expected a frame of at most"):
        list(FrameReader().feed(lengths))


@pytest.mark.parametrize("header", [b"[]", b'"ready"', b"{}", b"[" * 100_000])
def test_a_header_that_is_no_object_with_a_type_is_refused(header):
    with pytest.raises(ValueError, match="expected a header"):
        list(FrameReader().feed(struct.pack(">II", len(header), 0) + header))


@pytest.mark.parametrize("header", [b"{nonsense", json.dumps({"type": "unheard"}).encode()])
def test_an_invalid_frame_header_is_refused(header):
    with pytest.raises(ValueError, match=r"unheard|Expecting"):
        list(FrameReader().feed(struct.pack(">II", len(header), 0) + header))
