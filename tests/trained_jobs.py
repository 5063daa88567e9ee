"""Jobs that have succeeded with stored files, as a trainer would have left them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ampspec.jobs import State
from ampspec.telemetry.json_values import json_safe
from ampspec.telemetry.validation_examples import write_examples
from store.files import artifacts
from store.files.artifacts import StoredArtifact
from store.jobs import attempts
from store.tables import Job

MODEL_BYTES = b"keras model " * 500
SIGNATURE = {
    "models": {
        "model": {
            "inputs": {"pixels": {"shape": [8, 8, 1], "dtype": "float32"}},
            "outputs": {"logits": {"shape": [10], "dtype": "float32"}},
        }
    },
    "environment": {"tensorflow": "2.21.0", "keras": "3.15.1"},
}


class TrainedJobs:
    """Creates jobs that have succeeded.

    Args:
        api: The API whose storage and database they are in.
        make_job: The fixture of this name.
        folder: For temporary files.
    """

    def __init__(self, api: Any, make_job: Callable[..., Any], folder: Path) -> None:
        self._api, self._make_job, self._folder = api, make_job, folder

    def __call__(
        self,
        *,
        metrics: Mapping[str, float] | None = None,
        accuracies: Sequence[float] | None = None,
        rows: Sequence[int] | None = None,
        files: Mapping[str, bytes] | None = None,
        exports: Mapping[str, Any] | None = None,
        summary: Mapping[str, Any] | None = None,
        project: str = "default",
        **spec: Any,
    ) -> str:
        """The id of a new job.

        Args:
            metrics: Of its evaluation; by default the mean of `accuracies`.
            accuracies: Of each validation example; without it there is no table of them.
            rows: The rows of these examples; by default the first ones.
            files: Model files by name; by default `model.keras`.
            exports: The content of `model.exports.json`.
            summary: More fields of its summary.
            project: Its project.
            **spec: Sections of its spec.
        """
        job = self._make_job(State.RUNNING, project=project, **spec)
        models = {"model.keras": MODEL_BYTES + job.id.encode()} if files is None else files
        for name, content in models.items():
            self.store(job.id, name, content)
        self.store(job.id, "signature.json", json.dumps(SIGNATURE).encode(), artifacts.SIGNATURE)
        self.store(job.id, "weights.safetensors", b"weights", artifacts.WEIGHTS)
        if exports is not None:
            content = json.dumps(exports).encode()
            self.store(job.id, "model.exports.json", content, artifacts.EXPORT)
        if accuracies is not None:
            values = np.asarray(accuracies, np.float32)
            places = np.arange(len(values)) if rows is None else np.asarray(rows)
            file = write_examples(self._folder / job.id, places, {"accuracy": values})
            self.store(job.id, file.name, file.read_bytes(), artifacts.EXAMPLES)
        measured = dict(metrics or {})
        if accuracies is not None:
            measured.setdefault("val_accuracy", float(np.mean(accuracies)))
        result = {
            "steps": 100,
            "model_file": next(iter(models), None),
            "metrics": json_safe(measured),
        }
        with self._api.database.write() as session:
            row = session.get(Job, job.id)
            row.metrics = json_safe(measured)
            attempts.mark_succeeded(session, job.id, 1, {**result, **(summary or {})})
        return str(job.id)

    def store(self, job_id: str, name: str, content: bytes, kind: str = artifacts.MODEL) -> None:
        """Store a file of a running job."""
        self._folder.mkdir(exist_ok=True)
        file = self._folder / "file"
        file.unlink(missing_ok=True)
        file.write_bytes(content)
        path = f"attempt-1/{name}"
        size, sha256 = self._api.app.state.services.storage.put(job_id, path, file)
        with self._api.database.write() as session:
            artifacts.add(session, job_id, 1, StoredArtifact(path, kind, None, size, sha256))
