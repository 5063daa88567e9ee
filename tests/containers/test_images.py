"""The images: what they contain, and how large they are."""

import json
import re

import pytest

from tests.containers.compose import ROOT
from tests.containers.conftest import PASSWORDS
from tests.test_compose import SERVICES, TLS, VARIABLE

SERVER_MB = 360
CADDY = "docker.io/library/caddy:2.11.4-alpine"


def inspected(images, service):
    (found,) = json.loads(images.podman.run("image", "inspect", f"localhost/images_{service}"))
    return found


def run(images, service, *command, options=()):
    """Run a command in a container without a network."""
    options = ["--rm", "--network=none", "--read-only", "--cap-drop=ALL", *options]
    return images.podman.run("run", *options, f"localhost/images_{service}", *command)


def test_the_image_of_the_server_is_small_and_has_no_tensorflow(images):
    assert images.podman.image_size_mb("localhost/images_server") <= SERVER_MB
    libraries = {component["name"] for component in bill_of_materials(images, "server")}
    assert "fastapi" in libraries
    assert not [name for name in libraries if name.startswith(("tensorflow", "keras"))]


def bill_of_materials(images, service):
    document = json.loads(run(images, service, "cat", "/opt/ampcore/sbom.cdx.json"))
    assert document["bomFormat"] == "CycloneDX"
    return document["components"]


@pytest.mark.parametrize("service", ["server", "worker"])
def test_the_bill_of_materials_lists_what_can_be_imported(images, service):
    listed = {c["name"].lower(): c["version"] for c in bill_of_materials(images, service)}
    program = (
        "import json; from importlib.metadata import distributions as d; "
        "print(json.dumps({x.metadata['Name'].lower(): x.version for x in d()}))"
    )
    assert listed == json.loads(run(images, service, "python", "-c", program))
    assert "ampcore" in listed
    assert "pip" not in listed


@pytest.mark.parametrize("service", ["server", "worker"])
def test_an_image_is_labelled_and_runs_as_an_unprivileged_user(images, service):
    found = inspected(images, service)
    labels = found["Config"]["Labels"]
    for name in ("title", "description", "version", "revision", "licenses", "base.name"):
        assert labels[f"org.opencontainers.image.{name}"]
    assert labels["org.cyclonedx.sbom"] == "/opt/ampcore/sbom.cdx.json"
    assert found["Config"]["User"] == "10001:10001"


@pytest.mark.parametrize("service", ["server", "worker"])
def test_nothing_secret_is_in_an_image(images, service):
    found = json.dumps(inspected(images, service))
    for secret in (*PASSWORDS.values(), "AMPCORE_DATABASE_URL", "AMPCORE_REDIS_URL"):
        assert secret not in found
    find = ["find", "/", "-xdev", "-name", ".env*", "-o", "-name", ".git"]
    assert not run(images, service, *find, options=["--user=root"]).strip()


@pytest.mark.parametrize("service", ["server", "worker"])
def test_no_file_of_an_image_can_be_changed_by_its_user(images, service):
    find = "find /opt /usr /etc /bin /lib -xdev -not -type l -writable 2> /dev/null || true"
    assert not run(images, service, "sh", "-c", find).strip()


@pytest.mark.parametrize("service", ["server", "worker"])
def test_every_command_of_an_image_starts(images, service):
    for program in ("ampserver", "ampctl"):
        assert "Usage" in run(images, service, program, "--help")
    version = re.search(r'(?m)^version = "(.+)"', (ROOT / "pyproject.toml").read_text())
    assert version is not None
    assert version[1] in run(images, service, "ampserver", "--version")


@pytest.mark.parametrize("proxy", [SERVICES["proxy"], TLS], ids=["plain", "tls"])
def test_caddy_accepts_the_caddyfile(images, proxy):
    given = {
        name: VARIABLE.sub(lambda m: m["rest"] if m["kind"] == "-" else "train.example.org", value)
        for name, value in proxy["environment"].items()
    }
    said = images.podman.run(
        "run", "--rm", "--network=none", "--cap-drop=ALL", "--cap-add=NET_BIND_SERVICE",
        f"--volume={ROOT / 'docker/Caddyfile'}:/Caddyfile:ro",
        *(f"--env={name}={value}" for name, value in given.items()),
        CADDY, "caddy", "validate", "--adapter=caddyfile", "--config=/Caddyfile",
        both_streams=True,
    )  # fmt: skip
    assert "Valid configuration" in said
