"""How uploads and downloads report their progress."""

from collections.abc import Callable
from inspect import Parameter, signature

from ampclient._http.deprecation import warn_deprecated

OnProgress = Callable[[str, int, int | None], object]
"""Called with the name of a file, its bytes transferred so far, and all its bytes (None: unknown).
"""


def no_progress(name: str, done_bytes: int, total_bytes: int | None) -> None:
    """Reports nothing."""


def parameter_count(callback: Callable[..., object]) -> int | None:
    """The number of values that a callback takes; None if that is any number or unknown."""
    try:
        parameters = signature(callback).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(
        parameter.kind in positional and parameter.default is Parameter.empty
        for parameter in parameters
    )


def warn_old_callback(values: str) -> None:
    """Warn of a callback of version 0.5."""
    warn_deprecated(
        f"on_progress({values}) is now called with the name of the file, its bytes transferred so "
        "far, and all its bytes."
    )
