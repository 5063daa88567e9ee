"""The place of `profile_steps` in earlier versions; it trains, which this package does not."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "profile_steps":
        return import_module("ampcore.training.profile_steps").profile_steps
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
