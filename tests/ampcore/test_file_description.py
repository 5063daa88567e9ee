"""`python -m ampcore.file_description`: what it prints, and what it may do with a hostile file."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from ampcore import file_description
from ampcore.errors import InvalidData
from ampcore.file_description import MAX_OUTPUT_BYTES, describe_file
from ampcore.formats.file_description import ClassCount, ColumnDescription, Picture
from ampcore.isolation import landlock


def found(**changed):
    given = {
        "kind": "npz",
        "rows": 2,
        "columns": [
            ColumnDescription(name="x", dtype="float32", shape=[8, 8], missing=0, classes=None),
            {"name": "y", "dtype": "int64", "classes": [ClassCount(name="a", rows=2)]},
        ],
        "preview": [{"x": np.float32(0.5), "y": np.int64(1)}, {"x": float("nan")}],
        "pictures": [Picture(column="x", row=0, png="aGk=")],
    }
    return SimpleNamespace(**{**given, **changed})


def test_a_description_becomes_json_values():
    description = describe_file(None, lambda file: found())
    assert json.loads(json.dumps(description, allow_nan=False)) == {
        "state": "described",
        "kind": "npz",
        "rows": 2,
        "columns": [
            {"name": "x", "dtype": "float32", "shape": [8, 8], "missing": 0},
            {"name": "y", "dtype": "int64", "classes": ["a"]},
        ],
        "preview": {"rows": [{"x": 0.5, "y": 1}, {"x": "NaN"}], "pictures": ["aGk="]},
    }


def test_a_refused_file_is_invalid_with_the_reason():
    def refuse(file):
        raise InvalidData("b.npz", "y", expected="labels", received="x" * 1000)

    description = describe_file(None, refuse)
    assert description["state"] == "invalid"
    assert description["message"].startswith("b.npz, y: expected labels; received xxx")
    assert len(description["message"]) == 500


def test_a_file_that_needs_too_much_memory_is_not_described():
    def fill(file):
        raise MemoryError

    assert describe_file(None, fill)["state"] == "undescribed"


@pytest.mark.parametrize(
    ("large", "kept"),
    [
        ({"pictures": ["a" * MAX_OUTPUT_BYTES]}, {"rows": 2, "pictures": 0}),
        ({"preview": ["a" * MAX_OUTPUT_BYTES], "pictures": ["a"]}, {"rows": 0, "pictures": 0}),
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

    def describe_with(code):
        (readers / "readers_of_this_test.py").write_text(
            "from types import SimpleNamespace\n"
            "def found(value): return SimpleNamespace(kind='t', rows=None, columns=[], "
            f"preview=[value], pictures=[])\ndef describe(file, cache):\n    {code}\n"
        )
        program = (
            f"import sys; sys.path.insert(0, {str(readers)!r})\n"
            "import readers_of_this_test\n"  # loaded before the rights are given up
            "from ampcore import file_description as program\n"
            "program.READERS = 'readers_of_this_test'\n"
            "program.main(sys.argv[1:])"
        )
        (tmp_path / "cache").mkdir()
        files = [str(tmp_path / "file.txt"), str(tmp_path / "cache")]
        command = [sys.executable, "-c", program, *files]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return describe_with


def shown(process):
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)["preview"]["rows"]


def test_a_reader_reads_the_file(describe_with):
    assert shown(describe_with("return found(file.read_text())")) == ["content"]


def test_a_reader_writes_into_its_cache(describe_with):
    process = describe_with("(cache / 'made').write_text('x'); return found('made')")
    assert shown(process) == ["made"]


@pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
def test_a_reader_reads_no_other_file(describe_with):
    process = describe_with("return found((file.parent / 'secret').read_text())")
    assert process.returncode != 0
    assert "PermissionError" in process.stderr


@pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
def test_a_reader_writes_nowhere_else(describe_with):
    process = describe_with("(file.parent / 'new').write_text('x' * 10)")
    assert process.returncode != 0


def test_a_reader_has_limited_memory(describe_with):
    process = describe_with("return found(len(b'x' * 3 * 2**30))")
    assert json.loads(process.stdout) == {
        "state": "undescribed",
        "message": f"Reading the file takes more than {file_description.MEMORY_BYTES} bytes of "
        "memory.",
    }


def test_without_readers_nothing_is_described(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(file_description, "READERS", "ampcore.no_such_package")
    file_description.main([str(tmp_path / "file"), str(tmp_path)])
    assert json.loads(capsys.readouterr().out) == {"state": "undescribed"}


def test_a_table_is_described_by_its_reader(tmp_path):
    table, cache = tmp_path / "houses.csv", tmp_path / "cache"
    table.write_text("area,city\n1.5,Ulm\n2.5,Bonn\n")
    cache.mkdir()
    command = [sys.executable, "-m", "ampcore.file_description", str(table), str(cache)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    found = json.loads(process.stdout)
    assert (found["state"], found["kind"], found["rows"]) == ("described", "csv", 2)
    assert [(column["name"], column["dtype"]) for column in found["columns"]] == [
        ("area", "float64"),
        ("city", "string"),
    ]
    assert found["preview"]["rows"][1] == {"area": 2.5, "city": "Bonn"}
