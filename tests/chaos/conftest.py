"""One stack of real processes for all tests of a group; each test gets it healthy and idle."""

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.postgres import Postgres
from tests.chaos.runs import Record, train


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what each member of its stack said last."""
    report = yield
    cluster = item.funcargs.get("cluster")
    if report.failed and isinstance(cluster, Cluster):
        for member in (*cluster.apis, *cluster.workers):
            report.sections.append((f"the end of {member.name}'s log", member.log))
    return report


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server that only these tests use, since they stop it."""
    # Not below pytest's own folder: a root's server runs as another user, who cannot enter there.
    folder = Path(tempfile.mkdtemp(prefix="ampcore-chaos-postgres-"))
    server = Postgres(folder)
    yield server
    server.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def present_cluster(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Cluster]]:
    """The stack that is there, with one API; a new one where there is none or it has ended."""
    made: list[Cluster] = []

    def present() -> Cluster:
        if not made or made[-1].ended:
            made.append(Cluster(tmp_path_factory.mktemp("chaos"), postgres))
            made[-1].api()
        return made[-1]

    yield present
    # Whatever is wrong here is none of the last test's fault; test_the_end.py looks at it.
    for cluster in made:
        cluster.end()


@pytest.fixture
def cluster(present_cluster: Callable[[], Cluster]) -> Iterator[Cluster]:
    """A stack with one API; workers are hired with `crew`."""
    cluster = present_cluster()
    yield cluster
    if not cluster.ended:
        cluster.settle()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The run that all disturbed ones must equal; trained once, whoever is first."""
    own = tmp_path_factory.getbasetemp()
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    return train((own.parent if parallel else own) / "undisturbed")
