"""Run a test for every row of a table, and name all rows that fail.

`pytest.mark.parametrize` makes a test of each row, with its own fixtures, application and database:
for a row that takes a millisecond these cost a hundred times as much, and each process of a
parallel run collects all of them. Rows of `every_row` share the fixtures of one test.
"""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def every_row(
    names: str | tuple[str, ...], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test for each row, with its values as the arguments `names`.

    A test with several tables runs for each combination of their rows. All rows are run before the
    test fails; the message has the values and the error of each row that failed.
    """
    row_names = (names,) if isinstance(names, str) else names
    table = [(row,) if isinstance(names, str) else tuple(row) for row in rows]
    assert table, "a test of no row tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        assert set(row_names) <= set(signature.parameters)

        @functools.wraps(test)
        def run_all(**fixtures: Any) -> None:
            errors: list[tuple[Any, BaseException]] = []
            for values in table:
                row = dict(zip(row_names, values, strict=True))
                try:
                    test(**fixtures, **row)
                except (Exception, pytest.fail.Exception) as error:
                    errors.append((row, error))
            if errors:
                lines = [f"{row}: {type(error).__name__}: {error}" for row, error in errors]
                head = f"{len(errors)} of {len(table)} rows fail"
                raise AssertionError("\n".join([head, *lines])) from errors[0][1]

        fixtures = [p for name, p in signature.parameters.items() if name not in row_names]
        run_all.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run_all

    return decorate
