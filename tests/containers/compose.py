"""A Compose project in a folder of its own, started by podman-compose."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.containers.podman import BUILD_TIMEOUT_S, Podman
from tests.machines import THIS_MACHINE
from tests.processes import is_gone
from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
# As the guide on deployment tells users of podman-compose.
DOCKER = """\
#!/bin/sh
shift
case $1 in up) shift; set -- up --no-deps "$@";; esac
exec {python} -m podman_compose --project-name={project} "$@"
"""
# A stopping worker may use all of its grace period.
COMMAND_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True)
class Container:
    """One container of a project, by its name."""

    podman: Podman
    name: str

    def inspect(self) -> dict[str, Any]:
        """What podman says of the container."""
        (found,) = json.loads(self.podman.run("inspect", "--type=container", self.name))
        return dict(found)

    @property
    def state(self) -> dict[str, Any]:
        """Its state: `Status`, `Pid`, `ExitCode`, `StartedAt` and so on."""
        return dict(self.inspect()["State"])

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return bool(self.state["Status"] == "running")

    def addresses(self) -> dict[str, str]:
        """Its address in each network, by the network's name."""
        networks = self.inspect()["NetworkSettings"]["Networks"]
        return {name: network["IPAddress"] for name, network in networks.items()}

    def execute(self, *command: str, stdin: str = "", check: bool = True) -> str:
        """Run a command in the container; returns its standard output."""
        interactive = ["--interactive"] if stdin else []
        return self.podman.run("exec", *interactive, self.name, *command, stdin=stdin, check=check)

    def logs(self) -> str:
        """Everything that the container wrote so far, both streams."""
        return self.podman.run("logs", self.name, both_streams=True)

    def kill(self) -> None:
        """End all processes of the container at once."""
        pid = int(self.state["Pid"])
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: is_gone(pid))

    def restart(self) -> None:
        """Stop the container as `docker compose restart` does, and start it."""
        self.podman.run("restart", self.name, timeout_s=COMMAND_TIMEOUT_S)

    @property
    def has_health_check(self) -> bool:
        """Whether its service has one."""
        return bool(self.inspect()["Config"].get("Healthcheck"))

    def healthy(self) -> bool:
        """Run its health check once: without systemd podman has no timer that does."""
        return self.podman.succeeds("healthcheck", "run", self.name)


class Project:
    """The Compose files of a source tree, with the settings of an `.env` file."""

    def __init__(self, podman: Podman, name: str, folder: Path, settings: dict[str, str]) -> None:
        """
        Args:
            podman: Where the containers run.
            name: The project's name, the first part of the names of its containers.
            folder: Contains the Compose files; `.env` is written into it.
            settings: The variables of `.env`.
        """
        self.podman = podman
        self.name = name
        self.folder = folder
        self.settings = settings
        self.write_settings()

    def write_settings(self) -> None:
        """Write `.env`, as the guide does."""
        text = "".join(f"{name}={value}\n" for name, value in self.settings.items())
        (self.folder / ".env").write_text(text)

    def compose(
        self,
        *arguments: str,
        options: Sequence[str] = (),
        check: bool = True,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> str:
        """Run podman-compose; returns all of its output. `options` stand before the command."""
        environment = self.podman.environment
        if "COMPOSE_FILE" in self.settings:  # docker compose reads it from .env
            environment = {**environment, "COMPOSE_FILE": self.settings["COMPOSE_FILE"]}
        program = [sys.executable, "-m", "podman_compose", f"--project-name={self.name}"]
        return self.podman.machine.run(
            self.podman.command(*program, *options, *arguments, folder=self.folder),
            environment,
            timeout_s=timeout_s,
            check=check,
            both_streams=True,
        )

    def shell(self, command: str) -> str:
        """Run a command of a guide, with podman-compose as `docker compose`; returns its output."""
        programs = self.folder.with_name(f"{self.folder.name}-programs")
        programs.mkdir(exist_ok=True)
        docker = programs / "docker"
        docker.write_text(DOCKER.format(python=sys.executable, project=self.name))
        docker.chmod(0o755)
        path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        said = self.podman.machine.run(
            self.podman.command("sh", "-c", command, folder=self.folder),
            {**self.podman.environment, "PATH": path},
            timeout_s=COMMAND_TIMEOUT_S,
            both_streams=True,
        )
        if " up " in command:
            self.wait_until_healthy()
        return said

    def build(self) -> None:
        """Build the images of all services that have a Dockerfile."""
        options = ["--parallel=1"]  # two at once take longer on two cores
        options += [f"--podman-build-args={one}" for one in self.podman.build_options]
        self.compose("build", "server", "worker", options=options, timeout_s=BUILD_TIMEOUT_S)
        # The same image, which podman-compose would build again.
        self.podman.run("tag", f"localhost/{self.name}_server", f"localhost/{self.name}_migrate")

    def use_images_of(self, other: "Project") -> None:
        """Give the images of another project the names of this one's."""
        for service in ("migrate", "server", "worker"):
            image = f"localhost/{other.name}_{service}"
            self.podman.run("tag", image, f"localhost/{self.name}_{service}")

    def up(self, *options: str) -> None:
        """Start everything as the guide says, and wait until every health check passes."""
        self.compose("up", "--detach", "--no-deps", *options)
        self.wait_until_healthy()

    def wait_until_healthy(self) -> None:
        """Wait until the health check of every container passes, and a migration has ended."""
        for migration in self.containers("migrate"):
            wait_until(lambda m=migration: m.state["Status"] == "exited", show=migration.logs)
            assert migration.state["ExitCode"] == 0, migration.logs()
        for container in self.containers():
            if container.has_health_check:
                wait_until(container.healthy, f"{container.name} is healthy", show=container.logs)

    def containers(self, service: str = "") -> list[Container]:
        """The containers of a service, or all, running or not."""
        filters = [f"--filter=label=com.docker.compose.project={self.name}"]
        if service:
            filters.append(f"--filter=label=com.docker.compose.service={service}")
        names = self.podman.run("ps", "--all", "--format={{.Names}}", *filters)
        return [Container(self.podman, name) for name in sorted(names.split())]

    def container(self, service: str, number: int = 1) -> Container:
        """One container of a service, counted from 1."""
        return self.containers(service)[number - 1]

    def down(self, *, volumes: bool = False) -> None:
        """Stop and remove the containers and networks, and with `volumes` the data."""
        # podman-compose stops all services at once, but the workers still need the database.
        self.compose("stop", "worker")
        self.compose("down", *(["--volumes"] if volumes else []))


def copy_of_the_working_tree(folder: Path) -> Path:
    """Copy the files that git knows or would add, as a clone would contain them."""
    listed = THIS_MACHINE.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT
    )
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():  # not deleted
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def export_commit(commit: str, folder: Path) -> Path:
    """Write the files of a commit into a folder."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    THIS_MACHINE.run(["git", "archive", f"--output={archive}", commit], cwd=ROOT)
    THIS_MACHINE.run(["tar", "--extract", f"--file={archive}", f"--directory={folder}"])
    archive.unlink()
    return folder
