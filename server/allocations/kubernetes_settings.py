"""The settings of a Kubernetes scheduler: a YAML file with the queues that it serves."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ampspec.training.training import QueueName
from infra.settings import SettingsInvalid
from server.allocations.settings_file import read_settings_file

Name = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253)
]
"""The name of an object of Kubernetes (RFC 1123)."""
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
"""The name of a namespace or a volume (RFC 1123, without dots)."""
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$"
    ),
]
LabelValue = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?$", max_length=63)
]
Quantity = Annotated[str, StringConstraints(pattern=r"^[1-9]\d*(\.\d+)?([kMGTP]|[KMGTP]i)?$")]
"""An amount of memory or disk, such as 64Gi."""
Image = Annotated[str, StringConstraints(pattern=r"^[\w][\w./:@-]*$", max_length=500)]
ResourceName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]
SECRET: Final = re.compile(
    r"PASS|SECRET|TOKEN|API_?KEY|KEY$|CREDENTIALS|DATABASE_URL|REDIS_URL", re.IGNORECASE
)
"""Variables with such a name are named as a key of a Secret."""
SET_BY_THE_SCHEDULER: Final = frozenset(
    {
        *("AMPCORE_WORKER_SLOTS", "AMPCORE_WORKER_JOB", "AMPCORE_WORKER_ADDRESS"),
        *("AMPCORE_WORKER_PORTS", "AMPCORE_WORKER_QUEUES", "AMPCORE_DRAIN_TIMEOUT_S"),
        *("AMPCORE_SCRATCH_DIR", "AMPCORE_BUNDLE_USER_NAMESPACE"),
    }
)
GPU_QUEUE: Final = "gpu"
GPU_RESOURCE: Final = "nvidia.com/gpu"
FOLDERS: Final = ("/scratch", "/tmp")  # noqa: S108 - in the pod
"""Where the scheduler mounts volumes itself."""
RESERVED_VOLUMES: Final = ("scratch", "tmp", "ampcore-data")


ADDED_TABLES: Final = ("environment", "secret_environment", "pod_labels")
ADDED_LISTS: Final = ("volumes",)
"""What a queue adds to the defaults, instead of replacing it."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SecretKey(_Section):
    """A key of a Secret."""

    secret: Name
    key: Annotated[str, StringConstraints(pattern=r"^[\w.-]+$")]


class Toleration(_Section):
    """A toleration of pods, as in Kubernetes."""

    key: LabelKey | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = Field(default=None, ge=0)  # noqa: N815 - as in Kubernetes

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("no value with the operator Exists")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("a key with the operator Equal")
        if self.tolerationSeconds is not None and self.effect != "NoExecute":
            raise ValueError("the effect NoExecute with tolerationSeconds")
        return self


class Volume(_Section):
    """A volume that is mounted into each pod: exactly one of its sources is set."""

    name: Label
    mount_path: Annotated[str, StringConstraints(pattern=r"^/[^:]+$")]
    read_only: bool = False
    claim: Name | None = None
    """A PersistentVolumeClaim."""
    secret: Name | None = None
    config_map: Name | None = None
    disk: Quantity | None = None
    """A folder on the node's disk of at most this size, which ends with the pod."""
    memory: Quantity | None = None
    """The same in memory, such as for /dev/shm; it counts as memory of the pod."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        sources = ("claim", "secret", "config_map", "disk", "memory")
        named_sources = [name for name in sources if getattr(self, name) is not None]
        if len(named_sources) != 1:
            raise ValueError(f"exactly one of {', '.join(sources)}")
        return self


class KubernetesQueue(_Section):
    """The pods of the jobs of a queue."""

    image: Image | None = None
    """The image of docker/worker.Dockerfile; required, here or in the defaults."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[Name, ...] = ()
    command: Annotated[tuple[str, ...], Field(min_length=1)] = ("ampserver",)
    """How `ampserver` is started in the container."""
    device_resource: ResourceName | None = None
    """The resource of a device, such as `nvidia.com/gpu`, the default of the queue `gpu`; none on
    CPUs."""
    cpus_per_device: int = Field(default=2, ge=1, le=4096)
    memory_per_device: Quantity = "6Gi"
    scratch: Quantity = "50Gi"
    """The room for checkpoints and datasets, on the disk of the node."""
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    priority_class: Name | None = None
    runtime_class: Name | None = None
    service_account: Name | None = None
    """It gives a pod no token for the Kubernetes API."""
    local_queue: Name | None = None
    """The LocalQueue of Kueue: it starts the pods of a job together, or none of them."""
    environment: dict[VariableName, str] = Field(default_factory=dict)
    secret_environment: dict[VariableName, SecretKey] = Field(default_factory=dict)
    environment_from_secrets: tuple[Name, ...] = ()
    """Secrets whose keys are all names of variables."""
    volumes: tuple[Volume, ...] = ()
    pod_labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    custom_code: bool = False
    """Whether the pods run jobs with custom code: as root of a user namespace of their own, with
    the capabilities that the worker's sandbox needs."""
    time_limit_s: int = Field(default=86_400, ge=60, le=31_536_000)
    """Of a job whose spec has no `runtime.timeout_s`."""
    start_s: int = Field(default=600, ge=0, le=86_400)
    """What pulling the image and starting the worker may take, besides the time limit."""
    drain_s: int = Field(default=600, ge=0, le=604_800)
    """How long a worker that is told to end may store its checkpoint."""
    max_pending: int = Field(default=100, ge=1, le=100_000)
    """How many allocations may wait in Kubernetes at a time."""

    @model_validator(mode="after")
    def _check_volumes(self) -> Self:
        for volume in self.volumes:
            if volume.name in RESERVED_VOLUMES or volume.mount_path.rstrip("/") in FOLDERS:
                raise ValueError(
                    f"volumes with other names than {', '.join(RESERVED_VOLUMES)} and "
                    f"other paths than {', '.join(FOLDERS)}: {volume.name}"
                )
        for attribute in ("name", "mount_path"):
            values = [getattr(volume, attribute) for volume in self.volumes]
            for value in values:
                if values.count(value) > 1:
                    raise ValueError(f"volumes with different {attribute}s: {value}")
        return self


class KubernetesSettings(_Section):
    """The settings of a scheduler."""

    namespace: Label | None = None
    """Where the pods are created; default: that of the scheduler's pod or of the kubeconfig."""
    kubeconfig: Path | None = None
    """How the API is reached; default: the service account of the pod, else $KUBECONFIG, else
    ~/.kube/config."""
    context: str | None = None
    """The context of the kubeconfig; default: its current one."""
    defaults: KubernetesQueue = KubernetesQueue()
    """What holds for all queues; a key of a queue replaces the value, or is added to it."""
    queues: dict[QueueName, KubernetesQueue] = Field(min_length=1)
    keep_ended_s: int = Field(default=3600, ge=300, le=2_592_000)
    """How long Kubernetes keeps objects of allocations that have ended, with their logs."""
    poll_s: float = Field(default=5.0, ge=0.2, le=300)
    """The pause between two looks at Kubernetes."""

    def with_defaults(self) -> Self:
        """The same, in which each queue has the defaults. Raises SettingsInvalid."""
        queues = {name: self._queue_with_defaults(name) for name in self.queues}
        return self.model_copy(update={"queues": queues})

    def _queue_with_defaults(self, name: str) -> KubernetesQueue:
        values = {key: getattr(self.defaults, key) for key in self.defaults.model_fields_set}
        for key in self.queues[name].model_fields_set:
            value = getattr(self.queues[name], key)
            if key in ADDED_TABLES:
                value = {**values.get(key, {}), **value}
            elif key in ADDED_LISTS:
                value = (*values.get(key, ()), *value)
            values[key] = value
        if name == GPU_QUEUE:
            values.setdefault("device_resource", GPU_RESOURCE)
        if values.get("image") is None:
            raise SettingsInvalid(
                f"queues.{name}.image: expected the image of the worker, received nothing."
            )
        try:
            return KubernetesQueue(**values)
        except ValidationError as error:  # of what is right in each of them
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise SettingsInvalid(
                f"queues.{name}: expected {message}; the defaults count, too."
            ) from None


def _check_variables(settings: KubernetesSettings) -> None:
    """Refuse passwords, without repeating them, and variables of the scheduler."""
    sections = {f"queues.{name}": queue for name, queue in settings.queues.items()}
    for where, section in {"defaults": settings.defaults, **sections}.items():
        for attribute in ("environment", "secret_environment"):
            for variable in getattr(section, attribute):
                if variable in SET_BY_THE_SCHEDULER:
                    raise SettingsInvalid(
                        f"{where}.{attribute}.{variable}: the scheduler sets this variable itself."
                    )
        for variable in section.environment:
            if SECRET.search(variable):
                raise SettingsInvalid(
                    f"{where}.environment.{variable}: expected its Secret and key in "
                    "secret_environment, received a value."
                )


def read_kubernetes_settings(file: Path) -> KubernetesSettings:
    """Read the settings, in which each queue has the defaults; see `read_settings_file`."""
    return read_settings_file(file, KubernetesSettings, _complete)


def _complete(settings: KubernetesSettings) -> KubernetesSettings:
    _check_variables(settings)
    return settings.with_defaults()
