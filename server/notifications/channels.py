"""What the operator allows of receivers."""

from dataclasses import dataclass, field
from typing import Self

from infra.address_policy import AddressPolicy
from server.notifications.targets import SERVICES
from server.settings import Settings


@dataclass(frozen=True)
class ChannelSettings:
    """What the operator allows of receivers.

    Attributes:
        policy: The network addresses that messages may be sent to.
        extra_schemes: Schemes besides https and those of the services.
        smtp_url: The server for e-mail; None: there is none.
        link_base: The address of the dashboard, for the links in messages.
    """

    policy: AddressPolicy = field(default_factory=AddressPolicy)
    extra_schemes: frozenset[str] = frozenset()
    smtp_url: str | None = field(default=None, repr=False)
    link_base: str | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """What the settings allow."""
        policy = AddressPolicy(settings.notify_networks)
        return cls(policy, settings.notify_schemes, settings.smtp_url, settings.public_url)

    @property
    def service_schemes(self) -> frozenset[str]:
        """The schemes of apprise that are allowed."""
        return SERVICES | self.extra_schemes
