"""The settings of a provider, and what `ampserver doctor` says about it."""

from datetime import UTC, datetime, timedelta

import pytest

from ampspec.api.roles import Grant
from infra.settings import SettingsInvalid
from server.doctor.findings import Level
from server.doctor.provider_check import provider_findings
from server.settings import Settings
from server.sign_on.config import ProviderConfig
from server.sign_on.group_grants import grants_of_groups, read_groups
from tests.environment import settings_from
from tests.tables import every_row

VALID = {
    "AMPCORE_PUBLIC_URL": "https://ampcore.example.com",
    "AMPCORE_OIDC_ISSUER": "https://login.example.com",
    "AMPCORE_OIDC_CLIENT_ID": "ampcore",
    "AMPCORE_OIDC_CLIENT_SECRET": "hush",
    "AMPCORE_OIDC_GROUPS": '{"vision": "vision:member"}',
}


def test_without_an_issuer_there_is_no_provider():
    assert ProviderConfig.from_settings(settings_from(Settings, {})) is None


def test_the_settings_of_a_provider_are_read():
    more = {
        "AMPCORE_OIDC_GROUPS_CLAIM": "groups, realm_access.roles",
        "AMPCORE_OIDC_EMAIL_DOMAINS": "Example.com, @example.org",
    }
    config = ProviderConfig.from_settings(settings_from(Settings, VALID | more))
    assert config.client_secret == "hush"
    assert config.groups == {"vision": (Grant("vision", "member"),)}
    assert config.groups_claims == ("groups", "realm_access.roles")
    assert config.email_domains == {"example.com", "example.org"}
    assert config.redirect_uri == "https://ampcore.example.com/api/v1/sign-in/callback"
    assert (config.lifetime.longest_s, config.lifetime.idle_s) == (43_200, 7_200)


def test_the_secret_is_read_from_a_file_and_shown_nowhere(tmp_path):
    (tmp_path / "secret").write_text("hush hush\n")
    values = {key: value for key, value in VALID.items() if not key.endswith("SECRET")}
    values["AMPCORE_OIDC_CLIENT_SECRET_FILE"] = str(tmp_path / "secret")
    settings = settings_from(Settings, values)
    config = ProviderConfig.from_settings(settings)
    assert config.client_secret == "hush hush"
    assert "hush" not in repr(settings) + repr(config)


INVALID = {
    "without TLS": ({"AMPCORE_OIDC_ISSUER": "http://login.example.com"}, "https://login"),
    "no public address": ({"AMPCORE_PUBLIC_URL": ""}, "needs AMPCORE_PUBLIC_URL"),
    "no client": ({"AMPCORE_OIDC_CLIENT_ID": ""}, "needs AMPCORE_OIDC_CLIENT_ID"),
    "no groups": ({"AMPCORE_OIDC_GROUPS": ""}, "needs AMPCORE_OIDC_GROUPS"),
    "no file": ({"AMPCORE_OIDC_CLIENT_SECRET_FILE": "/nowhere"}, "SECRET_FILE: expected a file"),
    "two secrets": ({"AMPCORE_OIDC_CLIENT_SECRET_FILE": __file__}, "received both"),
    "no openid": ({"AMPCORE_OIDC_SCOPES": "profile"}, "scopes with openid"),
    "no JSON": ({"AMPCORE_OIDC_GROUPS": "vision=member"}, "expected a JSON object such as"),
    "no role": ({"AMPCORE_OIDC_GROUPS": '{"a": "vision"}'}, "for the group 'a' 'admin', or"),
    "an unknown role": ({"AMPCORE_OIDC_GROUPS": '{"a": "vision:boss"}'}, "'vision:boss'"),
    "an admin of one": ({"AMPCORE_OIDC_GROUPS": '{"a": "vision:admin"}'}, "'vision:admin'"),
    "a scope": ({"AMPCORE_OIDC_GROUPS": '{"a": "v:member+fly"}'}, "'v:member\\+fly'"),
    "a number": ({"AMPCORE_OIDC_GROUPS": '{"a": 1}'}, "such as 'vision:member', or a list"),
    "a short session": ({"AMPCORE_OIDC_SESSION_S": "10"}, "from 300 to 2592000"),
}


@every_row("which", INVALID)
def test_a_setting_that_is_wrong_is_named_with_what_was_expected(which):
    values, expected = INVALID[which]
    with pytest.raises(SettingsInvalid, match=expected) as raised:
        settings_from(Settings, VALID | values)
    assert "hush" not in str(raised.value)


def test_several_groups_add_up_in_each_project():
    mapping = read_groups(
        '{"readers": ["vision:viewer", "audio:viewer"], "coders": "vision:viewer+jobs:run-code", '
        '"vision": "vision:member"}'
    )
    assert grants_of_groups(mapping, ["vision", "coders", "readers", "unknown"]) == (
        Grant("vision", "member", ("jobs:run-code",)),
        Grant("audio", "viewer"),
    )
    assert grants_of_groups(mapping, ["unknown"]) == ()


def test_the_doctor_says_whether_the_provider_answers(settings, provider):
    values = {"redis_url": "redis://127.0.0.1:1/0", **settings}
    [finding] = provider_findings(Settings(**values))
    assert finding.level is Level.OK
    assert "has 1 key;" in finding.message
    assert "/api/v1/sign-in/callback" in finding.message
    provider.metadata = {"issuer": "https://other.example"}
    [finding] = provider_findings(Settings(**values))
    assert finding.level is Level.PROBLEM
    assert "expected AMPCORE_OIDC_ISSUER" in finding.message
    values["oidc_issuer"] = "http://127.0.0.1:1"
    [finding] = provider_findings(Settings(**values))
    assert "cannot reach" in finding.message
    assert list(provider_findings(Settings(redis_url=values["redis_url"]))) == []


def test_the_doctor_compares_the_clocks_and_wants_tls(settings, monkeypatch):
    ahead = datetime.now(UTC) + timedelta(seconds=90)

    class Clock(datetime):
        @classmethod
        def now(cls, zone=None):
            return ahead

    monkeypatch.setattr("server.sign_on.provider.datetime", Clock)
    values = settings | {"public_url": "http://ampcore.example.com"}
    _, clock, tls = provider_findings(Settings(redis_url="redis://127.0.0.1:1/0", **values))
    assert "s ahead of the provider's" in clock.message
    assert "without TLS" in tls.message
