"""What a worker must know of its surroundings, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from ampcore.spec.training import QueueName
from service.settings import Environment, SettingsInvalid, Surroundings, database_url, redis_url


@dataclass(frozen=True)
class Settings(Surroundings):
    """The worker's settings; each is the environment variable AMPCORE_<NAME>."""

    worker_slots: int = 1
    worker_queues: tuple[str, ...] | None = None
    """Whose jobs it takes; None: those that its machine can run."""
    scratch_dir: Path = Path()
    """Where attempts write before their files are published; left out: in the data folder."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scratch_dir == Path():
            object.__setattr__(self, "scratch_dir", self.data_dir / "scratch")

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> Self:
        """Raises SettingsInvalid, naming the variable."""
        given = Environment.of(variables)
        scratch = given.text("AMPCORE_SCRATCH_DIR", "")
        return cls(
            database_url=database_url(given.needed("AMPCORE_DATABASE_URL")),
            redis_url=redis_url(given.needed("AMPCORE_REDIS_URL")),
            worker_slots=given.whole_number("AMPCORE_WORKER_SLOTS", 1, least=1, most=1024),
            worker_queues=_queues(given.text("AMPCORE_WORKER_QUEUES", "")),
            scratch_dir=Path(scratch).absolute() if scratch else Path(),
            **given.shared(),
        )


def _queues(text: str) -> tuple[str, ...] | None:
    """Names with commas between; a name that stands there twice counts once."""
    if not text:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    try:
        return TypeAdapter(tuple[QueueName, ...]).validate_python(names)
    except ValidationError:
        raise SettingsInvalid(
            "AMPCORE_WORKER_QUEUES: expected names of lower-case letters, digits, dots and dashes "
            f"with commas between, received {text[:80]!r}."
        ) from None
