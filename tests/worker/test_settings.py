from pathlib import Path

import pytest

from worker.settings import Settings, SettingsInvalid

GIVEN = {
    "AMPCORE_DATABASE_URL": "sqlite:///x",
    "AMPCORE_REDIS_URL": "redis://x",
    "AMPCORE_DATA_DIR": "/data",
    "AMPCORE_WORKER_SLOTS": "2",
}


def test_settings_come_from_the_environment() -> None:
    settings = Settings.from_environment(GIVEN)
    assert settings == Settings("sqlite:///x", "redis://x", Path("/data"), 2)


@pytest.mark.parametrize("name", ["AMPCORE_DATABASE_URL", "AMPCORE_REDIS_URL"])
def test_a_missing_setting_is_named(name: str) -> None:
    with pytest.raises(SettingsInvalid, match=name):
        Settings.from_environment({key: value for key, value in GIVEN.items() if key != name})


@pytest.mark.parametrize("slots", ["0", "-1", "two", ""])
def test_slots_must_be_a_positive_number(slots: str) -> None:
    with pytest.raises(SettingsInvalid, match="AMPCORE_WORKER_SLOTS"):
        Settings.from_environment({**GIVEN, "AMPCORE_WORKER_SLOTS": slots})


def test_an_address_that_is_none_is_not_repeated() -> None:
    with pytest.raises(SettingsInvalid, match="AMPCORE_DATABASE_URL") as caught:
        Settings.from_environment({**GIVEN, "AMPCORE_DATABASE_URL": "secret"})
    assert "secret" not in str(caught.value)
