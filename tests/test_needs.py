"""A test without what it needs is skipped with the reason and the remedy, or fails in CI."""

import ast
from pathlib import Path

import pytest

from tests import needs

TESTS = Path(__file__).parent


@pytest.fixture
def missing_need(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of something that this machine lacks."""
    need = needs.Need(lambda: "the program quux is not installed", "apt install quux")
    monkeypatch.setattr(needs, "NEEDS", {"quux": need, "air": needs.Need(lambda: None, "")})
    needs.problem_of.cache_clear()
    return "quux"


def test_a_test_is_skipped_with_the_reason_and_the_remedy(
    missing_need: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception) as skipped:
        needs.require("air", missing_need)
    assert str(skipped.value) == (
        "needs quux: the program quux is not installed. To run this test: apt install quux"
    )


def test_it_fails_in_ci(missing_need: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="the program quux is not installed"):
        needs.require(missing_need)


def test_what_is_there_skips_nothing(missing_need: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    needs.require("air")


def test_needs_are_tried_in_one_place() -> None:
    """Other modules do not skip by themselves, except for what no command can change."""
    allowed = {
        "sys.platform != 'linux'",
        "platform.libc_ver()[0] != 'glibc'",
        "bool(tf.config.list_physical_devices('GPU'))",
    }
    problems = []
    for file in TESTS.rglob("*.py"):
        if "node_modules" in file.parts or file.name in ("needs.py", "test_needs.py"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            condition = ast.unparse(node.args[0]) if node.args else ""
            if called == "pytest.mark.skipif" and condition not in allowed:
                problems.append(f"{file}:{node.lineno}: {condition}")
            if called == "pytest.skip":
                problems.append(f"{file}:{node.lineno}: {called}")
            if called == "pytest.mark.needs" and not {
                argument.value for argument in node.args if isinstance(argument, ast.Constant)
            } <= set(needs.NEEDS):
                problems.append(f"{file}:{node.lineno}: {ast.unparse(node)} is not in NEEDS")
    assert problems == []
