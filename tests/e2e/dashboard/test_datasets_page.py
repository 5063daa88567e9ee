"""The pages of datasets: upload, versions, preview, deletion."""

import base64
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import update

from store.database import Database
from store.tables import DatasetVersion

pytestmark = pytest.mark.xdist_group("dashboard")


def png() -> str:
    """A picture of 2 × 2 grey pixels, in base64."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    head = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\0\x20\xc0\0\xc0\x20")
    content = chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


DESCRIPTION: dict[str, Any] = {
    "state": "described",
    "kind": "npz",
    "rows": 60_000,
    "columns": [
        {"name": "x_train", "dtype": "uint8", "shape": [28, 28]},
        {"name": "y_train", "dtype": "int64", "shape": [], "classes": ["cat", "dog"]},
    ],
    "preview": {"rows": [{"y_train": 3}, {"y_train": 7}], "pictures": [png()]},
}


def describe(stack: Any) -> None:
    """What a reader of the format would have found in every version."""
    database = Database(f"sqlite:///{stack.data / 'ampcore.sqlite'}")
    with database.write() as session:
        session.execute(update(DatasetVersion).values(**DESCRIPTION))
    database.close()


def test_a_file_is_uploaded_shown_and_deleted(
    open_signed_in: Callable[..., Page], stack: Any, tmp_path: Path
) -> None:
    (tmp_path / "Birds of prey.npz").write_bytes(b"content")
    page = open_signed_in("#/datasets")
    page.get_by_label("File").set_input_files(tmp_path / "Birds of prey.npz")
    expect(page.get_by_label("Dataset", exact=True)).to_have_value("birds-of-prey")
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_text("birds-of-prey@1 is ready.")).to_be_visible()
    describe(stack)
    page.get_by_role("link", name="birds-of-prey").click()
    schema = page.get_by_role("table", name="Schema")
    expect(schema.get_by_role("row", name="x_train uint8 [28,28]")).to_be_visible()
    preview = page.get_by_role("table", name="Preview")
    expect(preview.get_by_role("columnheader", name="y_train")).to_be_visible()
    expect(preview.get_by_role("cell", name="7")).to_be_visible()
    picture = page.get_by_role("img", name="Example 1")
    expect(picture).to_have_js_property("naturalWidth", 2)
    page.get_by_role("button", name="Delete dataset").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete dataset").click()
    expect(page.get_by_role("heading", name="Datasets", level=1, exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="birds-of-prey")).to_have_count(0)


def test_versions_are_selected_added_and_deleted(
    open_signed_in: Callable[..., Page], stack: Any, tmp_path: Path
) -> None:
    file = tmp_path / "owls.npz"
    for content in (b"first", b"second"):
        file.write_bytes(content)
        stack.client.datasets.upload(file)
    page = open_signed_in("#/datasets/owls")
    versions = page.get_by_role("table", name="Versions")
    expect(page.get_by_role("heading", name="owls@2")).to_be_visible()
    versions.get_by_role("link", name="owls@1").click()
    expect(page.get_by_role("heading", name="owls@1")).to_be_visible()
    file.write_bytes(b"third")
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Upload new version").click()
    expect(versions.get_by_role("link", name="owls@3")).to_be_visible()
    page.get_by_role("button", name="Delete owls@1").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(versions.get_by_role("link", name="owls@1")).to_have_count(0)
    expect(page.get_by_role("heading", name="owls@3")).to_be_visible()
    with page.expect_download() as download:
        versions.get_by_role("link", name="owls.npz").first.click()
    assert download.value.path().read_bytes() == b"third"
    stack.client.datasets.delete("owls")


def test_an_upload_that_is_refused_says_why(
    open_signed_in: Callable[..., Page], stack: Any, tmp_path: Path
) -> None:
    (tmp_path / "big.npz").write_bytes(b"too large")
    quotas = {"max_queued": None, "max_running": None}
    stack.client.projects.update("default", **quotas, max_dataset_bytes=1)
    page = open_signed_in("#/datasets")
    page.get_by_label("File").set_input_files(tmp_path / "big.npz")
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_text("has a quota of 1 bytes for datasets")).to_be_visible()
    stack.client.projects.update("default", **quotas, max_dataset_bytes=None)
