"""Signing in with a provider, and the people who have signed in."""

from datetime import datetime

from pydantic import Field

from ampspec.api.base import ApiModel
from ampspec.api.session import ProjectGrant


class SignInProvider(ApiModel):
    """A provider that people sign in with."""

    name: str = Field(description="For the button: `Sign in with NAME`.")
    url: str = Field(description="Where a browser goes to sign in.")


class SignInOptions(ApiModel):
    """How a browser can sign in, besides with a token."""

    provider: SignInProvider | None = Field(description="null: with a token only.")


class PersonSession(ApiModel):
    """A browser in which a person is signed in."""

    id: str
    created_at: datetime
    used_at: datetime = Field(description="The last request, within a minute.")
    ends_at: datetime = Field(description="When it ends unless it is used.")
    expires_at: datetime = Field(description="When it ends at the latest.")
    address: str | None
    user_agent: str | None


class Person(ApiModel):
    """Somebody who has signed in with the provider."""

    id: str
    name: str
    email: str | None
    issuer: str
    subject: str
    groups: list[str] = Field(description="Named by the provider at the last sign-in.")
    grants: list[ProjectGrant] = Field(description="What these groups allow.")
    created_at: datetime
    signed_in_at: datetime
    access_until: datetime = Field(
        description="Until then the person's tokens are valid, unless it signs in again."
    )
    sessions: list[PersonSession]


class PersonList(ApiModel):
    """The people, newest first. `next_cursor` is the cursor of the next page."""

    items: list[Person]
    next_cursor: str | None = None
