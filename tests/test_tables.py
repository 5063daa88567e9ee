import inspect

import pytest

from tests.tables import every_row


def test_every_row_is_run_and_each_failing_row_is_named():
    numbers = []

    @every_row(("number", "limit"), [(1, 2), (3, 2), (4, 2), (1, 9)])
    def check(fixture, number, limit):
        numbers.append((fixture, number))
        if number == 4:
            pytest.fail("too many")
        assert number < limit

    with pytest.raises(AssertionError) as failure:
        check(fixture="f")
    assert numbers == [("f", 1), ("f", 3), ("f", 4), ("f", 1)]
    head, *lines = str(failure.value).splitlines()
    assert head == "2 of 4 rows fail"
    assert any(line.startswith("{'number': 3, 'limit': 2}: AssertionError") for line in lines)
    assert "{'number': 4, 'limit': 2}: Failed: too many" in lines
    assert list(inspect.signature(check).parameters) == ["fixture"]


def test_two_tables_are_combined():
    pairs = []

    @every_row("first", [1, 2])
    @every_row("second", "ab")
    def check(first, second):
        pairs.append((first, second))

    check()
    assert pairs == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_a_table_without_rows_is_an_error():
    with pytest.raises(AssertionError, match="no row"):
        every_row("number", [])
