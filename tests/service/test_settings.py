from pathlib import Path

import pytest

from service.settings import (
    Environment,
    SettingsInvalid,
    SharedSettings,
    artifacts_url,
    database_url,
    redis_url,
)

NO_DATABASES = [
    "secret",
    "secret nonsense",
    "mysql://ada:secret@host/amp",
    "postgresql://a:secret@h:p/x",
]
NO_QUEUES = [
    "secret",
    "http://:secret@host",
    "redis:secret",
    "redis://",
    "redis://:secret@host:port/0",
]
NO_STORAGES = ["secret", "/secret/folder", "s3://key:secret@bucket", "s3://", "://secret"]


@pytest.mark.parametrize(
    ("read", "name", "text"),
    [
        *[(database_url, "AMPCORE_DATABASE_URL", text) for text in NO_DATABASES],
        *[(redis_url, "AMPCORE_REDIS_URL", text) for text in NO_QUEUES],
        *[(artifacts_url, "AMPCORE_ARTIFACTS_URL", text) for text in NO_STORAGES],
    ],
)
def test_an_address_that_is_none_is_named_and_not_repeated(read, name, text):
    with pytest.raises(SettingsInvalid, match=rf"{name}: expected .*received") as caught:
        read(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (database_url, "postgresql://ada:secret@host:5432/amp"),
        (database_url, "sqlite:////data/ampcore.sqlite"),
        (redis_url, "rediss://:secret@host:6379/0"),
        (artifacts_url, "file:///data/artifacts"),
        (artifacts_url, "s3://bucket/folder"),
        (artifacts_url, ""),
    ],
)
def test_an_address_is_taken_as_it_is(read, text):
    assert read(text) == text


@pytest.mark.parametrize("lease", ["0", "-5", "nan", "inf", "soon", "1e9"])
def test_a_length_of_time_is_a_number_in_its_range(lease):
    with pytest.raises(SettingsInvalid, match=rf"AMPCORE_LEASE_S.*'{lease}'"):
        Environment.of({"AMPCORE_LEASE_S": lease}).shared()


def test_a_word_that_is_none_of_the_choices_is_named():
    given = Environment.of({"AMPCORE_LOG_FORMAT": "xml"})
    with pytest.raises(SettingsInvalid, match=r"AMPCORE_LOG_FORMAT: expected text or json.*'xml'"):
        given.choice("AMPCORE_LOG_FORMAT", "text", "text", "json")


def test_settings_that_are_shown_hide_the_passwords():
    settings = SharedSettings("postgresql://a:secret@h/x", "redis://:secret@h", Path("/data"))
    assert "secret" not in repr(settings)


def test_a_folder_with_any_name_becomes_an_address(tmp_path):
    settings = SharedSettings("sqlite://", "redis://h", tmp_path / "with blank %20")
    assert settings.artifacts_url == f"file://{tmp_path}/with%20blank%20%2520/artifacts"


def test_an_object_store_without_its_library_says_what_to_install(monkeypatch):
    monkeypatch.setattr("service.settings.find_spec", lambda name: None)
    with pytest.raises(SettingsInvalid, match=r"s3fs.*ampcore\[s3\]"):
        artifacts_url("s3://bucket")
