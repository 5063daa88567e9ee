"""Options of a client, and those that a caller may set for one call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypedDict, cast

from ampclient._http.deprecation import warn_deprecated


class RequestOptions(TypedDict, total=False):
    """Keyword arguments of every operation that sends requests."""

    timeout_s: float | None
    """Seconds without a byte from the server until a try fails. None: the client's timeout."""
    max_retries: int | None
    """How often a request is sent again at most. None: the client's limit."""
    headers: Mapping[str, str] | None
    """Headers sent in addition to those of the client. They cannot replace `Authorization`."""


def checked_options(options: RequestOptions) -> RequestOptions:
    """The options by their present names.

    Args:
        options: The options of a call; `timeout` is the old name of `timeout_s`.

    Returns:
        The options that exist.

    Raises:
        TypeError: An option does not exist, or has both of its names.
    """
    checked = {
        name: value for name, value in options.items() if name in RequestOptions.__annotations__
    }
    for name in options.keys() - checked.keys():
        if name != "timeout":
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        warn_deprecated("timeout= is now timeout_s=.")
        if "timeout_s" in options:
            raise TypeError("got timeout_s and its old name timeout: only one of them is allowed")
        checked["timeout_s"] = options["timeout"]  # type: ignore[typeddict-item]  # the old name
    return cast(RequestOptions, checked)


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """What a client does where a call does not say otherwise."""

    timeout_s: float | None = None
    """None: the timeout of the HTTP client."""
    max_retries: int | None = None
    """None: as many retries as fit into the time for retries."""
    default_headers: Mapping[str, str] = field(default_factory=dict)
