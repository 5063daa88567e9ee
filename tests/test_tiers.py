"""Which tests are slow, and the check of what they cost."""

import ast
import json
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[1]
TEST = re.compile(r"tests/[a-z_/0-9]*\.py::[a-z_0-9]*")


def times_file(folder: Path, *times: tiers.Cost) -> Path:
    """What `--times` writes."""
    file = folder / "times.jsonl"
    file.write_text("\n".join(json.dumps(time._asdict()) for time in times), encoding="utf-8")
    return file


def test_a_quick_test_that_takes_more_than_its_share_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cheap = [tiers.Cost(f"tests/a.py::test_{n}", "", 1.0, 1.0) for n in range(498)]
    file = times_file(tmp_path, *cheap, tiers.Cost("tests/a.py::big", "", 1.0, 2.6))
    assert tiers.main([str(file)]) == 1
    assert "tests/a.py::big: 2.6 s" in capsys.readouterr().out


@pytest.mark.parametrize("mark", ["slow", "quick"])
def test_a_marked_test_may_take_any_time(tmp_path: Path, mark: str) -> None:
    cheap = [tiers.Cost(f"tests/a.py::test_{n}", "", 1.0, 1.0) for n in range(600)]
    file = times_file(tmp_path, *cheap, tiers.Cost("tests/a.py::big", mark, 99.0, 99.0))
    assert tiers.main([str(file)]) == 0


def test_processor_time_includes_children_that_have_ended() -> None:
    before_s = tiers.processor_s()
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    this_process = resource.getrusage(resource.RUSAGE_SELF)
    assert tiers.processor_s() - before_s > 0
    assert tiers.processor_s() > this_process.ru_utime + this_process.ru_stime


def test_each_promise_has_a_quick_test() -> None:
    """A row or paragraph of docs/reliability.md names a test that `make test` runs.

    Containers are left out, rows about TensorFlow, which follow the same promise without it, and
    rows that say that their test is slow.
    """
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    promises = text.partition("\n## In containers\n")[0]
    rows = [row for row in re.split(r"\n\n|\n(?=\|)", promises) if TEST.search(row)]
    rows = [row for row in rows if not row.startswith("| … with TensorFlow")]
    rows = [row for row in rows if "(in `make test-slow`)" not in row]
    assert len(rows) > 150
    unproved = [row for row in rows if not any(map(is_quick, TEST.findall(row)))]
    assert unproved == []


def is_quick(test: str) -> bool:
    """Whether `make test` runs at least one case of a test, by the marks in its module."""
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    marks = [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    [function] = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    if "pytest.mark.slow" in decorators or any("mark.slow" in mark for mark in marks):
        return False
    if not any(folder in (ROOT / path).parents for folder in tiers.SLOW_FOLDERS):
        return True
    words = " ".join(marks + decorators)
    return "mark.quick" in words or "with_each_trainer" in words


def test_slow_folders_exist() -> None:
    assert all(folder.is_dir() for folder in tiers.SLOW_FOLDERS)
