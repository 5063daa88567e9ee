"""The settings of a Slurm scheduler: a YAML file with the queues that it serves."""

import math
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from ampspec.training.training import QueueName
from infra.settings import SettingsInvalid
from server.allocations.settings_file import read_settings_file


def _as_text(value: Any) -> Any:
    """A number, such as the megabytes of --mem, as YAML reads it without quotation marks."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Word = Annotated[str, BeforeValidator(_as_text), StringConstraints(pattern=r"^[^\s;'\"\\]{1,200}$")]
"""A value of one of Slurm's options: it reaches sbatch as one argument, and no shell."""
OPTIONS: Final = (
    "exclusive", "gpus-per-node", "gpu-bind", "licenses", "nice", "nodelist", "exclude", "switches",
    "wckey", "hint", "threads-per-core", "sockets-per-node", "cores-per-socket", "core-spec", "tmp",
    "network", "comment", "mail-type", "mail-user", "mem-per-cpu", "mem-per-gpu", "gres-flags",
    "wait-all-nodes", "image", "module", "container-image", "container-mounts",
    "container-mount-home", "container-workdir",
)  # fmt: skip
"""The options of sbatch that a queue may add; the others are set by the scheduler."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SlurmQueue(_Section):
    """How the jobs of a queue are submitted."""

    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    constraint: Word | None = None
    reservation: Word | None = None
    gres: Word | None = None
    """The generic resource of a device, such as `gpu` or `gpu:a100`; none on CPUs."""
    cpus_per_device: int = Field(default=1, ge=1, le=4096)
    memory_per_node: Word | None = None
    """As in --mem, such as 64G."""
    time_limit_s: int = Field(default=86_400, ge=60, le=31_536_000)
    """How long an allocation may train; a job with a shorter `runtime.timeout_s` asks for less."""
    start_s: int = Field(default=120, ge=0, le=3600)
    """How long the start of a worker may take, besides that."""
    warning_s: int = Field(default=120, ge=10, le=3600)
    """How long before the time limit a worker is told to save a checkpoint and end."""
    max_pending: int = Field(default=100, ge=1, le=100_000)
    """How many allocations may wait in Slurm at a time."""
    options: dict[str, bool | Word] = Field(default_factory=dict)
    """Further options of sbatch, of those in OPTIONS."""


class SlurmSettings(_Section):
    """The settings of a scheduler."""

    queues: dict[QueueName, SlurmQueue] = Field(min_length=1)
    command: list[str] = Field(default=["ampserver"], min_length=1)
    """How `ampserver` is started on a node."""
    setup: list[str] = Field(default_factory=list)
    """Lines of shell before that, such as `module load cuda`."""
    environment: list[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]] = Field(
        default_factory=list
    )
    """Further variables of the scheduler that its workers get, besides AMPCORE_*."""
    output: str = "/dev/null"
    """Where a node writes what its worker logs, in the notation of sbatch, such as
    /var/log/ampcore/%x.log."""
    poll_s: float = Field(default=5.0, ge=0.2, le=300)
    """The pause between two looks at Slurm."""


def read_slurm_settings(file: Path) -> SlurmSettings:
    """Read the settings; see `read_settings_file`."""
    return read_settings_file(file, SlurmSettings, _with_known_options)


def _with_known_options(settings: SlurmSettings) -> SlurmSettings:
    """The settings, unless a queue has an option of sbatch that is not one of OPTIONS."""
    for name, queue in settings.queues.items():
        for option in queue.options.keys() - set(OPTIONS):
            raise SettingsInvalid(
                f"queues.{name}.options.{option}: expected one of {', '.join(sorted(OPTIONS))}; "
                "the scheduler sets the other options itself."
            )
    return settings


def minutes(seconds: float) -> int:
    """A time limit in Slurm's unit, rounded up."""
    return max(math.ceil(seconds / 60), 1)
