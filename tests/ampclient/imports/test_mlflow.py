"""Runs of MLflow, from a server that answers as its REST API does."""

import json

import httpx
import pytest

from ampclient import ImportFailed
from ampclient.imports.mlflow import mlflow_runs

RUNS = [
    {
        "info": {"run_id": "a1", "run_name": "first", "status": "FINISHED"},
        "data": {
            "metrics": [{"key": "train_loss"}, {"key": "val acc"}],
            "params": [{"key": "lr", "value": "0.1"}],
            "tags": [{"key": "team", "value": "vision"}, {"key": "mlflow.user", "value": "u"}],
        },
    },
    {"info": {"run_id": "b2", "status": "RUNNING"}, "data": {"tags": []}},
]
HISTORY = {
    "train_loss": [
        {"step": step, "timestamp": 1000 * step, "value": 1 / (step + 1)} for step in (0, 1)
    ],
    "val acc": [{"step": 1, "timestamp": "1500", "value": "NaN"}],
}


def answer(request):
    """Pages of one item each."""
    path, query = request.url.path.removeprefix("/root/api/2.0/mlflow/"), request.url.params
    if path == "experiments/get-by-name":
        if query["experiment_name"] != "digits":
            message = "Could not find experiment with name 'other'"
            return httpx.Response(
                404, json={"error_code": "RESOURCE_DOES_NOT_EXIST", "message": message}
            )
        return httpx.Response(200, json={"experiment": {"experiment_id": "7"}})
    if path == "runs/search":
        body = json.loads(request.content)
        assert body["experiment_ids"] == ["7"]
        items, token, name = RUNS, body.get("page_token"), "runs"
    else:
        items, token, name = HISTORY[query["metric_key"]], query.get("page_token"), "metrics"
    place = int(token or 0)
    more = {"next_page_token": str(place + 1)} if place + 1 < len(items) else {}
    return httpx.Response(200, json={name: items[place : place + 1], **more})


def runs(experiment="digits", url="http://user:secret@mlflow.test/root/", handler=answer):
    client = httpx.Client(transport=httpx.MockTransport(handler))
    return list(mlflow_runs(url, experiment, http_client=client))


def test_each_run_has_its_metrics_parameters_and_tags():
    first, second = runs()
    assert (first.name, first.state, second.name, second.state) == (
        "first",
        "succeeded",
        "b2",
        "failed",
    )
    assert (first.config, first.labels) == ({"lr": "0.1"}, {"team": "vision"})
    assert first.columns() == {"train_loss": "loss", "val acc": "val_acc"}
    (_, start), (_, end) = first.rows()
    assert start == {"loss": 1.0}
    assert (end["loss"], end["step_time_s"]) == (0.5, 1.5)
    assert second.scalars == {}


def test_what_does_not_answer_as_mlflow_does_is_an_error_without_the_password():
    with pytest.raises(ImportFailed, match="HTTP 404: Could not find experiment") as error:
        runs("other")
    assert "secret" not in str(error.value)
    with pytest.raises(ImportFailed, match="no JSON, so that it may be another server"):
        runs(handler=lambda request: httpx.Response(200, text="<html>"))
