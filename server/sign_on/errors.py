"""Why a sign-in failed: a sentence for the person, and one for the operator's log."""

from collections.abc import Sequence


class SignInFailed(Exception):
    """The message is for the person; it contains no secret."""

    status = 403

    def __init__(self, message: str, log_message: str | None = None) -> None:
        """Args: the message for the person, and that of the log if it says more."""
        super().__init__(message)
        self.log_message = log_message or message


class ProviderFailed(SignInFailed):
    """The provider cannot be reached, or answers what it should not: the operator must act."""

    status = 502


class SignInRefused(SignInFailed):
    """The provider has not let the person in, or the person did not want to."""


class SignInStale(SignInFailed):
    """The response belongs to no sign-in of this browser: used before, too old, or another's."""

    status = 400


class TokenRefused(SignInFailed):
    """The ID token does not say, verifiably, who signs in here."""

    status = 502


class NoAccess(SignInFailed):
    """The provider knows the person, and the settings of this server give it no access."""

    def __init__(self, message: str, groups: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.groups = groups
        self.person_id: str | None = None
        """The id of the person, if it had access before."""
