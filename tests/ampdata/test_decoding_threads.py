"""Images are decoded by several threads: all of them, and the first error is raised."""

import os
import threading

import pytest

from ampdata.decoding_threads import DecodingThreads
from tests.waiting import wait_until


@pytest.fixture(params=[1, 4])
def threads(request, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(request.param)))
    threads = DecodingThreads()
    yield threads
    threads.close()


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_every_item_is_decoded_once(threads, count):
    decoded = []
    threads.run(decoded.append, count)
    assert sorted(decoded) == list(range(count))


def test_the_first_error_is_raised(threads):
    def decode(item):
        if item in (3, 7):
            raise ValueError(item)

    with pytest.raises(ValueError, match="3"):
        threads.run(decode, 10)
    threads.run(lambda item: None, 10)


def test_no_thread_exists_before_it_is_needed_nor_after_the_end(threads):
    before = threading.active_count()
    threads.run(lambda item: None, 1)
    assert threading.active_count() == before
    threads.run(lambda item: None, 10)
    threads.close()
    wait_until(lambda: threading.active_count() == before)
    threads.close()


def test_items_are_decoded_at_the_same_time(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    threads, running = DecodingThreads(), set()

    def decode(item):
        running.add(item)
        wait_until(lambda: len(running) == 2)

    threads.run(decode, 2)
    threads.close()


def test_small_images_are_decoded_without_threads(threads):
    before, decoded = threading.active_count(), []
    threads.run(decoded.append, 100, pixels=28 * 28)
    assert decoded == list(range(100))
    assert threading.active_count() == before
