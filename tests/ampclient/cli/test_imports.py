"""`ampctl run import-tensorboard` and `import-mlflow`."""

import pytest
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

from ampclient import Client
from tests.ampclient.imports.event_files import scalar, write


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def test_a_folder_is_imported_with_the_command_line(api, ampctl, tmp_path, monkeypatch):
    monkeypatch.setenv("AMPCORE_URL", api.url)
    monkeypatch.setenv("AMPCORE_TOKEN", api.token)
    points = [(step, float(step), scalar("train/loss", 1.0 / (step + 1))) for step in range(3)]
    columns = [(2, 2.0, scalar(f"metric {number}", number)) for number in range(50)]
    picture = Summary.Value(tag="weights", histo=HistogramProto(num=1))
    write(tmp_path / "runs" / "one", *points, *columns, (2, 2.0, picture))
    result = ampctl("run", "import-tensorboard", str(tmp_path / "runs"))
    assert result.code == 0, result.err
    assert "one  3 steps" in result.out
    assert "train/loss as loss" in result.out
    assert "left out: 1 histograms, 2 scalars beyond 48" in result.err
    with Client(api.url, api.token) as client:
        [job] = client.jobs.list()
        assert (job.name, job.state, job.spec["labels"]["imported_from"]) == (
            "one",
            "succeeded",
            f"tensorboard {tmp_path / 'runs' / 'one'}",
        )
        assert job.steps()["loss"].tolist() == pytest.approx([1, 0.5, 1 / 3])
    result = ampctl("run", "import-tensorboard", str(tmp_path / "runs" / "one" / ".."), "--json")
    assert [run["steps"] for run in result.json()] == [3]
    (tmp_path / "empty").mkdir()
    assert ampctl("run", "import-tensorboard", str(tmp_path / "empty")).code == 2


def test_a_server_that_cannot_be_reached_is_an_error(ampctl):
    result = ampctl("run", "import-mlflow", "http://127.0.0.1:1", "--experiment", "x")
    assert result.code == 7
    assert "MLflow at http://127.0.0.1:1/" in result.err
