"""`ampctl run sync`, with runs that could not be sent."""

import json

import pytest

from ampclient import Client
from ampspec.jobs import State

URL = "http://127.0.0.1:1"


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


@pytest.fixture
def folder(tmp_path):
    """The folder of a run whose program never reached the server."""
    path = tmp_path / "kept"
    with Client(URL, "amp_none") as client:
        run = client.runs.track("kept", folder=path, flush_timeout_s=0.01)
        run.log(loss=0.5)
        run.finish()
    return path


def test_folders_are_sent_and_one_that_cannot_be_is_named(
    api, ampctl, folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    (tmp_path / "empty").mkdir()
    result = ampctl("run", "sync", str(tmp_path / "empty"), str(folder), "--json")
    assert result.code == 7
    assert f"{tmp_path / 'empty'}: {tmp_path / 'empty'} is no folder of a run" in result.err
    [synced] = json.loads(result.out)
    assert (synced["folder"], synced["state"], synced["sent"]) == (str(folder), "succeeded", 1)
    assert api.client.get(f"/api/v1/jobs/{synced['run_id']}").json()["state"] == State.SUCCEEDED
    result = ampctl("run", "sync", str(folder))
    assert "nothing to send" in result.out
