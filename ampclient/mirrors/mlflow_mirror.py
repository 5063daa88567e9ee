"""Mirrors a run to a tracking server or store of MLflow."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from ampclient.mirrors.mirror import NOT_MIRRORED, MirrorEnd, MirrorRow, MirrorStart, need_package

MAX_METRICS: Final = 1000
"""Of a request of MLflow."""
MAX_PARAMS: Final = 100
MAX_KEY: Final = 250
MAX_VALUE: Final = 6000
STATES: Final[Mapping[str, str]] = {"succeeded": "FINISHED", "cancelled": "KILLED"}


class MlflowMirror:
    """Writes a run to MLflow: settings as parameters, columns as metrics, labels as tags.

    Args:
        uri: The tracking URI: a server, a database or a folder; None: as MLflow is set. A folder
            allows MLflow the folders of the process: they are in maintenance mode, and
            `sqlite:///mlflow.db` is better where the whole package mlflow is installed.
        experiment: The name of the experiment, which is created if there is none.

    Raises:
        ModuleNotFoundError: The package mlflow-skinny (or mlflow) is not installed.
    """

    def __init__(self, uri: str | None = None, experiment: str = "Default") -> None:
        need_package("mlflow", "MLflow", "mlflow")
        self._uri, self._experiment = uri, experiment
        self._client: Any = None
        self._run_id = ""

    @property
    def place(self) -> str:
        """Where the run is."""
        return f"MLflow at {re.sub('//[^/@]*@', '//', self._uri or 'its default')}"

    @property
    def command(self) -> str:
        """The options of `ampctl run mirror`."""
        uri = "" if self._uri is None else f" --uri {re.sub('//[^/@]*@', '//', self._uri)}"
        return f"--to mlflow{uri} --experiment {self._experiment}"

    @property
    def run_id(self) -> str:
        """The id of the run in MLflow; empty before it is created."""
        return self._run_id

    def begin(self, start: MirrorStart) -> None:
        """Create the run with its parameters and tags."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        if self._uri is not None and is_folder(self._uri):
            # MLflow's own option for folders, which version 3.13 and later refuse without it.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._client = MlflowClient(tracking_uri=self._uri)
        experiment = self._client.get_experiment_by_name(self._experiment)
        experiment_id = (
            self._client.create_experiment(self._experiment)
            if experiment is None
            else experiment.experiment_id
        )
        run = self._client.create_run(
            experiment_id,
            start_time=_ms(start.started_at_s),
            tags={**start.labels, "ampcore.not_mirrored": NOT_MIRRORED},
            run_name=start.name,
        )
        self._run_id = run.info.run_id
        params = [Param(_key(name), str(value)[:MAX_VALUE]) for name, value in start.params.items()]
        for first in range(0, len(params), MAX_PARAMS):
            self._client.log_batch(self._run_id, params=params[first : first + MAX_PARAMS])

    def write(self, rows: Sequence[MirrorRow]) -> None:
        """Add a metric for each value."""
        from mlflow.entities import Metric

        metrics = [
            Metric(_key(name), value, _ms(row.time_s), row.step)
            for row in rows
            for name, value in row.values.items()
        ]
        for part in _parts(metrics):
            self._client.log_batch(self._run_id, metrics=part)

    def end(self, end: MirrorEnd) -> None:
        """Add the results, and set the state."""
        from mlflow.entities import Metric, RunTag

        tags = {"ampcore.run_id": end.run_id, "ampcore.url": end.url, "ampcore.state": end.state}
        self._client.log_batch(
            self._run_id,
            metrics=[
                Metric(f"result/{name}", float(value), _ms(end.ended_at_s), 0)
                for name, value in end.results.items()
            ],
            tags=[RunTag(name, value) for name, value in tags.items() if value is not None],
        )
        if end.state != "running":
            status = STATES.get(end.state, "FAILED")
            self._client.set_terminated(self._run_id, status, _ms(end.ended_at_s))


def is_folder(uri: str) -> bool:
    """Whether a tracking URI names a folder."""
    return urlsplit(uri).scheme in ("", "file")


def _ms(time_s: float) -> int:
    return int(time_s * 1000)


def _key(name: str) -> str:
    """A name that MLflow allows."""
    return re.sub(r"[^/\w.\- :]", "_", name)[:MAX_KEY]


def _parts(metrics: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(metrics), MAX_METRICS):
        yield metrics[first : first + MAX_METRICS]
