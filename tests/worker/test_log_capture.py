from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from worker.trainer import log_capture
from worker.trainer.log_capture import STDERR, STDOUT, LogCapture


def text_of(capture: LogCapture, stream: str = STDOUT) -> str:
    return "".join(chunk.text for chunk in capture.take(now=True) if chunk.stream == stream)


@given(st.text(), st.lists(st.integers(0, 400)))
def test_characters_split_between_reads_stay_whole(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "replace")
    capture = LogCapture()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        if start < end:
            capture.feed(STDOUT, data[start:end])
    capture.feed(STDOUT, b"")
    assert text_of(capture) == data.decode()


def test_invalid_utf8_is_replaced() -> None:
    capture = LogCapture()
    capture.feed(STDOUT, b"a\xffb\xe2\x82")
    capture.feed(STDOUT, b"")
    assert text_of(capture) == "a\ufffdb\ufffd"


def test_the_order_of_both_streams_is_kept() -> None:
    capture = LogCapture()
    for stream, data in ((STDOUT, b"1"), (STDOUT, b"2"), (STDERR, b"3"), (STDOUT, b"4")):
        capture.feed(stream, data)
    chunks = [(chunk.stream, chunk.text) for chunk in capture.take(now=True)]
    assert chunks == [(STDOUT, "12"), (STDERR, "3"), (STDOUT, "4")]


def test_long_text_is_split_between_characters() -> None:
    capture = LogCapture()
    text = "€" * 100_000
    for start in range(0, 300_000, 1000):
        capture.feed(STDOUT, text.encode()[start : start + 1000])
    chunks = capture.take(now=True)
    assert all(len(chunk.text.encode()) <= log_capture.CHUNK_BYTES for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == text


def test_chunks_are_taken_at_most_once_per_interval() -> None:
    capture = LogCapture(flush_interval_s=3600.0)
    capture.feed(STDOUT, b"first")
    assert [chunk.text for chunk in capture.take()] == ["first"]
    capture.feed(STDOUT, b"second")
    assert capture.take() == []
    assert [chunk.text for chunk in capture.take(now=True)] == ["second"]


def test_text_beyond_the_limit_is_discarded_with_one_notice() -> None:
    capture = LogCapture(limit_bytes=10)
    capture.feed(STDOUT, b"12345678")
    capture.feed(STDOUT, b"90abc")
    capture.feed(STDERR, b"and more")
    first, notice = capture.take(now=True)
    assert first.text == "1234567890"
    assert (notice.stream, "more than 10 bytes" in notice.text) == (STDERR, True)
    capture.feed(STDOUT, b"and more")
    assert capture.take(now=True) == []


def test_the_last_line_is_known_beyond_the_limit() -> None:
    capture = LogCapture(limit_bytes=1)
    capture.feed(STDOUT, b"one\ntwo\n\n  \n")
    assert capture.last_line() == "two"


def test_a_long_last_line_is_truncated() -> None:
    capture = LogCapture()
    capture.feed(STDOUT, b"x" * 100_000)
    assert len(capture.last_line()) == log_capture.LINE_CHARACTERS


def test_without_output_the_last_line_is_empty() -> None:
    assert LogCapture().last_line() == ""
