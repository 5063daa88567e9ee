"""Old names of arguments, which work for one version and warn."""

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
PACKAGE: Final = __name__.partition(".")[0]


def warn_deprecated(message: str) -> None:
    """Warn of an old name, at the line outside of this package that uses it."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, DeprecationWarning, stacklevel=depth + 1)


def _is_inside(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def renamed(**new_names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Accept keyword arguments by their old names, too: `@renamed(timeout="timeout_s")`.

    Args:
        new_names: The name of an argument, by its old one.

    Returns:
        A decorator. The function raises TypeError for an argument with both names.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> T:
            for old, new in new_names.items():
                if old in kwargs:
                    warn_deprecated(f"{function.__name__}({old}=) is now {new}=.")
                    if new in kwargs:
                        raise TypeError(
                            f"{function.__name__}() takes {new} or its old name {old}, not both"
                        )
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
