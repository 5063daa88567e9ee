"""The container files, held against the Compose schema and against the code that they start."""

import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name
from sqlalchemy import make_url

from server.auth import OPEN
from server.settings import Settings as ServerSettings
from worker.settings import Settings as WorkerSettings
from worker.tasks import GRACE_S

ROOT = Path(__file__).parents[1]
FILES = ["docker-compose.yml", "docker-compose.gpu.yml"]
DOCKERFILES = ["docker/server.Dockerfile", "docker/worker.Dockerfile"]
GUIDE = ROOT / "docs/guides/deploy.md"
LOOPBACK = "127.0.0.1"

# ${NAME}, ${NAME:-default} or ${NAME:?message}
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")
PASSWORDS = {"AMPCORE_POSTGRES_PASSWORD", "AMPCORE_REDIS_PASSWORD"}


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return loaded


COMPOSE = load("docker-compose.yml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN = ["migrate", "server", "worker"]


def interpolate(text: str) -> str:
    """What Compose makes of a value when only the two passwords are set."""
    return VARIABLE.sub(lambda m: "secret" if m["name"] in PASSWORDS else m["rest"] or "", text)


def environment(service: str) -> dict[str, str]:
    """The AMPCORE_ variables in a container: the image's, then the Compose file's."""
    image = (ROOT / SERVICES[service]["build"]["dockerfile"]).read_text()
    variables = dict(re.findall(r"\b(AMPCORE_[A-Z_]+)=(\S+)", image))
    given = SERVICES[service]["environment"]
    return variables | {name: interpolate(text) for name, text in given.items()}


def seconds(text: str) -> int:
    assert text.endswith("s")
    return int(text.removesuffix("s"))


# The files are what Compose takes.


def fulfils_the_schema(file: Path) -> bool:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return subprocess.run([*command, str(file)], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("name", FILES)
def test_the_file_fulfils_the_compose_schema(name: str) -> None:
    assert fulfils_the_schema(ROOT / name)


def test_the_schema_would_tell_a_misspelt_key(tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text((ROOT / FILES[0]).read_text().replace("healthcheck:", "helthcheck:"))
    assert not fulfils_the_schema(file)


def test_the_five_services_are_there() -> None:
    assert set(SERVICES) == {"postgres", "redis", "migrate", "server", "worker"}


def test_every_image_is_pinned_to_a_version() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    for dockerfile in DOCKERFILES:
        images += re.findall(r"^FROM (\S+)", (ROOT / dockerfile).read_text(), re.MULTILINE)
    assert len(images) == 2 + 2 * len(DOCKERFILES)
    for image in images:
        assert re.fullmatch(r"[a-z]+:\d+(\.\d+)*-[a-z-]+", image), image


def test_named_volumes_are_declared() -> None:
    mounts = [one for service in SERVICES.values() for one in service.get("volumes", [])]
    assert {mount.partition(":")[0] for mount in mounts} == set(COMPOSE["volumes"])


# The order: a healthy database, then its tables, then who uses them.


def test_only_the_migration_comes_before_the_tables() -> None:
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["migrate"]["restart"] == "no"


@pytest.mark.parametrize("service", ["server", "worker"])
def test_nobody_starts_before_the_tables_are_up_to_date(service: str) -> None:
    assert SERVICES[service]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "redis": {"condition": "service_healthy"},
    }


def test_who_must_be_healthy_says_how_to_find_out() -> None:
    for service in SERVICES.values():
        for name, on in service.get("depends_on", {}).items():
            assert on["condition"] != "service_healthy" or "test" in SERVICES[name]["healthcheck"]


def test_a_worker_gets_longer_to_stop_than_it_gives_its_trainer() -> None:
    assert seconds(SERVICES["worker"]["stop_grace_period"]) >= 2 * GRACE_S


# Who is let in.


def test_only_the_server_is_published_and_only_on_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert [interpolate(port) for port in published.pop("server")] == [f"{LOOPBACK}:8470:8470"]
    assert not published


def test_the_server_listens_where_the_port_is_published_from() -> None:
    settings = ServerSettings.from_environment(environment("server"))
    assert (settings.host, settings.port) == ("0.0.0.0", 8470)  # noqa: S104 - in its container


def test_no_password_has_a_default() -> None:
    used = [match for match in variables() if match["name"].endswith("PASSWORD")]
    assert {match["name"] for match in used} == PASSWORDS
    assert all(match["kind"] == "?" for match in used)


def variables() -> list[re.Match[str]]:
    return [match for name in FILES for match in VARIABLE.finditer((ROOT / name).read_text())]


def test_the_example_names_every_variable_that_the_files_use() -> None:
    example = (ROOT / ".env.example").read_text()
    named = set(re.findall(r"^(?:# )?([A-Z_]+)=", example, re.MULTILINE))
    assert named - {"COMPOSE_FILE"} == {match["name"] for match in variables()}


@pytest.mark.parametrize("service", OWN)
def test_our_containers_hold_no_privileges(service: str) -> None:
    assert SERVICES[service]["cap_drop"] == ["ALL"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]


# What is started really exists, and reads what it is given.


class Recorder(dict[str, str]):
    """An environment that remembers what it was asked for."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


@pytest.mark.parametrize(
    ("service", "settings"),
    [("migrate", ServerSettings), ("server", ServerSettings), ("worker", WorkerSettings)],
)
def test_the_settings_read_every_variable_of_their_container(
    service: str, settings: type[ServerSettings] | type[WorkerSettings]
) -> None:
    recorder = Recorder(environment(service))
    read = settings.from_environment(recorder)
    assert set(recorder) <= recorder.asked
    assert make_url(read.database_url).host == "postgres"


@pytest.mark.parametrize("service", ["server", "worker"])
def test_server_and_worker_share_the_data_folder(service: str) -> None:
    assert SERVICES[service]["volumes"] == [f"data:{environment(service)['AMPCORE_DATA_DIR']}"]
    assert environment(service)["AMPCORE_REDIS_URL"] == "redis://:secret@redis:6379/0"


def started_commands() -> set[str]:
    """Every `ampserver …` of the Compose file, the Dockerfiles and the guide."""
    commands = {shlex.join(SERVICES[name]["command"]) for name in OWN}
    for dockerfile in DOCKERFILES:
        (line,) = re.findall(r"^CMD (.+)$", (ROOT / dockerfile).read_text(), re.MULTILINE)
        commands.add(shlex.join(json.loads(line)))
    for block in re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL):
        commands |= set(re.findall(r"ampserver .+", block))
    return commands


@pytest.mark.parametrize("command", sorted(started_commands()))
def test_the_command_exists(command: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "ampserver"
    run = [sys.executable, "-m", "server", *arguments, "--help"]
    subprocess.run(run, check=True, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60)


def test_the_guide_names_no_variable_that_nobody_reads() -> None:
    known = {match["name"] for match in variables()} | {"AMPCORE_URL", "AMPCORE_TOKEN"}
    for settings in (ServerSettings, WorkerSettings):
        known |= {f"AMPCORE_{field.name.upper()}" for field in fields(settings)}
    assert set(re.findall(r"AMPCORE_[A-Z_]+", GUIDE.read_text())) <= known


@pytest.fixture
def health() -> Iterator[HTTPServer]:
    """A server that answers /healthz with 200 and all else with 503."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 503)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer((LOOPBACK, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(("path", "code"), [("/healthz", 0), ("/other", 1)])
def test_the_health_check_tells_a_good_answer_from_a_bad_one(
    health: HTTPServer, path: str, code: int
) -> None:
    how, python, flag, program = SERVICES["server"]["healthcheck"]["test"]
    assert (how, python, flag) == ("CMD", "python", "-c")
    assert "8470" in program
    program = program.replace("8470", str(health.server_port)).replace("/healthz", path)
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=30)
    assert ended.returncode == code


def test_the_health_check_asks_what_the_server_answers_without_a_token() -> None:
    assert "/healthz" in OPEN


# The images.


def built() -> list[tuple[str, str]]:
    """(Dockerfile, extra) of every image that the Compose files build."""
    worker = load("docker-compose.gpu.yml")["services"]["worker"]["build"]
    builds = [SERVICES[name]["build"] for name in OWN]
    builds.append({**SERVICES["worker"]["build"], **worker})
    return sorted({(one["dockerfile"], one.get("args", {}).get("EXTRA", "")) for one in builds})


BUILT = built()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(dockerfile: str, extra: str) -> list[str]:
    text = (ROOT / dockerfile).read_text().replace("\\\n", " ").replace("${EXTRA}", extra)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def copied(dockerfile: str, extra: str) -> list[str]:
    """What the image takes from the tree."""
    lines = [line.split()[1:] for line in instructions(dockerfile, extra) if line[:5] == "COPY "]
    return [source for line in lines if "--from=build" not in line for source in line[:-1]]


def test_there_is_an_image_for_every_lock_but_the_developers() -> None:
    locks = {lock.stem for lock in (ROOT / "requirements").glob("*.lock")} - {"dev"}
    assert {extra or Path(dockerfile).stem for dockerfile, extra in BUILT} == locks
    assert {dockerfile for dockerfile, _ in BUILT} == set(DOCKERFILES)


@pytest.mark.parametrize(("dockerfile", "extra"), BUILT)
def test_what_an_image_copies_is_there_and_reaches_the_builder(dockerfile: str, extra: str) -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    assert "*" in ignore
    for source in copied(dockerfile, extra):
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in let_through), source


@pytest.mark.parametrize(("dockerfile", "extra"), BUILT)
def test_an_image_carries_every_package_of_the_project(dockerfile: str, extra: str) -> None:
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.partition(".")[0] for pattern in patterns} <= set(copied(dockerfile, extra))


@pytest.mark.parametrize(("dockerfile", "extra"), BUILT)
def test_an_image_installs_hashed_libraries_and_then_only_the_project(
    dockerfile: str, extra: str
) -> None:
    installs = [line for line in instructions(dockerfile, extra) if "pip install" in line]
    (lock,) = [source for source in copied(dockerfile, extra) if source.endswith(".lock")]
    assert installs == [
        f"RUN pip install --require-hashes --only-binary :all: -r {lock}",
        "RUN pip install --no-deps --no-build-isolation .",
    ]


def missing_modules(extra: str) -> list[str]:
    """What can be imported here, but not in an image with the libraries of `extra`."""
    lock = (ROOT / f"requirements/{extra}.lock").read_text()
    there = {"ampcore"} | {canonicalize_name(name) for name in re.findall(r"(?m)^(\S+)==", lock)}
    return [
        module
        for module, distributions in packages_distributions().items()
        if there.isdisjoint(map(canonicalize_name, distributions))
    ]


@pytest.mark.parametrize(
    ("extra", "modules"),
    [
        # kombu.transport.redis: Celery loads it with its first message.
        ("server", "server.cli, server.serve, server.app, server.schema, kombu.transport.redis"),
        ("worker-cpu", "server.cli, worker.__main__, kombu.transport.redis, ampcore.child"),
    ],
    ids=["server", "worker-cpu"],
)
def test_what_an_image_starts_needs_only_the_libraries_in_it(extra: str, modules: str) -> None:
    missing = missing_modules(extra)
    assert ("tensorflow" in missing, "fastapi" in missing) == (extra == "server", extra != "server")
    program = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); import {modules}"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=60)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_runs_as_an_ordinary_user(dockerfile: str) -> None:
    text = (ROOT / dockerfile).read_text()
    assert text.rindex("\nUSER 10001:10001\n") > text.rindex("\nFROM ")


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_no_secret_goes_into_an_image(dockerfile: str) -> None:
    assert not re.search(r"password|token|secret", (ROOT / dockerfile).read_text(), re.IGNORECASE)
