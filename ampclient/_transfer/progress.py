"""How uploads and downloads report their progress."""

from collections.abc import Callable
from inspect import Parameter, signature

from ampclient._http.deprecation import warn_deprecated

OnProgress = Callable[[str, int, int | None], object]
"""Called with the name of a file, its bytes transferred so far, and all its bytes (None: unknown).
"""


def no_progress(name: str, done_bytes: int, total_bytes: int | None) -> None:
    """Reports nothing."""


def current_callback(
    on_progress: Callable[..., object],
    old_parameters: str,
    old_arguments: Callable[[str, int, int | None], tuple[object, ...]],
) -> OnProgress:
    """The callback as it is called now; one of version 0.5 is wrapped, with a warning.

    Args:
        on_progress: The callback.
        old_parameters: The names of what version 0.5 called it with.
        old_arguments: Returns their values, from the present arguments.
    """
    old_count = len(old_parameters.split(", "))
    is_current = _accepts(on_progress, 3) and not _binds_a_value(on_progress, old_count)
    if is_current or not _accepts(on_progress, old_count):
        return on_progress
    warn_deprecated(
        f"on_progress({old_parameters}) is now called with the name of the file, its bytes "
        "transferred so far, and all its bytes."
    )
    return lambda *values: on_progress(*old_arguments(*values))


def current_bytes_callback(on_progress: Callable[..., object]) -> OnProgress:
    """As `current_callback`, for transfers of one file, whose name version 0.5 left out."""
    return current_callback(
        on_progress, "done_bytes, total_bytes", lambda _name, *byte_counts: byte_counts
    )


def _binds_a_value(function: Callable[..., object], position: int) -> bool:
    """Whether the parameter at a position is a bound value: `lambda done, total, bar=bar: …`.

    One that may be left out, as `total_bytes=None`, is none.
    """
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    required = [p for p in parameters[:position] if p.default is Parameter.empty]
    if len(required) < position or len(parameters) == position:
        return False
    bound = parameters[position]
    return bound.kind is Parameter.POSITIONAL_OR_KEYWORD and bound.default not in (
        None,
        Parameter.empty,
    )


def _accepts(function: Callable[..., object], count: int) -> bool:
    """Whether a function accepts so many positional arguments; also if that is unknown."""
    try:
        parameters = signature(function)
    except (TypeError, ValueError):
        return True
    try:
        parameters.bind(*range(count))
    except TypeError:
        return False
    return True
