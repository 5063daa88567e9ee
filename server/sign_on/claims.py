"""Read from verified claims who has signed in, and in which groups the person is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from server.sign_on.config import ProviderConfig
from store.access.people import Identity

EMAIL: Final = "email"


def identity_of(claims: Mapping[str, Any], config: ProviderConfig) -> Identity:
    """Who the verified claims are about, and in which groups."""
    email = address_in(claims)
    names = (claims.get(name) for name in ("name", "preferred_username", "sub"))
    name = next(name for name in names if isinstance(name, str) and name.strip())
    groups = dict.fromkeys(_groups(claims, config.groups_claims))
    return Identity(
        issuer=config.issuer,
        subject=claims["sub"],
        name=_printable(name, 200),
        email=None if claims.get("email_verified") in (False, "false") else email,
        groups=tuple(groups),
    )


def address_in(claims: Mapping[str, Any]) -> str | None:
    """The e-mail address, verified or not."""
    address = claims.get(EMAIL)
    return _printable(address, 320) if isinstance(address, str) and address else None


def has_verified_email(claims: Mapping[str, Any]) -> bool:
    """Whether the provider says that the e-mail address is the person's."""
    return claims.get("email_verified") in (True, "true")


def missing_claims(claims: Mapping[str, Any], config: ProviderConfig) -> Sequence[str]:
    """What the ID token does not say; the provider may say it if it is asked."""
    wanted_names = ("name", EMAIL, *config.groups_claims)
    return [name for name in wanted_names if _value(claims, name) is None]


def _groups(claims: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        value = _value(claims, name)
        if name == EMAIL and not has_verified_email(claims):
            continue
        values = value if isinstance(value, list) else [value]
        yield from (group for group in values if isinstance(group, str) and group)


def _value(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name, or the one at that path, such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _printable(text: str, length: int) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()[:length]
