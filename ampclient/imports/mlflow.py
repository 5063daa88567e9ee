"""Reads the runs of an experiment from a tracking server of MLflow, through its REST API.

https://mlflow.org/docs/latest/rest-api.html
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import httpx

from ampclient.errors import ImportFailed
from ampclient.imports.foreign_run import ForeignRun, Point

PAGE: Final = 1000
TIMEOUT_S: Final = 60.0
STATES: Final[Mapping[str, Literal["succeeded", "failed", "cancelled"]]] = {
    "FINISHED": "succeeded",
    "KILLED": "cancelled",
}
"""Of MLflow's states; a run in any other has not ended as it should."""
HIDDEN: Final = "mlflow."
"""Tags of MLflow itself begin with it."""
MAX_LABELS: Final = 32


def mlflow_runs(
    url: str, experiment: str, *, http_client: httpx.Client | None = None
) -> Iterator[ForeignRun]:
    """Each active run of an experiment, the oldest first.

    Args:
        url: The tracking server; a user and a password may be part of it.
        experiment: The name of the experiment.
        http_client: Sends the requests; None: one of its own.

    Raises:
        ImportFailed: There is no such experiment, or the server does not answer, or not as MLflow
            does.
    """
    with http_client or httpx.Client(timeout=TIMEOUT_S) as client:
        api = _Api(client, url.rstrip("/"))
        answer = api.get("experiments/get-by-name", {"experiment_name": experiment})
        experiment_id = answer["experiment"]["experiment_id"]
        body = {
            "experiment_ids": [experiment_id],
            "max_results": PAGE,
            "order_by": ["attributes.start_time ASC"],
        }
        for run in api.pages("runs/search", body, "runs"):
            yield _read(api, run)


class _Api:
    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client, self._url = client, url

    def get(self, path: str, query: Mapping[str, Any]) -> Any:
        return self._send("GET", path, params=query)

    def pages(self, path: str, body: Mapping[str, Any], items: str) -> Iterator[Any]:
        """The items of all pages of a search."""
        token: str | None = None
        while True:
            page = {**body, **({"page_token": token} if token else {})}
            answer = self._send("POST", path, json=page)
            yield from answer.get(items, [])
            token = answer.get("next_page_token")
            if not token:
                return

    def history(self, run_id: str, metric: str) -> Iterator[Any]:
        """All values of a metric of a run."""
        token: str | None = None
        while True:
            query = {"run_id": run_id, "metric_key": metric, "max_results": PAGE}
            answer = self.get(
                "metrics/get-history", query | ({"page_token": token} if token else {})
            )
            yield from answer.get("metrics", [])
            token = answer.get("next_page_token")
            if not token:
                return

    def _send(self, method: str, path: str, **options: Any) -> Any:
        url = f"{self._url}/api/2.0/mlflow/{path}"
        try:
            response = self._client.request(method, url, **options)
            document = response.json()
        except httpx.HTTPError as error:
            raise ImportFailed(f"MLflow at {_shown(url)} does not answer: {error}") from error
        except ValueError:
            document = None
        if response.is_success and isinstance(document, dict):
            return document
        message = document.get("message") if isinstance(document, dict) else None
        raise ImportFailed(
            f"MLflow at {_shown(url)} answered HTTP {response.status_code}: "
            f"{message or 'no JSON, so that it may be another server'}"
        )


def _shown(url: str) -> str:
    """The URL without a user and a password."""
    return str(httpx.URL(url).copy_with(userinfo=b""))


def _read(api: _Api, document: Mapping[str, Any]) -> ForeignRun:
    info, data = document["info"], document.get("data", {})
    tags = {tag["key"]: tag["value"] for tag in data.get("tags", [])}
    labels = {key[:64]: value[:256] for key, value in tags.items() if not key.startswith(HIDDEN)}
    run = ForeignRun(
        info.get("run_name") or tags.get("mlflow.runName") or info["run_id"],
        f"mlflow {info['run_id']}",
        state=STATES.get(info["status"], "failed"),
        config={parameter["key"]: parameter["value"] for parameter in data.get("params", [])},
        labels=dict(list(labels.items())[:MAX_LABELS]),
    )
    for metric in data.get("metrics", []):
        run.scalars[metric["key"]] = [
            Point(int(point.get("step", 0)), int(point["timestamp"]) / 1000, float(point["value"]))
            for point in api.history(info["run_id"], metric["key"])
        ]
    return run
