"""`python -m server.child.inspect_upload`: its output, and what a hostile file may do."""

import json
import subprocess
import sys

import pytest

from ampdata.file_description import (
    ClassCount,
    ColumnDescription,
    FileDescription,
    LeftOutDescription,
    Picture,
)
from ampspec.errors import InvalidData
from infra.isolation.process_limits import OutOfCpuTime
from server.child.inspect_upload import MAX_OUTPUT_BYTES, MEMORY_BYTES, describe_file


def found(**changed):
    given = {
        "kind": "npz",
        "options": {"kind": "npz"},
        "size_bytes": 10,
        "rows": 2,
        "splits": {"train": 1, "test": 1},
        "left_out": [LeftOutDescription(name="z", reason="dtype object")],
        "columns": [
            ColumnDescription(name="x", dtype="image", shape=[8, None], missing=0, classes=None),
            ColumnDescription(
                name="y", dtype="int64", shape=[], missing=1, classes=[ClassCount(name="a", rows=2)]
            ),
        ],
        "preview": [{"x": 0.5, "y": 1}, {"x": "NaN", "y": None}],
        "pictures": [Picture(column="x", row=0, png="aGk=")],
    }
    return FileDescription(**{**given, **changed})


def test_a_description_becomes_json_values():
    description = describe_file(None, lambda file: found())
    assert json.loads(json.dumps(description, allow_nan=False)) == {
        "state": "described",
        "kind": "npz",
        "rows": 2,
        "options": {"kind": "npz"},
        "splits": {"train": 1, "test": 1},
        "left_out": [{"name": "z", "reason": "dtype object"}],
        "columns": [
            {
                "name": "x",
                "dtype": "image",
                "shape": [8, None],
                "missing": 0,
                "nan": 0,
                "statistics": None,
                "range": None,
            },
            {
                "name": "y",
                "dtype": "int64",
                "shape": [],
                "missing": 1,
                "nan": 0,
                "statistics": None,
                "range": None,
                "classes": ["a"],
            },
        ],
        "preview": {"rows": [{"x": 0.5, "y": 1}, {"x": "NaN", "y": None}], "pictures": ["aGk="]},
    }


def test_a_refused_file_is_invalid_with_the_reason():
    def refuse(file):
        raise InvalidData("b.npz", "y", expected="labels", received="x" * 1000)

    description = describe_file(None, refuse)
    assert description["state"] == "invalid"
    assert description["message"].startswith("b.npz, y: expected labels; received xxx")
    assert len(description["message"]) == 500


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), f"takes more than {MEMORY_BYTES} bytes of memory."),
        (OutOfCpuTime(), "takes more than 30 s of CPU time."),
        (OSError(28, "No space left on device", "/srv/x"), "failed: No space left on device."),
        (OSError("of Arrow"), "failed: OSError."),
    ],
)
def test_a_file_that_needs_too_much_is_not_described(error, message):
    def fail(file):
        raise error

    assert describe_file(None, fail) == {
        "state": "undescribed",
        "message": f"Describing the file {message}",
    }


LARGE_PICTURE = Picture(column="x", row=0, png="a" * MAX_OUTPUT_BYTES)


@pytest.mark.parametrize(
    ("large", "kept"),
    [
        ({"pictures": [LARGE_PICTURE]}, {"rows": 2, "pictures": 0}),
        ({"preview": [{"x": "a" * MAX_OUTPUT_BYTES}]}, {"rows": 0, "pictures": 0}),
    ],
)
def test_a_preview_that_is_too_long_is_left_out(large, kept):
    description = describe_file(None, lambda file: found(**large))
    assert {name: len(part) for name, part in description["preview"].items()} == kept
    assert len(description["columns"]) == 2
    assert len(json.dumps(description)) <= MAX_OUTPUT_BYTES


@pytest.fixture
def describe_with(tmp_path):
    """Run the program on a file, with a reader that is Python code; returns what it prints."""
    (tmp_path / "file.txt").write_text("content")
    (tmp_path / "secret").write_text("secret")
    readers = tmp_path / "readers"
    readers.mkdir()

    def describe_with(code, **limits):
        (readers / "readers_of_this_test.py").write_text(
            "from ampdata.file_description import FileDescription\n"
            "def found(value): return FileDescription(kind='t', options={}, size_bytes=0, rows=0, "
            "splits={}, columns=[], preview=[{'a': value}], pictures=[])\n"
            f"def describe(file, cache):\n    {code}\n"
        )
        program = (
            f"import sys; sys.path.insert(0, {str(readers)!r})\n"
            "import readers_of_this_test\n"  # loaded before the rights are given up
            "sys.modules['ampdata.description'] = readers_of_this_test\n"
            "from server.child import inspect_upload as program\n"
            f"vars(program).update({limits})\n"
            "program.main(sys.argv[1:])"
        )
        (tmp_path / "cache").mkdir()
        files = [str(tmp_path / "file.txt"), str(tmp_path / "cache")]
        command = [sys.executable, "-c", program, *files]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout)

    return describe_with


def test_a_reader_reads_the_file(describe_with):
    description = describe_with("return found(file.read_text())")
    assert description["preview"]["rows"] == [{"a": "content"}]


def test_a_reader_writes_into_its_cache(describe_with):
    description = describe_with("(cache / 'made').write_text('x'); return found('made')")
    assert description["preview"]["rows"] == [{"a": "made"}]


@pytest.mark.needs("landlock")
@pytest.mark.parametrize(
    "code",
    ["return found((file.parent / 'secret').read_text())", "(file.parent / 'new').write_text('x')"],
)
def test_a_reader_reads_and_writes_nothing_else(describe_with, code):
    assert describe_with(code) == {
        "state": "undescribed",
        "message": "Describing the file failed: Permission denied.",
    }


def test_a_reader_has_limited_memory(describe_with):
    description = describe_with("return found(len(b'x' * 3 * 2**30))")
    assert "bytes of memory" in description["message"]


def test_a_reader_has_limited_cpu_time(describe_with):
    description = describe_with(
        "import os, resource, signal; "
        "assert resource.getrlimit(resource.RLIMIT_CPU)[0] == 30; "
        "os.kill(os.getpid(), signal.SIGXCPU)"
    )
    assert description["message"] == "Describing the file takes more than 30 s of CPU time."


def test_a_reader_writes_files_of_limited_size(describe_with):
    description = describe_with("(cache / 'new').write_bytes(bytes(11))", CACHE_FILE_BYTES=10)
    assert description["message"] == "Describing the file failed: File too large."


def test_a_table_is_described_by_its_reader(tmp_path):
    table, cache = tmp_path / "houses.csv", tmp_path / "cache"
    table.write_text("area,city\n1.5,Ulm\n2.5,Bonn\n")
    cache.mkdir()
    command = [sys.executable, "-m", "server.child.inspect_upload", str(table), str(cache)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert (found["state"], found["kind"], found["rows"]) == ("described", "csv", 2)
    assert [(column["name"], column["dtype"]) for column in found["columns"]] == [
        ("area", "float64"),
        ("city", "string"),
    ]
    assert found["preview"]["rows"][1] == {"area": 2.5, "city": "Bonn"}
