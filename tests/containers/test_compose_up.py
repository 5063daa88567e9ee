"""What every container of a started stack is like."""

import json

import pytest

from tests.containers.compose import Container
from tests.containers.conftest import PASSWORDS, in_words

SERVICES = ["postgres", "redis", "server", "proxy", "worker"]
NET_BIND_SERVICE = 1 << 10


def test_two_servers_and_two_workers_run(stack):
    running = {s: [c.running for c in stack.containers(s)] for s in SERVICES}
    expected = {"postgres": 1, "redis": 1, "server": 2, "proxy": 1, "worker": 2}
    assert running == {service: [True] * count for service, count in expected.items()}


@pytest.mark.parametrize("service", ["postgres", "redis", "server", "proxy"])
def test_health_checks_turn_healthy(stack, service):
    assert all(container.healthy() for container in stack.containers(service))


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_no_privileges(stack, service):
    status = stack.container(service).execute("cat", "/proc/self/status")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0 or service == "proxy"
    assert int(fields["CapBnd"], 16) == (NET_BIND_SERVICE if service == "proxy" else 0)
    assert fields["NoNewPrivs"] == "1"


@pytest.mark.parametrize("service", SERVICES)
def test_the_root_file_system_is_read_only(stack, service):
    container = stack.container(service)
    for folder in ("/", "/usr", "/etc", "/home"):
        assert "Read-only file system" in write_into(container, folder)


def write_into(container: Container, folder: str) -> str:
    """The error of creating a file as root, whom permissions do not stop."""
    command = ["exec", "--user=root", container.name, "touch", f"{folder}/written"]
    return container.podman.run(*command, check=False, both_streams=True)


@pytest.mark.parametrize(
    ("service", "user"), [("server", 10001), ("worker", 10001), ("postgres", 999)]
)
def test_a_volume_belongs_to_the_unprivileged_user(stack, service, user):
    container = stack.container(service)
    assert container.execute("id", "-u").strip() == str(user)
    (mount,) = [m for m in container.inspect()["Mounts"] if m["Type"] == "volume"]
    owner = container.execute("stat", "--format=%u", mount["Destination"])
    assert user == int(owner) or service == "postgres"  # whose folder is one level below
    container.execute("touch", f"{mount['Destination']}/written")
    container.execute("rm", f"{mount['Destination']}/written")


def test_up_again_changes_nothing(stack):
    before = {c.name: c.state["StartedAt"] for c in stack.containers() if "migrate" not in c.name}
    stack.up()
    after = {c.name: c.state["StartedAt"] for c in stack.containers() if "migrate" not in c.name}
    assert after == before
    assert stack.container("migrate").state["ExitCode"] == 0


@pytest.mark.parametrize("missing", PASSWORDS)
def test_a_password_missing_in_the_settings_is_named(new_project, missing):
    project = new_project("unset")
    del project.settings[missing]
    project.write_settings()
    said = in_words(project.compose("up", "--detach", check=False))
    assert f"{missing}" in said
    assert "set it in .env (see .env.example)" in said
    assert not project.containers()


def test_logs_are_json_without_secrets(stack, client, token):
    client.session()
    for container in [*stack.containers("server"), *stack.containers("worker")]:
        logs = container.logs()
        lines = logs.splitlines()
        assert lines
        for line in lines:
            assert json.loads(line)["level"], logs
        for secret in (*PASSWORDS.values(), token):
            assert secret not in logs
