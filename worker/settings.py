"""The worker's settings, read once from environment variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from ampcore.spec.training import QueueName
from service.settings import Environment, SettingsInvalid, SharedSettings, database_url, redis_url
from worker.isolation_plan import DEFAULT_PROCESSES, DEFAULT_USERS, IsolationMode, IsolationSettings


@dataclass(frozen=True)
class Settings(SharedSettings):
    """The worker's settings; each is the environment variable AMPCORE_<NAME>."""

    worker_slots: int = 1
    worker_queues: tuple[str, ...] | None = None
    """The queues to serve; None: those whose jobs its machine can run."""
    scratch_dir: Path = Path()
    """Where attempts write before uploads; default: `scratch` in the data folder."""
    trainer_isolation: IsolationMode = IsolationMode.AUTO
    trainer_users: range = DEFAULT_USERS
    trainer_processes: int = DEFAULT_PROCESSES
    trainer_memory_bytes: int | None = None
    """None: the machine's memory plus what a trainer only reserves."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scratch_dir == Path():
            object.__setattr__(self, "scratch_dir", self.data_dir / "scratch")

    @property
    def isolation(self) -> IsolationSettings:
        """The settings about trainer isolation."""
        return IsolationSettings(
            self.trainer_isolation,
            self.trainer_users,
            self.trainer_processes,
            self.trainer_memory_bytes,
        )

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> Self:
        """Read the settings. Raises SettingsInvalid, which names the variable."""
        given = Environment.of(variables)
        scratch = given.text("AMPCORE_SCRATCH_DIR", "")
        return cls(
            database_url=database_url(given.needed("AMPCORE_DATABASE_URL")),
            redis_url=redis_url(given.needed("AMPCORE_REDIS_URL")),
            worker_slots=given.whole_number("AMPCORE_WORKER_SLOTS", 1, least=1, most=1024),
            worker_queues=_queues(given.text("AMPCORE_WORKER_QUEUES", "")),
            scratch_dir=Path(scratch).absolute() if scratch else Path(),
            trainer_isolation=IsolationMode(
                given.choice("AMPCORE_TRAINER_ISOLATION", IsolationMode.AUTO, *IsolationMode)
            ),
            trainer_users=_users(given.text("AMPCORE_TRAINER_USERS", "")),
            trainer_processes=given.whole_number(
                "AMPCORE_TRAINER_PROCESSES", DEFAULT_PROCESSES, least=1, most=2**22
            ),
            trainer_memory_bytes=given.whole_number(
                "AMPCORE_TRAINER_MEMORY_BYTES", 0, least=0, most=2**62
            )
            or None,
            **given.shared(),
        )


def _users(text: str) -> range:
    """Parse `FIRST-LAST` as a range of user ids; 0 (root) is not allowed."""
    if not text:
        return DEFAULT_USERS
    first, _, last = text.partition("-")
    given = [int(one[:12]) for one in (first, last) if one.isascii() and one.isdecimal()]
    if len(given) != 2 or not 1 <= given[0] <= given[1] < 2**32 - 1:
        raise SettingsInvalid(
            "AMPCORE_TRAINER_USERS: expected the first and last id of a range of users, "
            f"such as {DEFAULT_USERS[0]}-{DEFAULT_USERS[-1]}, received {text[:40]!r}."
        )
    return range(given[0], given[1] + 1)


def _queues(text: str) -> tuple[str, ...] | None:
    """Parse a comma-separated list of queue names; duplicates count once."""
    if not text:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    try:
        return TypeAdapter(tuple[QueueName, ...]).validate_python(names)
    except ValidationError:
        raise SettingsInvalid(
            "AMPCORE_WORKER_QUEUES: expected comma-separated names of lower-case letters, digits, "
            f"dots and dashes, received {text[:80]!r}."
        ) from None
