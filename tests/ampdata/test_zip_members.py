"""Zip archives: members come back, and hostile archives are rejected before they are used."""

import stat
import struct
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ampdata import Limits
from ampdata.files import DataFile
from ampdata.zip_members import ZipMembers
from ampspec.errors import InvalidData
from tests.ampdata.samples import write_zip

MOST = 10**9


def members(path, limits=None):
    """The content of every member."""
    with ZipMembers(DataFile(path, "it.zip"), limits or Limits()) as archive:
        return {member.name: archive.read(member, MOST) for member in archive.members}


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.text("abcé", min_size=1, max_size=8), st.binary(max_size=3000), max_size=4),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
)
def test_members_are_read_as_they_were_written(contents, method):
    with tempfile.TemporaryDirectory() as folder:
        assert members(write_zip(Path(folder, "it.zip"), contents, method)) == contents


def test_a_member_of_several_blocks_is_read_completely(tmp_path):
    content = bytes(range(256)) * 20_000
    path = write_zip(tmp_path / "it.zip", {"a": content}, zipfile.ZIP_DEFLATED)
    assert members(path) == {"a": content}


@pytest.mark.parametrize(
    "name", ["../a", "a/../../b", "/etc/passwd", "a\\..\\b", "C:/a", "a//b", ".."]
)
def test_a_path_outside_is_rejected(tmp_path, name):
    with pytest.raises(InvalidData, match="a relative path inside the archive"):
        members(write_zip(tmp_path / "it.zip", {name: b""}))


def test_a_link_is_rejected(tmp_path):
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(InvalidData, match=r"it.zip, link: expected a file; received a link"):
        members(write_zip(tmp_path / "it.zip", {link: b"/etc/passwd"}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_rejected(tmp_path):
    with zipfile.ZipFile(tmp_path / "it.zip", "w") as archive:
        archive.writestr("a", b"1")
        archive.writestr("a", b"2")
    with pytest.raises(InvalidData, match="expected one member of this name"):
        members(tmp_path / "it.zip")


def test_an_encrypted_member_is_rejected(tmp_path):
    path = write_zip(tmp_path / "it.zip", {"a": b"text"})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InvalidData, match="without a password"):
        members(path)


def test_other_compression_is_rejected(tmp_path):
    path = write_zip(tmp_path / "it.zip", {"a": b"text"}, zipfile.ZIP_LZMA)
    with pytest.raises(InvalidData, match="a stored or deflated member"):
        members(path)


def test_too_many_members_are_rejected_before_they_are_listed(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "it.zip", {str(number): b"" for number in range(11)})
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("the directory was read"))
    with pytest.raises(InvalidData, match="at most 10 files; received 11"):
        members(path, Limits(files=10))


def test_a_huge_directory_of_few_members_is_rejected(tmp_path):
    path = write_zip(tmp_path / "it.zip", {"a": b""})
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\5\6") + 12, 2**31)
    path.write_bytes(content)
    with pytest.raises(InvalidData, match="at most 10 files"):
        members(path, Limits(files=10))


@pytest.mark.parametrize("claimed", [10, 4_000_000])
def test_a_wrong_size_in_the_directory_is_found(tmp_path, claimed):
    content = b"\0" * 2_000_000
    path = write_zip(tmp_path / "it.zip", {"a": content}, zipfile.ZIP_DEFLATED)
    changed = bytearray(path.read_bytes())
    struct.pack_into("<I", changed, changed.index(b"PK\1\2") + 24, claimed)
    path.write_bytes(changed)
    with pytest.raises(InvalidData, match=f"it.zip, a: expected {claimed:,} bytes"):
        members(path)


def test_an_error_behind_the_last_compressed_byte_is_found(tmp_path):
    """2**20 + 1 letters, of which the last one is decompressed without input, and a bad block."""
    deflated = bytes.fromhex("ecc13101000000c2a0aceb5fc210be4001") + bytes(1015) + b"\x9c\x66"
    path = write_zip(tmp_path / "it.zip", {"a": deflated})
    changed = bytearray(path.read_bytes())
    entry = changed.index(b"PK\1\2")
    struct.pack_into("<H", changed, entry + 10, zipfile.ZIP_DEFLATED)
    struct.pack_into("<I", changed, entry + 24, 2**20 + 1)
    path.write_bytes(changed)
    with pytest.raises(InvalidData, match=r"it.zip, a: expected deflated data"):
        members(path)


def test_a_member_larger_than_allowed_is_not_decompressed(tmp_path):
    path = write_zip(tmp_path / "it.zip", {"a": b"\0" * 100}, zipfile.ZIP_DEFLATED)
    with (
        ZipMembers(DataFile(path, "it.zip"), Limits()) as archive,
        pytest.raises(InvalidData, match="at most 99 bytes; received 100"),
    ):
        archive.read(archive.members[0], 99)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_no_changed_byte_goes_unnoticed(tmp_path, method):
    original = {"a": b"some text, some text", "b": b"more"}
    path = write_zip(tmp_path / "it.zip", original, method)
    content = path.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 0x55
        path.write_bytes(changed)
        try:
            read = members(path)
        except InvalidData:
            continue
        # Dates, attributes and versions do not matter; names have no checksum.
        assert list(read.values()) == list(original.values())
