"""Fixtures of the tests of the server."""

import pytest

from tests.file_descriptions import describe_in_this_process


@pytest.fixture
def _describe_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe uploaded files without the server's child process."""
    describe_in_this_process(monkeypatch)
