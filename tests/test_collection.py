"""Tests may be named in any order on the command line."""

from tests.collection import folders_first


def test_files_of_a_folder_come_together_and_after_those_of_its_subfolders():
    given = [
        "tests/a/test_1.py",
        "tests/b/c/test_2.py::TestIt::test_it[b/a]",
        "tests/test_3.py",
        "tests/a/z/test_4.py",
        "tests/b/c/test_2.py::test_first",
        "tests/a/test_0.py",
    ]
    assert folders_first(given) == [
        "tests/a/z/test_4.py",
        "tests/a/test_0.py",
        "tests/a/test_1.py",
        "tests/b/c/test_2.py::TestIt::test_it[b/a]",
        "tests/b/c/test_2.py::test_first",
        "tests/test_3.py",
    ]
