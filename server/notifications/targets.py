"""Receivers of messages: read the address that a request names, and say what is wrong with it."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from ampspec.documents.problems import format_value
from ampspec.jobs import Problem
from server.errors import RequestInvalid
from store.notifications.subscriptions import EMAIL, SERVICE, WEBHOOK

HTTPS: Final = "https"
HTTP: Final = "http"
MAILTO: Final = "mailto"
SERVICES: Final = frozenset(
    {
        "discord",
        "gchat",
        "ntfy",
        "ntfys",
        "opsgenie",
        "pagerduty",
        "pbul",
        "pover",
        "slack",
        "tgram",
        "webex",
        "workflow",
        "workflows",
        "wxteams",
    }
)
"""The schemes of apprise that anyone may use. The operator allows others by name."""
SERVICE_HOSTS: Final = (
    "chat.googleapis.com",
    "discord.com",
    "discordapp.com",
    "hooks.slack.com",
    ".api.powerplatform.com",
    ".logic.azure.com",
)
"""Hosts whose https addresses are those of a service, and take its messages only."""
EMAIL_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?"
)
VISIBLE: Final = re.compile(r"[!-~]+")
FIELD: Final = "/body/target"


@dataclass(frozen=True)
class Target:
    """A receiver: the channel, and the address in the form that the channel takes."""

    channel: str
    address: str


def read_target(text: str, *, extra_schemes: frozenset[str], has_smtp: bool) -> Target:
    """The receiver that an address names.

    Args:
        text: `https://…`, `mailto:NAME@HOST`, or an address of apprise such as `slack://…`.
        extra_schemes: What the operator allows besides https and SERVICES.
        has_smtp: Whether the operator has named a server for e-mail.

    Returns:
        The receiver; its host is ASCII.

    Raises:
        RequestInvalid: The address is not valid, or not allowed.
    """
    scheme = text.partition(":")[0].lower()
    if scheme == MAILTO:
        return _email(text, has_smtp=has_smtp)
    if scheme in (HTTPS, HTTP):
        return _webhook(text, extra_schemes)
    if scheme not in SERVICES | extra_schemes:
        allowed = ", ".join(sorted({HTTPS, MAILTO} | SERVICES | extra_schemes))
        raise _invalid(f"an address with one of the schemes {allowed}", f"the scheme {scheme[:40]}")
    if "://" not in text or not VISIBLE.fullmatch(text):
        raise _invalid(f"an address such as {scheme}://…, without spaces", "another one")
    return Target(SERVICE, text)


def shown_target(channel: str, address: str) -> str:
    """The address as it is shown: that of a service is a secret, all but its scheme."""
    if channel != SERVICE:
        return address
    parts = urlsplit(address)
    return (
        f"{parts.scheme}://{parts.hostname}/…" if parts.scheme == HTTPS else f"{parts.scheme}://…"
    )


def _webhook(text: str, extra_schemes: frozenset[str]) -> Target:
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna").decode("ascii") if parts.hostname else ""
        port = parts.port
    except ValueError:  # also UnicodeError
        raise _invalid("an address such as https://host/path", format_value(text)) from None
    if parts.scheme == HTTP and HTTP not in extra_schemes:
        raise _invalid("an https:// address; the operator may allow http", "an http:// one")
    if not host or not VISIBLE.fullmatch(parts.path + parts.query + host):
        raise _invalid("an address such as https://host/path, in ASCII", format_value(text))
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _invalid("an address without a user name, a password and a #part", "one with them")
    if parts.scheme == HTTPS and any(
        host == name or (name[0] == "." and host.endswith(name)) for name in SERVICE_HOSTS
    ):
        return Target(SERVICE, text)
    shown_host = f"[{host}]" if ":" in host else host
    netloc = shown_host if port is None else f"{shown_host}:{port}"
    return Target(WEBHOOK, parts._replace(netloc=netloc).geturl())


def _email(text: str, *, has_smtp: bool) -> Target:
    address = text.partition(":")[2].removeprefix("//")
    if not has_smtp:
        raise _invalid("another channel: the server has no AMPCORE_SMTP_URL", "an e-mail address")
    if not EMAIL_ADDRESS.fullmatch(address) or ".." in address:
        raise _invalid("an address such as mailto:name@example.com", format_value(text))
    return Target(EMAIL, address)


def _invalid(expected: str, received: str) -> RequestInvalid:
    return RequestInvalid([Problem(FIELD, "invalid_value", expected, received)])
