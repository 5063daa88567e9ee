import errno
import fcntl
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from ampcore.checkpoint import newest, prune, save
from ampspec.errors import CheckpointFailed, UnreadableCheckpoint
from ampspec.jobs import Reason

CHILD = Path(__file__).with_name("killed_child.py")


@pytest.fixture
def keep(tmp_path, make_checkpoint):
    """Saves a small checkpoint of a step."""

    def save_one(step):
        return save(tmp_path, make_checkpoint(step, {"a": np.arange(4)}, spec={}, versions={}))

    return save_one


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def newest_step(folder):
    return newest(folder).checkpoint.manifest.step


@contextmanager
def largest_file(size_bytes):
    """No file can grow beyond this; the kernel writes what fits and refuses the rest."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_save_creates_a_missing_folder(tmp_path, make_checkpoint):
    file = save(tmp_path / "deep" / "down", make_checkpoint(step=12))
    assert file == tmp_path / "deep" / "down" / "checkpoint-000001-step-12.safetensors"
    assert newest(file.parent).file == file


def test_the_newest_checkpoint_is_the_one_saved_last(tmp_path, keep):
    # A restarted run in the same folder counts its steps from 0 again.
    for step in (500, 20, 3):
        file = keep(step)
    assert newest(tmp_path).file == file


def test_file_numbers_are_compared_as_integers(tmp_path, keep):
    keep(1).rename(tmp_path / "checkpoint-999999-step-1.safetensors")
    assert keep(2).name == "checkpoint-1000000-step-2.safetensors"
    assert newest_step(tmp_path) == 2


def test_a_folder_without_checkpoints_has_no_newest(tmp_path):
    (tmp_path / "model.keras").touch()
    assert newest(tmp_path) is None
    assert newest(tmp_path / "missing") is None


def test_an_unreadable_checkpoint_is_reported_and_skipped(tmp_path, keep):
    good, damaged = keep(1), keep(2)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    reported = []
    assert newest(tmp_path, reported.append).file == good
    assert [error.file for error in reported] == [damaged]
    good.write_bytes(b"")
    assert newest(tmp_path) is None


def test_a_path_that_is_not_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableCheckpoint, match="a readable folder"):
        newest(tmp_path / "file")


# ---- Pruning


def test_pruning_keeps_the_newest(tmp_path, keep):
    files = [keep(step) for step in range(4)]
    prune(tmp_path, keep=2)
    assert names(tmp_path) == [file.name for file in files[2:]]
    prune(tmp_path, keep=2)
    assert len(names(tmp_path)) == 2


def test_pruning_counts_only_readable_checkpoints(tmp_path, keep):
    files = [keep(step) for step in range(5)]
    for damaged in (files[1], files[3], files[4]):
        damaged.write_bytes(damaged.read_bytes()[:-1])
    prune(tmp_path, keep=1)
    assert names(tmp_path) == [file.name for file in files[2:]]
    assert newest_step(tmp_path) == 2


def test_pruning_keeps_other_files(tmp_path, keep):
    others = ["checkpoint-x-step-1.safetensors", "model.keras"]
    for name in others:
        (tmp_path / name).touch()
    files = [keep(1), keep(2)]
    prune(tmp_path, keep=1)
    assert names(tmp_path) == sorted([files[1].name, *others])


# ---- A full disk


def test_the_last_checkpoint_survives_a_save_that_fails_at_any_byte(tmp_path, keep):
    kept = keep(1)
    size = kept.stat().st_size
    for limit in range(size):
        with largest_file(limit), pytest.raises(CheckpointFailed):
            keep(2)
    assert names(tmp_path) == [kept.name]
    assert newest_step(tmp_path) == 1
    with largest_file(size):
        keep(2)
    assert newest_step(tmp_path) == 2


@pytest.mark.needs("user namespaces")
def test_a_failed_save_frees_its_space_on_a_full_file_system(tmp_path):
    # In a user namespace, any user may mount.
    namespace = [shutil.which("unshare") or "unshare", "-rm"]
    script = 'mount -t tmpfs -o size=64k tmpfs "$2" && exec "$0" "$1" "$2" full'
    command = [*namespace, "sh", "-c", script, sys.executable, CHILD, tmp_path]
    left = [json.loads(line) for line in subprocess.check_output(command, text=True).splitlines()]
    assert len(left) == 4
    for found in left:
        assert found["error"].startswith(f"Cannot save a checkpoint in {tmp_path}: No space ")
        assert (found["newest"], found["files"], found["unfinished"]) == (3, 3, 0)


@pytest.mark.parametrize("call", ["open", "write", "fsync"])
def test_the_last_checkpoint_survives_a_failure_of_any_system_call(
    tmp_path, keep, monkeypatch, call
):
    kept = keep(1)
    real = getattr(os, call)
    broken = OSError(errno.EIO, os.strerror(errno.EIO))
    for good_calls in itertools.count():
        left = itertools.count(good_calls, -1)

        def failing(*arguments, left=left):
            if next(left) == 0:
                raise broken
            return real(*arguments)

        monkeypatch.setattr(os, call, failing)
        try:
            keep(2)
        except CheckpointFailed:
            pass
        else:
            break
        finally:
            monkeypatch.undo()
        # If only the fsync of the folder fails, the new file may exist or not.
        assert names(tmp_path)[0] == kept.name
        assert not any(name.endswith(".unfinished") for name in names(tmp_path))
        assert newest_step(tmp_path) in (1, 2)
    assert good_calls > 1


def test_the_error_names_the_needed_and_the_free_bytes(tmp_path, keep):
    size = keep(1).stat().st_size
    with largest_file(10), pytest.raises(CheckpointFailed) as caught:
        keep(2)
    error = caught.value
    assert error.size_bytes == size
    assert error.free_bytes > 0
    assert error.reason is Reason.CHECKPOINT_FAILED
    assert str(error) == (
        f"Cannot save a checkpoint in {tmp_path}: File too large; it needs {size:,} bytes, "
        f"and {error.free_bytes:,} are free."
    )


def test_a_folder_that_cannot_be_made_is_an_error_without_free_bytes(tmp_path, make_checkpoint):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointFailed, match="an unknown number are free"):
        save(tmp_path / "file" / "folder", make_checkpoint())


# ---- Killed processes


@pytest.fixture
def killed(tmp_path):
    """Runs killed_child.py and returns what each killed child left."""

    def run(mode):
        output = subprocess.check_output([sys.executable, CHILD, tmp_path, mode], text=True)
        return [json.loads(line) for line in output.splitlines()]

    return run


def test_a_process_killed_before_any_line_leaves_the_old_or_the_new_checkpoint(tmp_path, killed):
    left = killed("lines")
    assert len(left) > 100
    before = 1
    for step, found in enumerate(left, 2):
        assert found["newest"] in (before, step)
        assert found["newest"] >= found["confirmed"]
        assert found["files"] <= 3
        assert found["unfinished"] <= 1
        before = found["newest"]
    assert left[-1]["newest"] == left[-1]["confirmed"]
    assert (left[-1]["files"], left[-1]["unfinished"]) == (2, 0)


def test_a_process_killed_at_any_moment_leaves_what_was_saved(killed):
    for found in killed("anywhere"):
        assert found["newest"] >= found["confirmed"]
        assert found["unfinished"] <= 1


def test_only_unfinished_files_of_ended_processes_are_removed(tmp_path, keep):
    left_over, in_use = (tmp_path / f".checkpoint-{name}.unfinished" for name in "ab")
    left_over.touch()
    with in_use.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        keep(1)
        assert in_use.exists()
        assert not left_over.exists()
    keep(2)
    assert not in_use.exists()
