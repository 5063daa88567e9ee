"""The files of an attempt that are uploaded: files that events name, and files of the worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ampspec.telemetry import Event, EventType
from store.files.artifacts import (
    CHECKPOINT,
    EVALUATION,
    EXAMPLES,
    EXPORT,
    MODEL,
    PROFILE,
    SIGNATURE,
    WEIGHTS,
)

KINDS: Final = {EventType.CHECKPOINT_SAVED: CHECKPOINT, EventType.MODEL_SAVED: MODEL}
MAX_PROFILE_FILES: Final = 3
"""The report and two traces."""


@dataclass(frozen=True)
class ArtifactUpload:
    """A file to upload: its artifact kind, its path below `folder`, and the step it belongs to."""

    kind: str
    file: str
    step: int | None = None
    folder: Path | None = None
    """None: the trainer's output folder."""


def uploads_of(event: Event) -> Sequence[ArtifactUpload]:
    """The files that an event names, in the order in which they are uploaded."""
    data = event.data
    files: list[tuple[str, str]] = []
    if kind := KINDS.get(event.type):
        files.append((kind, data["file"]))
    if signature := data.get("signature"):
        files.append((SIGNATURE, signature))
    if event.type is EventType.PROFILE:
        files += [(PROFILE, file) for file in profile_files(event)]
    if event.type is EventType.MODEL_SAVED:
        files += [
            (kind, data[name])
            for name, kind in (
                ("weights", WEIGHTS),
                ("examples", EXAMPLES),
                ("evaluation", EVALUATION),
            )
            if data.get(name)
        ]
        files += [(EXPORT, name) for name in data.get("exports") or ()]
    return [ArtifactUpload(kind, file, event.step) for kind, file in files]


def profile_files(event: Event) -> Sequence[str]:
    """The files of a profile's event, at most `MAX_PROFILE_FILES`."""
    files = event.data.get("files")
    names = files if isinstance(files, list) else []
    return [name for name in names if isinstance(name, str)][:MAX_PROFILE_FILES]
