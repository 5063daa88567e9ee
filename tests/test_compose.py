"""Checks of the Compose files, Dockerfiles and Caddyfile against the schema and the code."""

import importlib
import json
import re
import runpy
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name
from sqlalchemy import make_url
from typer.testing import CliRunner

from ampspec.jobs.run_images import MAX_IMAGE_BYTES
from server.cli.app import app as ampserver
from server.http.access.auth_middleware import PUBLIC_PATHS
from server.http.limits import MAX_BODY_BYTES, UPLOADS
from server.serve import SHUTDOWN_TIMEOUT_S
from server.settings import Settings as ServerSettings
from tests.environment import settings_from
from tests.tables import every_row
from tests.waiting import DEADLINE_S
from worker.settings import WorkerSettings
from worker.shutdown import GRACE_S

ROOT = Path(__file__).parents[1]
FILES = [
    "docker-compose.yml",
    *(f"docker-compose.{name}.yml" for name in ("gpu", "private", "tls", "worker")),
]
DOCKERFILES = ["docker/server.Dockerfile", "docker/worker.Dockerfile"]
GUIDES = [ROOT / f"docs/guides/{name}.md" for name in ("deploy", "several-machines", "operating")]
LOOPBACK = "127.0.0.1"

# ${NAME}, ${NAME:-default} or ${NAME:?message}
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")
PASSWORDS = {"AMPCORE_POSTGRES_PASSWORD", "AMPCORE_REDIS_PASSWORD"}


def load(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())
    return loaded


COMPOSE = load("docker-compose.yml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OWN_SERVICES = ["migrate", "server", "worker"]
TLS: dict[str, Any] = load("docker-compose.tls.yml")["services"]["proxy"]


def interpolate(text: str) -> str:
    """The value that Compose computes when only the two passwords are set."""
    return VARIABLE.sub(lambda m: "secret" if m["name"] in PASSWORDS else m["rest"] or "", text)


def environment(service: str) -> dict[str, str]:
    """The AMPCORE_ variables in a container: the image's, then the Compose file's."""
    image = (ROOT / SERVICES[service]["build"]["dockerfile"]).read_text()
    variables = dict(re.findall(r"\b(AMPCORE_[A-Z_]+)=(\S+)", image))
    given = SERVICES[service]["environment"]
    # A name without a value is read from .env, which does not set it here.
    return variables | {name: interpolate(text) for name, text in given.items() if text is not None}


def seconds(text: str) -> int:
    assert text.endswith("s")
    return int(text.removesuffix("s"))


# The files are valid.


def match_compose_schema(*files: Path) -> bool:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return subprocess.run([*command, *files], check=False, timeout=DEADLINE_S).returncode == 0


def test_the_files_match_the_compose_schema() -> None:
    assert match_compose_schema(*(ROOT / name for name in FILES))


def test_the_compose_schema_rejects_a_misspelt_key(tmp_path: Path) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text((ROOT / FILES[0]).read_text().replace("healthcheck:", "helthcheck:"))
    assert not match_compose_schema(ROOT / FILES[0], file)


def test_every_image_is_pinned_to_a_version() -> None:
    images = [service["image"] for service in SERVICES.values() if "image" in service]
    for dockerfile in DOCKERFILES:
        images += re.findall(r"^FROM (\S+)", (ROOT / dockerfile).read_text(), re.MULTILINE)
    assert len(images) == 3 + 1 + 2 * len(DOCKERFILES)  # one builds the dashboard
    for image in images:
        assert re.fullmatch(r"[a-z]+:\d+(\.\d+)*-[a-z-]+", image), image


def test_named_volumes_are_declared() -> None:
    mounts = [one for service in SERVICES.values() for one in service.get("volumes", [])]
    sources = {mount.partition(":")[0] for mount in mounts}
    assert {source for source in sources if "/" not in source} == set(COMPOSE["volumes"])
    assert all((ROOT / source).is_file() for source in sources if "/" in source)


def test_networks_are_declared_and_only_the_servers_are_in_both() -> None:
    networks = {name: set(service["networks"]) for name, service in SERVICES.items()}
    assert set.union(*networks.values()) == set(COMPOSE["networks"])
    assert [name for name, those in networks.items() if len(those) > 1] == ["server"]
    assert networks["proxy"] == {"front"}


# Several machines.


def test_a_worker_on_a_machine_of_its_own_is_like_one_of_the_stack() -> None:
    (name,), (alone,) = zip(*load("docker-compose.worker.yml")["services"].items(), strict=True)
    here = SERVICES[name]
    of_the_stack = {"networks", "depends_on", "environment", "volumes"}
    assert {key: alone[key] for key in alone if key not in of_the_stack} == {
        key: here[key] for key in here if key not in of_the_stack
    }
    assert set(alone["environment"]) == set(here["environment"])


def test_the_databases_are_published_at_a_private_address_only() -> None:
    services = load("docker-compose.private.yml")["services"]
    assert set(services) == {"postgres", "redis"}
    for service in services.values():
        (port,) = service["ports"]
        assert port.startswith("${AMPCORE_PRIVATE_ADDRESS:?")


# Replicas and restarts.


@pytest.mark.parametrize(("service", "count"), [("server", 2), ("worker", 1)])
def test_the_number_of_replicas_is_a_setting(service: str, count: int) -> None:
    assert int(interpolate(SERVICES[service]["deploy"]["replicas"])) == count
    assert "container_name" not in SERVICES[service]  # it would forbid a second one


def test_a_drained_worker_is_not_restarted() -> None:
    assert SERVICES["worker"]["restart"] == "on-failure"
    assert SERVICES["server"]["restart"] == SERVICES["proxy"]["restart"] == "unless-stopped"


# The start order: a healthy database, the migration, then server and worker.


def test_the_migration_runs_once_after_the_database_is_healthy() -> None:
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["migrate"]["restart"] == "no"


def test_the_migration_also_waits_by_itself_for_podman_compose() -> None:
    *command, wait_s = SERVICES["migrate"]["command"]
    assert command == ["ampserver", "migrate", "--wait"]
    # As long as PostgreSQL may take until it is unhealthy.
    check = SERVICES["postgres"]["healthcheck"]
    assert int(wait_s) >= seconds(check["interval"]) * check["retries"]


@pytest.mark.parametrize("service", ["server", "worker"])
def test_server_and_worker_start_after_the_migration(service: str) -> None:
    assert SERVICES[service]["depends_on"] == {
        "migrate": {"condition": "service_completed_successfully"},
        "redis": {"condition": "service_healthy"},
    }


def test_a_service_that_must_be_healthy_has_a_health_check() -> None:
    for service in SERVICES.values():
        for name, on in service.get("depends_on", {}).items():
            assert on["condition"] != "service_healthy" or "test" in SERVICES[name]["healthcheck"]


def test_a_worker_has_more_time_to_stop_than_it_needs() -> None:
    # Its trainers save; it stores the checkpoints, which may be large, and returns the jobs.
    drain_s = float(environment("worker")["AMPCORE_DRAIN_TIMEOUT_S"])
    grace_s = seconds(interpolate(SERVICES["worker"]["stop_grace_period"]))
    assert grace_s >= drain_s + 6 * GRACE_S


def test_a_server_has_more_time_to_stop_than_its_requests() -> None:
    assert seconds(SERVICES["server"]["stop_grace_period"]) > SHUTDOWN_TIMEOUT_S


# Published ports.


def test_only_the_proxy_is_published_and_only_on_this_machine() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert [interpolate(port) for port in published.pop("proxy")] == [f"{LOOPBACK}:8470:8470"]
    assert not published


def test_tls_publishes_only_ports_80_and_443() -> None:
    assert {port.partition(":")[0] for port in TLS["ports"]} == {"80", "443"}


# The proxy.

CADDYFILE = (ROOT / "docker/Caddyfile").read_text()


def test_the_proxy_connects_to_the_port_of_the_servers() -> None:
    settings = settings_from(ServerSettings, environment("server"))
    assert (settings.host, settings.port) == ("0.0.0.0", 8470)  # noqa: S104 - in its container
    assert re.search(r"dynamic a server 8470 ", CADDYFILE)
    assert SERVICES["server"]["expose"] == ["8470"]


def test_each_setting_of_the_servers_in_the_example_reaches_them() -> None:
    example = (ROOT / ".env.example").read_text()
    settings = {f"AMPCORE_{name.upper()}" for name in ServerSettings.model_fields}
    written = settings & set(re.findall(r"\bAMPCORE_[A-Z_]+", example))
    assert {"AMPCORE_PUBLIC_URL", "AMPCORE_SMTP_URL"} <= written
    of_others = {"AMPCORE_PORT", "AMPCORE_DRAIN_TIMEOUT_S"}  # of the proxy, of the workers
    assert written - set(SERVICES["server"]["environment"]) == of_others


def test_the_proxy_looks_up_the_replicas_at_least_every_5_seconds() -> None:
    refresh = re.search(r"refresh (\d+)s", CADDYFILE)
    assert refresh is not None
    assert int(refresh[1]) <= 5


def test_the_proxy_neither_buffers_nor_ends_streams() -> None:
    assert re.search(r"^\s*flush_interval -1$", CADDYFILE, re.MULTILINE)
    # These would buffer a response, or end it.
    for word in ("response_buffers", "buffer_responses", "read_body", "write ", "stream_timeout"):
        assert word not in re.sub(r"#.*", "", CADDYFILE)


def test_the_proxy_allows_larger_bodies_than_the_server() -> None:
    bound = re.search(r"max_size (\d+)MB", CADDYFILE)
    assert bound is not None
    assert int(bound[1]) * 10**6 > MAX_BODY_BYTES


def test_the_proxy_limits_no_uploads() -> None:
    assert re.search(
        r"@limited not \{\s+method PUT PATCH\s+path /api/v1/datasets/\* /api/v1/files/\*\s+\}\s+"
        r"request_body @limited \{\s+max_size",
        CADDYFILE,
    )
    assert {method for method, _ in UPLOADS} == {"PUT", "PATCH"}
    folders = ("/api/v1/datasets/", "/api/v1/files/")
    limited = [path.pattern for _, path in UPLOADS if not path.pattern.startswith(folders)]
    assert limited == ["/api/v1/runs/[^/]+/images/[^/]+"]
    assert MAX_IMAGE_BYTES < 10_000_000


def test_the_proxy_can_retry_a_post_that_no_server_received() -> None:
    # Before 2.11.2 a retry was sent without its body: caddyserver/caddy#7547.
    version = SERVICES["proxy"]["image"].removeprefix("caddy:").removesuffix("-alpine")
    assert tuple(map(int, version.split("."))) >= (2, 11, 2)
    assert re.search(r"^\s*lb_try_duration \d+s$", CADDYFILE, re.MULTILINE)


def test_every_variable_of_the_caddyfile_is_set() -> None:
    wanted = set(re.findall(r"\{\$(\w+)\}", CADDYFILE))
    assert set(SERVICES["proxy"]["environment"]) == set(TLS["environment"]) == wanted


def test_the_proxy_with_tls_still_serves_this_machine() -> None:
    plain = SERVICES["proxy"]["environment"]["SITE"]
    assert TLS["environment"]["SITE"].startswith(f"{plain}, ")


def test_the_tls_proxy_trusts_forwarded_addresses_only_from_this_machine() -> None:
    assert TLS["environment"]["TRUSTED_PROXIES"] == "127.0.0.1/32"


def test_the_servers_trust_only_the_network_of_the_proxy() -> None:
    subnet = interpolate(COMPOSE["networks"]["front"]["ipam"]["config"][0]["subnet"])
    settings = settings_from(ServerSettings, environment("server"))
    assert [str(network) for network in settings.trusted_proxies] == [subnet]
    assert interpolate(SERVICES["proxy"]["environment"]["TRUSTED_PROXIES"]) == subnet
    assert {name for name in SERVICES if "front" in SERVICES[name].get("networks", [])} == {
        "proxy",
        "server",
    }
    assert "FORWARDED_ALLOW_IPS" not in environment("server")
    assert "ports" not in SERVICES["server"]


def test_the_health_check_of_the_proxy_requests_an_address_of_the_caddyfile() -> None:
    address = SERVICES["proxy"]["healthcheck"]["test"][-1].removesuffix("/")
    assert f"{address} {{" in CADDYFILE


def test_only_the_proxy_adds_a_capability_and_only_net_bind_service() -> None:
    added = {name: one["cap_add"] for name, one in SERVICES.items() if "cap_add" in one}
    assert added == {"proxy": ["NET_BIND_SERVICE"]}


def test_no_password_has_a_default() -> None:
    used = [match for match in variables() if match["name"].endswith("PASSWORD")]
    assert {match["name"] for match in used} == PASSWORDS
    assert all(match["kind"] == "?" for match in used)


def variables() -> list[re.Match[str]]:
    return [match for name in FILES for match in VARIABLE.finditer((ROOT / name).read_text())]


def test_the_example_names_every_variable_that_the_files_use() -> None:
    example = (ROOT / ".env.example").read_text()
    named = set(re.findall(r"^(?:# )?([A-Z0-9_]+)=", example, re.MULTILINE))
    assert (
        named - {"COMPOSE_FILE"}
        == {match["name"] for match in variables()} | passed_through_variables()
    )


def passed_through_variables() -> set[str]:
    """The variables that a container gets from .env under their own names."""
    given = [service.get("environment", {}) for service in SERVICES.values()]
    return {name for variables in given for name, text in variables.items() if text is None}


@every_row("service", SERVICES)
def test_a_container_has_no_privileges_and_a_read_only_file_system(service: str) -> None:
    assert SERVICES[service]["cap_drop"] == ["ALL"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]
    assert SERVICES[service]["read_only"] is True


# Commands exist, and settings read every variable.


Kind = type[ServerSettings] | type[WorkerSettings]


def names(settings: Kind) -> set[str]:
    """The variables that a process reads."""
    return {f"AMPCORE_{name.upper()}" for name in settings.model_fields}


@pytest.mark.parametrize(
    ("service", "settings"),
    [("migrate", ServerSettings), ("server", ServerSettings), ("worker", WorkerSettings)],
)
def test_the_settings_read_every_variable_of_their_container(service: str, settings: Kind) -> None:
    given = environment(service)
    assert {name for name in given if name.startswith("AMPCORE_")} <= names(settings)
    assert make_url(settings_from(settings, given).database_url).host == "postgres"


@pytest.mark.parametrize("service", ["server", "worker"])
def test_server_and_worker_share_the_data_folder(service: str) -> None:
    assert SERVICES[service]["volumes"] == [f"data:{environment(service)['AMPCORE_DATA_DIR']}"]
    assert environment(service)["AMPCORE_REDIS_URL"] == "redis://:secret@redis:6379/0"


def test_server_and_worker_use_the_same_artifact_storage_on_the_shared_volume() -> None:
    server = settings_from(ServerSettings, environment("server"))
    worker = settings_from(WorkerSettings, environment("worker"))
    assert server.artifacts_url == worker.artifacts_url
    assert server.artifacts_url == (server.data_dir / "artifacts").as_uri()
    # On one file system a checkpoint is published by renaming it.
    assert worker.scratch_dir.is_relative_to(worker.data_dir)


def test_server_and_worker_have_the_same_lease_time() -> None:
    server = settings_from(ServerSettings, environment("server"))
    assert server.lease_s == settings_from(WorkerSettings, environment("worker")).lease_s


@pytest.mark.parametrize("service", ["server", "worker"])
def test_logs_are_lines_of_json(service: str) -> None:
    assert environment(service)["AMPCORE_LOG_FORMAT"] == "json"


def test_prometheus_scrapes_every_server_with_a_token_from_a_file() -> None:
    (scrape,) = load("docker/prometheus.yml")["scrape_configs"]
    (found,) = scrape["dns_sd_configs"]
    assert (found["names"], found["port"]) == (["server"], 8470)
    assert set(scrape["authorization"]) == {"credentials_file"}


def started_commands() -> set[str]:
    """Every `ampserver …` of the Compose file, the Dockerfiles and the guide."""
    commands = {shlex.join(SERVICES[name]["command"]) for name in OWN_SERVICES}
    for dockerfile in DOCKERFILES:
        (line,) = re.findall(r"^CMD (.+)$", (ROOT / dockerfile).read_text(), re.MULTILINE)
        commands.add(shlex.join(json.loads(line)))
    for guide in GUIDES:
        for block in re.findall(r"^```sh\n(.*?)^```", guide.read_text(), re.MULTILINE | re.DOTALL):
            commands |= set(re.findall(r"ampserver [^|>\n]+", block))
    return commands


@every_row("command", sorted(started_commands()))
def test_the_command_exists(command: str) -> None:
    program, *arguments = shlex.split(command)
    assert program == "ampserver"
    result = CliRunner().invoke(ampserver, [*arguments, "--help"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_the_guide_names_only_existing_variables(guide: Path) -> None:
    known = {match["name"] for match in variables()} | {"AMPCORE_URL", "AMPCORE_TOKEN"}
    known |= names(ServerSettings) | names(WorkerSettings)
    assert set(re.findall(r"AMPCORE_[A-Z_]+", guide.read_text())) <= known


@pytest.fixture
def health() -> Iterator[HTTPServer]:
    """A server that responds to /healthz with 200 and to other paths with 503."""

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
def test_the_health_check_fails_only_for_an_error_response(
    health: HTTPServer, path: str, code: int
) -> None:
    how, python, flag, program = SERVICES["server"]["healthcheck"]["test"]
    assert (how, python, flag) == ("CMD", "python", "-c")
    assert "8470" in program
    program = program.replace("8470", str(health.server_port)).replace("/healthz", path)
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=DEADLINE_S)
    assert ended.returncode == code


def test_the_health_check_needs_no_token() -> None:
    assert "/healthz" in PUBLIC_PATHS


# The images.


def built() -> list[tuple[str, str]]:
    """(Dockerfile, extra) of every image that the Compose files build."""
    worker = load("docker-compose.gpu.yml")["services"]["worker"]["build"]
    builds = [SERVICES[name]["build"] for name in OWN_SERVICES]
    builds.append({**SERVICES["worker"]["build"], **worker})
    return sorted({(one["dockerfile"], one.get("args", {}).get("EXTRA", "")) for one in builds})


BUILT = built()
IMAGE_LOCKS = {extra or Path(dockerfile).stem for dockerfile, extra in BUILT}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def instructions(dockerfile: str, extra: str) -> list[str]:
    text = (ROOT / dockerfile).read_text().replace("\\\n", " ").replace("${EXTRA}", extra)
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def copied(dockerfile: str, extra: str) -> list[str]:
    """The paths of the tree that the image copies."""
    lines = [line.split()[1:] for line in instructions(dockerfile, extra) if line[:5] == "COPY "]
    return [source for line in lines if not line[0].startswith("--from=") for source in line[:-1]]


def last_stage(dockerfile: str) -> list[str]:
    """The instructions that make the image; earlier stages build what it copies."""
    lines = instructions(dockerfile, "")
    return lines[max(n for n, line in enumerate(lines) if line.startswith("FROM ")) :]


def test_every_lock_but_those_of_tools_has_an_image() -> None:
    locks = {lock.stem for lock in (ROOT / "requirements").glob("*.lock")}
    locks -= {"dev", "sbom", "uv"}
    assert locks == IMAGE_LOCKS
    assert {dockerfile for dockerfile, _ in BUILT} == set(DOCKERFILES)


@pytest.mark.parametrize(("dockerfile", "extra"), BUILT)
def test_files_that_an_image_copies_exist_and_are_not_ignored(dockerfile: str, extra: str) -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    included = [line.removeprefix("!") for line in ignore if line.startswith("!")]
    assert "*" in ignore
    for source in copied(dockerfile, extra):
        assert (ROOT / source).exists(), source
        paths = {source, *map(str, Path(source).parents)}
        assert any(fnmatch(path, pattern) for path in paths for pattern in included), source


@pytest.mark.parametrize(("dockerfile", "extra"), BUILT)
def test_an_image_contains_every_package_of_the_project(dockerfile: str, extra: str) -> None:
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.partition(".")[0] for pattern in patterns} <= set(copied(dockerfile, extra))


@pytest.mark.parametrize(("dockerfile", "extra"), BUILT)
def test_an_image_installs_hashed_libraries_and_then_only_the_project(
    dockerfile: str, extra: str
) -> None:
    lines = [" ".join(line.split()) for line in instructions(dockerfile, extra)]
    uv, sbom, lock = [source for source in copied(dockerfile, extra) if source.endswith(".lock")]
    assert (uv, sbom) == ("requirements/uv.lock", "requirements/sbom.lock")
    install, hashed = "sh requirements/install.sh", "--require-hashes --only-binary :all:"
    assert [line for line in lines if "install.sh /" in line or "pip install" in line] == [
        f"RUN python -m venv /opt/sbom && {install} /opt/sbom {sbom} {hashed}",
        f"RUN {install} /opt/ampcore {lock} {hashed}",
        "RUN pip install --no-deps --no-build-isolation .",
    ]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_copies_only_the_environment_of_ampcore(dockerfile: str) -> None:
    # Not /opt/sbom, the environment of the program that lists the libraries.
    copies = [line for line in last_stage(dockerfile) if line.startswith(("COPY ", "ADD "))]
    assert copies == ["COPY --from=build /opt/ampcore /opt/ampcore"]


def labels(dockerfile: str) -> dict[str, str]:
    (line,) = [line for line in last_stage(dockerfile) if line.startswith("LABEL ")]
    return dict(word.split("=", 1) for word in shlex.split(line)[1:])


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_labels_of_an_image_are_those_of_the_project_and_its_base(dockerfile: str) -> None:
    given = labels(dockerfile)
    assert given["org.opencontainers.image.version"] == PROJECT["project"]["version"]
    assert given["org.opencontainers.image.licenses"] == PROJECT["project"]["license"]
    base = last_stage(dockerfile)[0].split()[1]
    assert given["org.opencontainers.image.base.name"] == f"docker.io/library/{base}"


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_the_label_of_the_library_list_names_the_file_that_the_build_writes(
    dockerfile: str,
) -> None:
    (path,) = re.findall(r"--output-file (\S+)", (ROOT / dockerfile).read_text())
    assert labels(dockerfile)["org.cyclonedx.sbom"] == path


SLIM = runpy.run_path(str(ROOT / "docker/slim.py"))


@pytest.mark.parametrize(("dockerfile", "extra"), BUILT)
def test_slim_knows_exactly_the_packages_of_the_project(dockerfile: str, extra: str) -> None:
    patterns = PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]
    assert sorted({pattern.partition(".")[0] for pattern in patterns}) == SLIM["OUR_PACKAGES"]
    sources = copied(dockerfile, extra)
    packages = [source for source in sources if (ROOT / source / "__init__.py").is_file()]
    assert sorted(packages) == SLIM["OUR_PACKAGES"]


def test_slim_names_only_libraries_that_an_image_has() -> None:
    # It ignores a library that is not installed, so it would not report an old name.
    locks = [(ROOT / f"requirements/{name}.lock").read_text() for name in IMAGE_LOCKS]
    there = {name for lock in locks for name in re.findall(r"(?m)^([^\s=]+)==", lock)}
    lists = ("UNUSED_LIBRARIES", "UNUSED_FILES", "REPLACED_BY_LINKS")
    assert {library for name in lists for library in SLIM[name]} - there == {"pip"}  # of every venv


def test_slim_fails_if_it_has_removed_what_an_installed_library_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_everything = SLIM["import_everything_that_we_import"]
    monkeypatch.setitem(import_everything.__globals__, "LOADED_BY_NAME", [])
    monkeypatch.syspath_prepend(tmp_path)
    for folder in ("worker", "slimmed"):
        (tmp_path / folder).mkdir()
    (tmp_path / "worker" / "program.py").write_text("import not_installed, slimmed.part")
    (tmp_path / "slimmed" / "__init__.py").touch()
    part = tmp_path / "slimmed" / "part.py"
    part.write_text("import not_installed")
    import_everything(tmp_path)
    part.write_text("import slimmed.removed")
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError, match=r"slimmed\.removed"):
        import_everything(tmp_path)


def test_slim_replaces_a_library_by_a_relative_link(tmp_path: Path) -> None:
    for name in ("libused.so.1", "libunused.so.1"):
        (tmp_path / name).write_text(name)
    SLIM["replace_by_link"](tmp_path, "libunused.so.*", "libused.so.*")
    link = tmp_path / "libunused.so.1"
    assert str(link.readlink()) == "libused.so.1"
    assert link.read_text() == "libused.so.1"


def missing_modules(extra: str) -> list[str]:
    """Modules that can be imported here, but not in an image with the libraries of `extra`."""
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
        ("server", "server.cli.app, server.serve, server.app, kombu.transport.redis"),
        (
            "worker-cpu",
            "server.cli.app, worker.__main__, kombu.transport.redis, "
            "worker.trainer.child.trainer_process",
        ),
    ],
    ids=["server", "worker-cpu"],
)
def test_modules_that_an_image_starts_need_only_its_libraries(extra: str, modules: str) -> None:
    missing = missing_modules(extra)
    assert ("tensorflow" in missing, "fastapi" in missing) == (extra == "server", extra != "server")
    program = f"import sys; sys.modules.update(dict.fromkeys({missing!r})); import {modules}"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=DEADLINE_S)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_an_image_runs_as_an_unprivileged_user(dockerfile: str) -> None:
    text = (ROOT / dockerfile).read_text()
    assert text.rindex("\nUSER 10001:10001\n") > text.rindex("\nFROM ")


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_a_dockerfile_contains_no_secret(dockerfile: str) -> None:
    assert not re.search(r"password|token|secret", (ROOT / dockerfile).read_text(), re.IGNORECASE)
