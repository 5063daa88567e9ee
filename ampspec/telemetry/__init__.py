"""The telemetry of a run: blocks of per-step values, events, and their encodings.

Import the codec by its own name (`ampspec.telemetry.steps.codec`): it loads pyarrow.
"""

from ampspec.telemetry.events import Event, EventType
from ampspec.telemetry.steps.block import BLOCK_COLUMNS, StepBlock

__all__ = ["BLOCK_COLUMNS", "Event", "EventType", "StepBlock"]
