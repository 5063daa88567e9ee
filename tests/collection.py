"""The order and the processes in which pytest runs the tests."""

from collections.abc import Iterable
from pathlib import PurePath

import pytest


def folders_first(arguments: Iterable[str]) -> list[str]:
    """Order the arguments of pytest by folder, subfolders before the files next to them.

    In another order pytest 9.1 loses the fixtures of a conftest.py
    (https://github.com/pytest-dev/pytest/issues/14635).
    """

    def position(argument: str) -> list[tuple[bool, str]]:
        *folders, last = PurePath(argument.partition("::")[0]).parts
        return [(False, folder) for folder in folders] + [(last.endswith(".py"), last)]

    return sorted(arguments, key=position)


def group_by_shared_fixtures(items: Iterable[pytest.Item]) -> None:
    """Run tests that share a module-scoped fixture in one process, so that it is created once."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _shares_a_fixture(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return any(definitions[-1].scope == "module" for definitions in fixtures)
