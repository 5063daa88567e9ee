"""Podman with its own configuration and storage, below one folder that is removed at the end.

The configuration fits machines without systemd and with hybrid cgroups: runc instead of crun, and
resource limits that need no privilege.
"""

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.machines import THIS_MACHINE, Machine
from tests.waiting import DEADLINE_S

CONTAINERS_CONF = """\
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
tmp_dir = "{folder}/tmp"
[containers]
default_ulimits = ["nofile={files}:{files}", "nproc=30000:30000"]
log_driver = "k8s-file"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""
# Where the kernel cannot mount overlays here. Each layer takes ten times as long.
FUSE_OVERLAY_CONF = """\
[storage.options.overlay]
mount_program = "/usr/bin/fuse-overlayfs"
"""
REGISTRIES_CONF = 'unqualified-search-registries = ["docker.io"]\n'
BUILD_TIMEOUT_S: Final = 1800.0
BUILD_MOUNTS: Final = [Path("/etc/ssl/certs"), Path("/etc/pip.conf")]
"""Lets pip, npm and apt in a build use this machine's certificates and package index."""


class Podman:
    """Commands of podman on the storage below `folder`, in the network of one machine.

    They run in a mount namespace of their own, in which /run/containers is below `folder`: podman
    as root stores the addresses and names of all containers of a machine there.
    """

    def __init__(
        self,
        folder: Path,
        mounts_pid: int,
        machine: Machine = THIS_MACHINE,
        *,
        keeps_layers: bool = False,
    ) -> None:
        """
        Args:
            folder: Contains everything that podman writes.
            mounts_pid: A process in the mount namespace; see `opened_podman`.
            machine: Where containers are connected, and ports published.
            keeps_layers: Whether builds leave a layer for each instruction, for the next build.
        """
        self.folder = folder
        self.machine = machine
        self._mounts_pid, self._keeps_layers = mounts_pid, keeps_layers
        files = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        storage_conf = STORAGE_CONF.format(folder=folder)
        if not _kernel_mounts_overlays(folder):
            storage_conf += FUSE_OVERLAY_CONF
        configuration = {
            "CONTAINERS_CONF": CONTAINERS_CONF.format(folder=folder, files=files),
            "CONTAINERS_STORAGE_CONF": storage_conf,
            "CONTAINERS_REGISTRIES_CONF": REGISTRIES_CONF,
        }
        temporary = folder / "temporary"
        temporary.mkdir(exist_ok=True)
        self.environment = {**os.environ, "TMPDIR": str(temporary)}
        for variable, text in configuration.items():
            file = folder / f"{variable.lower()}.conf"
            file.write_text(text)
            self.environment[variable] = str(file)
        self.build_options = [
            "--isolation=chroot",
            "--network=host",
            f"--ulimit=nofile={files}:{files}",
            "--pull=never",
            f"--layers={str(keeps_layers).lower()}",
            *(f"--volume={path}:{path}:ro" for path in BUILD_MOUNTS if path.exists()),
        ]

    def run(
        self,
        *arguments: str,
        timeout_s: float = DEADLINE_S,
        check: bool = True,
        stdin: str = "",
        both_streams: bool = False,
    ) -> str:
        """Run a podman command; returns its standard output. Raises AssertionError if it fails."""
        return self.machine.run(
            self.command("podman", *arguments),
            self.environment,
            timeout_s=timeout_s,
            check=check,
            stdin=stdin,
            both_streams=both_streams,
        )

    def command(self, *command: str, folder: Path | None = None) -> list[str]:
        """The command that runs another one, which may use podman, in a folder."""
        enter = ["nsenter", f"--mount=/proc/{self._mounts_pid}/ns/mnt"]
        return [*enter, "env", f"--chdir={folder or self.folder}", *command]

    def succeeds(self, *arguments: str) -> bool:
        """Run a podman command; returns whether it exited with 0."""
        command = self.machine.command(*self.command("podman", *arguments))
        environment = self.environment
        done = subprocess.run(command, env=environment, check=False, capture_output=True)
        return done.returncode == 0

    def on(self, machine: Machine) -> "Podman":
        """The same storage and configuration, with the network of another machine."""
        layers = self._keeps_layers
        return Podman(self.folder, self._mounts_pid, machine, keeps_layers=layers)

    def build(self, tag: str, dockerfile: Path, context: Path) -> None:
        """Build an image."""
        self.run(
            "build",
            *self.build_options,
            f"--tag={tag}",
            f"--file={dockerfile}",
            str(context),
            timeout_s=BUILD_TIMEOUT_S,
        )

    def image_size_mb(self, tag: str) -> float:
        """The size of an image, in units of 10^6 bytes."""
        return int(self.run("image", "inspect", "--format={{.Size}}", tag)) / 1e6

    def remove_containers(self) -> None:
        """Stop and remove all containers, and their networks and volumes."""
        # podman 4.3 refuses to remove one that others depend on, and removes the others.
        while self.run("ps", "--all", "--quiet"):
            self.run("rm", "--force", "--all", "--volumes", "--time=0", check=False)
        self.run("network", "prune", "--force")
        self.run("volume", "prune", "--force")

    def remove_everything(self) -> None:
        """Remove all containers, networks, volumes and images, and the folder."""
        self.remove_containers()
        self.run("rmi", "--force", "--all", check=False)
        self.run("unmount", "--force", "--all", check=False)


@contextmanager
def opened_podman(folder: Path, *, keeps_layers: bool) -> Iterator[Podman]:
    """Podman with a mount namespace, which ends with this process at the latest."""
    own = folder / "run-containers"
    own.mkdir(parents=True, exist_ok=True)
    shared = Path("/run/containers")
    shared.mkdir(exist_ok=True)
    # Mounts of the machine appear in the namespace, and not the other way round.
    hold = f"mount --bind {own} {shared} && echo ready && exec sleep infinity"
    command = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=slave"]
    with subprocess.Popen([*command, "sh", "-c", hold], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        try:
            yield Podman(folder, holder.pid, keeps_layers=keeps_layers)
        finally:
            holder.kill()


def _kernel_mounts_overlays(folder: Path) -> bool:
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        layers = {name: Path(temporary, name) for name in ("lower", "upper", "work", "merged")}
        for layer in layers.values():
            layer.mkdir()
        merged = str(layers.pop("merged"))
        options = ",".join(f"{name}dir={layer}" for name, layer in layers.items())
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, merged]
        if subprocess.run(mount, check=False, capture_output=True).returncode:
            return False
        THIS_MACHINE.run(["umount", merged])
        return True


def _number(limit: int) -> int:
    """A resource limit as podman takes it; it knows no infinity."""
    return 1_048_576 if limit == resource.RLIM_INFINITY else limit
