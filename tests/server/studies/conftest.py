"""Fixtures for studies: jobs end as a test says, without workers and trainers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampspec.jobs import Reason
from ampspec.telemetry import Event, EventType
from ampspec.telemetry.ranges.range_samples import RangeSample
from ampspec.telemetry.validation_examples import write_examples
from server.studies.progress import StudyProgress
from store import studies, workers
from store.files import artifacts
from store.jobs import attempts
from store.tables import Artifact, StudyJob
from store.telemetry import ingest

STUDIES = "/api/v1/studies"
SPEC = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits", "batch_size": 64}}


class StudyDriver:
    """Does what the background thread and the workers do, when a test asks for it."""

    def __init__(self, api: Any) -> None:
        self.api = api
        services = api.app.state.services
        self.progress = StudyProgress(
            services.database,
            api.dispatcher,
            services.notifier,
            services.submitter,
            services.storage,
            services.planner,
        )

    def create(self, kind: str = "precision", **more: Any) -> str:
        policies = {} if kind == "bisect" else {"policies": ["mixed_bfloat16"]}
        options = {**policies, **more.pop("options", {})}
        body = {"kind": kind, "spec": SPEC, "options": options, **more}
        response = self.api.client.post(STUDIES, json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["id"])

    def get(self, study_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.client.get(f"{STUDIES}/{study_id}").json()
        return found

    def jobs(self, study_id: str) -> dict[str, str | None]:
        return {job["key"]: job["job"] for job in self.get(study_id)["jobs"]}

    def succeed(self, job_id: str, *events: Event, **summary: Any) -> None:
        with self.api.database.write() as session:
            attempts.claim(session, job_id, "w")
            attempts.mark_running(session, job_id, 1, total_steps=10, first_step=0)
            if events:
                assert ingest.append(session, job_id, 1, events, entries_written=0)
            attempts.mark_succeeded(session, job_id, 1, {"steps": 10, **summary})

    def store_examples(self, job_id: str, outcomes: Any, folder: Path) -> None:
        """Store the file of a job's validation examples; None: a damaged one."""
        file = folder / "examples.npy"
        if outcomes is None:
            file.write_bytes(b"no table")
        else:
            rows = np.arange(len(outcomes))
            write_examples(folder, rows, {"accuracy": outcomes}).replace(file)
        size, digest = self.api.app.state.services.storage.put(job_id, "v.npy", file)
        with self.api.database.write() as session:
            session.add(
                Artifact(
                    job_id=job_id,
                    path="v.npy",
                    kind=artifacts.EXAMPLES,
                    attempt=1,
                    seq=1,
                    size_bytes=size,
                    sha256=digest,
                )
            )

    def fail(self, job_id: str, reason: Reason, *samples: RangeSample) -> None:
        events = [Event(EventType.RANGES, one.step, one.to_json()) for one in samples]
        with self.api.database.write() as session:
            attempts.claim(session, job_id, "w")
            attempts.mark_running(session, job_id, 1, total_steps=10, first_step=0)
            if events:
                assert ingest.append(session, job_id, 1, events, entries_written=0)
            attempts.mark_failed(session, job_id, 1, reason, "As the test says.")

    def report_cpu(self, memory_bytes: int) -> None:
        """Have an online worker with a CPU."""
        hardware = {"devices": [{"kind": "cpu", "name": "c"}], "memory_bytes": memory_bytes}
        known = {"hostname": "h", "pid": 1, "version": "1", "slots": 1, "queues": ["default"]}
        with self.api.database.write() as session:
            workers.register(session, "w", **known)
            workers.heartbeat(session, "w", hardware=hardware)

    def entries(self, study_id: str) -> list[StudyJob]:
        with self.api.database.read() as session:
            return list(studies.jobs_of(session, study_id))


@pytest.fixture
def driver(api):
    return StudyDriver(api)
