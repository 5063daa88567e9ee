"""References to models: `digits` (the newest version), `digits:3` and `digits@champion`."""

import re
from dataclasses import dataclass
from typing import Final

MODEL_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,62}"
"""The regular expression of the names of models."""
ALIAS: Final = r"[a-z][a-z0-9._-]{0,62}"
"""The regular expression of aliases: they begin with a letter, so that none looks like a number."""
LATEST: Final = "latest"
"""Stands for the newest version, so it cannot be an alias."""
VERSION_NUMBER: Final = r"[1-9][0-9]{0,8}"
REFERENCE: Final = re.compile(rf"({MODEL_NAME})(?::({VERSION_NUMBER})|@({ALIAS}))?")


@dataclass(frozen=True)
class ModelReference:
    """The parts of a reference; without number and alias, the newest version is meant."""

    name: str
    number: int | None = None
    alias: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ModelReference":
        """The parts of `name`, `name:number` or `name@alias`. Raises ValueError."""
        match = REFERENCE.fullmatch(text)
        if match is None:
            raise ValueError(
                "expected a model, as in digits, digits:3 or digits@champion (lower-case letters, "
                f"digits, dots, dashes and underscores), received {text[:80]!r}"
            )
        alias = match[3] if match[3] != LATEST else None
        return cls(match[1], int(match[2]) if match[2] else None, alias)

    @property
    def version(self) -> str:
        """The version as it is named in paths of the API: its number, alias, or `latest`."""
        return str(self.number) if self.number is not None else self.alias or LATEST

    def __str__(self) -> str:
        if self.number is not None:
            return f"{self.name}:{self.number}"
        return self.name if self.alias is None else f"{self.name}@{self.alias}"
