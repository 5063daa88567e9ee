"""The worker's settings, read once from environment variables."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator
from pydantic_settings import NoDecode

from ampcore.spec.training import QueueName
from service.settings import AbsolutePath, SharedSettings
from worker.dataset_cache import DEFAULT_MAX_BYTES
from worker.isolation_plan import DEFAULT_PROCESSES, DEFAULT_USERS, IsolationMode, IsolationSettings


def _users(given: Any) -> range:
    """Parse `FIRST-LAST` as a range of user ids; 0 (root) is not allowed."""
    if isinstance(given, range):
        return given
    first, _, last = str(given).partition("-")
    ids = [int(one[:12]) for one in (first, last) if one.isascii() and one.isdecimal()]
    if len(ids) != 2 or not 1 <= ids[0] <= ids[1] < 2**32 - 1:
        raise ValueError(
            "expected the first and last id of a range of users, "
            f"such as {DEFAULT_USERS[0]}-{DEFAULT_USERS[-1]}, received {str(given)[:40]!r}."
        )
    return range(ids[0], ids[1] + 1)


def _queues(given: Any) -> Any:
    """Parse a comma-separated list of queue names; duplicates count once."""
    if not isinstance(given, str):
        return given
    return tuple(dict.fromkeys(name.strip() for name in given.split(",")))


class Settings(SharedSettings):
    """The worker's settings."""

    worker_slots: int = Field(1, ge=1, le=1024, description="a number from 1 to 1024")
    worker_queues: Annotated[tuple[QueueName, ...] | None, NoDecode, BeforeValidator(_queues)] = (
        Field(
            None,
            description="comma-separated names of lower-case letters, digits, dots and dashes",
        )
    )
    """The queues to serve; None: those whose jobs its machine can run."""
    scratch_dir: AbsolutePath = Field(default_factory=lambda data: data["data_dir"] / "scratch")
    """Where attempts write before uploads; default: `scratch` in the data folder."""
    dataset_cache_bytes: int = Field(
        DEFAULT_MAX_BYTES, ge=0, le=2**62, description=f"a number from 0 to {2**62}"
    )
    """Maximum size of the downloaded datasets that are kept; those in use are kept anyway."""
    trainer_isolation: IsolationMode = Field(
        IsolationMode.AUTO, description=" or ".join(IsolationMode)
    )
    trainer_users: Annotated[range, NoDecode, PlainValidator(_users)] = DEFAULT_USERS
    trainer_processes: int = Field(
        DEFAULT_PROCESSES, ge=1, le=2**22, description=f"a number from 1 to {2**22}"
    )
    trainer_memory_bytes: Annotated[int | None, AfterValidator(lambda size: size or None)] = Field(
        None, ge=0, le=2**62, description=f"a number from 0 to {2**62}"
    )
    """None: the machine's memory plus what a trainer only reserves."""

    @property
    def isolation(self) -> IsolationSettings:
        """The settings about trainer isolation."""
        return IsolationSettings(
            self.trainer_isolation,
            self.trainer_users,
            self.trainer_processes,
            self.trainer_memory_bytes,
        )
