"""The cache of converted files: complete or absent, converted once, shared by processes."""

import threading

import pytest

from ampdata.cache import converted
from tests.waiting import join, wait_until


def test_a_file_is_converted_once(tmp_path):
    calls = []

    def convert(folder):
        calls.append(folder)
        (folder / "it").write_text("done")

    for _ in range(2):
        assert (converted(tmp_path, ("key",), convert) / "it").read_text() == "done"
    assert len(calls) == 1
    converted(tmp_path, ("other key",), convert)
    assert len(calls) == 2


def test_a_failed_conversion_leaves_nothing(tmp_path):
    def fail(folder):
        (folder / "it").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        converted(tmp_path, ("key",), fail)
    assert [path.suffix for path in tmp_path.iterdir()] == [".lock"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    folder = converted(tmp_path, ("key",), lambda folder: None)
    abandoned = tmp_path / f"{folder.name}.tmpdead"
    abandoned.mkdir()
    (abandoned / "half").write_text("half")
    folder.rmdir()
    converted(tmp_path, ("key",), lambda folder: None)
    assert not abandoned.exists()


def test_a_second_reader_waits_for_the_first(tmp_path):
    started, finish, calls = threading.Event(), threading.Event(), []

    def convert(folder):
        calls.append(folder)
        started.set()
        wait_until(finish.is_set)
        (folder / "it").write_text("done")

    results = []
    threads = [
        threading.Thread(target=lambda: results.append(converted(tmp_path, ("key",), convert)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    wait_until(started.is_set)
    assert results == []
    finish.set()
    join(*threads)
    assert len(calls) == 1
    assert results[0] == results[1]
    assert (results[0] / "it").read_text() == "done"
