"""Prometheus, as docs/guides/operating.md describes it."""

import json

import pytest

from tests.containers.conftest import create_token
from tests.containers.jobs import DIGITS
from tests.waiting import wait_until

IMAGE = "docker.io/prom/prometheus:v2.42.0"


@pytest.fixture
def query(stack, tmp_path):
    """Queries a Prometheus with the example configuration, in the network of the servers."""
    secret = tmp_path / "token"
    secret.write_text(create_token(stack.container("server"), "prometheus", "viewer"))
    secret.chmod(0o644)
    configuration = stack.folder / "docker/prometheus.yml"
    stack.podman.run(
        "run", "--detach", "--name=prometheus", f"--network={stack.name}_front",
        f"--volume={secret}:/run/secrets/ampcore-token:ro",
        f"--volume={configuration}:/etc/prometheus/prometheus.yml:ro", IMAGE,
    )  # fmt: skip

    def query(expression):
        command = ["promtool", "query", "instant", "--format=json", "http://127.0.0.1:9090"]
        answer = stack.podman.run("exec", "prometheus", *command, expression, check=False)
        return json.loads(answer) if answer.startswith("[") else []

    yield query
    stack.podman.run("rm", "--force", "--time=0", "prometheus")


def test_prometheus_scrapes_every_server(client, query, stack):
    client.jobs.submit(DIGITS).wait()
    addresses = {f"{server.addresses()[f'{stack.name}_front']}:8470"
                 for server in stack.containers("server")}  # fmt: skip

    def scraped():
        return {found["metric"]["instance"] for found in query('up{job="ampcore"} == 1')}

    wait_until(lambda: scraped() == addresses)
    for metric in ("ampcore_database_up", "ampcore_build_info"):
        assert len(query(metric)) == len(addresses)
    assert sum(float(found["value"][1]) for found in query("ampcore_steps_ingested_total")) > 0
