"""What a person who has signed in with the provider may do here."""

from collections.abc import Mapping
from typing import Any

from ampspec.api.roles import Grant
from ampspec.documents.text import join_names
from server.sign_on.claims import address_in, has_verified_email
from server.sign_on.config import ProviderConfig
from server.sign_on.errors import NoAccess
from server.sign_on.group_grants import grants_of_groups
from store.access.people import Identity

MAX_NAMED_GROUPS = 50


def grants_for(
    identity: Identity, claims: Mapping[str, Any], config: ProviderConfig
) -> tuple[Grant, ...]:
    """What the groups of the person allow. Raises NoAccess with what the operator must set."""
    _check_domain(claims, config)
    grants = grants_of_groups(config.groups, identity.groups)
    if grants:
        return grants
    who = identity.email or identity.name
    claim_names = join_names(repr(name) for name in config.groups_claims)
    if identity.groups:
        raise NoAccess(
            f"You are known to the provider as {who}, but none of your groups has access to this "
            "server. Its operator can give it to one of them in AMPCORE_OIDC_GROUPS. The provider "
            "names these groups:",
            identity.groups[:MAX_NAMED_GROUPS],
        )
    reason = f"it sends nothing in the claim {claim_names}"
    if "_claim_names" in claims:
        reason = (
            "you have more groups than it sends; it should send only those that are assigned to "
            "this application"
        )
    raise NoAccess(
        f"You are known to the provider as {who}, but it names none of your groups: {reason}. The "
        "operator of this server has to have the provider send them (by a mapper of the client, or "
        "by a scope in AMPCORE_OIDC_SCOPES), or to set AMPCORE_OIDC_GROUPS_CLAIM to the claim that "
        "has them."
    )


def _check_domain(claims: Mapping[str, Any], config: ProviderConfig) -> None:
    domains = config.email_domains
    if not domains:
        return
    address = address_in(claims)
    domain = (address or "").rpartition("@")[2].lower()
    if domain in domains and has_verified_email(claims):
        return
    listed = join_names(sorted(domains))
    if domain in domains:
        reason = "the provider does not say that it has verified this address"
    else:
        reason = f"this server lets in addresses of {listed} (AMPCORE_OIDC_EMAIL_DOMAINS)"
    raise NoAccess(f"Your e-mail address is {address or 'not known'}, and {reason}.")
