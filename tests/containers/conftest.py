"""Fixtures: podman, the images, three machines with a network between them, and a running stack.

The tests themselves run in the network of the third machine, where users are.
"""

import os
import re
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from ampclient import Client
from tests.containers.compose import Container, Project, copy_of_the_working_tree
from tests.containers.images import build_base_images
from tests.containers.podman import Podman, opened_podman
from tests.machines import Machine, connect, created_machine, working_on
from tests.waiting import DEADLINE_S, wait_until

KEEP = "AMPCORE_TEST_CONTAINERS_FOLDER"
"""The variable with a folder for images that are kept for the next run."""
SITE: Final = "ampcore.internal"
PORT: Final = 8474
SERVER_ADDRESS: Final = "198.18.0.1"
"""Of the machine with the stack, as users reach it: 198.18.0.0/15 is reserved for tests."""
USER_ADDRESS: Final = "198.18.0.2"
STACK_ADDRESS_FOR_WORKERS: Final = "198.18.1.1"
WORKER_ADDRESS: Final = "198.18.1.2"
PASSWORDS: Final = {
    "AMPCORE_POSTGRES_PASSWORD": "pw4postgres0123456789",
    "AMPCORE_REDIS_PASSWORD": "pw4redis0123456789",
}
LEASE_S: Final = "6"


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """Podman with its own storage, which is removed at the end."""
    kept = os.environ.get(KEEP)
    folder = Path(kept or tempfile.mkdtemp(prefix="ampcore-containers-", dir="/var/tmp"))
    with opened_podman(folder, keeps_layers=bool(kept)) as podman:
        podman.remove_containers()
        try:
            yield podman
        finally:
            if kept:
                podman.remove_containers()
            else:
                podman.remove_everything()
    if not kept:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def images(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Today's images, built from the working tree by its Compose file."""
    build_base_images(podman)
    tree = copy_of_the_working_tree(tmp_path_factory.mktemp("ampcore"))
    project = Project(podman, "images", tree, PASSWORDS)
    project.build()
    return project


@pytest.fixture(scope="session")
def machines(images: Project) -> Iterator[dict[str, Machine]]:
    """The machine of the stacks, one for more workers, and the user's, where the tests run.

    Only on the first do names of containers resolve: podman starts one name server, in the network
    of the first container.
    """
    prefix = f"a{os.getpid()}"
    with (
        created_machine(f"{prefix}-stack") as stack,
        created_machine(f"{prefix}-work") as workers,
        created_machine(f"{prefix}-user") as user,
    ):
        connect(stack, SERVER_ADDRESS, user, USER_ADDRESS)
        connect(stack, STACK_ADDRESS_FOR_WORKERS, workers, WORKER_ADDRESS)
        with working_on(user):
            yield {"stack": stack, "workers": workers, "user": user}


@pytest.fixture(scope="session")
def new_project(
    images: Project, machines: dict[str, Machine], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Project]:
    """Makes a Compose project of today's files and images, on a machine."""

    def make(name: str, machine: str = "stack", **settings: str) -> Project:
        folder = copy_of_the_working_tree(tmp_path_factory.mktemp(name))
        settings = {**PASSWORDS, "AMPCORE_LEASE_S": LEASE_S, **settings}
        project = Project(images.podman.on(machines[machine]), name, folder, settings)
        project.use_images_of(images)
        return project

    return make


@pytest.fixture(scope="session")
def stack(new_project: Callable[..., Project]) -> Iterator[Project]:
    """Two servers and two workers behind the proxy with TLS, as the guide starts them."""
    project = new_project(
        "ampcore",
        AMPCORE_WORKERS="2",
        # The defaults are left to the test of the guide.
        AMPCORE_PORT=str(PORT),
        AMPCORE_FRONT_SUBNET="172.31.244.0/24",
        AMPCORE_SITE=SITE,
        COMPOSE_FILE="docker-compose.yml:docker-compose.tls.yml",
    )
    project.up()
    yield project
    project.down(volumes=True)


@pytest.fixture(scope="session", autouse=True)
def site_name() -> Iterator[None]:
    """The name of the site resolves to the machine of the stack, as public DNS would have it."""
    resolve = socket.getaddrinfo

    def lookup(host: Any, *others: Any, **named: Any) -> Any:
        return resolve(SERVER_ADDRESS if host == SITE else host, *others, **named)

    with mock.patch("socket.getaddrinfo", lookup):
        yield


@pytest.fixture(scope="session")
def trusted(stack: Project, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """Trusts the certificates of the proxy's own authority, and no others."""
    root = "/data/caddy/pki/authorities/local/root.crt"
    certificate = stack.container("proxy").execute("cat", root)
    return ssl.create_default_context(cadata=certificate)


def create_token(server: Container, name: str, role: str = "admin") -> str:
    """Create a token as the guide does."""
    command = ["ampserver", "token", "create", name, "--role", role]
    return server.execute(*command).split()[-1]


@pytest.fixture(scope="session")
def token(stack: Project) -> str:
    """An admin's token."""
    return create_token(stack.container("server"), "alice")


@pytest.fixture
def client(token: str, trusted: ssl.SSLContext) -> Iterator[Client]:
    """A client on the user's machine, over TLS."""
    import httpx

    with (
        httpx.Client(verify=trusted, timeout=DEADLINE_S) as http,
        Client(f"https://{SITE}", token, http_client=http) as client,
    ):
        yield client
        for job in client.jobs.list(state=["queued", "running", "paused"], explanations=True):
            job.cancel()
        wait_until(lambda: not [*client.jobs.list(state=["queued", "running", "stopping"])])


def in_words(text: str) -> str:
    """The text with single spaces: messages are wrapped at the width of a terminal."""
    return re.sub(r"\s+", " ", text)
