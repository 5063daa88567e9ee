"""The provider: where it is, which keys it has, and who has signed in with a code."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc.jwk import KeySet

from server.sign_on import id_token
from server.sign_on.claims import missing_claims
from server.sign_on.config import ProviderConfig
from server.sign_on.errors import ProviderFailed, SignInStale, TokenRefused

log = logging.getLogger(__name__)

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
TIMEOUT_S: Final = 10.0
CACHE_S: Final = 3600.0
"""How long addresses and keys are used; an unknown key has them read again at once."""
FAILURE_S: Final = 3.0
"""For so long after a failure it is not tried again: those who wait are told at once."""
ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
TELL: Final = "Tell the operator of this server."


class Provider:
    """A provider of OpenID Connect; reads its addresses and keys when they are needed."""

    def __init__(self, config: ProviderConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self._clock = clock
        self._metadata: Mapping[str, Any] = {}
        self._keys: KeySet | None = None
        self._read_at = -float("inf")
        self._failure: ProviderFailed | None = None
        self._failed_at = 0.0
        self._reading = asyncio.Lock()
        self.clock_ahead_s: float | None = None
        """How far this machine's clock was ahead of the provider's, within a second or two."""

    async def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Where a person signs in. Raises ProviderFailed."""
        metadata = await self.metadata()
        address: str = prepare_grant_uri(
            metadata["authorization_endpoint"],
            client_id=self.config.client_id,
            response_type="code",
            redirect_uri=self.config.redirect_uri,
            scope=self.config.scopes,
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return address

    async def claims(self, *, code: str, nonce: str, verifier: str) -> dict[str, Any]:
        """What the provider says, verifiably, about the person who was sent back with the code.

        Raises SignInFailed.
        """
        tokens = await self._exchange(code, verifier)
        text, access_token = tokens.get("id_token"), tokens.get("access_token")
        if not isinstance(text, str):
            raise ProviderFailed(
                f"The provider has sent no ID token. {TELL}",
                f"the token endpoint has sent no id_token, but {sorted(tokens)}; is the scope "
                "openid allowed to this client?",
            )
        expected = id_token.Expected(nonce, access_token)
        try:
            claims = id_token.verify(text, await self.keys(), self.config, expected)
        except id_token.UnknownKey:
            try:
                keys = await self.keys(refresh=True)
                claims = id_token.verify(text, keys, self.config, expected)
            except id_token.UnknownKey:
                raise TokenRefused(
                    id_token.REFUSED.format(
                        "it is signed with a key that the provider does not list"
                    ),
                    "the ID token is signed with a key that is not at jwks_uri",
                ) from None
        return await self._with_user_info(claims, access_token)

    async def metadata(self, *, refresh: bool = False) -> Mapping[str, Any]:
        """The addresses of the provider, and what it supports. Raises ProviderFailed."""
        async with self._reading:
            if self._failure is not None and self._clock() < self._failed_at + FAILURE_S:
                raise self._failure
            if refresh or self._clock() > self._read_at + CACHE_S:
                try:
                    document = await self._read_metadata()
                except ProviderFailed as error:
                    self._failure, self._failed_at = error, self._clock()
                    raise
                self._failure = None
                self._metadata, self._keys, self._read_at = document, None, self._clock()
            return self._metadata

    async def keys(self, *, refresh: bool = False) -> KeySet:
        """The public keys of the provider. Raises ProviderFailed."""
        metadata = await self.metadata(refresh=refresh)
        if self._keys is None:
            document = await self._json("GET", metadata["jwks_uri"])
            self._keys = id_token.read_keys(document)
        return self._keys

    async def _read_metadata(self) -> Mapping[str, Any]:
        issuer = self.config.issuer
        address = issuer.rstrip("/") + DISCOVERY_PATH
        document = await self._json("GET", address)
        if document.get("issuer") != issuer:
            raise ProviderFailed(
                f"The provider has another name than this server expects. {TELL}",
                f"expected AMPCORE_OIDC_ISSUER {issuer!r} as the issuer in {address}, received "
                f"{str(document.get('issuer'))[:200]!r}",
            )
        for name in ENDPOINTS:
            if not _is_safe(document.get(name), issuer):
                raise ProviderFailed(
                    f"The provider's description is not complete. {TELL}",
                    f"expected an https address as {name} in {address}, received "
                    f"{str(document.get(name))[:200]!r}",
                )
        return document

    async def _exchange(self, code: str, verifier: str) -> dict[str, Any]:
        """The tokens for a code. Raises ProviderFailed and SignInStale."""
        config, metadata = self.config, await self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": config.redirect_uri,
            "code_verifier": verifier,
        }
        auth = None
        methods = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if config.client_secret is None:
            form["client_id"] = config.client_id
        elif "client_secret_post" in methods:
            form |= {"client_id": config.client_id, "client_secret": config.client_secret}
        else:  # encoded as RFC 6749 says in 2.3.1
            auth = httpx.BasicAuth(quote(config.client_id, ""), quote(config.client_secret, ""))
        response = await self._send("POST", metadata["token_endpoint"], data=form, auth=auth)
        document = _document(response)
        if response.is_success and document is not None:
            return document
        error = str((document or {}).get("error", f"status {response.status_code}"))
        detail = f"the token endpoint answers {error[:100]!r}: {_description(document)}"
        if error in ("invalid_client", "unauthorized_client") or response.status_code == 401:
            raise ProviderFailed(
                "The provider does not accept this server. Its operator has to correct the client "
                "id or the client secret.",
                f"{detail} (AMPCORE_OIDC_CLIENT_ID or AMPCORE_OIDC_CLIENT_SECRET is wrong)",
            )
        if error == "invalid_grant":
            raise SignInStale(
                "The provider does not accept this sign-in any more: it was used already, or took "
                "too long. Sign in again.",
                detail,
            )
        raise ProviderFailed(f"The provider has refused to say who you are. {TELL}", detail)

    async def _with_user_info(
        self, claims: dict[str, Any], access_token: str | None
    ) -> dict[str, Any]:
        """The claims, and what only the provider's userinfo endpoint says."""
        address = (await self.metadata()).get("userinfo_endpoint")
        missing = missing_claims(claims, self.config)
        if not missing or access_token is None or not _is_safe(address, self.config.issuer):
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        facts = await self._json("GET", str(address), headers=headers)
        if facts.get("sub") != claims["sub"]:
            raise TokenRefused(
                id_token.REFUSED.format("it is about two different people"),
                "userinfo has another sub than the ID token",
            )
        return {**facts, **claims}

    async def _json(self, method: str, address: str, **options: Any) -> dict[str, Any]:
        """The JSON object at an address of the provider. Raises ProviderFailed."""
        response = await self._send(method, address, **options)
        self.clock_ahead_s = _clock_ahead_s(response)
        document = _document(response)
        if not response.is_success or document is None:
            raise ProviderFailed(
                f"The provider answers something else than expected. {TELL}",
                f"expected a JSON object at {address}, received status {response.status_code} and "
                f"{response.headers.get('content-type', 'no content type')}",
            )
        return document

    async def _send(self, method: str, address: str, **options: Any) -> httpx.Response:
        try:
            async with httpx.AsyncClient(verify=self._tls, timeout=TIMEOUT_S) as client:
                return await client.request(method, address, **options)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise ProviderFailed(
                "The provider cannot be reached. Try again in a few minutes, or sign in with a "
                "token.",
                f"cannot reach {address}: {error or type(error).__name__}",
            ) from None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx.create_ssl_context()


def _is_safe(address: Any, issuer: str) -> bool:
    """Whether it is an address with TLS, or one without for an issuer without, in a test."""
    return isinstance(address, str) and address.startswith(
        ("https://", f"http://{urlsplit(issuer).netloc}/")
        if issuer.startswith("http:")
        else "https://"
    )


def _clock_ahead_s(response: httpx.Response) -> float | None:
    try:
        moment = parsedate_to_datetime(response.headers.get("Date", ""))
        return (datetime.now(UTC) - moment).total_seconds()
    except (ValueError, TypeError):  # no date, or one without a time zone
        return None


def _document(response: httpx.Response) -> dict[str, Any] | None:
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _description(document: Mapping[str, Any] | None) -> str:
    return repr(str((document or {}).get("error_description", "no description"))[:300])
