"""Folders become zip archives that are always the same, and can be read from any offset."""

import hashlib
import io
import os
import zipfile
from pathlib import Path

import pytest

from ampclient._transfer.upload_source import list_folder, open_source
from ampclient.datasets import name_of


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "birds"
    (folder / "b" / "c").mkdir(parents=True)
    (folder / "b" / "c" / "deep.png").write_bytes(b"deep" * 1000)
    (folder / "b" / "ü.png").write_bytes(os.urandom(3_000_000))
    (folder / "a.png").write_bytes(b"a")
    (folder / "empty").touch()
    return folder


def content(source):
    return b"".join(source.read(0, source.size_bytes))


def test_a_file_is_its_own_content(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"content")
    source = open_source(tmp_path / "x.npz")
    assert (source.file_name, source.size_bytes, content(source)) == ("x.npz", 7, b"content")
    assert source.sha256() == hashlib.sha256(b"content").hexdigest()


def test_a_folder_is_an_archive_of_its_files_in_order(folder):
    source = open_source(folder)
    with zipfile.ZipFile(io.BytesIO(content(source))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["a.png", "b/c/deep.png", "b/ü.png", "empty"]
        assert archive.read("b/ü.png") == (folder / "b" / "ü.png").read_bytes()
        assert {entry.compress_type for entry in archive.filelist} == {zipfile.ZIP_STORED}
    assert source.file_name == "birds.zip"


def test_the_archive_depends_only_on_names_and_content(folder, tmp_path):
    before = content(open_source(folder))
    for file in folder.rglob("*"):
        os.utime(file, (0, 0))
        file.chmod(0o700)
    assert content(open_source(folder)) == before


def test_the_archive_is_read_from_any_offset(folder):
    source = open_source(folder)
    whole = content(source)
    assert source.size_bytes == len(whole)
    for start, end in [(0, 1), (17, 60), (100, 2_000_000), (len(whole) - 30, len(whole)), (5, 5)]:
        assert b"".join(source.read(start, end)) == whole[start:end]


def test_links_are_followed_and_pipes_left_out(folder, tmp_path):
    """As in the cache of Hugging Face and of DVC, where all files are links."""
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (blobs / "0abcdef").write_bytes(b"content")
    snapshot = tmp_path / "snapshot"
    (snapshot / "data").mkdir(parents=True)
    (snapshot / "data" / "train.csv").symlink_to(blobs / "0abcdef")
    (snapshot / "birds").symlink_to(folder)
    os.mkfifo(snapshot / "pipe")
    with zipfile.ZipFile(io.BytesIO(content(open_source(snapshot)))) as archive:
        assert archive.read("data/train.csv") == b"content"
        assert "birds/b/c/deep.png" in archive.namelist()
        assert "pipe" not in archive.namelist()
    assert list_folder(snapshot).links == 2


@pytest.mark.parametrize("target", [".", "..", "nowhere", "loop"])
def test_a_link_that_leads_nowhere_or_around_is_named(folder, target):
    (folder / "loop").symlink_to(target)
    with pytest.raises(ValueError, match=rf"received '.*birds/loop', a link to '{target}'"):
        open_source(folder)


def test_a_dataset_has_the_name_that_was_typed(tmp_path, monkeypatch):
    (tmp_path / "0abcdef").write_bytes(b"x")
    (tmp_path / "train.csv").symlink_to(tmp_path / "0abcdef")
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.csv").write_bytes(b"x")
    (tmp_path / "clicks").symlink_to(tmp_path / "real")
    assert name_of(tmp_path / "train.csv") == "train"
    assert name_of(tmp_path / "clicks") == "clicks"
    assert open_source(tmp_path / "clicks").file_name == "clicks.zip"
    monkeypatch.chdir(tmp_path / "real")
    assert name_of(Path()) == name_of(Path("../real")) == "real"


def test_an_empty_folder_is_kept(folder):
    (folder / "rabbit").mkdir()
    with zipfile.ZipFile(io.BytesIO(content(open_source(folder)))) as archive:
        assert archive.namelist()[-1] == "rabbit/"


def test_a_folder_without_files_is_refused(tmp_path):
    (tmp_path / "empty" / "inner").mkdir(parents=True)
    with pytest.raises(ValueError, match="expected a folder with files"):
        open_source(tmp_path / "empty")


def test_a_name_that_is_not_utf8_is_refused(folder):
    (folder / os.fsdecode(b"\xff.png")).touch()
    with pytest.raises(ValueError, match="expected file names in UTF-8"):
        open_source(folder)


def test_a_file_that_shrinks_during_the_upload_is_an_error(folder):
    source = open_source(folder)
    (folder / "a.png").write_bytes(b"")
    with pytest.raises(OSError, match="has become shorter"):
        content(source)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        open_source(tmp_path / "nothing")
