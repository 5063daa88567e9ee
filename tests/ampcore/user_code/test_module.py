"""Importing the function of a bundle."""

import os
import sys
from pathlib import Path

import pytest

from ampcore.user_code.module import load_function


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a bundle; what is imported from it is forgotten after the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a new folder for it is a change, too
    monkeypatch.setattr("ampcore.user_code.module._FOLDERS", set())
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def add_within_one_tick(file: Path, text: str) -> None:
    """Write a file as if the clock of the file system had not advanced since the last change."""
    times = (file.parent.stat().st_atime_ns, file.parent.stat().st_mtime_ns)
    file.write_text(text)
    os.utime(file.parent, ns=times)


@pytest.mark.parametrize("parent", ["", "parts_of_bundle"])
def test_a_module_is_found_that_was_added_after_an_import_from_its_folder(folder, parent):
    package = folder / parent
    package.mkdir(exist_ok=True)
    if parent:
        (package / "__init__.py").touch()
    prefix = f"{parent}." if parent else ""
    (package / "first_of_bundle.py").write_text("def build(): return 1\n")
    assert load_function(folder, f"{prefix}first_of_bundle:build")() == 1
    add_within_one_tick(package / "second_of_bundle.py", "def build(): return 2\n")
    assert load_function(folder, f"{prefix}second_of_bundle:build")() == 2


def test_a_module_of_an_earlier_bundle_is_forgotten(folder):
    for name in ("a", "a-b"):  # the name of one folder is the start of the other's
        (folder / name).mkdir()
        (folder / name / "net_of_bundle.py").write_text(f"def build(): return {name!r}\n")
        assert load_function(folder / name, "net_of_bundle:build")() == name
        assert sys.path.count(str(folder / name)) == 1
    assert load_function(folder / "a", "net_of_bundle:build")() == "a"
    assert str(folder / "a-b") not in sys.path
