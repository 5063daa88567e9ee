"""What a run tells: blocks of per-step values, events, and both as bytes and JSON.

The codec is imported by its own name (`ampcore.series.codec`), since it loads pyarrow.
"""

from ampcore.series.block import COLUMNS, StepBlock
from ampcore.series.events import Event, EventType

__all__ = ["COLUMNS", "Event", "EventType", "StepBlock"]
