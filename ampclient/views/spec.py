"""What a spec may say, and what the server thinks of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ampclient.views.view import Reader, View


@dataclass(frozen=True, kw_only=True)
class Finding(View):
    """Something worth knowing about a valid spec; `severity` is info, warning or error."""

    code: str
    severity: str
    pointer: str
    message: str
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Validated(View):
    """A spec that the server would take: normalised, and what its preflight says of it.

    `figures` is None, and `layers` empty, where they are known only when the job starts.
    """

    spec: dict[str, Any]
    findings: list[Finding]
    figures: dict[str, Any] | None = None
    layers: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def readers(cls) -> Mapping[str, Reader]:
        """The findings."""
        return {"findings": lambda findings: [Finding.from_json(one) for one in findings]}


@dataclass(frozen=True, kw_only=True)
class Kind(View):
    """A kind of model or data that a spec can name, with the JSON schema of its fields."""

    kind: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Policy(View):
    """A precision policy that a spec can name."""

    name: str
    compute_dtype: str | None
    variable_dtype: str | None
    loss_scale: Any
