from pathlib import Path

import pytest

from infra.settings import SettingsInvalid
from server.settings import Settings
from tests.environment import settings_from
from tests.tables import every_row


def test_an_empty_environment_gives_the_defaults(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for environment in ({}, {"AMPCORE_DATA_DIR": "", "AMPCORE_PORT": " "}):
        settings = settings_from(Settings, environment)
        assert settings.data_dir == tmp_path / "ampcore-data"
        assert settings.database_url == f"sqlite:///{tmp_path / 'ampcore-data' / 'ampcore.sqlite'}"
        assert settings.redis_url == "redis://127.0.0.1:6379/0"
        assert settings.artifacts_url == f"file://{tmp_path}/ampcore-data/artifacts"
        assert settings.lease_s == 30
        assert (settings.host, settings.port) == ("127.0.0.1", 8470)


def test_settings_are_read_from_the_environment():
    settings = settings_from(
        Settings,
        {
            "AMPCORE_DATABASE_URL": "postgresql://db/ampcore",
            "AMPCORE_REDIS_URL": "redis://queue/1",
            "AMPCORE_DATA_DIR": "/data",
            "AMPCORE_ARTIFACTS_URL": "s3://bucket/ampcore",
            "AMPCORE_LEASE_S": "2.5",
            "AMPCORE_HOST": "0.0.0.0",  # noqa: S104 - only read
            "AMPCORE_PORT": "80",
        },
    )
    assert settings.database_url == "postgresql://db/ampcore"
    assert settings.redis_url == "redis://queue/1"
    assert settings.datasets_dir == Path("/data/datasets")
    assert settings.artifacts_url == "s3://bucket/ampcore"
    assert settings.lease_s == 2.5
    assert (settings.host, settings.port) == ("0.0.0.0", 80)  # noqa: S104 - only read


@every_row("port", ["x", "-1", "65536", "8.5", "²", "9" * 5000])
def test_an_invalid_port_is_refused(port):
    with pytest.raises(SettingsInvalid, match=r"AMPCORE_PORT: expected .* 65535, received"):
        settings_from(Settings, {"AMPCORE_PORT": port})
