"""Check the provider that people sign in with: its address, its keys and its clock."""

import asyncio
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from ampspec.documents.text import plural
from server.doctor.findings import Finding, ok, problem, warning
from server.settings import Settings
from server.sign_on.config import ProviderConfig
from server.sign_on.errors import SignInFailed

PART: Final = "sign-on"


def provider_findings(settings: Settings) -> Iterator[Finding]:
    """Nothing if the settings name no provider. The secret is checked only by a sign-in."""
    config = ProviderConfig.from_settings(settings)
    if config is None:
        return
    from server.sign_on.id_token import LEEWAY_S
    from server.sign_on.provider import Provider

    provider = Provider(config)
    try:
        keys = asyncio.run(provider.keys())
    except SignInFailed as error:
        yield problem(
            PART,
            error.log_message,
            "Nobody can sign in with it. Correct AMPCORE_OIDC_ISSUER, or let this machine reach "
            "it; SSL_CERT_FILE names the certificates of an authority of your own.",
        )
        return
    yield ok(
        PART,
        f"{config.issuer} has {plural(len(keys.keys), 'key')}; it must know the redirect URI "
        f"{config.redirect_uri}",
    )
    ahead_s = provider.clock_ahead_s or 0.0
    if abs(ahead_s) > LEEWAY_S / 2:
        yield warning(
            PART,
            f"this machine's clock is {abs(ahead_s):.0f} s "
            f"{'ahead of' if ahead_s > 0 else 'behind'} the provider's",
            f"Sign-ins fail beyond {LEEWAY_S} s. Run an NTP service on this machine.",
        )
    if not config.is_secure and not _is_local(config.public_url):
        yield warning(
            PART,
            f"people reach {config.public_url} without TLS, and so do their sessions' cookies",
            "Put a proxy with TLS in front, and set AMPCORE_PUBLIC_URL to its https address.",
        )


def _is_local(address: str) -> bool:
    return urlsplit(address).hostname in ("localhost", "127.0.0.1", "::1")
