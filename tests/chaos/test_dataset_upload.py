"""The API is killed, or replaced by another server, in the middle of an upload."""

import os
from pathlib import Path

import pytest

from ampclient import Client
from tests.chaos import xdist_groups
from tests.chaos.cluster import Cluster
from tests.waiting import DEADLINE_S

pytestmark = [xdist_groups.SCRIPTED, pytest.mark.quick]

SIZE = 6_000_000
CHUNK = 1_000_000


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several requests for each upload, and a client that waits for a restart as long as needed."""
    monkeypatch.setattr("ampclient._transfer.uploads.CHUNK_BYTES", CHUNK)
    monkeypatch.setattr("ampclient._transfer.uploads.POLLING_RETRY_TIMEOUT_S", DEADLINE_S)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "birds.npz"
    file.write_bytes(os.urandom(SIZE))
    return file


def test_an_upload_continues_after_its_api_was_killed(
    cluster: Cluster, file: Path, tmp_path: Path
) -> None:
    """Mechanism: each request that the server has confirmed is in the database and the storage.

    Checked: if `Uploads.append` does not add the part to the row, the offset stays 0.
    """
    [api] = cluster.apis
    killed: list[int] = []
    resumed: list[int] = []

    def kill_once(_name: str, sent: int, _size: int | None) -> None:
        if killed:
            resumed.append(sent)
        elif sent > 2 * CHUNK:
            killed.append(sent)
            api.kill()
            api.start()
            api.wait_ready()

    version = api.client.datasets.upload(file, name="killed", on_progress=kill_once)
    assert (version.number, len(killed)) == (1, 1)
    assert min(resumed) >= 2 * CHUNK
    path = api.client.datasets.download("killed", to=tmp_path / "new")
    assert path.read_bytes() == file.read_bytes()


def test_the_parts_of_an_upload_may_reach_different_servers(
    cluster: Cluster, file: Path, tmp_path: Path
) -> None:
    """Mechanism: the parts are in the storage that the servers share, not on their own disks."""
    [first] = cluster.apis
    second = cluster.api()
    with Client(second.url, cluster.token, timeout_s=DEADLINE_S) as other:
        content = file.read_bytes()
        body = {"file": "birds.npz", "size_bytes": SIZE}
        address = first.http.post("/api/v1/datasets/shared/uploads", json=body).headers["Location"]
        for number, start in enumerate(range(0, SIZE, CHUNK)):
            headers = {"Upload-Offset": str(start)}
            piece = content[start : start + CHUNK]
            http = (first, second)[number % 2].http
            http.patch(address, content=piece, headers=headers).raise_for_status()
        second.http.post(f"{address}/complete").raise_for_status()
        path = other.datasets.download("shared", to=tmp_path / "new")
    assert path.read_bytes() == content
    cluster.apis.remove(second)
    second.close()
