"""The worker's Celery application: its configuration, its one task, its start and its stop.

`running_parts` starts and stops what a worker without Celery needs, too (worker.one_job).
"""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from celery import Celery, signals
from celery.apps import worker as celery_worker

from infra.celery_names import TASK_NAME, queue_key
from infra.notify import Notifier
from infra.storage import Storage
from infra.storage_check import StorageCheck
from store.database import Database, StatementLimits
from store.jobs.jobs import DEFAULT_QUEUE
from store.tables import new_id
from worker import broker, capabilities, usage
from worker import plugins as packages
from worker.context import WorkerContext
from worker.gangs.gang_runner import GangRunner
from worker.rank_ports import own_host
from worker.registration import WorkerRegistration
from worker.settings import WorkerSettings
from worker.shutdown import Shutdown
from worker.slots import Slots
from worker.tasks import run_queued_jobs
from worker.trainer.isolation_plan import log_isolation, plan_isolation
from worker.trainer.memory_cgroups import CgroupsMissing, MemoryCgroups, find_memory_cgroups
from worker.trainer.sandbox_plan import plan_sandbox
from worker.trainer.standby import Standby
from worker.trainer.trainer_status import adopt_orphans
from worker.transfer.download_cache import FOLDER, DownloadCache
from worker.work_dirs import WorkDirs

log = logging.getLogger(__name__)

DATABASE_LIMITS: Final = StatementLimits(statement_s=60, lock_s=10)
"""A statement that takes longer is retried, as after an outage; the worker's thread is free."""


def run(settings: WorkerSettings) -> int:
    """Run a worker until SIGTERM; returns the exit code of the process."""
    # Celery prints these messages to standard output, where every line must have the log's format.
    celery_worker.safe_say = lambda *_: None
    context = create_context(settings)
    controller = create_app(settings, context).Worker(
        pool_cls="threads",
        concurrency=settings.worker_slots,
        queues=[queue_key(queue) for queue in context.queues],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    controller.start()
    return int(controller.exitcode or 0)


def create_app(settings: WorkerSettings, context: WorkerContext) -> Celery:
    """A worker's Celery application; opens nothing before it starts."""
    app = Celery("ampcore", broker=settings.redis_url, set_as_current=False)
    broker.install_transport()
    app.conf.update(
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # Detect connections that broke without a TCP reset.
        broker_transport_options={
            "health_check_interval": 10,
            "socket_keepalive": True,
            "socket_connect_timeout": 5,
            # Longer than the blocking pop with which Celery polls Redis.
            "socket_timeout": 10,
        },
        task_acks_late=False,
        task_default_queue=queue_key(DEFAULT_QUEUE),
        task_ignore_result=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
    )
    _run_slots(app, context, settings)
    return app


def create_context(settings: WorkerSettings) -> WorkerContext:
    """The context of a worker with these settings; opens nothing yet.

    Raises IsolationUnavailable.
    """
    worker_id, storage = new_id(), Storage(settings.artifacts_url)
    datasets = settings.data_dir / "datasets"
    work_dirs = WorkDirs(settings.scratch_dir, worker_id)
    entries = packages.usable_entries()
    queues = capabilities.queues_to_serve(settings.worker_queues)
    cgroups = _memory_cgroups()
    isolation = plan_isolation(
        settings.isolation, parent=work_dirs.worker_dir, datasets=datasets, cgroups=cgroups
    )
    sandbox_plan = plan_sandbox(
        settings.sandbox,
        users=settings.trainer_users,
        parent=work_dirs.worker_dir,
        datasets=datasets,
        slots=settings.worker_slots,
        cgroups=cgroups,
    )
    return WorkerContext(
        worker_id=worker_id,
        queues=packages.queues_with_packages(queues, entries),
        packages=entries,
        database=Database(settings.database_url, limits=DATABASE_LIMITS),
        storage=storage,
        storage_check=StorageCheck(storage),
        work_dirs=work_dirs,
        standby=Standby(isolation=isolation),
        data_root=datasets,
        download_cache=DownloadCache(settings.scratch_dir / FOLDER, settings.dataset_cache_bytes),
        data_prefixes=settings.data_prefixes,
        notifier=Notifier(settings.redis_url),
        isolation=isolation,
        sandbox_plan=sandbox_plan,
        slots=Slots(settings.worker_slots),
        rank_host=settings.worker_address or own_host(settings.database_url),
        rank_ports=settings.worker_ports,
        lease_s=settings.lease_s,
        upload_stall_s=settings.upload_stall_s,
        shutting_down=Shutdown(settings.drain_timeout_s),
    )


def _memory_cgroups() -> MemoryCgroups | None:
    try:
        return find_memory_cgroups()
    except CgroupsMissing as error:
        log.info("trainers have no memory cgroups: %s", error)
        return None


@contextmanager
def running_parts(context: WorkerContext, settings: WorkerSettings) -> Iterator[GangRunner]:
    """Run the parts of a worker besides the jobs with one rank.

    Args:
        context: What these parts share.
        settings: The settings of the worker.

    Yields:
        The part that runs ranks of gangs, which are waited for at the end.

    Raises:
        OSError: The folder of the worker cannot be created.
    """
    gpus = usage.Gpus()
    registration = WorkerRegistration(
        context.database,
        context.worker_id,
        slots=settings.worker_slots,
        queues=context.queues,
        job_id=context.job_id,
        hardware=lambda: _hardware_with_isolation(context),
        usage=lambda: (
            context.metrics.reading()
            | {"gpus": gpus.reading(), "memory": usage.peak_memory(context.standby.peak_bytes)}
        ),
        shutdown=context.shutting_down,
    )

    gang_runner = GangRunner(context)
    adopt_orphans()
    context.work_dirs.open()
    log_isolation(context.isolation)
    context.sandbox_plan.log()
    context.standby.prepare()
    if context.storage_check is not None:
        context.storage_check.start()
    registration.start()
    gang_runner.start()
    try:
        yield gang_runner
    finally:
        log.info("the worker stops")
        gang_runner.stop()
        if context.storage_check is not None:
            context.storage_check.stop()
        context.standby.close()
        registration.stop()
        context.work_dirs.close()
        context.notifier.close()
        context.database.close()


def _run_slots(app: Celery, context: WorkerContext, settings: WorkerSettings) -> None:
    """Register the task, and start and stop the worker's parts with the Celery worker."""
    parts = ExitStack()

    @app.task(name=TASK_NAME)  # type: ignore[untyped-decorator]
    def train(_job_id: str) -> None:
        run_queued_jobs(context)

    @signals.setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_logging(**_: Any) -> None:
        """Keep Celery from configuring logging: `worker.__main__` has done it."""

    @signals.worker_init.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_start(**_: Any) -> None:
        parts.enter_context(running_parts(context, settings))

    @signals.worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_ready(**_: Any) -> None:
        # Slurm's warning before the time limit of an allocation begins the drain. Celery, which
        # has just set its handlers, would print the stack of each thread.
        signal.signal(signal.SIGUSR1, lambda *_: os.kill(os.getpid(), signal.SIGTERM))

    @signals.worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_stop_request(**_: Any) -> None:
        context.shutting_down.set()

    @signals.worker_shutdown.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_stop(**_: Any) -> None:
        parts.close()


def _hardware_with_isolation(context: WorkerContext) -> dict[str, Any] | None:
    """The machine's hardware and how trainers are isolated on it; None until a trainer reported."""
    if (hardware := context.standby.hardware()) is None:
        return None
    isolation = context.isolation
    return {
        **hardware,
        "isolation": isolation.describe() if isolation is not None else None,
        "sandbox": context.sandbox_plan.describe(),
        "packages": list(context.packages),
        "gang_host": context.rank_host,
        "storage_error": context.storage_check and context.storage_check.error,
    }
