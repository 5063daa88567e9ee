"""One stack of real processes for all tests of a group, reset before each test."""

import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.chaos.cluster import SCRIPTED, Cluster
from tests.chaos.postgres import Postgres
from tests.chaos.reference_run import RunResult, scripted_reference, train


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the last log lines of every process to the report of a failed test."""
    report = yield
    cluster = item.funcargs.get("cluster")
    if report.failed and isinstance(cluster, Cluster):
        for member in (*cluster.apis, *cluster.workers):
            report.sections.append((f"the end of {member.name}'s log", member.log))
    return report


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server of these tests alone, since they stop it."""
    # Not below pytest's folder: started by root, the server runs as a user who cannot enter it.
    folder = Path(tempfile.mkdtemp(prefix="ampcore-chaos-postgres-"))
    server = Postgres(folder)
    yield server
    server.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def shared_cluster(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Cluster]]:
    """Returns the current stack with one API; starts a new one when it has ended."""
    made: list[Cluster] = []

    def current() -> Cluster:
        if not made or made[-1].ended:
            made.append(Cluster(tmp_path_factory.mktemp("chaos"), postgres))
            made[-1].api()
        return made[-1]

    yield current
    # Problems found here are not the last test's fault; test_shutdown.py checks for them.
    for cluster in made:
        cluster.end()


@pytest.fixture
def cluster(shared_cluster: Callable[[], Cluster]) -> Iterator[Cluster]:
    """A stack with one API; tests start workers with `ensure_workers`."""
    cluster = shared_cluster()
    yield cluster
    if not cluster.ended:
        cluster.reset()


@pytest.fixture(scope="session")
def reference_run() -> RunResult:
    """The undisturbed run that all others must equal; trained once per test session."""
    return train()


@pytest.fixture
def reference(request: pytest.FixtureRequest, trainer: str) -> RunResult:
    """The undisturbed run of the trainer of a test."""
    if trainer == SCRIPTED:
        return scripted_reference()
    result: RunResult = request.getfixturevalue("reference_run")
    return result
