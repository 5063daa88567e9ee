from pathlib import Path

import pytest

from infra.settings import SettingsInvalid
from tests.environment import settings_from
from tests.tables import every_row
from worker.settings import WorkerSettings

GIVEN = {
    "AMPCORE_DATABASE_URL": "sqlite:///x",
    "AMPCORE_REDIS_URL": "redis://x",
    "AMPCORE_DATA_DIR": "/data",
    "AMPCORE_WORKER_SLOTS": "2",
}


def test_settings_come_from_the_environment() -> None:
    settings = settings_from(WorkerSettings, GIVEN)
    assert settings == WorkerSettings(
        database_url="sqlite:///x", redis_url="redis://x", data_dir=Path("/data"), worker_slots=2
    )
    assert settings.worker_queues is None
    assert settings.scratch_dir == Path("/data/scratch")
    assert settings.artifacts_url == "file:///data/artifacts"


def test_the_scratch_folder_can_be_set() -> None:
    settings = settings_from(WorkerSettings, {**GIVEN, "AMPCORE_SCRATCH_DIR": "/fast"})
    assert settings.scratch_dir == Path("/fast")


@pytest.mark.parametrize("name", ["AMPCORE_DATABASE_URL", "AMPCORE_REDIS_URL"])
def test_a_missing_setting_is_named(name: str) -> None:
    for environment in ({**GIVEN, name: ""}, {k: v for k, v in GIVEN.items() if k != name}):
        with pytest.raises(SettingsInvalid, match=f"{name} is not set"):
            settings_from(WorkerSettings, environment)


@every_row("slots", ["0", "-1", "two", "1.5", "1025"])
def test_slots_must_be_a_positive_number(slots: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"AMPCORE_WORKER_SLOTS.*{slots}"):
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_WORKER_SLOTS": slots})


def test_queues_are_comma_separated() -> None:
    settings = settings_from(
        WorkerSettings, {**GIVEN, "AMPCORE_WORKER_QUEUES": "gpu, big.a100,gpu"}
    )
    assert settings.worker_queues == ("gpu", "big.a100")


@every_row("queues", ["GPU", "a b", "gpu,,cpu", "../x", "x" * 64, ","])
def test_an_invalid_queue_name_is_quoted(queues: str) -> None:
    with pytest.raises(SettingsInvalid, match="AMPCORE_WORKER_QUEUES"):
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_WORKER_QUEUES": queues})


def test_a_store_whose_package_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_from(
        WorkerSettings, {**GIVEN, "AMPCORE_DATA_PREFIXES": "s3://bucket"}
    ).data_prefixes
    monkeypatch.setattr("worker.settings.find_spec", lambda name: None)
    with pytest.raises(SettingsInvalid, match="DATA_PREFIXES: az:// needs the package adlfs"):
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_DATA_PREFIXES": "az://container"})


@pytest.mark.parametrize(
    ("text", "host"),
    [("10.0.0.7", "10.0.0.7"), ("gpu-3.example", "gpu-3.example"), ("[fd00::2]", "fd00::2")],
)
def test_the_address_of_a_worker_is_a_host(text: str, host: str) -> None:
    assert (
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_WORKER_ADDRESS": text}).worker_address
        == host
    )
    assert settings_from(WorkerSettings, GIVEN).worker_address is None


@every_row("text", ["10.0.0.7:8080", "http://a", "a b", "a/b"])
def test_another_address_is_quoted(text: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"AMPCORE_WORKER_ADDRESS.*{text}"):
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_WORKER_ADDRESS": text})


def test_the_ports_of_ranks_are_a_range() -> None:
    environment = {**GIVEN, "AMPCORE_WORKER_PORTS": "42000-42003", "AMPCORE_WORKER_SLOTS": "2"}
    assert settings_from(WorkerSettings, environment).worker_ports == range(42000, 42004)
    assert settings_from(WorkerSettings, GIVEN).worker_ports is None


@every_row("text", ["42000", "42003-42000", "0-9", "42000-70000", "a-b"])
def test_another_range_of_ports_is_quoted(text: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"AMPCORE_WORKER_PORTS.*42000-42015.*{text}"):
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_WORKER_PORTS": text})


def test_too_few_ports_for_the_slots_are_refused() -> None:
    environment = {**GIVEN, "AMPCORE_WORKER_PORTS": "42000-42002", "AMPCORE_WORKER_SLOTS": "2"}
    with pytest.raises(SettingsInvalid, match="at least 4 ports, 2 for each slot, received 3"):
        settings_from(WorkerSettings, environment)


@every_row("job", ["../x", "A1", "a b", "a" * 33])
def test_an_invalid_id_of_a_job_is_quoted(job: str) -> None:
    with pytest.raises(SettingsInvalid, match="AMPCORE_WORKER_JOB: expected the id of a job"):
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_WORKER_JOB": job})


def test_a_worker_runs_the_jobs_of_its_queues_by_default() -> None:
    assert settings_from(WorkerSettings, GIVEN).worker_job is None
    assert (
        settings_from(WorkerSettings, {**GIVEN, "AMPCORE_WORKER_JOB": "ab12"}).worker_job == "ab12"
    )
