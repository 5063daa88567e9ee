"""The telemetry of a run: blocks of per-step values, events, and their encodings.

Import the codec by its own name (`ampcore.telemetry.codec`): it loads pyarrow.
"""

from ampcore.telemetry.block import COLUMNS, StepBlock
from ampcore.telemetry.events import Event, EventType

__all__ = ["COLUMNS", "Event", "EventType", "StepBlock"]
