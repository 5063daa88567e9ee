"""The batch systems that a scheduler can use, and their settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.settings import SettingsInvalid
from server.allocations.batch_system import BatchSystem
from server.allocations.kubernetes import Kubernetes
from server.allocations.kubernetes_settings import KubernetesSettings, read_kubernetes_settings
from server.allocations.slurm import Slurm
from server.allocations.slurm_settings import SlurmSettings, read_slurm_settings


@dataclass(frozen=True)
class SchedulerPlan:
    """What a scheduler is made of.

    Args:
        batch_system: Where the jobs get their devices.
        max_pending: By queue, how many allocations may wait there at a time.
        poll_s: The pause between two rounds, in seconds.
    """

    batch_system: BatchSystem
    max_pending: Mapping[str, int]
    poll_s: float


def _slurm(config: Path) -> SchedulerPlan:
    settings = read_slurm_settings(config)
    return _plan(Slurm(settings), settings)


def _kubernetes(config: Path) -> SchedulerPlan:
    settings = read_kubernetes_settings(config)
    return _plan(Kubernetes(settings), settings)


def _plan(batch_system: BatchSystem, settings: SlurmSettings | KubernetesSettings) -> SchedulerPlan:
    max_pending = {name: queue.max_pending for name, queue in settings.queues.items()}
    return SchedulerPlan(batch_system, max_pending, settings.poll_s)


ENGINES: Final[Mapping[str, Callable[[Path], SchedulerPlan]]] = {
    "slurm": _slurm,
    "kubernetes": _kubernetes,
}
"""By the name of a batch system: reads its settings from a file. May raise SettingsInvalid."""


def read_plan(engine: str | None, config: Path | None) -> SchedulerPlan:
    """The batch system with this name, with the settings in a file.

    Args:
        engine: The name of the batch system, as AMPCORE_SCHEDULER names it.
        config: The file, as AMPCORE_SCHEDULER_CONFIG names it.

    Raises:
        SettingsInvalid: There is no such batch system, or the file is missing or cannot be used.
    """
    if engine is None or engine not in ENGINES:
        expected = " or ".join(ENGINES)
        received = "none" if engine is None else repr(engine)
        raise SettingsInvalid(
            f"the batch system (AMPCORE_SCHEDULER): expected {expected}, received {received}."
        )
    if config is None:
        raise SettingsInvalid(
            "the settings of the scheduler (--config, AMPCORE_SCHEDULER_CONFIG): expected a YAML "
            f"file with the queues that {engine} serves, received none."
        )
    return ENGINES[engine](config)
