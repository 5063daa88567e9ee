from pathlib import Path

import pytest

from server.settings import Settings, SettingsInvalid


def test_an_empty_environment_means_this_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    settings = Settings.from_environment({})
    assert settings.data_dir == tmp_path / "ampcore-data"
    assert settings.database_url == f"sqlite:///{tmp_path / 'ampcore-data' / 'ampcore.sqlite'}"
    assert settings.redis_url == "redis://127.0.0.1:6379/0"
    assert (settings.host, settings.port) == ("127.0.0.1", 8470)


def test_the_environment_decides():
    settings = Settings.from_environment(
        {
            "AMPCORE_DATABASE_URL": "postgresql://db/ampcore",
            "AMPCORE_REDIS_URL": "redis://queue/1",
            "AMPCORE_DATA_DIR": "/data",
            "AMPCORE_HOST": "0.0.0.0",  # noqa: S104 - only read
            "AMPCORE_PORT": "80",
        }
    )
    assert settings.database_url == "postgresql://db/ampcore"
    assert settings.redis_url == "redis://queue/1"
    assert settings.datasets_dir == Path("/data/datasets")
    assert (settings.host, settings.port) == ("0.0.0.0", 80)  # noqa: S104 - only read


@pytest.mark.parametrize("port", ["x", "-1", "65536", "8.0"])
def test_a_port_that_is_none_is_named(port):
    with pytest.raises(SettingsInvalid, match="AMPCORE_PORT"):
        Settings.from_environment({"AMPCORE_PORT": port})
