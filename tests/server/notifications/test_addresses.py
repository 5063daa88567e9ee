"""Addresses that messages may be sent to: what others' senders have missed is in these tables."""

from ipaddress import ip_network

import pytest

from infra.address_policy import AddressPolicy, AddressRefused
from server.errors import RequestInvalid
from server.notifications.targets import read_target, shown_target
from tests.tables import every_row

PUBLIC = ("93.184.215.14", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8")
PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "0.0.0.0", "100.64.0.1"),  # noqa: S104
    *("169.254.169.254", "169.254.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1"),
    *("198.18.0.1", "192.0.2.1"),
    *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1"),
    # Addresses that stand for others, in both spellings: a check of the text misses one of them.
    *("::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:a9fe:a9fe", "::ffff:10.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::169.254.169.254", "64:ff9b:1::1", "2002:7f00:1::"),
    *("2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "::127.0.0.1"),
    *("not an address", "localhost", ""),
)


@every_row("address", PUBLIC)
def test_public_addresses_are_allowed(address):
    AddressPolicy().check(address)


@every_row("address", PRIVATE)
def test_private_addresses_are_refused(address):
    with pytest.raises(AddressRefused, match="AMPCORE_NOTIFY_NETWORKS"):
        AddressPolicy().check(address)


@every_row(
    ("network", "allowed", "refused"),
    [
        ("10.1.0.0/16", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"], ["10.2.0.1"]),
        ("127.0.0.1/32", ["127.0.0.1"], ["127.0.0.2", "::1"]),
        ("fd00::/8", ["fd12::1"], ["fc00::1", "fd00:ec2::254"]),
        # Credentials of a cloud are never handed out, whatever the operator has allowed.
        ("0.0.0.0/0", ["192.168.1.1"], ["169.254.169.254", "::ffff:169.254.169.254", "::1"]),
        ("::/0", ["fc00::1"], ["64:ff9b::169.254.169.254", "fd00:ec2::254"]),
    ],
)
def test_a_setting_allows_named_networks(network, allowed, refused):
    policy = AddressPolicy((ip_network(network),))
    for address in allowed:
        policy.check(address)
    for address in refused:
        with pytest.raises(AddressRefused):
            policy.check(address)


def target_of(text, *extra_schemes, has_smtp=True):
    target = read_target(text, extra_schemes=frozenset(extra_schemes), has_smtp=has_smtp)
    return target.channel, target.address


@every_row(
    ("text", "channel", "address"),
    [
        ("https://example.com/hook?a=b", "webhook", "https://example.com/hook?a=b"),
        ("https://EXAMPLE.com:8443/x", "webhook", "https://example.com:8443/x"),
        ("https://bücher.example/", "webhook", "https://xn--bcher-kva.example/"),
        ("https://[2606:4700::1111]:8443/", "webhook", "https://[2606:4700::1111]:8443/"),
        ("mailto:ann@example.com", "email", "ann@example.com"),
        ("slack://a/b/c", "service", "slack://a/b/c"),
        ("https://hooks.slack.com/services/a/b/c", "service", "https://hooks.slack.com/services/a/b/c"),
        ("https://prod.logic.azure.com/workflows/a", "service", "https://prod.logic.azure.com/workflows/a"),
        ("https://evil-discord.com/x", "webhook", "https://evil-discord.com/x"),
    ],
)  # fmt: skip
def test_an_address_says_by_which_channel_messages_are_sent(text, channel, address):
    assert target_of(text) == (channel, address)


@every_row(
    ("text", "expected"),
    [
        ("http://example.com/", "an https:// address"),
        ("https://user:password@example.com/", "without a user name"),
        ("https://example.com/#part", "without a user name"),
        ("https:///path", "such as https://host/path"),
        ("https://example.com:99999/", "such as https://host/path"),
        ("https://example.com/a b", "such as https://host/path"),
        ("https://example.com/\r\nHost: x", "such as https://host/path"),
        ("https://" + "a" * 70 + ".example/", "such as https://host/path"),
        ("ftp://example.com/", "one of the schemes"),
        ("json://127.0.0.1/", "one of the schemes"),
        ("example.com", "one of the schemes"),
        ("slack:a", "such as slack://"),
        ("slack://a/ b", "without spaces"),
        ("mailto:ann", "mailto:name@example.com"),
        ("mailto:ann@example.com?cc=eve@example.com", "mailto:name@example.com"),
        ("mailto:ann@example.com,eve@example.com", "mailto:name@example.com"),
        ("", "one of the schemes"),
    ],
)
def test_another_address_is_refused_with_what_was_expected(text, expected):
    with pytest.raises(RequestInvalid) as error:
        target_of(text)
    [problem] = error.value.problems
    assert problem.pointer == "/body/target"
    assert expected in problem.expected


def test_the_operator_allows_other_schemes_and_names_the_server_for_email():
    assert target_of("http://10.0.0.1/", "http") == ("webhook", "http://10.0.0.1/")
    assert target_of("json://10.0.0.1/", "json") == ("service", "json://10.0.0.1/")
    with pytest.raises(RequestInvalid, match="AMPCORE_SMTP_URL"):
        target_of("mailto:ann@example.com", has_smtp=False)


def test_of_the_address_of_a_service_no_secret_is_shown():
    assert shown_target("service", "slack://token/a/b") == "slack://…"
    hidden = shown_target("service", "https://hooks.slack.com/services/a/b/c")
    assert hidden == "https://hooks.slack.com/…"
    assert shown_target("webhook", "https://example.com/hook") == "https://example.com/hook"
