from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from worker import printed
from worker.printed import STDERR, STDOUT, Printed


def text_of(heard: Printed, stream: str = STDOUT) -> str:
    return "".join(chunk.text for chunk in heard.take(now=True) if chunk.stream == stream)


@given(st.text(), st.lists(st.integers(0, 400)))
def test_text_comes_whole_wherever_the_pipe_has_cut_it(text: str, cuts: list[int]) -> None:
    data = text.encode("utf-8", "replace")
    heard = Printed()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for start, end in pairwise(places):
        if start < end:
            heard.feed(STDOUT, data[start:end])
    heard.feed(STDOUT, b"")
    assert text_of(heard) == data.decode()


def test_bytes_that_are_no_text_are_replaced() -> None:
    heard = Printed()
    heard.feed(STDOUT, b"a\xffb\xe2\x82")
    heard.feed(STDOUT, b"")
    assert text_of(heard) == "a\ufffdb\ufffd"


def test_the_streams_keep_their_order() -> None:
    heard = Printed()
    for stream, data in ((STDOUT, b"1"), (STDOUT, b"2"), (STDERR, b"3"), (STDOUT, b"4")):
        heard.feed(stream, data)
    chunks = [(chunk.stream, chunk.text) for chunk in heard.take(now=True)]
    assert chunks == [(STDOUT, "12"), (STDERR, "3"), (STDOUT, "4")]


def test_a_long_line_is_cut_into_pieces_between_characters() -> None:
    heard = Printed()
    text = "€" * 100_000
    for start in range(0, 300_000, 1000):
        heard.feed(STDOUT, text.encode()[start : start + 1000])
    chunks = heard.take(now=True)
    assert all(len(chunk.text.encode()) <= printed.CHUNK_BYTES for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks) == text


def test_pieces_are_passed_on_not_oftener_than_they_may() -> None:
    heard = Printed(every_s=3600.0)
    heard.feed(STDOUT, b"first")
    assert [chunk.text for chunk in heard.take()] == ["first"]
    heard.feed(STDOUT, b"second")
    assert heard.take() == []
    assert [chunk.text for chunk in heard.take(now=True)] == ["second"]


def test_too_much_is_dropped_and_that_is_said_once() -> None:
    heard = Printed(limit_bytes=10)
    heard.feed(STDOUT, b"12345678")
    heard.feed(STDOUT, b"90abc")
    heard.feed(STDERR, b"and more")
    first, notice = heard.take(now=True)
    assert first.text == "1234567890"
    assert (notice.stream, "more than 10 bytes" in notice.text) == (STDERR, True)
    heard.feed(STDOUT, b"and more")
    assert heard.take(now=True) == []


def test_the_last_line_is_known_also_when_it_is_not_kept() -> None:
    heard = Printed(limit_bytes=1)
    heard.feed(STDOUT, b"one\ntwo\n\n  \n")
    assert heard.last_line() == "two"


def test_a_last_line_without_end_is_cut_for_the_message() -> None:
    heard = Printed()
    heard.feed(STDOUT, b"x" * 100_000)
    assert len(heard.last_line()) == printed.LINE_CHARACTERS


def test_nobody_who_printed_nothing_has_a_last_line() -> None:
    assert Printed().last_line() == ""
