import asyncio
from ipaddress import ip_network

import pytest

from infra.settings import SettingsInvalid
from server.http.access.auth_middleware import client_network
from server.http.client_address import ClientAddress
from server.settings import Settings
from tests.environment import settings_from
from tests.tables import every_row

PROXIES = ("10.0.0.5/32", "172.31.240.0/24", "2001:db8:5::/64")


@pytest.fixture
def database_url(sqlite_url):
    """One kind of database is enough: nothing here depends on it."""
    return sqlite_url


def seen(peer, *forwarded, proto=None, trusted=PROXIES):
    """The client address and the scheme that the application receives."""
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    headers += [(b"x-forwarded-proto", proto.encode())] if proto else []
    scope = {"type": "http", "client": (peer, 4711), "scheme": "http", "headers": headers}

    async def app(scope, receive, send):
        pass

    middleware = ClientAddress(app, [ip_network(one) for one in trusted])
    asyncio.run(middleware(scope, None, None))
    return scope["client"][0], scope["scheme"]


def test_the_client_is_the_entry_of_the_trusted_proxy_and_not_a_forged_one():
    forged = "203.0.113.9, 127.0.0.1, 198.51.100.7"
    assert seen("10.0.0.5", forged, proto="https") == ("198.51.100.7", "https")


def test_entries_of_several_trusted_proxies_are_skipped():
    assert seen("10.0.0.5", "203.0.113.9, 198.51.100.7, 172.31.240.1")[0] == "198.51.100.7"


def test_repeated_headers_are_read_as_one_list():
    assert seen("10.0.0.5", "203.0.113.9", "198.51.100.7, 172.31.240.1")[0] == "198.51.100.7"


def test_a_peer_that_is_not_a_trusted_proxy_is_the_client():
    assert seen("198.51.100.7", "203.0.113.9", proto="https") == ("198.51.100.7", "http")
    assert seen("10.0.0.5", "203.0.113.9", proto="https", trusted=()) == ("10.0.0.5", "http")


def test_a_client_inside_the_trusted_network_is_found():
    assert seen("10.0.0.5", "172.31.240.9, 172.31.240.1")[0] == "172.31.240.9"
    assert seen("10.0.0.5")[0] == "10.0.0.5"


@every_row("entry", ["unknown", "_hidden", "", "not an address", "1.2.3.4.5", "[::"])
def test_entries_left_of_an_invalid_one_are_ignored(entry):
    assert seen("10.0.0.5", f"203.0.113.9, {entry}, 172.31.240.1")[0] == "172.31.240.1"


@every_row(
    ("entry", "client"),
    [
        ("198.51.100.7:5000", "198.51.100.7"),
        ("[2001:db8::7]:5000", "2001:db8::7"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
    ],
)
def test_an_entry_may_have_a_port_and_any_form_of_an_address(entry, client):
    assert seen("10.0.0.5", f"203.0.113.9, {entry}")[0] == client


def test_ipv4_mapped_ipv6_addresses_are_converted_to_ipv4():
    """Otherwise all IPv4 clients would share one /64, and one rate limit."""
    host, _ = seen("::ffff:198.51.100.7")
    assert host == "198.51.100.7"
    assert client_network({"client": (host, 1)}) == "198.51.100.7"
    assert seen("::ffff:10.0.0.5", "198.51.100.7")[0] == "198.51.100.7"


@every_row(
    ("proto", "scheme"),
    [
        ("https", "https"),
        ("HTTPS", "https"),
        ("http, https, http", "https"),  # for the client, the first proxy, the last proxy
        ("https, http", "https"),
        ("gopher", "http"),
        ("", "http"),
    ],
)
def test_the_scheme_is_that_of_the_connection_of_the_client(proto, scheme):
    assert seen("10.0.0.5", "203.0.113.9, 198.51.100.7, 172.31.240.1", proto=proto)[1] == scheme


def test_only_a_limited_number_of_entries_is_read():
    entries = ["203.0.113.9", *["172.31.240.1"] * 1000]
    assert seen("10.0.0.5", ", ".join(entries))[0] == "172.31.240.1"


def test_the_audit_names_the_address_that_the_proxy_reported(api):
    headers = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    posted = api.client.post("/api/v1/session", json={"token": api.token}, headers=headers)
    assert posted.status_code == 201
    entry = api.client.get("/api/v1/audit").json()["items"][0]
    assert (entry["action"], entry["address"]) == ("session.create", "198.51.100.7")


@pytest.mark.parametrize("text", ["127.0.0.1", "10.0.0.0/8, ::1", "2001:db8::/32"])
def test_trusted_proxies_are_addresses_and_networks(text):
    settings = settings_from(Settings, {"AMPCORE_TRUSTED_PROXIES": text})
    assert list(settings.trusted_proxies) == [ip_network(one.strip()) for one in text.split(",")]


def test_only_loopback_addresses_are_trusted_by_default():
    named = [str(network) for network in settings_from(Settings, {}).trusted_proxies]
    assert named == ["127.0.0.0/8", "::1/128"]
    nobody = settings_from(Settings, {"AMPCORE_TRUSTED_PROXIES": "none"})
    assert nobody.trusted_proxies == ()


@every_row("text", ["*", "proxy", "10.0.0.1/8", "10.0.0.1,", "10.0.0.256"])
def test_an_invalid_trusted_proxy_is_refused(text):
    with pytest.raises(SettingsInvalid, match="AMPCORE_TRUSTED_PROXIES: expected none, or comma"):
        settings_from(Settings, {"AMPCORE_TRUSTED_PROXIES": text})
