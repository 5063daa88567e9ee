import pytest
from pydantic import ValidationError

from infra.settings import SettingsInvalid, SharedSettings
from tests.environment import settings_from
from tests.tables import every_row

GIVEN = {"AMPCORE_DATABASE_URL": "sqlite://", "AMPCORE_REDIS_URL": "redis://h"}
INVALID_DATABASE_URLS = [
    "secret",
    "secret nonsense",
    "mysql://ada:secret@host/amp",
    "postgresql://a:secret@h:p/x",
]
INVALID_REDIS_URLS = [
    "secret",
    "http://:secret@host",
    "redis:secret",
    "redis://",
    "redis://:secret@host:port/0",
    "unix:///run/secret.sock",
    "redis+socket:///run/secret.sock",
    "sentinel://:secret@host:26379",
]
INVALID_ARTIFACTS_URLS = [
    "secret",
    "/secret/folder",
    "s3://key:secret@bucket",
    "s3://",
    "://secret",
]


def shared(**variables):
    return settings_from(SharedSettings, GIVEN | variables)


@every_row(
    ("name", "text"),
    [
        *[("AMPCORE_DATABASE_URL", text) for text in INVALID_DATABASE_URLS],
        *[("AMPCORE_REDIS_URL", text) for text in INVALID_REDIS_URLS],
        *[("AMPCORE_ARTIFACTS_URL", text) for text in INVALID_ARTIFACTS_URLS],
    ],
)
def test_an_invalid_url_is_refused_without_repeating_it(name, text):
    with pytest.raises(SettingsInvalid, match=rf"{name}: expected .*received") as caught:
        shared(**{name: text})
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__  # pydantic's error holds the value


@every_row(
    ("name", "text"),
    [
        ("database_url", "postgresql://ada:secret@host:5432/amp"),
        ("database_url", "sqlite:////data/ampcore.sqlite"),
        ("redis_url", "rediss://:secret@host:6379/0"),
        ("artifacts_url", "file:///data/artifacts"),
        ("artifacts_url", "s3://bucket/folder"),
    ],
)
def test_a_valid_url_is_returned_unchanged(name, text):
    assert getattr(shared(**{f"AMPCORE_{name.upper()}": text}), name) == text


@every_row("lease", ["0", "-5", "nan", "inf", "soon", "1e9"])
def test_an_invalid_duration_is_refused(lease):
    with pytest.raises(SettingsInvalid, match=rf"AMPCORE_LEASE_S: expected .* 3600.*'{lease}'"):
        shared(AMPCORE_LEASE_S=lease)


def test_an_unknown_choice_is_refused():
    with pytest.raises(SettingsInvalid, match=r"AMPCORE_LOG_FORMAT: expected text or json.*'xml'"):
        shared(AMPCORE_LOG_FORMAT="xml")


def test_every_invalid_setting_is_named():
    with pytest.raises(SettingsInvalid) as caught:
        settings_from(SharedSettings, {"AMPCORE_REDIS_URL": "secret", "AMPCORE_LEASE_S": "x" * 999})
    names = [line.split(maxsplit=1)[0].strip(":") for line in str(caught.value).splitlines()]
    assert names == ["AMPCORE_DATABASE_URL", "AMPCORE_REDIS_URL", "AMPCORE_LEASE_S"]
    assert len(str(caught.value)) < 400


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        shared().lease_s = 1


def test_the_repr_of_the_settings_hides_passwords():
    settings = shared(
        AMPCORE_DATABASE_URL="postgresql://a:secret@h/x", AMPCORE_REDIS_URL="redis://:secret@h"
    )
    assert "secret" not in f"{settings} {settings!r}"


def test_the_artifacts_url_escapes_the_name_of_the_folder(tmp_path):
    settings = shared(AMPCORE_DATA_DIR=str(tmp_path / "with blank %20"))
    assert settings.artifacts_url == f"file://{tmp_path}/with%20blank%20%2520/artifacts"


def test_an_s3_url_without_s3fs_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr("infra.settings.find_spec", lambda name: None)
    with pytest.raises(SettingsInvalid, match=r"ARTIFACTS_URL: .*s3fs.*ampcore\[s3\]"):
        shared(AMPCORE_ARTIFACTS_URL="s3://bucket")


def test_no_object_store_is_allowed_by_default():
    assert shared().data_prefixes == ()


def test_prefixes_of_data_are_separated_by_commas():
    settings = shared(AMPCORE_DATA_PREFIXES="s3://bucket/birds/, gs://other")
    assert [str(prefix) for prefix in settings.data_prefixes] == ["s3://bucket/birds", "gs://other"]


@every_row("text", ["bucket", "https://host/folder", "s3://a,,s3://b", "s3://"])
def test_an_invalid_prefix_of_data_is_refused(text):
    with pytest.raises(SettingsInvalid, match="DATA_PREFIXES: expected comma-separated prefixes"):
        shared(AMPCORE_DATA_PREFIXES=text)
