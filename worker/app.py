"""The Celery application of a worker: settings, the one task, and what begins and ends with it."""

from typing import Any, Final

from celery import Celery, signals

from store.database import Database
from worker.presence import Presence
from worker.settings import Settings
from worker.standby import Standby
from worker.tasks import Slots

QUEUE: Final = "ampcore"
TASK: Final = "ampcore.train"


def create_app(settings: Settings) -> Celery:
    """A worker's Celery application; nothing is opened before it starts."""
    app = Celery("ampcore", broker=settings.redis_url, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A connection that died without a word must be noticed.
        broker_transport_options={
            "health_check_interval": 10,
            "socket_keepalive": True,
            "socket_connect_timeout": 5,
        },
        task_acks_late=False,
        task_default_queue=QUEUE,
        task_ignore_result=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
    )
    _run_slots(app, settings)
    return app


def _run_slots(app: Celery, settings: Settings) -> None:
    """Tie the life of the slots to the life of the Celery worker."""
    database = Database(settings.database_url)
    presence = Presence(database, settings.worker_slots)
    standby = Standby(settings.data_dir / "logs")
    slots = Slots(database, presence.worker_id, settings.data_dir, standby)

    @app.task(name=TASK)  # type: ignore[untyped-decorator]
    def train(job_id: str) -> None:
        slots.train(job_id)

    @signals.worker_init.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_start(**_: Any) -> None:
        standby.prepare()
        presence.start(standby)

    @signals.worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_stop_request(**_: Any) -> None:
        slots.shutting_down.set()

    @signals.worker_shutdown.connect(weak=False)  # type: ignore[untyped-decorator]
    def on_stop(**_: Any) -> None:
        standby.close()
        presence.end()
        database.close()
