"""Callbacks of transfers, those of version 0.5 too."""

import warnings
from functools import partial

import pytest

from ampclient._transfer.progress import current_bytes_callback
from tests.tables import every_row


class Reporter:
    """An object with methods that may be callbacks."""

    def __init__(self):
        self.calls = []

    def current(self, *values):
        self.calls.append(values)

    def with_default(self, name, done_bytes, total_bytes=None):
        self.calls.append((name, done_bytes, total_bytes))

    def with_all_defaults(self, name="", done_bytes=0, total_bytes=0, unit="B"):
        self.calls.append((name, done_bytes, total_bytes))

    def old(self, done_bytes, total_bytes):
        self.calls.append((done_bytes, total_bytes))

    def old_with_default(self, done_bytes, total_bytes=None):
        self.calls.append((done_bytes, total_bytes))

    def old_with_keyword(self, done_bytes, total_bytes, *, unit="B"):
        self.calls.append((done_bytes, total_bytes))


@every_row("method", ["current", "with_default", "with_all_defaults"])
def test_a_function_that_accepts_three_values_gets_them(method):
    reporter = Reporter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        on_progress = current_bytes_callback(getattr(reporter, method))
    on_progress("model.keras", 1, 2)
    assert reporter.calls == [("model.keras", 1, 2)]


@every_row("method", ["old", "old_with_default", "old_with_keyword"])
def test_a_function_that_accepts_two_values_gets_the_bytes(method):
    reporter = Reporter()
    with pytest.warns(DeprecationWarning, match="its bytes transferred so far"):
        on_progress = current_bytes_callback(getattr(reporter, method))
    on_progress("model.keras", 1, 2)
    assert reporter.calls == [(1, 2)]


def test_bound_arguments_are_not_counted():
    reporter = Reporter()
    with pytest.warns(DeprecationWarning, match="is now called with"):
        on_progress = current_bytes_callback(partial(Reporter.old, reporter))
    on_progress("model.keras", 1, 2)
    assert reporter.calls == [(1, 2)]


def test_a_value_that_a_default_binds_is_kept():
    reporter = Reporter()
    with pytest.warns(DeprecationWarning, match="is now called with"):
        on_progress = current_bytes_callback(
            lambda done, total, reporter=reporter: reporter.old(done, total)
        )
    on_progress("model.keras", 1, 2)
    assert reporter.calls == [(1, 2)]


def test_a_function_that_takes_neither_is_called_as_now():
    with pytest.raises(TypeError, match="takes 0 positional arguments but 3 were given"):
        current_bytes_callback(lambda: None)("model.keras", 1, 2)
