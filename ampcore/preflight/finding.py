"""Finding: something worth knowing about a valid spec before its first step."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """What was found, for programs (`code`, `data`) and for people (`message`)."""

    code: str
    severity: Severity
    """error: the job cannot run as it is; warning: it will not do what its author hopes."""
    pointer: str
    """The JSON pointer (RFC 6901) of the part of the spec to change."""
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)
    """JSON values."""

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        return asdict(self)
