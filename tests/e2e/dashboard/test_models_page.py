"""The pages of models: versions, files with reasons, history, comparison, deletion."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.dashboard.test_accessibility import accessibility_violations

pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture(params=["digits"])
def name(request: pytest.FixtureRequest) -> str:
    """The name of a model: a number is never used again, so each test has its own."""
    return str(request.param)


@pytest.fixture
def versions(stack: Any, finished_jobs: Any, name: str) -> Iterator[Any]:
    """Two versions of a model, the first the champion."""
    models = stack.client.models
    registered = [models.register(job.id, name=name) for job in finished_jobs]
    models.promote(f"{name}:1", "champion", ["final_loss <= 100"], reason="the first")
    yield registered
    models.remove_alias(name, "champion")
    models.delete(name)


def test_a_model_shows_its_versions_files_and_history(
    open_signed_in: Callable[..., Page], versions: Any
) -> None:
    page = open_signed_in("#/models")
    row = page.get_by_role("table", name="Models").get_by_role("row", name="digits")
    expect(row).to_contain_text("champion 1")
    row.get_by_role("link", name="digits").click()
    expect(page.get_by_role("heading", name="Models / digits")).to_be_visible()
    page.get_by_role("link", name="digits:1", exact=True).click()
    files = page.get_by_role("table", name="Files")
    expect(files.get_by_role("link", name="model.keras")).to_be_visible()
    expect(files.get_by_role("row", name="onnx")).to_contain_text("does not name onnx")
    expect(page.get_by_label("History of aliases")).to_contain_text("the first")
    expect(page.get_by_label("History of aliases")).to_contain_text("passed: final_loss <= 100")
    assert accessibility_violations(page) == []
    with page.expect_download() as download:
        page.get_by_role("link", name="Model card").click()
    assert download.value.suggested_filename == "digits-1.md"
    page.get_by_role("link", name="Compare digits:2 with digits:1").click()
    expect(page.get_by_role("heading", name="Compare", exact=True)).to_be_visible()


@pytest.mark.parametrize("name", ["letters"], indirect=True)
def test_a_version_without_an_alias_is_deleted(
    open_signed_in: Callable[..., Page], versions: Any
) -> None:
    page = open_signed_in("#/models/letters")
    table = page.get_by_role("table", name="Versions")
    expect(table.get_by_role("button", name="Delete letters:1")).to_have_count(0)
    table.get_by_role("button", name="Delete letters:2").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(table.get_by_role("row", name="letters:2")).to_have_count(0)
