"""The settings of a provider, as the server uses them."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from server.sign_on.group_grants import GroupGrants
from store.access.person_sessions import Lifetime

if TYPE_CHECKING:
    from server.settings import Settings

CALLBACK_PATH: Final = "/api/v1/sign-in/callback"


@dataclass(frozen=True)
class ProviderConfig:
    """A provider of OpenID Connect, and what its people may do."""

    issuer: str
    client_id: str
    client_secret: str | None = field(repr=False)
    name: str
    """What the button says."""
    scopes: str
    groups_claims: tuple[str, ...]
    groups: GroupGrants
    email_domains: frozenset[str]
    lifetime: Lifetime
    access_s: float
    """How long tokens and studies of a person are valid after a sign-in, in seconds."""
    public_url: str

    @property
    def redirect_uri(self) -> str:
        """Where the provider sends people back to; it has to be registered there."""
        return self.public_url + CALLBACK_PATH

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach this server over TLS."""
        return self.public_url.startswith("https:")

    @classmethod
    def from_settings(cls, settings: "Settings") -> Self | None:
        """The provider of the settings; None if there is none."""
        if settings.oidc_issuer is None:
            return None
        return cls(
            issuer=settings.oidc_issuer,
            client_id=settings.oidc_client_id or "",
            client_secret=settings.oidc_client_secret or settings.oidc_client_secret_file,
            name=settings.oidc_name,
            scopes=settings.oidc_scopes,
            groups_claims=settings.oidc_groups_claim,
            groups=settings.oidc_groups,
            email_domains=settings.oidc_email_domains,
            lifetime=Lifetime(idle_s=settings.oidc_idle_s, longest_s=settings.oidc_session_s),
            access_s=settings.oidc_token_s,
            public_url=settings.public_url or "",
        )
