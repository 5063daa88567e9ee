"""The embedded stack of `ampserver up`: SQLite, a private Redis, the API, and one worker."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from infra.defaults import DEFAULT_DATA_DIR, DEFAULT_REDIS_URL
from infra.log_config import set_up_logging
from server.embedded.child_process import ChildProcess
from server.embedded.data_folder import DataFolder
from server.embedded.private_redis import start_redis
from server.embedded.sandbox_notice import SandboxNotice
from server.embedded.supervisor import SupervisedChild, Supervisor
from server.http.serving.memory import limit_memory
from server.serve import StartFailed, exposure_warning, listen, serve, url_of

if TYPE_CHECKING:
    from server.settings import Settings
    from store.database import Database

FIRST_JOB: Final = '{"model": {"kind": "mlp"}, "data": {"kind": "digits"}}'
"""The spec in the suggested first command: works in any folder and trains in seconds."""
MIGRATION_GRACE_S: Final = 5.0
REDIS_GRACE_S: Final = 3.0
WORKER_GRACE_S: Final = 30.0
"""How long a worker needs to stop besides the time for which it stores files: it gives its
trainers 10 s to begin to save a checkpoint."""
SCHEDULER_GRACE_S: Final = 10.0
SAY_AFTER_S: Final = 3.0
KUBERNETES: Final = "kubernetes"
WORKER_QUEUES: Final = "AMPCORE_WORKER_QUEUES"
DEFAULT_WORKER_QUEUES: Final = "default,cpu"
"""Those of every worker; on a machine with a GPU it serves one more."""


def up(folder: DataFolder, host: str, port: int, slots: int) -> None:
    """Run the whole stack in a folder until SIGINT or SIGTERM. Raises StartFailed."""
    limit_memory()
    os.umask(0o077)  # files of this process and its children are readable only by their owner
    _handle_signals()
    try:
        with ExitStack() as stack:
            _run(stack, folder, host, port, slots)
    except KeyboardInterrupt:
        sys.stdout.write("Stopped.\n")


def _run(stack: ExitStack, folder: DataFolder, host: str, port: int, slots: int) -> None:
    folder.refuse_if_taken()  # before the port, which a running server would hold
    listener = stack.enter_context(listen(host, port))
    folder.create()
    stack.enter_context(folder.lock())
    folder.remove_connection()
    settings_values = _given_settings(folder, host, port)
    # A new database needs a migration: it runs while this process imports what it needs.
    is_new = not folder.database_file.exists()
    migration = _start_migration(stack, folder, settings_values) if is_new else None
    settings = _read_settings(settings_values)
    set_up_logging(settings.log_format, folder.logs / "server.log")
    redis = start_redis(folder.run, folder.logs / "redis.log")
    stack.callback(redis.stop, REDIS_GRACE_S)
    settings_values["redis_url"] = redis.url
    public_url = settings.public_url or url_of(listener)
    settings = settings.model_copy(update={"redis_url": redis.url, "public_url": public_url})
    if migration is not None:
        _wait_for_migration(migration, folder)
    variables = {**_variables(settings_values), "AMPCORE_WORKER_SLOTS": str(slots)}
    schedulers = _schedulers(folder, settings, variables)
    database = _prepare_database(stack, folder, settings_values)
    worker = _child("worker", folder, variables)
    grace_s = settings.drain_timeout_s + WORKER_GRACE_S
    stack.callback(_stop_worker, worker, grace_s)
    worker.start()
    for scheduler in schedulers:
        stack.callback(scheduler.stop, SCHEDULER_GRACE_S)
        scheduler.start()
    keeper = Supervisor(
        [
            SupervisedChild(redis, REDIS_GRACE_S),
            *(SupervisedChild(scheduler, SCHEDULER_GRACE_S) for scheduler in schedulers),
            SupervisedChild(
                worker, grace_s, drains=True, on_end=lambda: _end_orphaned_jobs(database)
            ),
        ]
    )
    keeper.start()
    stack.callback(keeper.stop)
    stack.callback(folder.remove_connection)
    notice = SandboxNotice(database, lambda: worker.pid, lambda text: _print(f"\n{text}\n"))

    def announce() -> None:
        folder.write_connection(url_of(listener))
        _print(_ready_message(folder, url_of(listener), exposure_warning(listener)))
        notice.start()
        stack.callback(notice.stop)

    serve(settings, listener, announce)


def _stop_worker(worker: ChildProcess, grace_s: float) -> None:
    """Stop the worker, and say what takes long."""
    waiting = threading.Timer(
        SAY_AFTER_S,
        _print,
        [
            "Stopping: the jobs save checkpoints, and the worker stores them, for at most "
            f"{grace_s:g} s (AMPCORE_DRAIN_TIMEOUT_S).\n"
        ],
    )
    waiting.daemon = True
    waiting.start()
    worker.stop(grace_s)
    waiting.cancel()


def _given_settings(folder: DataFolder, host: str, port: int) -> dict[str, Any]:
    """The settings that `ampserver up` decides; the private Redis has no URL yet."""
    return {
        "data_dir": folder.path,
        "database_url": folder.database_url,
        "redis_url": DEFAULT_REDIS_URL,
        "host": host,
        "port": port,
        # People read the logs of one machine.
        "log_format": os.environ.get("AMPCORE_LOG_FORMAT", "").strip() or "text",
    }


def _read_settings(values: Mapping[str, Any]) -> Settings:
    from infra.settings import SettingsInvalid
    from server.settings import Settings

    try:
        return Settings.from_environment(**values)
    except SettingsInvalid as error:
        raise StartFailed(str(error)) from None


def _variables(settings_values: Mapping[str, Any]) -> dict[str, str]:
    """The environment of the child processes: this stack's settings, and what was set outside."""
    variables = {f"AMPCORE_{name.upper()}": str(value) for name, value in settings_values.items()}
    outside = {name: value for name, value in os.environ.items() if name != "AMPCORE_WORKER_JOB"}
    return {**outside, **variables}


def _schedulers(
    folder: DataFolder, settings: Settings, variables: Mapping[str, str]
) -> list[ChildProcess]:
    """The scheduler that the settings ask for, in a list, which is empty without one.

    Raises:
        StartFailed: Its settings cannot be used, or its workers could not open the database.
    """
    if settings.scheduler is None:
        return []
    from infra.settings import SettingsInvalid
    from server.allocations.engines import read_plan

    if settings.scheduler == KUBERNETES:
        raise StartFailed(
            "AMPCORE_SCHEDULER: expected slurm, received kubernetes: its pods cannot open the "
            "database of `ampserver up`, which is a file on this machine. Install the Helm chart, "
            "or run `ampserver api` and `ampserver schedule` with PostgreSQL."
        )
    try:
        plan = read_plan(settings.scheduler, settings.scheduler_config)
    except SettingsInvalid as error:
        raise StartFailed(str(error)) from None
    of_worker = (variables.get(WORKER_QUEUES, "").strip() or DEFAULT_WORKER_QUEUES).split(",")
    if shared_queues := sorted(plan.max_pending.keys() & {queue.strip() for queue in of_worker}):
        raise StartFailed(
            f"{settings.scheduler_config}: queues.{shared_queues[0]}: expected a queue that the "
            "worker of `ampserver up` does not serve, too, which would take its jobs first. "
            f"{WORKER_QUEUES} names that worker's queues."
        )
    # Child processes run in another folder.
    config = {"AMPCORE_SCHEDULER_CONFIG": os.path.abspath(str(settings.scheduler_config))}
    return [_child("server", folder, {**variables, **config}, "schedule")]


def _prepare_database(
    stack: ExitStack, folder: DataFolder, settings_values: Mapping[str, Any]
) -> Database:
    """Upgrade an older database, create the token, end jobs that a killed server left running."""
    from server.schema import is_current
    from store.access import tokens
    from store.database import Database

    database = Database(folder.database_url)
    stack.callback(database.close)
    if not is_current(database):
        _wait_for_migration(_start_migration(stack, folder, settings_values), folder)
    try:
        with database.write() as session:
            tokens.ensure_admin(session, "ampserver up", folder.token())
    except tokens.TokenRevoked as error:
        raise StartFailed(f"{error} Delete {folder.token_file} to create a new token.") from None
    _end_orphaned_jobs(database)
    return database


def _start_migration(
    stack: ExitStack, folder: DataFolder, settings_values: Mapping[str, Any]
) -> ChildProcess:
    """Migrate in a child process: Alembic would stay in the memory of this one."""
    migration = _child("server", folder, _variables(settings_values), "migrate")
    stack.callback(migration.stop, MIGRATION_GRACE_S)
    migration.start()
    return migration


def _wait_for_migration(migration: ChildProcess, folder: DataFolder) -> None:
    import server.app  # noqa: F401 - what takes longest to import, in the meantime

    if migration.wait() != 0:
        raise StartFailed(
            f"The database in {folder.path} cannot be migrated; see {folder.logs / 'migrate.log'}."
        )


def _end_orphaned_jobs(database: Database) -> None:
    """End the jobs of a killed worker: its trainers die with it, and there is no other worker."""
    from server.embedded import orphaned_jobs

    orphaned_jobs.end_orphaned_jobs(database)


def _child(
    module: str, folder: DataFolder, variables: Mapping[str, str], *arguments: str
) -> ChildProcess:
    """A child process that runs one of our modules with the settings of the stack."""
    name = arguments[0] if arguments else module
    return ChildProcess(
        f"the {name}",
        [sys.executable, "-P", "-m", module, *arguments],
        log_file=folder.logs / f"{name}.log",
        environment=variables,
    )


def _ready_message(folder: DataFolder, url: str, warning: str | None) -> str:
    at_home = folder.path == DEFAULT_DATA_DIR.absolute()
    variable = "" if at_home else f"AMPCORE_CONNECTION={folder.connection_file} "
    lines = [
        "ampcore is ready.",
        "",
        f"  address  {url}",
        f"           open it in a browser and sign in with the token in {folder.token_file}",
        f"  docs     {url}/api/v1/docs",
        f"           sign in with any user name; the password is the token in {folder.token_file}",
        "           to try an operation there, press Authorize and paste the token",
        f"  data     {folder.path}",
        f"  try      echo '{FIRST_JOB}' | {variable}ampctl submit - --watch",
        "",
        *([warning, ""] if warning else []),
        "Press Ctrl-C to stop.",
    ]
    return "\n".join(lines) + "\n"


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _handle_signals() -> None:
    """Raise KeyboardInterrupt at the first SIGINT or SIGTERM, and ignore later ones."""
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup SIGHUP stays ignored
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
