"""The child process that checks bundles: what it may print, and what happens if it fails."""

import sys
import zipfile

import pytest

from server.errors import RequestInvalid, Unavailable
from server.files.inspection import inspect_bundle
from tests.tables import every_row
from tests.waiting import DEADLINE_S


@pytest.fixture
def bundle(tmp_path):
    file = tmp_path / "bundle"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("net.py", "x = 1\n")
    return file


def inspect_with(bundle, code, most_s=DEADLINE_S):
    return inspect_bundle(bundle, program=(sys.executable, "-c", code), timeout_s=most_s)


def test_the_files_of_a_bundle_are_found(bundle):
    assert inspect_bundle(bundle) == [{"name": "net.py", "size_bytes": 6}]


def test_a_file_that_is_no_bundle_is_refused(tmp_path):
    (tmp_path / "other").write_text("text")
    with pytest.raises(RequestInvalid, match="zip archive"):
        inspect_bundle(tmp_path / "other")


@every_row(
    "code",
    [
        "",
        "print('x')",
        "print('{}' * 2)",
        "print('{\"files\": 1}')",
        'print(\'{"files": [{"name": "a", "size_bytes": -1}]}\')',
        "import os; os.kill(os.getpid(), 9)",
        "print('[' * 100_000)",
    ],
)
def test_a_program_that_fails_is_told_from_a_bundle_that_is_not_valid(bundle, code):
    with pytest.raises(Unavailable, match="failed with exit code"):
        inspect_with(bundle, code)


def test_a_program_that_hangs_is_killed(bundle):
    hang = "import os; os.kill(os.getpid(), 19)"  # SIGSTOP
    with pytest.raises(RequestInvalid, match="could not be checked within"):
        inspect_with(bundle, hang, 0.01)
