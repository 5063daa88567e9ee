"""Archives of bundles: what is extracted, and what hostile ones cannot do."""

import io
import json
import os
import stat
import struct
import subprocess
import sys
import zipfile

import pytest

from ampcore.user_code import archive
from ampcore.user_code.archive import MAX_BYTES, MAX_DEPTH, MAX_FILES, MAX_NAME_CHARS, MAX_RATIO
from ampspec.errors import InvalidData
from tests.waiting import DEADLINE_S

CODE = b"def build(options, signature):\n    return None\n"


def make(path, files=(("net.py", CODE),), compression=zipfile.ZIP_DEFLATED):
    """An archive; `files` are names or zipfile.ZipInfo, each with its content."""
    with zipfile.ZipFile(path, "w", compression) as target:
        for name, content in files:
            target.writestr(name, content)
    return path


def info(name, mode=0o100644):
    entry = zipfile.ZipInfo(name)
    entry.external_attr, entry.create_system = mode << 16, 3
    return entry


@pytest.fixture
def bundle(tmp_path):
    return tmp_path / "bundle.zip"


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "inside" / "target"
    folder.mkdir(parents=True)
    return folder


def test_the_files_of_a_bundle_are_listed_and_extracted_read_only(bundle, target):
    make(bundle, [("net.py", CODE), ("parts/", b""), ("parts/layer.py", b"x = 1\n")])
    found = [(file.name, file.size_bytes) for file in archive.check(bundle)]
    assert found == [("net.py", len(CODE)), ("parts/layer.py", 6)]
    archive.extract(bundle, target)
    assert (target / "net.py").read_bytes() == CODE
    assert (target / "parts/layer.py").read_bytes() == b"x = 1\n"
    assert stat.S_IMODE((target / "net.py").stat().st_mode) == 0o444


@pytest.mark.parametrize(
    "name",
    [
        "../net.py",
        "a/../../net.py",
        "/etc/net.py",
        "C:/net.py",
        "..\\net.py",
        "a//net.py",
        "./net.py",
        "a/./net.py",
        "a\x1b[2J.py",
        "x" * (MAX_NAME_CHARS + 1),
        "/".join(["a"] * (MAX_DEPTH + 1)),
    ],
)
def test_names_that_lead_elsewhere_or_hide_something_are_refused(bundle, target, name):
    make(bundle, [(info(name), CODE)])
    for read in (lambda: archive.check(bundle), lambda: archive.extract(bundle, target)):
        with pytest.raises(InvalidData):
            read()
    assert list(target.parent.rglob("*.py")) == list(target.rglob("*")) == []


@pytest.mark.parametrize(
    "files",
    [
        [(info("link", 0o120777), b"/etc/passwd")],
        [("net.py", b"1"), (info("net.py"), b"2")],
        [("net", b"1"), ("net/a.py", b"2")],
        [("net/a.py", b"2"), ("net", b"1")],
        [("net/", b""), ("net", b"1")],
        [],
        [("folder/", b"")],
        [(f"{number}.py", b"") for number in range(MAX_FILES + 1)],
    ],
    ids=["link", "twice", "file and folder", "folder and file", "both", "none", "empty", "many"],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_links_duplicates_and_too_many_files_are_refused(bundle, target, files):
    make(bundle, files)
    with pytest.raises(InvalidData):
        archive.check(bundle)
    with pytest.raises(InvalidData):
        archive.extract(bundle, target)
    assert list(target.iterdir()) == []


def test_an_encrypted_file_is_refused(bundle):
    make(bundle)
    content = bytearray(bundle.read_bytes())
    for signature, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = content.index(signature) + offset
        content[at] |= 1
    bundle.write_bytes(content)
    with pytest.raises(InvalidData, match="encrypted"):
        archive.check(bundle)


def test_a_bundle_that_extracts_to_too_many_bytes_is_refused(bundle):
    make(bundle, [("zeros", b"\0" * (MAX_BYTES + 1))])
    with pytest.raises(InvalidData, match="when extracted"):
        archive.check(bundle)


def test_a_bundle_of_zeros_is_refused_by_its_ratio(bundle):
    make(bundle, [("zeros", b"\0" * 2**22)])
    with pytest.raises(InvalidData, match=f"at most {MAX_RATIO} times"):
        archive.check(bundle)


def test_overlapping_files_count_each_time(bundle):
    """As in a bomb whose members share their compressed data."""
    make(bundle, [("a", os.urandom(2**20))])
    content = bundle.read_bytes()
    start = content.index(b"PK\1\2")
    entry = content[start : content.index(b"PK\5\6")]
    size = struct.unpack_from("<I", entry, 24)[0]
    count = MAX_BYTES // size + 1
    names = [chr(0x100 + number).encode() for number in range(count)]
    entries = [
        entry[:28] + struct.pack("<H", len(name)) + entry[30:46] + name + entry[47:]
        for name in names
    ]
    directory = b"".join(entries)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), start, 0)
    bundle.write_bytes(content[:start] + directory + end)
    with pytest.raises(InvalidData):
        archive.check(bundle)


def test_a_file_longer_than_its_header_says_is_refused(bundle):
    make(bundle, [("zeros", b"\0" * 1000)])
    content = bytearray(bundle.read_bytes())
    for signature, offset in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        struct.pack_into("<I", content, content.index(signature) + offset, 10)
    bundle.write_bytes(content)
    with pytest.raises(InvalidData, match="received more"):
        archive.check(bundle)


@pytest.mark.parametrize("content", [b"", b"PK", b"import os\n", b"PK\5\6" + b"\xff" * 18])
def test_other_files_are_refused(bundle, content):
    bundle.write_bytes(content)
    with pytest.raises(InvalidData):
        archive.check(bundle)


def test_any_damage_is_refused_or_harmless(bundle, target):
    """Each byte flipped: the files are the same, or an error is raised."""
    good = make(bundle, [("net.py", CODE)]).read_bytes()
    for position in range(len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 0xFF
        bundle.write_bytes(damaged)
        try:
            [file] = archive.check(bundle)
        except InvalidData:
            continue
        assert file.size_bytes == len(CODE), position


def run(*arguments):
    command = [sys.executable, "-I", "-m", "ampcore.user_code", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_program_prints_the_files_or_what_is_wrong(bundle, target):
    make(bundle)
    expected = {"files": [{"name": "net.py", "size_bytes": len(CODE)}]}
    assert run("check", bundle) == (0, expected)
    assert run("extract", bundle, target) == (0, {"files": []})
    assert (target / "net.py").read_bytes() == CODE
    bundle.write_bytes(io.BytesIO(b"nothing").getvalue())
    status, printed = run("check", bundle)
    assert (status, list(printed)) == (1, ["message"])
