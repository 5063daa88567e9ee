"""References to datasets in specs and commands: `birds` (the newest version) and `birds@3`."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

DATASET_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,62}"
"""The regular expression of dataset names, which queues share."""
NUMBER: Final = r"[1-9][0-9]{0,8}"
REFERENCE: Final = re.compile(rf"({DATASET_NAME})(?:@({NUMBER}))?")

DatasetReference = Annotated[str, Field(pattern=rf"^{DATASET_NAME}(@{NUMBER})?$")]
"""The name of a dataset, with `@` and the number of a version; without it, the newest version."""


@dataclass(frozen=True)
class VersionReference:
    """The parts of a reference; `number` is None for the newest version."""

    name: str
    number: int | None = None

    @classmethod
    def parse(cls, text: str) -> "VersionReference":
        """The parts of `name` or `name@number`. Raises ValueError."""
        match = REFERENCE.fullmatch(text)
        if match is None:
            raise ValueError(
                "expected the name of a dataset, as in birds or birds@3 (lower-case letters, "
                f"digits, dots, dashes and underscores), received {text[:80]!r}"
            )
        return cls(match[1], int(match[2]) if match[2] else None)

    def __str__(self) -> str:
        return self.name if self.number is None else f"{self.name}@{self.number}"
