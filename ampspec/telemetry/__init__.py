"""The telemetry of a run: blocks of per-step values, events, and their encodings.

Import the codec by its own name (`ampspec.telemetry.steps.codec`): it loads pyarrow.
"""

import warnings
from typing import Any

from ampspec.telemetry.events import Event, EventType
from ampspec.telemetry.steps.block import COLUMN_DTYPES, StepBlock

__all__ = ["COLUMN_DTYPES", "Event", "EventType", "StepBlock"]


def __getattr__(name: str) -> Any:
    """The name of version 0.5, until 0.7."""
    if name != "COLUMNS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = f"{__name__}.COLUMNS is now COLUMN_DTYPES; the old name goes with 0.7"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return COLUMN_DTYPES
