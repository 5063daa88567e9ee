"""The Celery application of a worker: settings, the one task, and what begins and ends with it."""

from typing import Any

from celery import Celery, signals

from service.bells import Bell
from service.celery_names import TASK, queue_key
from service.storage import Storage
from store.database import Database
from store.jobs import DEFAULT_QUEUE
from store.tables import new_id
from worker import abilities, broker, usage
from worker.isolation_plan import log_isolation, plan
from worker.presence import Presence
from worker.scratch import Scratch
from worker.settings import Settings
from worker.standby import Standby
from worker.subreaper import adopt_orphans
from worker.tasks import work
from worker.workshop import Workshop


def run(settings: Settings) -> int:
    """Run a worker until it is told to stop; returns the exit code of the process."""
    shop = workshop(settings)
    controller = create_app(settings, shop).Worker(
        pool_cls="threads",
        concurrency=settings.worker_slots,
        queues=[queue_key(queue) for queue in shop.queues],
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    controller.start()
    return int(controller.exitcode or 0)


def create_app(settings: Settings, shop: Workshop) -> Celery:
    """A worker's Celery application; nothing is opened before it starts."""
    app = Celery("ampcore", broker=settings.redis_url, set_as_current=False)
    broker.keep_places()
    app.conf.update(
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A connection that died without a word must be noticed.
        broker_transport_options={
            "health_check_interval": 10,
            "socket_keepalive": True,
            "socket_connect_timeout": 5,
            # Longer than Redis takes to say that there is nothing.
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
    _run_slots(app, shop, settings.worker_slots)
    return app


def workshop(settings: Settings) -> Workshop:
    """What the slots of a worker with these settings use; nothing is opened yet.

    Raises IsolationImpossible.
    """
    worker_id = new_id()
    datasets = settings.data_dir / "datasets"
    scratch = Scratch(settings.scratch_dir, worker_id)
    isolation = plan(settings.isolation, parent=scratch.own, datasets=datasets)
    return Workshop(
        worker_id=worker_id,
        queues=abilities.queues(settings.worker_queues),
        database=Database(settings.database_url),
        storage=Storage(settings.artifacts_url),
        scratch=scratch,
        standby=Standby(isolation=isolation),
        data_root=datasets,
        bell=Bell(settings.redis_url),
        isolation=isolation,
        lease_s=settings.lease_s,
    )


def _run_slots(app: Celery, shop: Workshop, slots: int) -> None:
    """Tie the life of the slots to the life of the Celery worker."""
    gpus = usage.Gpus()
    presence = Presence(
        shop.database,
        shop.worker_id,
        slots=slots,
        queues=shop.queues,
        hardware=lambda: _hardware(shop),
        usage=lambda: (
            shop.meter.reading()
            | {"gpus": gpus.reading(), "memory": usage.memory(shop.standby.peak_bytes)}
        ),
    )

    @app.task(name=TASK)  # type: ignore[untyped-decorator]
    def train(_job_id: str) -> None:
        work(shop)

    @signals.setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_logging(**_: Any) -> None:
        """It is set up already, by whoever has started this process."""

    @signals.worker_init.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_start(**_: Any) -> None:
        adopt_orphans()
        shop.scratch.open()
        log_isolation(shop.isolation)
        shop.standby.prepare()
        presence.start()

    @signals.worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_stop_request(**_: Any) -> None:
        shop.shutting_down.set()

    @signals.worker_shutdown.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_stop(**_: Any) -> None:
        shop.standby.close()
        presence.end()
        shop.scratch.close()
        shop.bell.close()
        shop.database.close()


def _hardware(shop: Workshop) -> dict[str, Any] | None:
    """What is known of the machine, and how trainers are confined on it."""
    if (found := shop.standby.hardware()) is None:
        return None
    isolation = shop.isolation
    return {**found, "isolation": isolation.describe() if isolation is not None else None}
