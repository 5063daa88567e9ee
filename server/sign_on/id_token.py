"""Verify an ID token: signature, issuer, audience, times and nonce."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from authlib.oidc.core import CodeIDToken
from joserfc import jws, jwt
from joserfc.errors import ClaimError, InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from server.sign_on.config import ProviderConfig
from server.sign_on.errors import ProviderFailed, TokenRefused

ALGORITHMS: Final = [
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
]
"""With public keys only: neither `none`, nor a secret that could be one of these public keys."""
KEY_TYPES: Final = ("RSA", "EC")
LEEWAY_S: Final = 60
"""By how much the clocks of the provider and of this server may differ."""
REFUSED: Final = "The provider's answer is not valid: {}."


class UnknownKey(Exception):
    """The token is signed with a key that is not in the set: the provider may have a new one."""


@dataclass(frozen=True)
class Expected:
    """What an ID token has to contain to be the answer to a sign-in."""

    nonce: str
    access_token: str | None
    """Issued with it; compared if the ID token has its hash."""


def read_keys(document: Any) -> KeySet:
    """The public keys of a JWKS document. Raises ProviderFailed."""
    rows = document.get("keys") if isinstance(document, dict) else None
    usable = [
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and row.get("kty") in KEY_TYPES and row.get("use") != "enc"
    ]
    try:
        return KeySet.import_key_set({"keys": usable})
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise ProviderFailed(
            "The provider's keys cannot be read. Tell the operator of this server.",
            f"the document at jwks_uri is not a valid JWKS: {error}",
        ) from None


def verify(text: str, keys: KeySet, config: ProviderConfig, expected: Expected) -> dict[str, Any]:
    """The claims of an ID token.

    Args:
        text: The token, as the provider has sent it.
        keys: The provider's public keys.
        config: Who has to have issued it, and for whom.
        expected: What ties it to this sign-in.

    Returns:
        The claims.

    Raises:
        TokenRefused: It is not valid.
        UnknownKey: None of the keys has the id of the one that signed it.
    """
    try:
        algorithm = jws.extract_compact(text.encode()).headers().get("alg")
        if algorithm not in ALGORITHMS:
            raise ValueError(f"expected one of {', '.join(ALGORITHMS)}, received {algorithm!r}")
        token = jwt.decode(text, keys, algorithms=ALGORITHMS)
    except InvalidKeyIdError:
        raise UnknownKey from None
    except (JoseError, ValueError, TypeError) as error:
        raise TokenRefused(
            REFUSED.format("its signature is missing or wrong"),
            f"the ID token cannot be verified: {error}",
        ) from None
    claims = CodeIDToken(
        token.claims,
        token.header,
        options={
            "iss": {"essential": True, "value": config.issuer},
            "aud": {"essential": True, "value": config.client_id},
        },
        params={
            "nonce": expected.nonce,
            "client_id": config.client_id,
            "access_token": expected.access_token,
        },
    )
    try:
        claims.validate(leeway=LEEWAY_S)
    except ClaimError as error:
        raise _refusal(error.claim, token.claims, config) from None
    except (JoseError, ValueError, TypeError) as error:
        raise _refusal("", token.claims, config, str(error)) from None
    subject = token.claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise _refusal("sub", token.claims, config)
    return dict(token.claims)


def _refusal(
    claim: str, claims: Mapping[str, Any], config: ProviderConfig, detail: str = ""
) -> TokenRefused:
    """The error for a claim that is missing or wrong."""
    sentences = {
        "iss": "it is from another issuer",
        "aud": "it is meant for another application",
        "azp": "it is meant for another application",
        "nonce": "it belongs to another sign-in",
        "exp": "it has expired. The clock of this server or of the provider may be wrong",
        "iat": "it is from the future. The clock of this server or of the provider is wrong",
        "nbf": "it is not valid yet. The clock of this server or of the provider is wrong",
        "at_hash": "it was issued with another access token",
    }
    expected = {"iss": config.issuer, "aud": config.client_id}.get(claim)
    received = str(claims.get(claim))[:200]
    what = f"expected {claim} {expected!r}, received" if expected else f"{claim or detail}:"
    return TokenRefused(
        REFUSED.format(sentences.get(claim, f"the claim {claim or detail!r} is missing or wrong")),
        f"the ID token is refused: {what} {received}",
    )
