"""Which tests are slow, and the check of what they cost."""

import ast
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).parents[1]


def times_file(folder: Path, *times: tiers.Cost) -> Path:
    """What `--times` writes."""
    file = folder / "times.jsonl"
    file.write_text("\n".join(json.dumps(time._asdict()) for time in times), encoding="utf-8")
    return file


def costs_of(*used_s: float, mark: str = "", name: str = "test_cheap") -> list[tiers.Cost]:
    """The costs of one test for each time."""
    return [
        tiers.Cost(f"tests/a.py::{name}_{n}[a]@group", mark, s, s) for n, s in enumerate(used_s)
    ]


def test_a_quick_test_that_takes_more_than_its_share_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of its cases count."""
    big = [tiers.Cost(f"tests/a.py::big[{n}]", "", 4.0, 4.0) for n in range(3)]
    file = times_file(tmp_path, *costs_of(*[1.0] * 1000), *big)
    assert tiers.main([str(file)]) == 1
    assert "tests/a.py::big: 12.0 s" in capsys.readouterr().out


@pytest.mark.parametrize("mark", ["slow", "quick"])
def test_a_marked_test_may_take_any_time(tmp_path: Path, mark: str) -> None:
    big = costs_of(99.0, mark=mark, name="big")
    file = times_file(tmp_path, *costs_of(*[1.0] * 600), *big)
    assert tiers.main([str(file)]) == 0


def test_a_test_that_a_promise_names_may_take_any_time(tmp_path: Path) -> None:
    named_test = tiers.TEST.findall(tiers.promises()[0])[0]
    big = tiers.Cost(named_test, "", 99.0, 99.0)
    assert tiers.main([str(times_file(tmp_path, *costs_of(*[1.0] * 600), big))]) == 0


def test_the_list_of_costly_tests_leaves_none_that_takes_more_than_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "COSTLY_TESTS", tmp_path / "costly_tests.txt")
    monkeypatch.setattr(tiers, "costly_tests", lambda: frozenset({"tests/a.py::listed_0"}))
    costs = [
        *costs_of(*[1.0] * 3000, mark="quick"),
        *costs_of(2.5, 2.1, 1.0, name="unmarked"),
        *costs_of(4.0, mark="slow", name="listed"),
        *costs_of(99.0, mark="slow", name="marked"),
    ]
    assert tiers.main(["--write", str(times_file(tmp_path, *costs))]) == 0
    written = (tmp_path / "costly_tests.txt").read_text().split()
    assert written == [f"tests/a.py::{name}" for name in ("listed_0", "unmarked_0", "unmarked_1")]


def test_the_listed_tests_exist_and_are_listed_once_and_in_order() -> None:
    lines = tiers.COSTLY_TESTS.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))
    names_of: dict[str, set[str]] = {}
    for path, _, name in (line.rpartition("::") for line in lines):
        names_of.setdefault(path.partition("::")[0], set()).add(name)
    for path, names in names_of.items():
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert names <= functions, path


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
    rows = [row for row in tiers.promises() if not row.startswith("| … with TensorFlow")]
    rows = [row for row in rows if "(in `make test-slow`)" not in row]
    assert len(rows) > 150
    unproved = [row for row in rows if not any(map(is_quick, tiers.TEST.findall(row)))]
    assert unproved == []


def is_quick(test: str) -> bool:
    """Whether `make test` runs at least one case of a test, by the marks in its module."""
    if test in tiers.costly_tests():
        return False
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
    if not tiers.is_in_slow_place(ROOT / path):
        return True
    words = " ".join(marks + decorators)
    return "mark.quick" in words or "with_each_trainer" in words


def test_slow_folders_exist() -> None:
    assert all(folder.is_dir() for folder in tiers.SLOW_FOLDERS)
    assert all(file.is_file() for file in tiers.SLOW_FILES)
