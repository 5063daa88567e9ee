"""`ampctl run sync`, with runs that could not be sent, and `ampctl run mirror`."""

import json
from pathlib import Path

import pytest

from ampclient import Client
from ampspec.jobs import State
from tests.ampclient.mirrors.test_live import ListMirror

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


def test_a_run_that_was_never_sent_and_one_entry_are_named_as_they_are(
    api, ampctl, folder, monkeypatch, caplog
):
    messages = [record.getMessage() for record in caplog.get_records("setup")]
    [message] = [text for text in messages if "could not be sent completely" in text]
    assert message.startswith("the run could not be sent")
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    assert "  1 entry sent  " in ampctl("run", "sync", str(folder)).out


def test_a_job_is_mirrored_with_the_command_line(api, ampctl, monkeypatch):
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    places = []
    with Client(api.url, api.token) as client, client.runs.track("mirrored") as run:
        run.log(0, loss=1.0)
    for module, name in (("mlflow_mirror", "MlflowMirror"), ("wandb_mirror", "WandbMirror")):
        target = f"ampclient.mirrors.{module}.{name}"
        monkeypatch.setattr(target, lambda *place: places.append(place) or ListMirror())
    result = ampctl("run", "mirror", run.id, "--to", "mlflow", "--uri", "http://m", "--json")
    [document] = result.json()
    assert (document["id"], document["steps"], document["evaluations"]) == (run.id, 1, 0)
    result = ampctl("run", "mirror", run.id, "--to", "wandb", "--project", "digits")
    assert "mirrored  1 step, 0 evaluations  a list" in result.out
    assert "not written: pictures" in result.err
    assert places == [("http://m", "Default"), (Path(), "digits")]


def test_a_mirror_without_its_package_names_it(ampctl, monkeypatch):
    monkeypatch.setattr("ampclient.mirrors.mirror.find_spec", lambda _: None)
    result = ampctl("run", "mirror", "1" * 12, "--to", "wandb")
    assert result.code == 2
    assert "ampcore[wandb]" in result.err
