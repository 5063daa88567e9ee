"""The worker's settings, read once from environment variables."""

import re
from importlib.util import find_spec
from ipaddress import IPv6Address
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import NoDecode

from ampspec.references.object_url import ObjectUrl
from ampspec.training.training import QueueName
from infra.settings import AbsolutePath, SharedSettings
from worker.rank_ports import PORTS_OF_SLOT
from worker.slots import MAX_SLOTS
from worker.trainer.isolation_plan import (
    DEFAULT_PROCESSES,
    DEFAULT_USERS,
    IsolationMode,
    IsolationSettings,
)
from worker.trainer.sandbox_plan import (
    DEFAULT_DISK_BYTES,
    SandboxMode,
    SandboxSettings,
    UserNamespaceMode,
)
from worker.trainer.sandbox_plan import DEFAULT_PROCESSES as DEFAULT_BUNDLE_PROCESSES
from worker.transfer.data_object import PACKAGES
from worker.transfer.download_cache import DEFAULT_MAX_BYTES
from worker.transfer.upload_progress import STALL_S


def _range(text: Any, highest: int, what: str) -> range:
    """Parse `FIRST-LAST` as a range of numbers from 1."""
    if isinstance(text, range):
        return text
    first, _, last = str(text).partition("-")
    bounds = [int(part[:12]) for part in (first, last) if part.isascii() and part.isdecimal()]
    if len(bounds) != 2 or not 1 <= bounds[0] <= bounds[1] <= highest:
        raise ValueError(f"expected {what}, received {str(text)[:40]!r}.")
    return range(bounds[0], bounds[1] + 1)


def _users(text: Any) -> range:
    """Parse a range of user ids; 0 (root) is not allowed."""
    example = f"{DEFAULT_USERS[0]}-{DEFAULT_USERS[-1]}"
    what = f"the first and last id of a range of users, such as {example}"
    return _range(text, 2**32 - 2, what)


def _ports(text: Any) -> range | None:
    """Parse a range of ports."""
    if text is None:
        return None
    return _range(text, 2**16 - 1, "the first and last port of a range, such as 42000-42015")


def _queues(names: Any) -> Any:
    """Parse a comma-separated list of queue names; duplicates count once."""
    if not isinstance(names, str):
        return names
    return tuple(dict.fromkeys(name.strip() for name in names.split(",")))


def _host(text: str | None) -> str | None:
    """A host name or an IP address, without a port."""
    if text is None:
        return None
    host = text.strip().removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[0-9A-Za-z._-]+", host) and not _is_ipv6(host):
        raise ValueError(
            "expected a host name or an IP address of this machine that other workers reach, "
            f"without a port, received {text[:80]!r}."
        )
    return host


def _is_ipv6(host: str) -> bool:
    try:
        return bool(IPv6Address(host))
    except ValueError:
        return False


class WorkerSettings(SharedSettings):
    """The worker's settings."""

    worker_slots: int = Field(1, ge=1, le=MAX_SLOTS, description="a number from 1 to 1024")
    worker_queues: Annotated[tuple[QueueName, ...] | None, NoDecode, BeforeValidator(_queues)] = (
        Field(
            None,
            description="comma-separated names of lower-case letters, digits, dots and dashes",
        )
    )
    """The queues to serve; None: those whose jobs its machine can run."""
    worker_job: str | None = Field(
        None,
        pattern=r"^[0-9a-z]{1,32}$",
        description="the id of a job: digits and lower-case letters",
    )
    """The only job that it runs, before it ends; None: the jobs of its queues."""
    worker_job_wait_s: float = Field(120, ge=0, le=86_400, description="seconds from 0 to 86400")
    """How long a worker with such a job waits while the job may not start."""
    worker_address: Annotated[str | None, AfterValidator(_host)] = None
    """The host of the addresses of its ranks; None: its address on the database's network."""
    worker_ports: Annotated[range | None, NoDecode, PlainValidator(_ports)] = None
    """The ports on which its ranks listen; None: any free ones."""
    scratch_dir: AbsolutePath = Field(default_factory=lambda data: data["data_dir"] / "scratch")
    """Where attempts write before uploads; default: `scratch` in the data folder."""
    dataset_cache_bytes: int = Field(
        DEFAULT_MAX_BYTES, ge=0, le=2**62, description=f"a number from 0 to {2**62}"
    )
    """Maximum size of the downloaded datasets that are kept; those in use are kept anyway."""
    upload_stall_s: float = Field(STALL_S, ge=1, le=86_400, description="seconds from 1 to 86400")
    """Uploads of a job that make no progress for this long have failed."""
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

    @field_validator("worker_ports")
    @classmethod
    def _check_count_of_ports(cls, ports: range | None, info: ValidationInfo) -> range | None:
        """Raise ValueError if each slot may have a rank 0, and there are too few ports for that."""
        slots = info.data.get("worker_slots", 1)
        if ports is not None and len(ports) < PORTS_OF_SLOT * slots:
            raise ValueError(
                f"expected at least {PORTS_OF_SLOT * slots} ports, {PORTS_OF_SLOT} for each slot, "
                f"received {len(ports)}."
            )
        return ports

    @field_validator("data_prefixes")
    @classmethod
    def _check_packages(cls, prefixes: tuple[ObjectUrl, ...]) -> tuple[ObjectUrl, ...]:
        """Raise ValueError if the package for a store is not installed."""
        for prefix in prefixes:
            package = PACKAGES[prefix.scheme]
            if find_spec(package) is None:
                raise ValueError(f"{prefix.scheme}:// needs the package {package}.")
        return prefixes

    bundle_sandbox: SandboxMode = Field(SandboxMode.AUTO, description=" or ".join(SandboxMode))
    bundle_memory_bytes: Annotated[int | None, AfterValidator(lambda size: size or None)] = Field(
        None, ge=0, le=2**62, description=f"a number from 0 to {2**62}"
    )
    """None: a share of the machine's memory."""
    bundle_processes: int = Field(
        DEFAULT_BUNDLE_PROCESSES, ge=1, le=2**22, description=f"a number from 1 to {2**22}"
    )
    bundle_disk_bytes: int = Field(
        DEFAULT_DISK_BYTES, ge=1, le=2**62, description=f"a number from 1 to {2**62}"
    )
    bundle_user_namespace: UserNamespaceMode = Field(
        UserNamespaceMode.ANY, description=" or ".join(UserNamespaceMode)
    )

    @property
    def sandbox(self) -> SandboxSettings:
        """The settings about the sandbox of jobs with custom code."""
        return SandboxSettings(
            self.bundle_sandbox,
            self.bundle_memory_bytes,
            self.bundle_processes,
            self.bundle_disk_bytes,
            self.bundle_user_namespace,
        )

    @property
    def isolation(self) -> IsolationSettings:
        """The settings about trainer isolation."""
        return IsolationSettings(
            self.trainer_isolation,
            self.trainer_users,
            self.trainer_processes,
            self.trainer_memory_bytes,
        )
