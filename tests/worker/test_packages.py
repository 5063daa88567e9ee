"""What a worker finds out about the packages that are installed on it."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ampspec.jobs import State
from store import workers
from store.database import Database
from store.jobs import jobs
from tests.folders import paths_in
from tests.installed_packages import EXAMPLE, install_example, write_broken
from tests.waiting import DEADLINE_S
from tests.worker.test_app import Process, online_worker, send_job_message
from worker import plugins as packages


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """SQLite alone: tests/store tests the queues on both databases."""
    return sqlite_url


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example and a broken package."""
    folder = install_example(tmp_path_factory.mktemp("package"))
    write_broken(folder)
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are installed for this process and its children."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(site)


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_a_broken_package_is_logged_and_not_announced(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        entries = packages.usable_entries()
    assert [(entry["package"], entry["name"]) for entry in entries] == [
        ("custom-package", "two_towers"),
        ("custom-package", "quantile"),
        ("custom-package", "within"),
        ("custom-package", "signum"),
        ("custom-package", "discs"),
    ]
    assert "ampcore.models: any of broken-one is not usable: " in caplog.text
    assert "a_module_that_is_missing" in caplog.text


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("code", ["raise SystemExit(3)", "print('{no json')"])
def test_without_a_list_no_package_is_announced(
    code: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert packages.usable_entries((sys.executable, "-c", code)) == []
    assert "cannot be listed" in caplog.text


def test_without_packages_no_process_is_started() -> None:
    assert packages.usable_entries(("/no/such/program",)) == []


def test_a_worker_serves_a_queue_for_each_package_and_queue() -> None:
    entries = [{"package": "a"}, {"package": "a"}, {"package": "b"}]
    queues = packages.queues_with_packages(("default", "cpu"), entries)
    assert queues == ("default", "cpu", "default/a", "cpu/a", "default/b", "cpu/b")


@pytest.fixture
def worker(
    *,
    site: Path,
    database: Database,
    database_url: str,
    redis_url: str,
    tmp_path: Path,
) -> Iterator[Process]:
    """A worker on a machine with both packages."""
    environment = {
        "AMPCORE_DATABASE_URL": database_url,
        "AMPCORE_REDIS_URL": redis_url,
        "AMPCORE_DATA_DIR": str(tmp_path / "data"),
        "AMPCORE_WORKER_QUEUES": "default",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")])),
    }
    with online_worker(database, environment, tmp_path / "worker.log") as worker:
        yield worker


@pytest.mark.slow
def test_a_worker_announces_its_packages_and_trains_with_them(
    *,
    worker: Process,
    redis_url: str,
    make_job: Callable[..., Any],
    wait_until: Callable[..., Any],
    python_commands: Path,
    tmp_path: Path,
) -> None:
    spec = yaml.safe_load((EXAMPLE / "job.yaml").read_text(encoding="utf-8"))
    job = make_job(**spec | {"runtime": {"engine": "graph"}})
    assert job.queue == "default/custom-package"
    send_job_message(redis_url, job.queue)
    wait_until(lambda: worker.state_of(job.id) == State.SUCCEEDED)
    row = worker.row()
    assert row is not None
    assert row[0].queues == ["default", "default/custom-package"]

    def announced() -> list[dict[str, Any]]:
        with worker.database.read() as session:
            return [
                entry for entries in workers.online_packages(session).values() for entry in entries
            ]

    entries = wait_until(announced)
    names = ["two_towers", "quantile", "within", "signum", "discs"]
    assert [entry["name"] for entry in entries] == names
    assert entries[0]["schema"]["properties"]["units"]["maximum"] == 4096
    assert "any of broken-one is not usable" in worker.log_file.read_text()

    # The stored model is used with Keras alone.
    with worker.database.read() as session:
        metrics = jobs.get(session, job.id).metrics
    assert 0.5 < metrics["val_within"] <= 1
    [model] = paths_in(tmp_path / "data", "attempt-1/model.keras")
    done = subprocess.run(
        [python_commands / "python", EXAMPLE / "predict.py", model.parent],
        env=os.environ | {"KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [error] = map(float, re.findall(r"\d\.\d+", done.stdout))
    assert error == pytest.approx(metrics["val_mae"], rel=0.02)
    assert error < 0.05
