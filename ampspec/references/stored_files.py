"""Files that a project keeps by their SHA-256, and how specs name them: `sha256:1f0c…`."""

from enum import StrEnum
from typing import Final

DIGEST_PREFIX: Final = "sha256:"
SHA256: Final = r"[0-9a-f]{64}"
FILE_REFERENCE: Final = f"^{DIGEST_PREFIX}{SHA256}$"
"""The regular expression of a reference."""


class FileKind(StrEnum):
    """The purpose of a file."""

    BUNDLE = "bundle"
    """A zip archive of Python modules that build a model."""
    WEIGHTS = "weights"
    """The initial weights of a model, as safetensors."""


def digest_of(reference: str) -> str:
    """The SHA-256 in a reference, as hexadecimal digits."""
    return reference.removeprefix(DIGEST_PREFIX)
