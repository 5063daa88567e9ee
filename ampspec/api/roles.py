"""The roles and rights of tokens; needs no pydantic, so that `ampserver` starts quickly."""

from enum import StrEnum


class Role(StrEnum):
    """The role of a token."""

    ADMIN = "admin"
    """Everything, in every project."""
    MEMBER = "member"
    """Submit and control the jobs of its project."""
    VIEWER = "viewer"
    """Read the jobs of its project."""


class Right(StrEnum):
    """A permission beyond the role of a token; an admin has all of them."""

    CODE = "code"
    """Submit jobs that run custom Python code."""
